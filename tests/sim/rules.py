"""The rules for each write."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence

from sandbox.store import Body, Key
from scheduler.model.workloads import POD_GROUP_LABEL
from tests.sim.invariants import (
    LAG_SECONDS,
    Judge,
    Knowledge,
    Past,
    Rule,
    Violation,
    Write,
    allocatable,
    binds,
    ended,
    name_of,
    node_of,
    requests,
    takes,
)
from tests.sim.objects import HOST
from tests.sim.plan import (
    AddNode,
    ContradictTopology,
    CordonNode,
    DeleteGroup,
    DeleteNamespace,
    DeletePod,
    DropTopology,
    FailPod,
    FaultAction,
    FlapNode,
    PauseKubelets,
    PauseTopologies,
    Plan,
    RecreatePod,
    RelabelPod,
    RemoveNode,
    ResizeNode,
    ResizePod,
    TaintNode,
)
from tests.sim.together import Together

LEASES = "leases.coordination.k8s.io"
GROUPS = "podgroups.scheduling.x-k8s.io"
CLAIMS = "resourceclaims.resource.k8s.io"
VOLUMES = "persistentvolumes"
LEASE: Key = ("kube-system", "equipoise")
_ROUNDING = 1e-6


def judge(plan: Plan) -> Judge:
    """A judge of all rules."""
    replicas, knowledge = frozenset(plan.replicas), Knowledge(plan)
    kills: list[float] = []
    gangs, pods = WholeGangs(replicas, plan, knowledge, kills), KnownPods(replicas)
    rules: list[Rule] = [
        BoundOnce(),
        LeaderOnly(replicas),
        Fits(replicas, knowledge, pods),
        RightNode(replicas, knowledge),
        Apart(replicas, knowledge, pods),
        pods,
        Together(replicas, knowledge),
        gangs,
        DevicesOnce(),
        VolumesOnce(),
        ConditionsHold(replicas),
        KubeletsAgree(replicas, plan, knowledge),
    ]
    return Judge(rules, [gangs], kills)


def _broken(rule: str, write: Write, what: str) -> Violation:
    return Violation(rule, write.time, name_of(write.key), what, write.revision)


class BoundOnce:
    """A pod gets a node once, and keeps it."""

    tables = ("pods",)

    def see(self, write: Write) -> Iterator[Violation]:
        before, after = write.before, write.after
        if before is None or after is None:
            return
        old, new = node_of(before), node_of(after)
        if old and old != new and before.body["metadata"]["uid"] == after.body["metadata"]["uid"]:
            yield _broken("bound-once", write, f"was on {old}, is on {new or 'no node'}")


class LeaderOnly:
    """Whatever a replica writes but the lease, it writes while the Lease object names it."""

    tables = ()

    def __init__(self, replicas: Collection[str]) -> None:
        self._replicas = replicas
        self._holder = ""

    def see(self, write: Write) -> Iterator[Violation]:
        if write.table == LEASES:
            if write.key == LEASE:
                spec = write.after.body["spec"] if write.after is not None else {}
                self._holder = str(spec.get("holderIdentity") or "")
            return
        if write.writer in self._replicas and self._holder.rpartition("_")[0] != write.writer:
            holder = self._holder or "nobody"
            what = f"{write.writer} wrote to {write.table} while {holder} held the lease"
            yield _broken("leader-only", write, what)


class _KnownPod:
    """A pod, as rules keep it."""

    def __init__(self) -> None:
        self.node = ""
        self.time = 0.0
        """Since when it has been on its node."""
        self.by_us = False
        self.spec: Body = {}
        self.requests: Past[dict[str, float]] = Past()
        self.labels: Past[dict[str, str]] = Past()
        self.shuns: frozenset[str] = frozenset()

    def counts(self, since: float) -> bool:
        """Whether a replica has to know of it."""
        return self.by_us or self.time <= since

    def apps(self, since: float) -> set[str]:
        """The apps that it has been of from then on."""
        return {labels.get("app", "") for labels in self.labels.during(since)}

    def least(self, resource: str, since: float) -> float:
        """The least of it that the pod has requested from then on."""
        return min(each.get(resource, 0.0) for each in self.requests.during(since))


class KnownPods:
    """Pods that have not ended, waiting or on nodes, before the write that is judged."""

    tables = ("pods",)

    def __init__(self, replicas: Collection[str]) -> None:
        self._replicas = replicas
        self._by_uid: dict[str, _KnownPod] = {}
        self._by_node: defaultdict[str, dict[str, _KnownPod]] = defaultdict(dict)

    def on(self, node: str) -> dict[str, _KnownPod]:
        return self._by_node[node]

    def get(self, uid: str) -> _KnownPod:
        return self._by_uid[uid]

    def see(self, write: Write) -> Iterator[Violation]:
        """Follow the write, which breaks nothing here; after the rules that ask."""
        before, after = write.before, write.after
        if before is not None and (after is None or ended(before.body)):
            self._lose(before.body["metadata"]["uid"])
        if after is not None:
            uid = after.body["metadata"]["uid"]
            if ended(after.body):
                self._lose(uid)
            else:
                self._keep(uid, write, after.body, node_of(after))
        return iter(())

    def _lose(self, uid: str) -> None:
        if (lost := self._by_uid.pop(uid, None)) is not None and lost.node:
            del self._by_node[lost.node][uid]

    def _keep(self, uid: str, write: Write, pod: Body, node: str) -> None:
        known = self._by_uid.setdefault(uid, _KnownPod())
        if pod["spec"] is not known.spec:  # versions share what did not change
            known.spec = pod["spec"]
            known.requests.add(write.time, requests(pod))
            known.shuns = _shunned(pod)
        known.labels.add(write.time, pod["metadata"].get("labels") or {})
        if node and not known.node:
            known.node, known.time = node, write.time
            known.by_us = write.writer in self._replicas
            self._by_node[node][uid] = known


class Fits:
    """When a replica binds a pod, the node has room for it.

    Counted are all pods that replicas bound, whichever did, and those of others that were there
    before `Knowledge.since`. If the node or a pod was resized since then, the most favourable of
    its sizes counts.
    """

    tables = ("nodes", "pods")

    def __init__(self, replicas: Collection[str], knowledge: Knowledge, pods: KnownPods) -> None:
        self._replicas = replicas
        self._knowledge = knowledge
        self._pods = pods
        self._nodes: dict[str, Past[dict[str, float]]] = {}

    def see(self, write: Write) -> Iterator[Violation]:
        if write.table == "nodes":
            offered = allocatable(write.after.body) if write.after is not None else {}
            self._nodes.setdefault(write.key[1], Past()).add(write.time, offered)
        elif binds(write) and write.writer in self._replicas:
            yield from self._judge(write)

    def _judge(self, write: Write) -> Iterator[Violation]:
        assert write.after is not None, "a binding leaves a pod"
        node, since = node_of(write.after), self._knowledge.since(write.time)
        past = self._nodes.get(node)
        if past is None:
            return  # RightNode says so
        offers = past.during(since)
        pod = self._pods.get(write.after.body["metadata"]["uid"])
        others = [each for each in self._pods.on(node).values() if each.counts(since)]
        for name in requests(write.after.body):
            own = pod.least(name, since)
            if not own:
                continue
            used = own + sum(each.least(name, since) for each in others)
            offered = max(each.get(name, 0.0) for each in offers)
            if used > offered * (1 + _ROUNDING):
                what = f"on {node}: {name} requested {used:g}, allocatable {offered:g}"
                yield _broken("fits", write, what)


class RightNode:
    """A replica binds to nodes that exist and take the pod: cordon, taints, node selector."""

    tables = ("nodes", "pods")

    def __init__(self, replicas: Collection[str], knowledge: Knowledge) -> None:
        self._replicas = replicas
        self._knowledge = knowledge
        self._nodes: dict[str, Past[Body | None]] = {}

    def see(self, write: Write) -> Iterator[Violation]:
        if write.table == "nodes":
            body = write.after.body if write.after is not None else None
            self._nodes.setdefault(write.key[1], Past()).add(write.time, body)
        if write.after is None or not binds(write) or write.writer not in self._replicas:
            return
        node = node_of(write.after)
        past = self._nodes.get(node, Past((0.0, None)))
        known = past.during(self._knowledge.since(write.time))
        if not any(known):
            yield _broken("node-exists", write, f"there is no node {node}")
        elif not any(takes(each, write.after.body) for each in known if each is not None):
            yield _broken("node-takes-it", write, f"{node} does not take the pod")


class Apart:
    """No two pods on a node of which one shuns the other's app."""

    tables = ("pods",)

    def __init__(self, replicas: Collection[str], knowledge: Knowledge, pods: KnownPods) -> None:
        self._replicas = replicas
        self._knowledge = knowledge
        self._pods = pods

    def see(self, write: Write) -> Iterator[Violation]:
        if write.after is not None and binds(write) and write.writer in self._replicas:
            since, body = self._knowledge.since(write.time), write.after.body
            own, shunned = self._pods.get(body["metadata"]["uid"]).apps(since), _shunned(body)
            for uid, other in self._pods.on(node_of(write.after)).items():
                shuns = other.apps(since) <= shunned or own <= other.shuns
                if shuns and other.counts(since):
                    yield _broken("apart", write, f"is beside {uid}, and one shuns the other")


