"""What must hold when the faults are over and all has come to rest."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Set
from typing import Any

from msgspec.structs import replace

from sandbox.registry import Registry
from sandbox.store import Body, Store
from scheduler.config.defaults import SCHEDULER_NAME
from scheduler.dra.ledger import DeviceLedger
from scheduler.gangs.registry import PERMIT_PLUGIN
from scheduler.model.workloads import POD_GROUP_LABEL
from scheduler.plugin_api.waiting import WaitingPod
from scheduler.simulation import place
from tests.sim.history import Entry, Note, Request, Write
from tests.sim.invariants import Violation, ended, name_of, requests
from tests.sim.plan import Plan
from tests.sim.replica import Replica
from tests.sim.rules import CLAIMS, GROUPS, LEASE, LEASES
from tests.sim.simulation import Simulation
from tests.sim.world import replicated

REST_SECONDS = 30.0
"""The last part of the quiet time, in which hardly anything may be written any more."""
WRITES_AT_REST = 5
"""How often one object may be written by replicas in that time."""
REQUESTS_AT_REST = 200
"""How many requests a replica may make in that time, besides watches."""
CONNECTIONS_AT_REST = 120
"""How many connections a replica may have open then: of watches, and idle ones of all writers."""
TAKEOVER_SECONDS = 10.0
"""How long a replica may lead and not schedule: it lists pods and claims anew."""
GANG_SECONDS = 60.0
"""How long a member may hold its node for one that is missing (`permitWaitingTimeSeconds`)."""
STANDING_TASKS = Counter(
    {
        "Replica._live": 1,
        "Heartbeat._watch": 1,
        "Heartbeat._campaign": 1,
        "Heartbeat._until_lost": 1,
        "EventLoopLag.run": 1,
        "Samples.run": 1,
        "SimulatedProcess.return_memory": 1,
        "Reflector.run": 20,
        "Daemon._check_regularly": 1,
        "Daemon._lead": 1,
        "Daemon._until_lost": 1,
        "Daemon._until_refused": 1,
        "LeaderElector.run": 1,
        "Event.wait": 1,
        "ClusterOutlet.run": 1,
        "ClusterOutlet._write_reports": 11,
        "BindingConfirmer.run": 1,
        "PodGroupOperator.run": 1,
        "PodGroupOperator._watch": 1,
        "Scheduler.run": 1,
        "Scheduler.resume_suspended": 1,
        "EventRecorder.run": 1,
        "EventRecorder._work": 22,
        "EventRecorder._sweep_forever": 1,
    }
)
"""The tasks that a replica has as long as it runs, and how many of each at most."""


async def left_behind(plan: Plan, simulation: Simulation) -> list[Violation]:
    """What replicas still keep, and what the API still shows."""
    found = [*_leaderless(simulation), *_reserved(simulation), *_restless(plan, simulation)]
    found += idle_leaders(plan, simulation.history.entries)
    for replica in simulation.replicas.values():
        found += await _kept(simulation, replica)
    return found


def _end(simulation: Simulation, rule: str, what: str, message: str) -> Violation:
    return Violation(rule, simulation.now, what, message)


def _leaderless(simulation: Simulation) -> Iterator[Violation]:
    lease = simulation.registry.store.table(LEASES).get(LEASE)
    holder = str(lease.body["spec"].get("holderIdentity") or "") if lease is not None else ""
    leading = [name for name, each in simulation.replicas.items() if each.leading]
    if leading != [holder.rpartition("_")[0]]:
        message = f"{leading or 'nobody'} leads, the lease names {holder or 'nobody'}"
        yield _end(simulation, "leader", "lease", message)


def idle_leaders(plan: Plan, entries: Iterable[Entry]) -> Iterator[Violation]:
    """Replicas that took the lease when all faults were over, and did not schedule soon."""
    leading: dict[str, float] = {}
    for entry in entries:
        if not isinstance(entry, Note) or entry.host not in plan.replicas:
            continue
        if "] Became leader" in entry.text:
            leading[entry.host] = entry.time
        elif "] Scheduling " in entry.text and entry.host in leading:
            began = leading.pop(entry.host)
            if began > plan.seconds and entry.time > began + TAKEOVER_SECONDS:
                what = f"led for {entry.time - began:.1f} s before it scheduled"
                yield Violation("idle-leader", entry.time, entry.host, what)


def _reserved(simulation: Simulation) -> Iterator[Violation]:
    """Claims that are reserved for pods that do not need them, nominations to no node."""
    store = simulation.registry.store
    pods, nodes = store.table("pods"), store.table("nodes")
    for key, claim in store.table(CLAIMS).current.items():
        for consumer in (claim.body.get("status") or {}).get("reservedFor") or ():
            pod = pods.get((key[0], consumer["name"]))
            if pod is None or pod.body["metadata"]["uid"] != consumer["uid"]:
                message = f"reserved for {consumer['name']}, which does not exist"
                yield _end(simulation, "claim-left", name_of(key), message)
            elif not pod.body["spec"].get("nodeName"):
                message = f"reserved for {consumer['name']}, which has no node"
                yield _end(simulation, "claim-left", name_of(key), message)
    for key, pod in pods.current.items():
        nominated = (pod.body.get("status") or {}).get("nominatedNodeName")
        if nominated and nodes.get(("", nominated)) is None:
            message = f"nominated to {nominated}, which does not exist"
            yield _end(simulation, "nomination-left", name_of(key), message)


def _restless(plan: Plan, simulation: Simulation) -> Iterator[Violation]:
    since = simulation.now - REST_SECONDS
    writes: Counter[str] = Counter()
    requests: Counter[str] = Counter()
    for entry in reversed(simulation.history.entries):
        if entry.time < since:
            break
        if isinstance(entry, Write) and entry.writer in plan.replicas and entry.table != LEASES:
            writes[f"{entry.table} {name_of(entry.key)}"] += 1
        elif isinstance(entry, Request) and entry.host in plan.replicas:
            requests[entry.host] += 1
    for what, count in writes.items():
        if count > WRITES_AT_REST:
            message = f"written {count} times in the last {REST_SECONDS:g} s"
            yield _end(simulation, "restless", what, message)
    for host, count in requests.items():
        if count > REQUESTS_AT_REST:
            message = f"{count} requests in the last {REST_SECONDS:g} s"
            yield _end(simulation, "restless", host, message)


async def _kept(simulation: Simulation, replica: Replica) -> list[Violation]:
    daemon, name = replica.daemon, replica.name
    if daemon is None:
        return [_end(simulation, "alive", name, f"ended with {replica.exit_code}")]
    core, waiting = daemon.core, _waiting_for_members(simulation, replica)
    kept = {
        "assumed pods": sum(each.uid not in waiting for each in core.state.assumed_pods()),
        "open bindings": len(core.bindings) - len(waiting),
        "unconfirmed bindings": len(core.unconfirmed),
    }
    found = [
        _end(simulation, "left-behind", name, f"{count} {what}")
        for what, count in kept.items()
        if count
    ]
    found += _at_work(simulation, replica, Counter({"Bindings._run": len(waiting)}))
    for ledger in core.state.shared.all(DeviceLedger):
        found += [
            _end(simulation, "left-behind", name, f"devices in flight for {claim.metadata.key}")
            for claim in ledger.claims()
            if (flight := ledger.in_flight(claim)) is not None and not flight.users <= waiting
        ]
    differences = await daemon.cache_check.check()
    return found + [_end(simulation, "columns", name, each) for each in differences]


def _waiting_for_members(simulation: Simulation, replica: Replica) -> Set[str]:
    """The pods that hold nodes for a member of their gang that does not exist, by uid."""
    host, daemon = replica.host, replica.daemon
    assert host is not None, "it runs"
    assert daemon is not None, "it runs"
    core, store = daemon.core, simulation.registry.store
    bound = (each.cycle.pod for each in core.bindings.attempts())
    return {
        pod.uid
        for pod in bound
        if _in_time(core.permits.holders(pod.uid), host.wall())
        and lacks_members(store, pod.pod.metadata.namespace, pod.pod.metadata.labels)
    }


def _in_time(holders: Collection[WaitingPod], now: float) -> bool:
    """Whether a pod waits for its gang alone, and its time is not up."""
    return bool(holders) and all(
        each.pending_plugins == [PERMIT_PLUGIN] and each.since <= now <= each.since + GANG_SECONDS
        for each in holders
    )


def lacks_members(store: Store, namespace: str, labels: Mapping[str, str]) -> bool:
    """Whether the API shows fewer members of a pod's gang than that needs."""
    name = labels.get(POD_GROUP_LABEL)
    group = store.table(GROUPS).get((namespace, name)) if name else None
    if group is None:
        return False
    existing = sum(
        _is_member(pod.body, namespace, name) for pod in store.table("pods").current.values()
    )
    return existing < int(group.body["spec"]["minMember"])


