"""What must hold, judged from the API alone: each write as it happens, and the end.

A rule gets every write with its time and the host it came from. It knows the plan as well, for one
thing only: what a replica *could* know. A watch shows a change within `LAG_SECONDS`; while
something disturbs a replica's watches, and for `SETTLE_SECONDS` after, it may be behind. So a rule
about what others did (a node shrank, another scheduler bound a pod) holds a replica to what was
there before `Knowledge.since`. Rules about what the replicas themselves did have no such allowance.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from sandbox.store import Body, Key, Version
from tests.sim.plan import (
    AnyAction,
    CutConnection,
    CutWatches,
    DelayRequests,
    DelayWatches,
    DriftClock,
    DropAnswers,
    EndWatches,
    ExpireWatches,
    FailRequests,
    HalfOpen,
    Partition,
    PauseReplica,
    Plan,
    RefuseConnections,
    SilenceWatches,
    SlowNetwork,
    StallThread,
    StepClock,
    StopEtcd,
    StopServer,
    ThrottleNetwork,
)
from tests.sim.plan import Compact as CompactAction

T = TypeVar("T")

LAG_SECONDS = 1.0
SETTLE_SECONDS = 45.0
"""A watch that failed is opened again after a pause."""
SILENCE_SECONDS = 200.0
"""A silent one is given up after that long at most."""

_ON_WATCHES = (
    CutConnection
    | CutWatches
    | CompactAction
    | DelayWatches
    | EndWatches
    | ExpireWatches
    | HalfOpen
    | Partition
    | PauseReplica
    | StallThread
    | RefuseConnections
    | SilenceWatches
    | SlowNetwork
    | StopEtcd
    | StopServer
    | ThrottleNetwork
)
_ON_REQUESTS = DelayRequests | DropAnswers | FailRequests


class Write(Protocol):
    """A write in the history."""

    @property
    def time(self) -> float: ...
    @property
    def writer(self) -> str: ...
    @property
    def table(self) -> str: ...
    @property
    def key(self) -> Key: ...
    @property
    def revision(self) -> int: ...
    @property
    def before(self) -> Version | None: ...
    @property
    def after(self) -> Version | None: ...


class Violation(msgspec.Struct, frozen=True):
    """A rule was broken: by which write, on what, when."""

    rule: str
    time: float
    object: str
    what: str
    revision: int = 0
    """The write; 0 at the end of the history."""

    def __str__(self) -> str:
        where = f"write {self.revision}" if self.revision else "the end"
        return f"{self.rule}: {self.object}: {self.what} ({where}, {self.time:.3f} s)"


class Rule(Protocol):
    """Looks at every write of some tables, or of all if it names none."""

    @property
    def tables(self) -> Collection[str]: ...

    def see(self, write: Write) -> Iterator[Violation]:
        """What this write breaks."""
        ...


class Ending(Protocol):
    """Looks at a history that is over."""

    def finish(self, time: float) -> Iterator[Violation]:
        """What the whole history breaks."""
        ...


class Knowledge:
    """Since when the replicas' watches may be behind."""

    def __init__(self, plan: Plan) -> None:
        self._disturbed = [
            (each.seconds, each.seconds + _duration(each.action) + SETTLE_SECONDS)
            for each in plan.actions
            if _disturbs(each.action)
        ]

    def since(self, time: float) -> float:
        """What was so before this moment is known at that time."""
        since = time - LAG_SECONDS
        for start, end in reversed(self._disturbed):
            if start <= time and end >= since:
                since = min(since, start - LAG_SECONDS)
        return since


def _disturbs(action: AnyAction) -> bool:
    if isinstance(action, _ON_REQUESTS):
        return action.method in ("", "GET") or "GET" in action.method
    return isinstance(action, _ON_WATCHES | StepClock | DriftClock)


def _duration(action: AnyAction) -> float:
    if isinstance(action, HalfOpen):
        return SILENCE_SECONDS
    seconds = getattr(action, "seconds", 0.0)
    return float(seconds) if isinstance(action, _ON_WATCHES | DelayRequests) else 0.0


class Past(Generic[T]):
    """A value over time: (since when, value), the newest last."""

    def __init__(self, *values: tuple[float, T]) -> None:
        self._values = [*values]

    def add(self, time: float, value: T) -> None:
        if not self._values or self._values[-1][1] != value:
            self._values.append((time, value))

    def during(self, since: float) -> list[T]:
        """All values it had from then on."""
        found = []
        for time, value in reversed(self._values):
            found.append(value)
            if time <= since:
                break
        return found