def _shunned(pod: Body) -> frozenset[str]:
    """The apps that must not be on the pod's node."""
    rules = (pod["spec"].get("affinity") or {}).get("podAntiAffinity") or {}
    terms = rules.get("requiredDuringSchedulingIgnoredDuringExecution") or ()
    return frozenset(
        term["labelSelector"]["matchLabels"]["app"] for term in terms if term["topologyKey"] == HOST
    )


class WholeGangs:
    """Once a member of a gang is bound, as many as have to be are bound within `SECONDS`.

    The API has no binding of several pods at once, so a gang is excused if something else happened
    in that time, or before it and unknown to the replica: a fault, or a change to a node or to one
    of its members.
    """

    tables = (GROUPS, "pods")
    SECONDS = 10.0
    _EXCUSES = (
        FaultAction
        | AddNode
        | CordonNode
        | DeleteGroup
        | DeleteNamespace
        | DeletePod
        | FailPod
        | FlapNode
        | RecreatePod
        | RelabelPod
        | RemoveNode
        | ResizeNode
        | ResizePod
        | TaintNode
    )

    def __init__(
        self,
        replicas: Collection[str],
        plan: Plan,
        knowledge: Knowledge,
        kills: Sequence[float],
    ) -> None:
        self._replicas = replicas
        self._knowledge = knowledge
        self._kills = kills
        self._excuses = [
            (each.seconds, each.seconds + float(getattr(each.action, "seconds", 0.0)))
            for each in plan.actions
            if isinstance(each.action, self._EXCUSES)
        ]
        self._minimum: defaultdict[Key, Past[int]] = defaultdict(lambda: Past((-math.inf, 0)))
        """0 while a group does not exist."""
        self._bound: defaultdict[Key, dict[str, float]] = defaultdict(dict)
        self._done: set[Key] = set()

    def see(self, write: Write) -> Iterator[Violation]:
        if write.table == GROUPS:
            spec = {} if write.after is None else write.after.body["spec"]
            self._minimum[write.key].add(write.time, int(spec.get("minMember") or 0))
        if write.after is None or not binds(write) or write.writer not in self._replicas:
            return
        metadata = write.after.body["metadata"]
        if group := (metadata.get("labels") or {}).get(POD_GROUP_LABEL):
            key = (write.key[0], group)
            if not any(self._minimum[key].during(self._knowledge.since(write.time))):
                yield _broken("gang", write, f"group {group} does not exist")
            self._bound[key][metadata["uid"]] = write.time

    def finish(self, time: float) -> Iterator[Violation]:
        for group, members in self._bound.items():
            first = min(members.values())
            bound = sum(when <= first + self.SECONDS for when in members.values())
            minimum = self._minimum[group].during(math.inf)[0]
            if bound < minimum and not self._excused(first):
                what = f"{bound} of {minimum} members were bound within {self.SECONDS:g} s"
                yield Violation("gang", first, name_of(group), what)

    def _excused(self, first: float) -> bool:
        since, until = self._knowledge.since(first), first + self.SECONDS
        if any(since <= killed <= until for killed in self._kills):
            return True
        return any(start <= until and end >= since for start, end in self._excuses)


