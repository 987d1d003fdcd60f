"""The world around the scheduler: pods in the API, kubelets with lags, watches that deliver late.

Everything happens at virtual times taken from one heap. What a reader may rely on: each stream
(pods, NRTs; and the pods of one kubelet) is delivered in order, and nothing is delivered twice.
"""

from __future__ import annotations

import itertools
import random
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from msgspec.structs import replace

from sandbox.numa.kubelet import NumaKubelet
from sandbox.numa.publishing import topology
from sandbox.numa.settings import Policy, PublisherSettings, Scope
from sandbox.numa.topology_manager import AdmissionRefusal
from scheduler.model.nodes import Node, NodeResourceTopology
from scheduler.model.objects import from_dict
from scheduler.model.pods import Pod
from tests.numa.churn.records import Error, Story, Tally, free, summary
from tests.numa.churn.scenario import FOREIGN, OURS, Scenario, arrivals, cpus_of
from tests.numa.churn.timeline import Clock, Stream

_WATCH = (0.01, 0.15)
_KUBELET = (0.02, 0.3)
_START = (0.3, 2.0)
_STOP = (0.1, 2.0)
_AGENT = (0.02, 0.4)
_RECREATE = 0.5
_KEEP_FINISHED = 15.0
_JOURNAL = 60
_OUTAGES = (2.0, 10.0, 30.0, 350.0)
"""How long a node has no NRT; the last is longer than the grace that it is given by default."""
_CORDONED = 8.0
"""From the last binding to a node to the restart of its kubelet: all have been admitted by then."""


class Change(NamedTuple):
    """A watch event of an object."""

    old: Any
    new: Any


