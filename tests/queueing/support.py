"""Pods, a clock and a queue for tests of the queue."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scheduler.model.events import Action, Event, Hint
from scheduler.model.meta import Condition, ObjectMeta
from scheduler.model.podinfo import PodInfo
from scheduler.model.pods import Pod, PodSpec, PodStatus, SchedulingGate, Toleration
from scheduler.model.status import SUCCESS, Status, unresolvable
from scheduler.observe.metrics import Metrics
from scheduler.queueing.hints import HintRegistration
from scheduler.queueing.queued_pod import QueuedPod
from scheduler.queueing.scheduling_queue import SchedulingQueue

PROFILE = "equipoise"
GATES = "SchedulingGates"


class FakeClock:
    """A clock that moves only when told; starts in the middle of a second."""

    def __init__(self) -> None:
        self.now = 1000.5

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += seconds


def make_pod(
    name: str,
    *,
    uid: str = "",
    priority: int = 0,
    gates: Sequence[str] = (),
    labels: Mapping[str, str] | None = None,
    tolerations: int = 0,
    profile: str = PROFILE,
    message: str = "",
) -> PodInfo:
    return PodInfo(
        Pod(
            metadata=ObjectMeta(
                name=name, namespace="default", uid=uid or f"uid-{name}", labels=dict(labels or {})
            ),
            spec=PodSpec(
                priority=priority,
                scheduler_name=profile,
                scheduling_gates=tuple(SchedulingGate(name=gate) for gate in gates),
                tolerations=tuple(Toleration(key=f"k{i}") for i in range(tolerations)),
            ),
            status=PodStatus(
                conditions=(Condition("PodScheduled", "False", message=message),) if message else ()
            ),
        )
    )


def by_priority(queued: QueuedPod) -> tuple[int, float]:
    return -queued.info.priority, queued.timestamp


def scheduling_gates(info: PodInfo) -> Status:
    gates = [gate.name for gate in info.pod.spec.scheduling_gates]
    if not gates:
        return SUCCESS
    return unresolvable(f"waiting for scheduling gates: [{' '.join(gates)}]").by(GATES)


def only_itself(info: PodInfo, event: Event) -> Hint:
    changed = event.new
    return Hint.QUEUE if isinstance(changed, PodInfo) and changed.uid == info.uid else Hint.SKIP


def never(_info: PodInfo, _event: Event) -> Hint:
    return Hint.SKIP


def broken(_info: PodInfo, _event: Event) -> Hint:
    raise RuntimeError("hint is broken")


DEFAULT_HINTS: Mapping[str, Sequence[HintRegistration]] = {
    GATES: [HintRegistration("Pod", Action.POD_GATES_ELIMINATED, only_itself)],
    "Fit": [
        HintRegistration("Pod", Action.DELETE),
        HintRegistration("Node", Action.ADD | Action.NODE_ALLOCATABLE),
    ],
    "Taints": [
        HintRegistration("Node", Action.NODE_TAINT),
        HintRegistration("Pod", Action.POD_TOLERATION, only_itself),
    ],
    "Gang": [HintRegistration("PodGroup", Action.ADD)],
    "Deaf": [HintRegistration("Node", Action.ADD | Action.NODE_TAINT, never)],
}

NODE_ADD = Event("Node", Action.ADD)
NODE_TAINT = Event("Node", Action.NODE_TAINT)
POD_DELETE = Event("AssignedPod", Action.DELETE)
GROUP_ADD = Event("PodGroup", Action.ADD)


@dataclass
class Plugins:
    """The plugins that a queue calls."""

    pre_enqueue: Callable[[PodInfo], Status]
    still_rejected: Callable[[QueuedPod], bool]

    def sort_key(self, queued: QueuedPod) -> tuple[int, float]:
        return by_priority(queued)


class Bench:
    """A queue with its clock and metrics, and short words for what tests do with it."""

    def __init__(
        self,
        hints: Mapping[str, Sequence[HintRegistration]] = DEFAULT_HINTS,
        pre_enqueue: Callable[[PodInfo], Status] = scheduling_gates,
        still_rejected: Callable[[QueuedPod], bool] = lambda queued: False,
        **options: Any,
    ) -> None:
        self.clock = FakeClock()
        self.metrics = Metrics()
        self.queue = SchedulingQueue(
            Plugins(pre_enqueue, still_rejected),
            hints={PROFILE: hints},
            metrics=self.metrics,
            **({"clock": self.clock} | options),
        )

    def popped(self, info: PodInfo) -> QueuedPod:
        """Add a pod and pop it."""
        self.queue.add(info)
        return self.pop()

    def pop(self) -> QueuedPod:
        queued = self.queue.pop()
        assert queued is not None
        return queued

    def rejected(self, info: PodInfo, *plugins: str, pending: Sequence[str] = ()) -> QueuedPod:
        """Add a pod and have it rejected."""
        queued = self.popped(info)
        self.queue.requeue_rejected(queued, plugins, pending, "no")
        return queued

    def tiers(self) -> dict[str, str]:
        """Where each pod is, by its short name."""
        return {entry.pod.split("/")[1]: entry.tier for entry in self.queue.view.snapshot()}

    def sample(self, name: str, **labels: str) -> float | None:
        return self.metrics.registry.get_sample_value(name, labels)


BLUE = "blue"
"""A key of equal pods."""


def park(bench: Bench, names: str, *plugins: str, cohort: str = BLUE, priority: int = 0) -> None:
    """Have pods rejected one after the other, as equals."""
    for name in names:
        reject(bench, bench.popped(make_pod(name, priority=priority)), *plugins, cohort=cohort)
        bench.clock.advance(0.001)


def parked(names: str, *plugins: str) -> Bench:
    """A queue with equal pods whose back-off is over."""
    bench = Bench()
    park(bench, names, *plugins)
    bench.clock.advance(60)
    return bench


def reject(bench: Bench, queued: QueuedPod, *plugins: str, cohort: str | None = BLUE) -> None:
    bench.queue.requeue_rejected(queued, plugins or ("Fit",), (), "no", cohort)


def out(bench: Bench) -> set[str]:
    """The pods that are going to be tried."""
    return {name for name, tier in bench.tiers().items() if tier in ("active", "backoff")}