class DevicesOnce:
    """No device is allocated to two claims."""

    tables = (CLAIMS,)

    def __init__(self) -> None:
        self._of: dict[tuple[str, str, str], Key] = {}

    def see(self, write: Write) -> Iterator[Violation]:
        for device in [device for device, key in self._of.items() if key == write.key]:
            del self._of[device]
        status = (write.after.body.get("status") or {}) if write.after is not None else {}
        results = ((status.get("allocation") or {}).get("devices") or {}).get("results") or ()
        for result in results:
            device = (result["driver"], result["pool"], result["device"])
            if device in self._of:
                what = f"device {'/'.join(device)} belongs to {name_of(self._of[device])}"
                yield _broken("device-once", write, what)
            self._of[device] = write.key


class VolumesOnce:
    """A volume that is promised to a claim is not promised to another."""

    tables = (VOLUMES,)

    def see(self, write: Write) -> Iterator[Violation]:
        if write.before is None or write.after is None:
            return
        old = write.before.body["spec"].get("claimRef")
        new = write.after.body["spec"].get("claimRef")
        if old and new and old.get("uid") != new.get("uid"):
            what = f"was promised to {old.get('name')}, is to {new.get('name')}"
            yield _broken("volume-once", write, what)


class ConditionsHold:
    """No replica says of a pod that has a node that it has none."""

    tables = ("pods",)

    def __init__(self, replicas: Collection[str]) -> None:
        self._replicas = replicas

    def see(self, write: Write) -> Iterator[Violation]:
        if write.after is None or write.writer not in self._replicas:
            return
        conditions = (write.after.body.get("status") or {}).get("conditions") or ()
        if node_of(write.after) and any(
            each["type"] == "PodScheduled" and each["status"] == "False" for each in conditions
        ):
            yield _broken("condition", write, "has a node, and the condition says that it waits")


