"""Metrics of backlogs that are placed at once."""

from typing import Protocol, TypeVar

from scheduler.observe.instruments import Counter, Gauge, Histogram

SOLVE_BUCKETS = tuple(0.002 * 2**i for i in range(13))

M = TypeVar("M", Counter, Gauge, Histogram)


class Register(Protocol):
    """Takes a metric into a registry."""

    def __call__(self, instrument: M) -> M:
        """The same metric, registered."""
        ...


class BatchMetrics:
    """Attributes are named as the metrics without ``equipoise_batch`` and unit."""

    def __init__(self, register: Register) -> None:
        self.tiers = register(
            Counter(
                "equipoise_batch_tiers_total",
                "Pods of one rank that waited together, by what became of them: 'solved' at "
                "once, 'uncontended' or 'greedy' where one by one is as good, 'nowhere' when none "
                "took part or fitted, 'failed' when the solver did.",
                ("result",),
            )
        )
        self.pods = register(
            Counter(
                "equipoise_batch_pods_total",
                "Pods of such backlogs: 'placed' at once, or 'left' to be placed one by one.",
                ("outcome",),
            )
        )
        self.excluded_pods = register(
            Counter(
                "equipoise_batch_excluded_pods_total",
                "Pods that took no part in a batch, by reason.",
                ("reason",),
            )
        )
        self.rounds = register(
            Counter("equipoise_batch_rounds_total", "Problems that were solved for batches.")
        )
        self.refused = register(
            Counter(
                "equipoise_batch_refused_total",
                "Placements that the solver proposed and filters did not confirm.",
            )
        )
        self.arcs = register(
            Gauge("equipoise_batch_arcs", "Arcs of the last network that was solved.")
        )
        self.solve_duration = register(
            Histogram(
                "equipoise_batch_solve_duration_seconds",
                "Time from posing a problem to its solution, in seconds.",
                buckets=SOLVE_BUCKETS,
            )
        )
        self.compare_duration = register(
            Histogram(
                "equipoise_batch_compare_duration_seconds",
                "Time to try a solution and one by one, to keep the better of the two, in seconds.",
                buckets=SOLVE_BUCKETS,
            )
        )
        self.solver_failures = register(
            Counter(
                "equipoise_batch_solver_failures_total",
                "Problems without a solution, by reason: the solver is 'missing', has 'died', took "
                "too long ('timeout') or reported a 'fault'.",
                ("reason",),
            )
        )
