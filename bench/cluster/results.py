"""All rounds of a workload, and what they say about Equipoise."""

from collections.abc import Callable
from dataclasses import asdict, dataclass
from statistics import median
from typing import Any

from bench.cluster.contestants import CONTESTANTS, EQUIPOISE, KUBE_SCHEDULER, LIMIT, Contestant
from bench.cluster.measuring import Measurement
from bench.cluster.workloads import Size, Workload

Figure = Callable[[Measurement], float]


@dataclass(frozen=True)
class Round:
    """What the contestants did, one after the other, with the same pods."""

    kube_scheduler: Measurement
    equipoise: Measurement
    limit: Measurement

    @classmethod
    def of(cls, measured: dict[str, Measurement | None]) -> "Round | None":
        """The round, if every contestant had a turn."""
        kube, ours = measured[KUBE_SCHEDULER.name], measured[EQUIPOISE.name]
        limit = measured[LIMIT.name]
        return cls(kube, ours, limit) if kube and ours and limit else None

    def by(self, contestant: Contestant) -> Measurement:
        """The turn of one contestant."""
        return {
            KUBE_SCHEDULER.name: self.kube_scheduler,
            EQUIPOISE.name: self.equipoise,
            LIMIT.name: self.limit,
        }[contestant.name]

    @property
    def ratio(self) -> float:
        """How many pods Equipoise binds while kube-scheduler binds one."""
        return self.equipoise.pods_per_second / self.kube_scheduler.pods_per_second

    @property
    def ratio_to_limit(self) -> float:
        """How many pods Equipoise binds while one is bound without any thought."""
        return self.equipoise.pods_per_second / self.limit.pods_per_second

    @property
    def ratio_with_events(self) -> float:
        """Against kube-scheduler for all that is written: who puts events off has to catch up."""
        return self.kube_scheduler.events_seconds / self.equipoise.events_seconds

    @property
    def cpu_ratio(self) -> float:
        """CPU of Equipoise over the whole run for one second of kube-scheduler's."""
        return self.equipoise.cpu_seconds / self.kube_scheduler.cpu_seconds

    @property
    def memory_ratio(self) -> float:
        """Peak memory of Equipoise for one MiB of kube-scheduler's."""
        return self.equipoise.peak_memory_mib / self.kube_scheduler.peak_memory_mib

    def differences(self, *, conditions: bool) -> list[str]:
        """What the two schedulers wrote differently about the pods that waited, in words."""
        kube, ours = self.kube_scheduler, self.equipoise
        compared = [("events", kube.events, ours.events)]
        if conditions:
            compared.append(("pods", kube.conditions, ours.conditions))
        return [
            f"{kind} {key!r}: {KUBE_SCHEDULER.name} {theirs.get(key, 0)}, "
            f"{EQUIPOISE.name} {own.get(key, 0)}"
            for kind, theirs, own in compared
            for key in sorted({*theirs, *own})
            if theirs.get(key, 0) != own.get(key, 0)
        ]


@dataclass(frozen=True)
class Result:
    """A workload of one size; there is at least one round."""

    workload: Workload
    size: Size
    rounds: list[Round]

    @property
    def ratio(self) -> float:
        """The median of the rounds' ratios."""
        return median(each.ratio for each in self.rounds)

    @property
    def ratio_to_limit(self) -> float:
        """The median of the rounds' ratios to the limit."""
        return median(each.ratio_to_limit for each in self.rounds)

    @property
    def ratio_with_events(self) -> float:
        """The median of the rounds' ratios, events included."""
        return median(each.ratio_with_events for each in self.rounds)

    @property
    def cpu_ratio(self) -> float:
        """The median of the rounds' CPU ratios."""
        return median(each.cpu_ratio for each in self.rounds)

    @property
    def memory_ratio(self) -> float:
        """The median of the rounds' memory ratios."""
        return median(each.memory_ratio for each in self.rounds)

    @property
    def differences(self) -> list[str]:
        """What was written differently in any round; pods that were pushed out say nothing."""
        stay = self.workload.churn is None
        return [line for each in self.rounds for line in each.differences(conditions=stay)]

    def middle(self, contestant: Contestant, figure: Figure) -> float:
        """The median of one figure of one contestant."""
        return median(self.all(contestant, figure))

    def all(self, contestant: Contestant, figure: Figure) -> list[float]:
        """One figure of one contestant in every round."""
        return [figure(each.by(contestant)) for each in self.rounds]

    def as_json(self) -> dict[str, Any]:
        """Everything that was measured; seconds, milliseconds and MiB as the names say."""
        return {
            "workload": self.workload.name,
            **asdict(self.size),
            "nodes_scored": {
                each.name: each.scored(self.size.nodes) for each in CONTESTANTS if each.scored
            },
            "rounds": [_round_json(each) for each in self.rounds],
            "median_ratio": self.ratio,
            "median_ratio_to_limit": self.ratio_to_limit,
            "median_ratio_with_events": self.ratio_with_events,
            "differences": self.differences,
        }


def _round_json(each: Round) -> dict[str, Any]:
    return {
        **{who.name: asdict(each.by(who)) for who in CONTESTANTS},
        "ratio": each.ratio,
        "ratio_to_limit": each.ratio_to_limit,
        "ratio_with_events": each.ratio_with_events,
    }
