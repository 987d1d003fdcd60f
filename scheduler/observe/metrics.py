"""Every metric the scheduler exports, in one table.

The names, labels and buckets that begin with ``scheduler_``, ``rest_client_`` and
``leader_election_`` are kube-scheduler 1.36's own, so that existing dashboards, recording rules and
alerts work unchanged; what only this scheduler has begins with ``equipoise_``.

Loops that observe once per pod hold a `Children` of their metric, which spares them most of the
lookup of label values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol, TypeVar

from prometheus_client import CollectorRegistry, ProcessCollector

from scheduler.bounded import Usage
from scheduler.observe.instruments import MAX_CHILDREN, Counter, Gauge, Histogram, Instrument
from scheduler.observe.readings import AskedGauge, Reading, Readings
from scheduler.observe.runtime import interpreter
from scheduler.observe.tables import Tables

SOLVE_BUCKETS = tuple(0.002 * 2**i for i in range(13))


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
                "Backlogs of pods of one rank, by result: 'solved' as a batch, 'uncontended' or "
                "'greedy' if one by one is as good, 'nowhere' if no pod could take part, 'failed' "
                "if the solver failed.",
                ("result",),
            )
        )
        self.pods = register(
            Counter(
                "equipoise_batch_pods_total",
                "Pods of solved backlogs: 'placed' as a batch, or 'left' to be placed one by one.",
                ("outcome",),
            )
        )
        self.excluded_pods = register(
            Counter(
                "equipoise_batch_excluded_pods_total",
                "Pods that were not part of a batch, by reason.",
                ("reason",),
            )
        )
        self.rounds = register(
            Counter("equipoise_batch_rounds_total", "Problems that were solved for batches.")
        )
        self.refused = register(
            Counter(
                "equipoise_batch_refused_total",
                "Placements proposed by the solver that the filters rejected.",
            )
        )
        self.arcs = register(
            Gauge("equipoise_batch_arcs", "Arcs of the last network that was solved.")
        )
        self.solve_duration = register(
            Histogram(
                "equipoise_batch_solve_duration_seconds",
                "Time from building a problem to its solution, in seconds.",
                buckets=SOLVE_BUCKETS,
            )
        )
        self.compare_duration = register(
            Histogram(
                "equipoise_batch_compare_duration_seconds",
                "Time to try both ways to place a backlog, as a batch and one by one, in seconds.",
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


Source = Callable[[], Mapping[str, Usage]]
"""Says what some caches hold, by name. Called from the thread of a scrape: it must not iterate
over what the event loop changes."""


class Caches:
    """Collects what caches hold, at the moment of a scrape."""

    def __init__(self) -> None:
        self._sources: dict[str, Source] = {}

    def follow(self, whose: str, source: Source) -> None:
        """Ask this source from now on, instead of any other of the same name."""
        self._sources[whose] = source

    def usage(self) -> dict[str, Usage]:
        """What each cache holds; those of one name, as of several profiles, together."""
        found: dict[str, Usage] = {}
        for source in list(self._sources.values()):
            for name, usage in source().items():
                before = found.get(name, Usage(0, 0))
                found[name] = Usage(*map(sum, zip(before, usage, strict=True)))
        return found

    def readings(self) -> Iterator[Reading]:
        """All of it as metrics."""
        found = self.usage()
        yield Reading(
            "equipoise_cache_bytes",
            "Approximate memory of a cache, an index or a queue; for watched objects the size "
            "of their JSON.",
            {name: usage.bytes for name, usage in found.items()},
            "cache",
        )
        yield Reading(
            "equipoise_cache_entries",
            "Entries of a cache, an index or a queue.",
            {name: usage.entries for name, usage in found.items()},
            "cache",
        )
        yield Reading(
            "equipoise_cache_evictions_total",
            "Entries that were evicted because of a bound on bytes or entries.",
            {name: usage.evictions for name, usage in found.items()},
            "cache",
        )


M = TypeVar("M", bound=Instrument[Any])
Labels = tuple[str, ...]

ATTEMPTS_LABEL_LIMIT = 15


def exponential_buckets(start: float, factor: float, count: int) -> tuple[float, ...]:
    """Return `count` bounds, each the one before times `factor`.

    Multiplies step by step, as the Go client does, so that ``le`` labels agree to the last digit.
    """
    bounds = [start]
    while len(bounds) < count:
        bounds.append(bounds[-1] * factor)
    return tuple(bounds)


CYCLE_BUCKETS = exponential_buckets(0.001, 2, 15)
EXTENSION_POINT_BUCKETS = exponential_buckets(0.0001, 2, 12)
PLUGIN_BUCKETS = exponential_buckets(0.00001, 1.5, 20)
SLI_BUCKETS = exponential_buckets(0.01, 2, 20)
REQUEST_BUCKETS = (0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0)
PAUSE_BUCKETS = exponential_buckets(0.0001, 2, 15)
GANG_BUCKETS = exponential_buckets(0.001, 2, 20)
DIRTY_BUCKETS = exponential_buckets(0.1, 2, 14)


def attempts_label(attempts: int) -> str:
    """Return the value of the ``attempts`` label: the number, or ``15+`` to keep it bounded."""
    return str(attempts) if attempts < ATTEMPTS_LABEL_LIMIT else f"{ATTEMPTS_LABEL_LIMIT}+"


class Children(dict[Labels, M]):
    """The children of one labelled metric, each resolved once: ``children["Filter", "Success"]``.

    A lookup is one dictionary access. Holds as many entries as the metric has label combinations;
    a metric whose children are removed must not be used through this.
    """

    def __init__(self, family: M) -> None:
        super().__init__()
        self._family = family

    def __missing__(self, label_values: Labels) -> M:
        child = self._family.labels(*label_values)
        if len(self) < MAX_CHILDREN:
            self[label_values] = child
        return child


class Metrics:
    """The metrics of one scheduler, in a registry of their own.

    Attributes are named as the metrics without prefix and unit. Touching one never raises for as
    many label values as are shown here, in that order. Those of the API client are touched by the
    scheduling thread and by the heartbeat's, all others by one of the two.
    """

    def __init__(self, version: str = "unknown") -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self._add_scheduling()
        self._add_queue_and_cache()
        self._add_framework()
        self._add_api_client()
        self._add_runtime()
        self._add_numa()
        self._add_webhooks()
        self._add_gangs()
        self.batch = BatchMetrics(self._registered)
        self.readings = Readings()
        self.registry.register(self.readings)
        self.interpreter = Readings()
        self.interpreter.follow(interpreter)
        self.registry.register(self.interpreter)
        self.caches = Caches()
        self.tables = Tables()
        cache_readings = Readings()
        cache_readings.follow(self.caches.readings)
        self.registry.register(cache_readings)
        self._gauge(
            "equipoise_build_info",
            "Always 1; the label is the version that runs.",
            ("version",),
        ).labels(version).set(1)

    def _add_scheduling(self) -> None:
        self.schedule_attempts = self._counter(
            "scheduler_schedule_attempts_total",
            "Attempts to schedule a pod, by result: 'unschedulable' when no node fits, 'error' "
            "when the scheduler itself failed.",
            ("result", "profile"),
        )
        self.scheduling_attempt_duration = self._histogram(
            "scheduler_scheduling_attempt_duration_seconds",
            "Time of a scheduling attempt, from pop to the end of binding, in seconds.",
            ("result", "profile"),
            buckets=CYCLE_BUCKETS,
        )
        self.scheduling_algorithm_duration = self._histogram(
            "scheduler_scheduling_algorithm_duration_seconds",
            "Time to choose a node for a pod, in seconds.",
            buckets=CYCLE_BUCKETS,
        )
        self.pod_scheduling_attempts = self._histogram(
            "scheduler_pod_scheduling_attempts",
            "Attempts needed to schedule a pod.",
            buckets=exponential_buckets(1, 2, 5),
        )
        self.pod_scheduling_sli_duration = self._histogram(
            "scheduler_pod_scheduling_sli_duration_seconds",
            "Time from a pod's arrival in the queue until it is scheduled, over all its attempts, "
            "in seconds.",
            ("attempts",),
            buckets=SLI_BUCKETS,
        )
        self.pod_scheduled_after_flush = self._counter(
            "scheduler_pod_scheduled_after_flush_total",
            "Pods scheduled after a timeout, not an event, had moved them out of the "
            "unschedulable pods; a growing number means that an event was missed.",
        )
        self.preemption_attempts = self._counter(
            "scheduler_preemption_attempts_total", "Attempts to preempt other pods."
        )
        self.preemption_victims = self._histogram(
            "scheduler_preemption_victims",
            "Victims selected by a preemption.",
            buckets=exponential_buckets(1, 2, 7),
        )

    def _add_queue_and_cache(self) -> None:
        self.pending_pods = self._gauge(
            "scheduler_pending_pods",
            "Pending pods by queue: 'active' are scheduled next, 'backoff' wait for the end "
            "of their back-off, 'unschedulable' found no node, 'gated' are not attempted.",
            ("queue",),
        )
        self.queue_incoming_pods = self._counter(
            "scheduler_queue_incoming_pods_total",
            "Pods added to a queue, by queue and by event.",
            ("queue", "event"),
        )
        self.unschedulable_pods = self._gauge(
            "scheduler_unschedulable_pods",
            "Unschedulable pods by the plugin that rejected them; a pod is counted for each "
            "such plugin, so do not sum over plugins.",
            ("plugin", "profile"),
        )
        self.inflight_events = self._gauge(
            "scheduler_inflight_events",
            "Events stored for pods that are being scheduled.",
            ("event",),
        )
        self.event_handling_duration = self._histogram(
            "scheduler_event_handling_duration_seconds",
            "Time to handle one watch event, in seconds.",
            ("event",),
            buckets=EXTENSION_POINT_BUCKETS,
        )
        self.queueing_hint_execution_duration = self._histogram(
            "scheduler_queueing_hint_execution_duration_seconds",
            "Time of one queueing hint function, in seconds.",
            ("plugin", "event", "hint"),
            buckets=PLUGIN_BUCKETS,
        )
        self.queueing_hints_skipped = self._counter(
            "equipoise_queueing_hints_skipped_total",
            "Pods (identical ones count once) that were requeued without a call of the plugin's "
            "hint, because too many calls were deferred.",
            ("plugin",),
        )
        self.attempts_spared = self._counter(
            "equipoise_attempts_spared_total",
            "Requeued pods that were not attempted, because other pods had taken the free "
            "capacity.",
        )
        self.cache_size = self._gauge(
            "scheduler_cache_size", "Nodes, pods and assumed pods in the cache.", ("type",)
        )
        self.decisions_outdated = self._counter(
            "equipoise_decisions_outdated_total",
            "Decisions that no longer held before they were written, and were withdrawn: 'node' "
            "was deleted, the pod no longer 'fit' because the node or its pods had changed, 'pod' "
            "was deleted, terminating or bound by others.",
            ("cause",),
        )
        self.pods_bound_by_others = self._counter(
            "equipoise_pods_bound_by_others_total",
            "Pods of other schedulers that were seen without a node and then on one.",
        )
        self.headroom_waits = self._counter(
            "equipoise_headroom_waits_total",
            "Bindings that waited because their node kept room for pods of other schedulers: "
            "'bound' after the wait, 'withdrawn' because others used the room or the decision no "
            "longer held, 'cancelled' because the scheduler stopped.",
            ("outcome",),
        )
        self.bindings_postponed = self._counter(
            "equipoise_bindings_postponed_total",
            "Pods that were requeued because their namespace has too many bindings in progress.",
        )
        self.assumed_pod_oldest = self._gauge(
            "equipoise_assumed_pod_oldest_seconds",
            "Age of the oldest assumed pod: 'sent' waits for the response to its binding, "
            "'answered' for the watch to confirm it.",
            ("state",),
        )
        self.assumed_pods_settled = self._counter(
            "equipoise_assumed_pods_settled_total",
            "Pods whose binding the watch did not confirm in time, by what a read of the pod "
            "showed: 'bound', 'unbound' (the binding had no effect), or 'gone' (deleted).",
            ("outcome",),
        )
        self.cache_mismatches = self._counter(
            "equipoise_cache_mismatches_total",
            "Differences found between the cache and the API server, and repaired: of a 'node', a "
            "'pod', an 'assumed' pod without a binding task, a pod that is missing from the "
            "'queue'.",
            ("kind",),
        )
        self.cache_checks = self._counter(
            "equipoise_cache_checks_total",
            "Comparisons of the cache with the API server: 'agrees', 'differs', or 'failed' when "
            "the API server could not be read.",
            ("result",),
        )

    def _add_framework(self) -> None:
        self.extension_point_duration = self._histogram(
            "scheduler_framework_extension_point_duration_seconds",
            "Time of all plugins of one extension point together, in seconds.",
            ("extension_point", "status", "profile"),
            buckets=EXTENSION_POINT_BUCKETS,
        )
        self.plugin_evaluations = self._counter(
            "scheduler_plugin_evaluation_total",
            "Attempts in which a plugin took part, in PreFilter, Filter, PreScore and Score.",
            ("plugin", "extension_point", "profile"),
        )
        self.plugin_errors = self._counter(
            "equipoise_plugin_errors_total",
            "Exceptions and invalid results of a plugin. At PreScore and Score the plugin's "
            "scores are lost, elsewhere an attempt of one pod fails.",
            ("plugin", "extension_point"),
        )
        self.plugin_slow_calls = self._counter(
            "equipoise_plugin_slow_calls_total",
            "Calls of a plugin that blocked scheduling for longer than plugins.slowAfter.",
            ("plugin", "extension_point"),
        )
        self.pods_over_limits = self._counter(
            "equipoise_pods_over_limits_total",
            "Pods that exceed the configured limits: waiting ones are not placed, placed ones "
            "count only in part.",
            ("state",),
        )
        self.permit_wait_duration = self._histogram(
            "scheduler_permit_wait_duration_seconds",
            "Time that a pod waited at Permit, in seconds.",
            ("result",),
            buckets=CYCLE_BUCKETS,
        )
        self.resourceclaim_creates = self._counter(
            "scheduler_resourceclaim_creates_total",
            "Number of ResourceClaims creation requests within scheduler.",
            ("status",),
        )
        self.binding_conditions_allocations = self._counter(
            "scheduler_dra_bindingconditions_allocations_total",
            "Number of allocations using devices with BindingConditions, counted per driver per "
            "scheduling attempt.",
            ("profile", "driver", "status"),
        )
        self.binding_conditions_wait = self._histogram(
            "scheduler_dra_bindingconditions_wait_duration_seconds",
            "Time in seconds spent waiting for BindingConditions to be satisfied during PreBind.",
            ("profile", "driver", "status"),
            buckets=tuple(0.1 * 2**i for i in range(14)),
        )
        self.permit_decisions = self._counter(
            "equipoise_permit_decisions_total",
            "Decisions of users about pods that wait at Permit: 'approve' or 'reject'.",
            ("decision",),
        )
        self.waiting_pods = AskedGauge(
            "equipoise_waiting_pods",
            "Pods that have a node reserved and wait: for 'plugins' of the scheduler, for a "
            "webhook or members of their gang ('outside'), or because the node keeps 'headroom' "
            "for pods of other schedulers.",
            "held_by",
        )
        self.registry.register(self.waiting_pods)
        self.goroutines = self._gauge(
            "scheduler_goroutines",
            "Concurrent tasks by the work they do: 'binding' takes a pod from its reservation to "
            "the end of its binding.",
            ("operation",),
        )

    def _add_api_client(self) -> None:
        self.rest_client_requests = self._counter(
            "rest_client_requests_total",
            "Requests to the API server, by status code, method and host.",
            ("code", "method", "host"),
        )
        self.rest_client_request_duration = self._histogram(
            "rest_client_request_duration_seconds",
            "Time of a request to the API server, in seconds.",
            ("verb", "host"),
            buckets=REQUEST_BUCKETS,
        )
        self.leader_status = self._gauge(
            "leader_election_master_status",
            "1 while this process holds the lease, else 0.",
            ("name",),
        )
        self.watch_decode = self._histogram(
            "equipoise_watch_decode_seconds",
            "Time to decode one chunk of watch events, in seconds.",
            buckets=PLUGIN_BUCKETS,
        )
        self.watch_decode_errors = self._counter(
            "equipoise_watch_decode_errors_total",
            "Objects that could not be decoded and were skipped.",
            ("kind",),
        )
        self.watch_restarts = self._counter(
            "equipoise_watch_restarts_total",
            "Watches that ended and were restarted, by reason.",
            ("kind", "reason"),
        )
        self.watch_ages = AskedGauge(
            "equipoise_watch_age_seconds",
            "Seconds since the last event, bookmark or list of a watched kind.",
            "kind",
        )
        self.registry.register(self.watch_ages)
        self.events_dropped = self._counter(
            "equipoise_events_dropped_total",
            "Kubernetes events not sent because the queue was full or the API server rejected "
            "them.",
        )

    def _add_runtime(self) -> None:
        self.loop_lag = self._histogram(
            "equipoise_event_loop_lag_seconds",
            "How late the event loop ran a timer, in seconds.",
            buckets=PAUSE_BUCKETS,
        )
        self.serving_dropped = self._counter(
            "equipoise_serving_dropped_total",
            "Connections and responses of the serving port that were closed early: 'timeout' if a "
            "client was too slow, 'evicted' if an idle connection was replaced, 'refused' if "
            "there were too many.",
            ("reason",),
        )
        self.loop_stalls = self._counter(
            "equipoise_loop_stalls_total",
            "Times that the scheduling loop made no progress for two seconds or longer.",
        )
        self.loop_stalled = self._gauge(
            "equipoise_loop_stalled_seconds",
            "How long the scheduling loop has made no progress, if for two seconds or longer; "
            "else 0. At watchdog.stallSeconds the process exits.",
        )
        self.memory_returned = self._counter(
            "equipoise_memory_returned_bytes_total",
            "Unused memory of the allocator that was returned to the kernel, in bytes.",
        )
        self.recording_bytes = self._counter(
            "equipoise_recording_bytes_total",
            "Bytes that were written to the recording, compressed.",
        )
        self.recording_dropped = self._counter(
            "equipoise_recording_dropped_entries_total",
            "Entries that were not recorded, because the disk was full or slow.",
        )
        self.gc_pause = self._histogram(
            "equipoise_gc_pause_seconds",
            "Pauses caused by the garbage collector, in seconds.",
            ("generation",),
            buckets=PAUSE_BUCKETS,
        )

    def _add_numa(self) -> None:
        self.admission_errors = self._counter(
            "equipoise_pod_admission_errors_total",
            "Pods that a kubelet rejected after this scheduler had bound them, by its reason "
            "(OutOfOther: a resource other than cpu, memory, pods and ephemeral storage) and by "
            "node.",
            ("reason", "node"),
        )
        self.numa_dirty_nodes = self._gauge(
            "equipoise_numa_dirty_nodes",
            "Nodes with added or removed pods that their NodeResourceTopology does not "
            "reflect yet.",
        )
        self.numa_doubtful_cells = self._gauge(
            "equipoise_numa_doubtful_cells",
            "NUMA cells whose free capacity is not fully used, because unconfirmed pods may be "
            "there.",
        )
        self.numa_comparisons = self._counter(
            "equipoise_numa_comparisons_total",
            "Comparisons of a published pod fingerprint with the pods known on the node: "
            "'settled' if they match, else 'mismatch'.",
            ("result",),
        )
        self.numa_dirty_duration = self._histogram(
            "equipoise_numa_dirty_duration_seconds",
            "Time from the first pod that was added or removed until a published fingerprint "
            "matched, in seconds.",
            buckets=DIRTY_BUCKETS,
        )

    def _add_webhooks(self) -> None:
        self.webhook_duration = self._histogram(
            "equipoise_webhook_duration_seconds",
            "Time of one call of a webhook or an extender, with its retries and its wait for a "
            "free slot, in seconds; by result: 'success', or why there was no valid response.",
            ("webhook", "point", "result"),
            buckets=CYCLE_BUCKETS,
        )
        self.webhook_in_flight = self._gauge(
            "equipoise_webhook_in_flight", "Calls of a webhook that are in progress.", ("webhook",)
        )
        self.webhook_retries = self._counter(
            "equipoise_webhook_retries_total",
            "Calls of a webhook that were retried after a failure.",
            ("webhook",),
        )
        self.webhook_breaker_state = self._gauge(
            "equipoise_webhook_breaker_state",
            "State of the circuit breaker: 0 closed, 1 half-open (one call is tried), 2 open (no "
            "calls are sent, after too many consecutive failures).",
            ("webhook",),
        )
        self.webhook_suspended_pods = self._gauge(
            "equipoise_webhook_suspended_pods",
            "Pods whose attempt waits for a response of a webhook or an extender.",
        )
        self.webhook_postponed_pods = self._counter(
            "equipoise_webhook_postponed_pods_total",
            "Pods that were requeued because maxSuspendedPods were already suspended.",
        )

    def _add_gangs(self) -> None:
        self.gang_groups = self._gauge(
            "equipoise_gang_groups",
            "PodGroups by the phase in their status.",
            ("phase",),
        )
        self.gang_passes = self._counter(
            "equipoise_gang_passes_total",
            "Attempts to place a gang, by result: 'placed' if enough members found nodes, "
            "'waiting' if some members do not exist yet, 'unplaced' if the pass was reverted, "
            "'asking' if it is repeated after a response of a webhook, 'refused' if no member was "
            "attempted, 'error' if the scheduler itself failed.",
            ("result",),
        )
        self.gang_pass_duration = self._histogram(
            "equipoise_gang_pass_duration_seconds",
            "Time of an attempt to place a gang, while no other pod is attempted, in seconds.",
            buckets=CYCLE_BUCKETS,
        )
        self.gang_pods_waiting = self._gauge(
            "equipoise_gang_pods_waiting",
            "Pods that have a node reserved and wait for members of their gang that do not exist "
            "yet.",
        )
        self.gang_placement_duration = self._histogram(
            "equipoise_gang_placement_duration_seconds",
            "Time from when enough members of a gang existed until all of them had nodes, in "
            "seconds.",
            buckets=GANG_BUCKETS,
        )

    def _counter(self, name: str, text: str, labels: Labels = ()) -> Counter:
        return self._registered(Counter(name, text, labels))

    def _gauge(self, name: str, text: str, labels: Labels = ()) -> Gauge:
        return self._registered(Gauge(name, text, labels))

    def _histogram(
        self, name: str, text: str, labels: Labels = (), *, buckets: Sequence[float]
    ) -> Histogram:
        return self._registered(Histogram(name, text, labels, buckets=buckets))

    def _registered(self, instrument: M) -> M:
        self.registry.register(instrument)
        return instrument
