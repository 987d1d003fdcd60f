"""All rounds of a workload, and what they say about Equipoise."""

import math
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
    """What the contestants did, one after the other, with the same pods.

    Where kube-scheduler had no turn, what compares with it is not a number.
    """

    kube_scheduler: Measurement | None
    equipoise: Measurement
    limit: Measurement

    @classmethod
    def of(cls, measured: dict[str, Measurement | None]) -> "Round | None":
        """The round, if every contestant that takes part had its turn."""
        ours, limit = measured[EQUIPOISE.name], measured[LIMIT.name]
        if ours is None or limit is None or None in measured.values():
            return None
        return cls(measured.get(KUBE_SCHEDULER.name), ours, limit)

    def by(self, contestant: Contestant) -> Measurement | None:
        """The turn of one contestant; None if it did not take part."""
        return {
            KUBE_SCHEDULER.name: self.kube_scheduler,
            EQUIPOISE.name: self.equipoise,
            LIMIT.name: self.limit,
        }[contestant.name]

    def _to_kube(self, figure: Figure) -> float:
        """A figure of Equipoise for one of kube-scheduler's."""
        if self.kube_scheduler is None:
            return math.nan
        return figure(self.equipoise) / figure(self.kube_scheduler)

    @property
    def ratio(self) -> float:
        """How many pods Equipoise binds while kube-scheduler binds one."""
        return self._to_kube(lambda m: m.pods_per_second)

    @property
    def ratio_to_limit(self) -> float:
        """How many pods Equipoise binds while one is bound without any thought."""
        return self.equipoise.pods_per_second / self.limit.pods_per_second

    @property
    def ratio_with_events(self) -> float:
        """Against kube-scheduler for all that is written: who puts events off has to catch up."""
        return 1 / self._to_kube(lambda m: m.events_seconds)

    @property
    def cpu_ratio(self) -> float:
        """CPU of Equipoise over the whole run for one second of kube-scheduler's."""
        return self._to_kube(lambda m: m.cpu_seconds)

    @property
    def memory_ratio(self) -> float:
        """Peak memory of Equipoise for one MiB of kube-scheduler's."""
        return self._to_kube(lambda m: m.peak_memory_mib)

    def differences(self, *, conditions: bool) -> list[str]:
        """What the two schedulers wrote differently about the pods that waited, in words."""
        kube, ours = self.kube_scheduler, self.equipoise
        if kube is None:
            return []
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
        return [figure(turn) for each in self.rounds if (turn := each.by(contestant))]

    @property
    def contestants(self) -> list[Contestant]:
        """Who took part in every round, in the order of the tables."""
        return [who for who in CONTESTANTS if all(each.by(who) for each in self.rounds)]

    def as_json(self) -> dict[str, Any]:
        """Everything that was measured; seconds, milliseconds and MiB as the names say."""
        return {
            "workload": self.workload.name,
            **asdict(self.size),
            "nodes_scored": {
                each.name: each.scored(self.size.nodes) for each in self.contestants if each.scored
            },
            "rounds": [_round_json(each) for each in self.rounds],
            "median_ratio": _number(self.ratio),
            "median_ratio_to_limit": self.ratio_to_limit,
            "median_ratio_with_events": _number(self.ratio_with_events),
            "differences": self.differences,
        }


def _round_json(each: Round) -> dict[str, Any]:
    return {
        **{who.name: asdict(turn) for who in CONTESTANTS if (turn := each.by(who))},
        "ratio": _number(each.ratio),
        "ratio_to_limit": each.ratio_to_limit,
        "ratio_with_events": _number(each.ratio_with_events),
    }


def _number(figure: float) -> float | None:
    """JSON has no other word for what is not a number."""
    return None if math.isnan(figure) else figure