class KubeletsAgree:
    """No kubelet refuses a pod that a replica bound: the replicas know the cells of nodes.

    They cannot if NRTs are late or wrong, if watches are disturbed, if nodes or pods change, or if
    the other scheduler uses the node as well.
    """

    tables = ("pods",)
    _EXCUSES = PauseKubelets | PauseTopologies | ResizePod
    """Of all nodes."""
    _REASONS = ("TopologyAffinityError", "OutOf", "UnexpectedAdmissionError")

    def __init__(self, replicas: Collection[str], plan: Plan, knowledge: Knowledge) -> None:
        self._replicas = replicas
        self._knowledge = knowledge
        self._unsure = {node.name for node in plan.nodes if node.shared} | _unsettled(plan)
        self._excused = any(isinstance(each.action, self._EXCUSES) for each in plan.actions)
        self._bound: set[str] = set()

    def see(self, write: Write) -> Iterator[Violation]:
        if write.after is None:
            return
        body = write.after.body
        if binds(write) and write.writer in self._replicas:
            self._bound.add(body["metadata"]["uid"])
        status = body.get("status") or {}
        if not str(status.get("reason", "")).startswith(self._REASONS):
            return
        disturbed = self._knowledge.since(write.time) < write.time - LAG_SECONDS
        excused = self._excused or disturbed or node_of(write.after) in self._unsure
        if body["metadata"]["uid"] in self._bound and not excused:
            yield _broken("kubelet", write, f"refused: {status.get('message')}")


def _unsettled(plan: Plan) -> set[str]:
    """Nodes that are replaced or go, or of whose cells something wrong is said."""
    known = {node.name for node in plan.nodes}
    found: set[str] = set()
    for action in (each.action for each in plan.actions):
        if isinstance(action, AddNode):
            name = action.node.name
            found |= {name} & known
            known.add(name)
        elif isinstance(action, ContradictTopology | DropTopology):
            found.add(action.node)
        elif isinstance(action, RemoveNode):
            found.add(action.name)
    return found