class Judge:
    """Feeds every write to the rules of its table, in their order, and keeps what they find."""

    def __init__(
        self,
        rules: Iterable[Rule],
        endings: Iterable[Ending],
        kills: list[float],
        most: int = 20,
    ) -> None:
        self.kills = kills
        """When replicas were killed: some are long after the action that says so."""
        self._rules = list(rules)
        self._endings = list(endings)
        self._most = most
        self._of_table: dict[str, list[Rule]] = {}
        self.violations: list[Violation] = []

    def see(self, write: Write) -> None:
        """Called for each write, at once."""
        table = write.table
        if (rules := self._of_table.get(table)) is None:
            rules = [each for each in self._rules if not each.tables or table in each.tables]
            self._of_table[table] = rules
        for rule in rules:
            self._keep(rule.see(write))

    def finish(self, time: float) -> list[Violation]:
        """All that was found, once the history is over."""
        for ending in self._endings:
            self._keep(ending.finish(time))
        return self.violations

    def _keep(self, found: Iterable[Violation]) -> None:
        for violation in found:
            if len(self.violations) < self._most:
                self.violations.append(violation)


# What rules ask of bodies


def node_of(version: Version | None) -> str:
    """The node of a pod; empty if it has none."""
    return str(version.body["spec"].get("nodeName") or "") if version is not None else ""


def binds(write: Write) -> bool:
    """Whether a write gives a pod its node."""
    return write.table == "pods" and bool(node_of(write.after)) and not node_of(write.before)


def ended(pod: Body) -> bool:
    """Whether the pod's containers have ended for good."""
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def name_of(key: Key) -> str:
    return "/".join(filter(None, key))


_UNITS = {
    "m": 0.001,
    "k": 1e3,
    "M": 1e6,
    "G": 1e9,
    "T": 1e12,
    "P": 1e15,
    "E": 1e18,
    "Ki": 2.0**10,
    "Mi": 2.0**20,
    "Gi": 2.0**30,
    "Ti": 2.0**40,
    "Pi": 2.0**50,
    "Ei": 2.0**60,
}


_SUFFIXES = sorted(_UNITS, key=len, reverse=True)


def amount(quantity: Any) -> float:
    """A quantity as a number; an independent, simple reading of what plans write."""
    return _amount(str(quantity))


@lru_cache(maxsize=4096)
def _amount(text: str) -> float:
    for suffix in _SUFFIXES:
        if text.endswith(suffix):
            return float(text[: -len(suffix)]) * _UNITS[suffix]
    return float(text)


def requests(pod: Body) -> dict[str, float]:
    """What a pod of a plan requests: the sum of its containers, and its place."""
    total = {"pods": 1.0}
    for container in pod["spec"].get("containers") or ():
        for name, quantity in ((container.get("resources") or {}).get("requests") or {}).items():
            total[name] = total.get(name, 0.0) + amount(quantity)
    return total


def allocatable(node: Body) -> dict[str, float]:
    return {
        name: amount(given) for name, given in (node["status"].get("allocatable") or {}).items()
    }


def takes(node: Body, pod: Body) -> bool:
    """Whether a node takes a pod at all: cordon, taints, node selector."""
    spec = node.get("spec") or {}
    labels = node["metadata"].get("labels") or {}
    tolerations = pod["spec"].get("tolerations") or ()
    if spec.get("unschedulable"):
        return False
    if any(_repels(taint, tolerations) for taint in spec.get("taints") or ()):
        return False
    selector: Mapping[str, str] = pod["spec"].get("nodeSelector") or {}
    return all(labels.get(key) == value for key, value in selector.items())


def _repels(taint: Mapping[str, str], tolerations: Iterable[Mapping[str, str]]) -> bool:
    if taint["effect"] not in ("NoSchedule", "NoExecute"):
        return False
    return not any(
        toleration.get("key", "") in ("", taint["key"])
        and toleration.get("effect", "") in ("", taint["effect"])
        and (
            toleration.get("operator") == "Exists"
            or toleration.get("value", "") == taint.get("value", "")
        )
        for toleration in tolerations
    )