class World:
    """Pods, nodes and kubelets; the scheduler gets their events through ``tell``."""

    def __init__(self, scenario: Scenario, *, instant: bool = False) -> None:
        self.scenario = scenario
        self.clock = Clock()
        self.tally = Tally()
        self.stories = [Story(arrival) for arrival in arrivals(scenario)]
        self.pods: dict[str, Pod] = {}
        self.topologies: dict[str, NodeResourceTopology] = {}
        self.tell: Callable[[str, list[Change]], None] = lambda kind, changes: None
        self._instant = instant
        self._rng = random.Random(scenario.seed + 1)
        self._kubelets = {
            f"node-{i:03d}": NumaKubelet(f"node-{i:03d}", scenario.machine(i), scenario.kubelet)
            for i in range(scenario.nodes)
        }
        lag = (0.0, 0.0) if instant else _WATCH
        self._pod_watch = Stream(self.clock, self._rng, _WATCH)
        self._topology_watch = Stream(self.clock, self._rng, lag)
        self._nodes_watch = Stream(self.clock, self._rng, lag)
        self._node_watch = {
            name: Stream(self.clock, self._rng, self._slowed(_KUBELET)) for name in self._kubelets
        }
        self._of: dict[str, Story] = {}
        self._told: dict[str, dict[str, Any]] = {"Node": {}, "NodeResourceTopology": {}, "Pod": {}}
        self._publishers = dict.fromkeys(self._kubelets, scenario.publisher)
        self._silent: set[str] = set()
        """Nodes whose agent publishes nothing."""
        self._cordoned: set[str] = set()
        self._looks = itertools.count(1)
        self._written = dict.fromkeys(self._kubelets, 0)
        """The number of the newest look that each agent has written; it does not go back."""
        self._epoch = 0
        self._bound: dict[str, tuple[float, float]] = {}
        """Pod to when it was bound and when our watch told so."""
        self._versions = itertools.count(1)
        self._counted_at = 0.0
        self._in_use = 0.0
        self.journal: dict[str, deque[str]] = {
            name: deque(maxlen=_JOURNAL) for name in self._kubelets
        }
        """What happened on each node lately, for those who look into an error."""
        for story in self.stories:
            self.clock.at(story.arrival.at, lambda story=story: self._create(story))  # type: ignore[misc]  # mypy cannot type it
        for i, name in enumerate(self._kubelets):
            phase = scenario.publish_seconds * i / len(self._kubelets)
            self._publish(name)
            if not instant:
                self.clock.at(phase, lambda name=name: self._agent(name))  # type: ignore[misc]  # mypy cannot type it

        if scenario.stalls and not instant:
            self.clock.at(scenario.seconds / 10, self._stall)
        if scenario.upheavals:
            self.clock.at(scenario.upheavals, self._upset)

    # What the scheduler sees when it starts, and what it does.

    @property
    def kubelets(self) -> dict[str, NumaKubelet]:
        return self._kubelets

    def nodes(self) -> list[Node]:
        """The Node objects."""
        return [self._node(name) for name in self._kubelets]

    def _node(self, name: str) -> Node:
        node = from_dict(self._kubelets[name].machine.node(name), Node)
        return replace(node, spec=replace(node.spec, unschedulable=name in self._cordoned))

    def restart(self, tell: Callable[[str, list[Change]], None]) -> None:
        """A new scheduler starts: it gets all objects, then the events from now on."""
        self._epoch += 1
        self.tell = tell
        nodes = {node.metadata.name: node for node in self.nodes()}
        everything: dict[str, Mapping[str, Any]] = {
            "Node": nodes,
            "NodeResourceTopology": self.topologies,
            "Pod": self.pods,
        }
        for kind, objects in everything.items():
            self._told[kind] = dict(objects)
            tell(kind, [Change(None, each) for each in objects.values()])
        now = self.clock.now
        self._bound = {key: (at, min(told, now)) for key, (at, told) in self._bound.items()}

    def bind(self, key: str, node: str) -> bool:
        """Bind a pod; False if it is gone or bound."""
        pod = self.pods.get(key)
        if pod is None or pod.spec.node_name or pod.deleting:
            return False
        bound = replace(pod, spec=replace(pod.spec, node_name=node))
        told = self._write(bound)
        self._bound[key] = (self.clock.now, told)
        self._note(node, f"{key} is bound, our watch tells at {told:.2f}: {summary(pod)}")
        if self._instant:
            self._admit(key, node)
        else:
            self._node_watch[node].send(lambda: self._admit(key, node))
        return True

    # Pods come and go.

    def _create(self, story: Story) -> None:
        if story.over or self._stopped:
            return
        arrival = story.arrival
        story.tries += 1
        name = f"pod-{arrival.number:05d}-{story.tries}"
        metadata = {"name": name, "namespace": "churn", "uid": f"uid-{name}"}
        pod = from_dict(
            {"metadata": metadata, "spec": arrival.spec, "status": {"phase": "Pending"}}, Pod
        )
        key = pod.key
        story.pod = key
        self._of[key] = story
        self.tally.created += 1
        self._write(pod)
        if arrival.patience is not None:
            self.clock.at(self.clock.now + arrival.patience, lambda: self._delete(key))
        if arrival.foreign:
            self.clock.at(self.clock.now + self._rng.uniform(0, 0.1), lambda: self._place(key))

    def _place(self, key: str) -> None:
        """The other scheduler: any node with enough left of everything, cells or not."""
        if self.pods.get(key) is None or self._stopped:
            return
        wanted = cpus_of(self._of[key].arrival.spec)
        names = list(self._kubelets)
        self._rng.shuffle(names)
        used: dict[str, float] = {}
        for other_key, other in self.pods.items():
            if other.spec.node_name and not other.finished:
                cpus = cpus_of(self._of[other_key].arrival.spec)
                used[other.spec.node_name] = used.get(other.spec.node_name, 0.0) + cpus
        for name in names:
            kubelet = self._kubelets[name]
            if (
                name not in self._cordoned
                and wanted + used.get(name, 0.0) <= kubelet.machine.allocatable["cpu"]
            ):
                self.bind(key, name)
                return
        self.clock.at(self.clock.now + 1.0, lambda: self._place(key))

    def _delete(self, key: str) -> None:
        pod = self.pods.get(key)
        if pod is None or pod.deleting or self._stopped:
            return
        self._of[key].over = True
        if not pod.spec.node_name:
            self._remove(key)
            return
        told = self._write(replace(pod, metadata=replace(pod.metadata, deletion_timestamp="now")))
        self._note(pod.spec.node_name, f"{key} is being deleted, our watch tells at {told:.2f}")
        self._node_watch[pod.spec.node_name].send(lambda: self._stop(key))

    # Kubelets.

    def _admit(self, key: str, node: str) -> None:
        pod, kubelet = self.pods.get(key), self._kubelets[node]
        if pod is None or pod.finished:
            return
        refusal = kubelet.admit(pod)
        verdict = "admitted" if refusal is None else refusal.reason
        self._note(node, f"{key} {verdict}, {free(kubelet)}")
        self.count()
        if refusal is not None:
            self._refused(pod, kubelet, refusal)
            return
        self._show(node)
        self._later(_AGENT, lambda: self._status(key, phase="Pending", start_time="now"))
        self._later(_START, lambda: self._run(key, node))

    def _refused(self, pod: Pod, kubelet: NumaKubelet, refusal: AdmissionRefusal) -> None:
        story = self._of[pod.key]
        if pod.spec.scheduler_name == OURS:
            blame = self._foreign_is_to_blame(pod, kubelet)
            journal = tuple(self.journal[kubelet.name])
            error = Error(pod.key, kubelet.name, self.clock.now, refusal, blame, journal)
            self.tally.errors.append(error)
            self.clock.at(self.clock.now + _RECREATE, lambda: self._create(story))
        else:
            self.tally.foreign_refused += 1
            story.over = True
        self._later(_AGENT, lambda: self._status(pod.key, phase="Failed"))
        self.clock.at(self.clock.now + _KEEP_FINISHED, lambda: self._remove(pod.key))

    def _foreign_is_to_blame(self, pod: Pod, kubelet: NumaKubelet) -> bool:
        """Whether it would have fitted but for foreign pods that our watch had not delivered."""
        sent = self._bound[pod.key][0]
        unheard = {
            other.metadata.uid: None
            for key, other in self.pods.items()
            if other.spec.node_name == kubelet.name
            and other.spec.scheduler_name == FOREIGN
            and self._bound[key][1] > sent
            and other.metadata.uid in kubelet
        }
        return bool(unheard) and kubelet.would_admit(pod, without=unheard)

    def _run(self, key: str, node: str) -> None:
        pod = self.pods.get(key)
        if pod is None or pod.metadata.uid not in self._kubelets[node] or pod.deleting:
            return
        story = self._of[key]
        self._kubelets[node].started(pod.metadata.uid)
        self._note(node, f"{key} runs, {free(self._kubelets[node])}")
        self._show(node)
        if story.ran_at is None:
            story.ran_at = self.clock.now
        self._status(key, phase="Running", start_time="now")
        end = self._complete if story.arrival.completes else self._delete
        self.clock.at(self.clock.now + story.arrival.lifetime, lambda: end(key))

    def _complete(self, key: str) -> None:
        pod = self.pods.get(key)
        if pod is None or pod.deleting or self._stopped:
            return
        self._of[key].over = True
        self._release(pod)
        self._later(_AGENT, lambda: self._status(key, phase="Succeeded"))
        self.clock.at(self.clock.now + _KEEP_FINISHED, lambda: self._remove(key))

    def _stop(self, key: str) -> None:
        def stopped() -> None:
            pod = self.pods.get(key)
            if pod is not None:
                self._release(pod)
                self._later(_AGENT, lambda: self._remove(key))

        self._later(_STOP, stopped)

    def _release(self, pod: Pod) -> None:
        kubelet = self._kubelets[pod.spec.node_name]
        kubelet.release(pod.metadata.uid)
        self._note(kubelet.name, f"{pod.key} ended, {free(kubelet)}")
        self.count()
        self._show(pod.spec.node_name)

    # Agents.

    def _agent(self, name: str) -> None:
        """Look now, write a little later, and again after the period."""
        self.clock.at(self.clock.now + self.scenario.publish_seconds, lambda: self._agent(name))
        if name in self._silent:
            return
        seen, number = self._look(name), next(self._looks)
        listed = " ".join(sorted(pod.name for pod in self._kubelets[name].listed()))
        self._note(name, f"the agent looks: {listed}")
        self._later(_AGENT, lambda: self._write_topology(seen, number))

    def _show(self, name: str) -> None:
        """With perfect knowledge, every change is known at once."""
        if self._instant:
            self._publish(name)

    def _publish(self, name: str) -> float:
        return self._write_topology(self._look(name), next(self._looks))

    def _look(self, name: str) -> NodeResourceTopology:
        body = topology(self._kubelets[name], self._publishers[name], truth=self._instant)
        return from_dict(body, NodeResourceTopology)

    def _write_topology(self, seen: NodeResourceTopology, number: int) -> float:
        """Publish what the agent saw when it looked; answers when our watch tells of it."""
        name = seen.metadata.name
        if name in self._silent or number < self._written[name]:
            return self.clock.now
        self._written[name] = number
        seen = replace(seen, metadata=replace(seen.metadata, resource_version=self._version()))
        self.topologies[name] = seen
        if self._instant:
            self._deliver("NodeResourceTopology", name, seen, self._epoch)
            return self.clock.now
        told = self._tell(self._topology_watch, "NodeResourceTopology", name, seen)
        self._note(name, f"the agent writes, our watch tells at {told:.2f}")
        return told

    # Upheavals.

    def _upset(self) -> None:
        """Something happens to the NRT of some node, and a while later to another."""
        self.clock.at(
            self.clock.now + self._rng.expovariate(1 / self.scenario.upheavals), self._upset
        )
        calm = sorted(self._kubelets.keys() - self._silent - self._cordoned)
        if calm and not self._stopped:
            change = self._rng.choice((self._lose, self._lose, self._sign_otherwise, self._cordon))
            change(self._rng.choice(calm))

    def _lose(self, name: str) -> None:
        """The agent is gone, and its object with it; both are created again."""
        self._silent.add(name)
        if self.topologies.pop(name, None) is not None:
            told = self._tell(self._topology_watch, "NodeResourceTopology", name, None)
            self._note(name, f"the NRT is deleted, our watch tells at {told:.2f}")
        seconds = self._rng.choices(_OUTAGES, (4, 4, 4, 1))[0]
        self.clock.at(self.clock.now + seconds, lambda: self._silent.discard(name))

    def _sign_otherwise(self, name: str) -> None:
        """The agent is replaced by one that makes another fingerprint, or none."""
        self._publishers[name] = PublisherSettings(
            fingerprint=self._rng.choice(("attribute", "annotation", "none")),
            method=self._rng.choice(("all", "with-exclusive-resources")),
        )

    def _cordon(self, name: str) -> None:
        """The node takes no further pods, its kubelet restarts with another alignment."""
        self._cordoned.add(name)
        self._tell(self._nodes_watch, "Node", name, self._node(name))
        self.clock.at(self.clock.now + _CORDONED, lambda: self._realign(name))

    def _realign(self, name: str) -> None:
        policy: Policy = self._rng.choice(("single-numa-node", "restricted"))
        scope: Scope = self._rng.choice(("container", "pod"))
        self._kubelets[name].align(policy, scope)
        self._note(name, f"the kubelet restarts with {policy}, {scope}")
        self.clock.at(self._publish(name) + 0.5, lambda: self._uncordon(name))

    def _uncordon(self, name: str) -> None:
        self._cordoned.discard(name)
        self._tell(self._nodes_watch, "Node", name, self._node(name))

    # The API.

    def _status(self, key: str, **changes: Any) -> None:
        pod = self.pods.get(key)
        if pod is not None and not pod.finished:
            self._write(replace(pod, status=replace(pod.status, **changes)))

    def _write(self, pod: Pod) -> float:
        pod = replace(pod, metadata=replace(pod.metadata, resource_version=self._version()))
        self.pods[pod.key] = pod
        return self._tell(self._pod_watch, "Pod", pod.key, pod)

    def _remove(self, key: str) -> None:
        pod = self.pods.pop(key, None)
        if pod is None:
            return
        told = self._tell(self._pod_watch, "Pod", key, None)
        if pod.spec.node_name:
            self._kubelets[pod.spec.node_name].forget(pod.metadata.uid)
            self._note(pod.spec.node_name, f"{key} is gone, our watch tells at {told:.2f}")
            self.count()
            self._show(pod.spec.node_name)

    def _tell(self, watch: Stream, kind: str, key: str, new: Any) -> float:
        epoch = self._epoch
        return watch.send(lambda: self._deliver(kind, key, new, epoch))

    def _deliver(self, kind: str, key: str, new: Any, epoch: int) -> None:
        if epoch != self._epoch:
            return  # it was in the list that the new scheduler began with
        told = self._told[kind]
        old = told.pop(key, None)
        if new is not None:
            told[key] = new
        if old is not None or new is not None:
            self.tell(kind, [Change(old, new)])

    # Counting.

    @property
    def _stopped(self) -> bool:
        """Whether arrivals are over: from then on no pod is added or deleted."""
        return self.clock.now > self.scenario.seconds

    @property
    def cpus_in_use(self) -> float:
        """CPUs of all pods that kubelets have let in."""
        return sum(kubelet.cpus_in_use for kubelet in self._kubelets.values())

    def count(self) -> None:
        """Add up the CPUs in use since the last change, while pods arrive."""
        start = max(self._counted_at, self.scenario.seconds / 4)
        end = min(self.clock.now, self.scenario.seconds)
        self.tally.cpu_seconds += max(0.0, end - start) * self._in_use
        self._counted_at = self.clock.now
        self._in_use = self.cpus_in_use

    def _stall(self) -> None:
        """One of our watches hangs for a while, and some time later another may."""
        watch = self._rng.choice((self._pod_watch, self._topology_watch))
        watch.stall(self._rng.uniform(0.0, self.scenario.stalls))
        self.clock.at(self.clock.now + self._rng.uniform(1.0, 20.0), self._stall)

    def _later(self, lag: tuple[float, float], act: Callable[[], object]) -> None:
        self.clock.at(self.clock.now + self._rng.uniform(*self._slowed(lag)), act)

    def _slowed(self, lag: tuple[float, float]) -> tuple[float, float]:
        return lag[0], lag[1] * self.scenario.slowness

    def _note(self, node: str, what: str) -> None:
        self.journal[node].append(f"{self.clock.now:.2f} {what}")

    def _version(self) -> str:
        return str(next(self._versions))