def _is_member(pod: Body, namespace: str, group: str | None) -> bool:
    """Whether a pod is in a gang, and neither failed nor is being deleted."""
    metadata = pod["metadata"]
    if metadata["namespace"] != namespace or "deletionTimestamp" in metadata:
        return False
    failed = (pod.get("status") or {}).get("phase") == "Failed"
    return not failed and (metadata.get("labels") or {}).get(POD_GROUP_LABEL) == group


def _at_work(simulation: Simulation, replica: Replica, needed: Counter[str]) -> Iterator[Violation]:
    """Tasks and connections that a replica at rest has no use for."""
    host, name = replica.host, replica.name
    assert host is not None, "it runs"
    coroutines: list[Any] = [each.get_coro() for each in host.unfinished()]
    tasks = Counter(each.__qualname__ for each in coroutines)
    for kind, count in (tasks - STANDING_TASKS - needed).items():
        yield _end(simulation, "task-left", name, f"{count} more {kind} than it needs at rest")
    connections = simulation.network.connections_of(host)
    if connections > CONNECTIONS_AT_REST:
        yield _end(simulation, "connection-left", name, f"{connections} connections are open")


def unplaced(plan: Plan, simulation: Simulation) -> list[Violation]:
    """Pods that wait although they fit, by a scheduler that starts with what the API shows.

    It may try members of a gang in another order. Where they differ, that may decide.
    """
    pods = simulation.registry.store.table("pods").current
    bodies = {name_of(key): pod.body for key, pod in pods.items() if _waits(pod.body)}
    waiting = bodies.keys() - different_members(bodies)
    if not waiting:
        return []
    config = replicated(replace(plan, batch=False))  # one by one: the solver is the simulation's
    objects = list(_objects(simulation.registry))
    return [
        _end(simulation, "unplaced", pod, f"waits, and fits on {node}")
        for pod, node, _ in place(objects, config)
        if node is not None and pod in waiting
    ]


def different_members(pods: Mapping[str, Body]) -> set[str]:
    """The names of pods that request something else than another member of their gang."""
    gangs: defaultdict[tuple[str, str], dict[str, str]] = defaultdict(dict)
    for name, pod in pods.items():
        metadata = pod["metadata"]
        if group := (metadata.get("labels") or {}).get(POD_GROUP_LABEL):
            gangs[metadata["namespace"], group][name] = str(requests(pod))
    return {
        name for members in gangs.values() if len(set(members.values())) > 1 for name in members
    }


def _waits(pod: Body) -> bool:
    spec = pod["spec"]
    if spec.get("nodeName") or spec.get("schedulingGates") or ended(pod):
        return False
    return (
        spec.get("schedulerName") == SCHEDULER_NAME and "deletionTimestamp" not in pod["metadata"]
    )


def _objects(registry: Registry) -> Iterator[Body]:
    for resource in registry.catalog:
        for version in registry.table(resource).current.values():
            yield {**version.body, "kind": resource.kind, "apiVersion": resource.api_version}
