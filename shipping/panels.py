"""The panels of the dashboard: what they ask, and when they have nothing to show."""

from shipping.grafana import Panel, Query, Row

HERE = 'job=~"$job",instance=~"$instance"'
PROFILE = f'{HERE},profile=~"$profile"'
ATTEMPTS = "scheduler_schedule_attempts_total"
SCHEDULED = f'{PROFILE},result="scheduled"'
# A standby fills the same queue and schedules nothing from it: only the leader's counts.
LEADING = 'unless on (job, instance) (leader_election_master_status{job=~"$job"} == 0)'


def rate(metric: str, selector: str = HERE) -> str:
    """How much a counter grows each second."""
    return f"rate({metric}{{{selector}}}[$__rate_interval])"


def quantiles(
    metric: str, by: str = "", selector: str = HERE, of: tuple[float, ...] = (0.5, 0.9, 0.99)
) -> tuple[Query, ...]:
    """Quantiles of a histogram over all instances, one series for each value of `by`."""
    labels = f"le, {by}" if by else "le"
    buckets = f"sum by ({labels}) ({rate(f'{metric}_bucket', selector)})"
    return tuple(
        Query(
            f"histogram_quantile({q}, {buckets})",
            f"p{q * 100:g} {{{{{by}}}}}" if by else f"p{q * 100:g}",
        )
        for q in of
    )


_CALLS = "equipoise_webhook_duration_seconds"
_NEVER = "a webhook or an extender is configured"

WEBHOOKS = Row(
    "Webhooks and extenders",
    (
        Panel(
            "Calls by result",
            "Every result but success is a failure; the runbook of the alert explains them.",
            (
                Query(
                    f"sum by (webhook, result) ({rate(f'{_CALLS}_count')})",
                    "{{webhook}}: {{result}}",
                ),
            ),
            unit="ops",
            empty_until=_NEVER,
        ),
        Panel(
            "Time of a call, p99",
            "Including retries and the wait for a free slot, by webhook and extension point.",
            quantiles(_CALLS, "webhook, point", of=(0.99,)),
            unit="s",
            empty_until=_NEVER,
        ),
        Panel(
            "Calls in flight, and retries",
            "Concurrent calls, and retries per second after failures.",
            (
                Query(
                    f"sum by (webhook) (equipoise_webhook_in_flight{{{HERE}}})",
                    "{{webhook}} in flight",
                ),
                Query(
                    f"sum by (webhook) ({rate('equipoise_webhook_retries_total')})",
                    "{{webhook}} repeated",
                ),
            ),
            empty_until=_NEVER,
        ),
        Panel(
            "Circuit breakers",
            "0: closed. 1: half-open, one call is tried. 2: open after too many failures, no "
            "calls are sent.",
            (
                Query(
                    f"max by (webhook) (equipoise_webhook_breaker_state{{{HERE}}})", "{{webhook}}"
                ),
            ),
            empty_until=_NEVER,
        ),
        Panel(
            "Suspended pods",
            "Pods whose attempt waits for a response, and pods that were requeued because too "
            "many are suspended.",
            (
                Query(f"sum(equipoise_webhook_suspended_pods{{{HERE}}})", "suspended"),
                Query(f"sum({rate('equipoise_webhook_postponed_pods_total')})", "put back/s"),
            ),
        ),
    ),
    folded=True,
)


GANGS = Row(
    "Gangs",
    (
        Panel(
            "Groups by phase",
            "PodGroups by phase; those in Scheduling have enough members but do not fit.",
            (Query(f"sum by (phase) (equipoise_gang_groups{{{HERE}}} {LEADING})", "{{phase}}"),),
            empty_until="there are PodGroups",
        ),
        Panel(
            "Passes by result",
            "Attempts to place a gang; unplaced passes were reverted completely.",
            (Query(f"sum by (result) ({rate('equipoise_gang_passes_total')})", "{{result}}"),),
            unit="ops",
            empty_until="there are PodGroups",
        ),
        Panel(
            "Time to schedule a gang",
            "From when enough members existed until all of them had nodes.",
            quantiles("equipoise_gang_placement_duration_seconds"),
            unit="s",
            empty_until="there are PodGroups",
        ),
        Panel(
            "Time of a pass, p99",
            "No other pod is attempted during a pass. Passes of large gangs with different pods "
            "take longest.",
            quantiles("equipoise_gang_pass_duration_seconds", of=(0.99,)),
            unit="s",
            empty_until="there are PodGroups",
        ),
        Panel(
            "Pods that wait for members",
            "These pods hold nodes, for at most scheduleTimeoutSeconds of their PodGroup.",
            (Query(f"sum(equipoise_gang_pods_waiting{{{HERE}}} {LEADING})", "pods"),),
        ),
    ),
    folded=True,
)


BATCH = Row(
    "Batches",
    (
        Panel(
            "Backlogs by result",
            "solved: placed as a batch. uncontended, greedy: one by one was as good. nowhere: no "
            "pod could take part. failed: the solver failed.",
            (Query(f"sum by (result) ({rate('equipoise_batch_tiers_total')})", "{{result}}"),),
            unit="ops",
            empty_until="batch.enabled is true and there is a backlog",
        ),
        Panel(
            "Pods of backlogs",
            "Placed as a batch, or left to be placed one by one.",
            (Query(f"sum by (outcome) ({rate('equipoise_batch_pods_total')})", "{{outcome}}"),),
            unit="ops",
            empty_until="batch.enabled is true and there is a backlog",
        ),
        Panel(
            "Time to solve",
            "From building a problem to its solution.",
            quantiles("equipoise_batch_solve_duration_seconds"),
            unit="s",
            empty_until="batch.enabled is true and pods compete for nodes",
        ),
        Panel(
            "Time to compare",
            "Time to try the solution and one by one, to keep the better of the two; "
            "batch.compare: false saves it.",
            quantiles("equipoise_batch_compare_duration_seconds"),
            unit="s",
            empty_until="batch.enabled is true and pods compete for nodes",
        ),
        Panel(
            "Arcs of the last network",
            "Between classes of pods, domains and nodes.",
            (Query(f"max(equipoise_batch_arcs{{{HERE}}})", "arcs"),),
        ),
        Panel(
            "Refused placements, rounds",
            "Placements proposed by the solver that filters rejected, and problems solved.",
            (
                Query(f"sum({rate('equipoise_batch_refused_total')})", "refused/s"),
                Query(f"sum({rate('equipoise_batch_rounds_total')})", "rounds/s"),
            ),
            unit="ops",
        ),
        Panel(
            "Pods left out of batches",
            "By reason; they are placed one by one.",
            (
                Query(
                    f"sum by (reason) ({rate('equipoise_batch_excluded_pods_total')})",
                    "{{reason}}",
                ),
            ),
            unit="ops",
            empty_until="a backlog has pods with volumes to bind, claims or the like",
        ),
        Panel(
            "Solver failures",
            "By reason; pods are then placed one by one.",
            (
                Query(
                    f"sum by (reason) ({rate('equipoise_batch_solver_failures_total')})",
                    "{{reason}}",
                ),
            ),
            unit="ops",
            empty_until="batch.enabled is true",
        ),
    ),
    folded=True,
)


OVERVIEW = Row(
    "Overview",
    (
        Panel(
            "Leader",
            "The replica that schedules.",
            (Query(f"leader_election_master_status{{{HERE}}} == 1", "{{instance}}"),),
            kind="stat",
            text="name",
            width=5,
            height=4,
            empty_until="leader election is on and a replica leads",
        ),
        Panel(
            "Replicas",
            "Replicas that respond, by version.",
            (Query(f"sum by (version) (equipoise_build_info{{{HERE}}})", "{{version}}"),),
            kind="stat",
            width=3,
            height=4,
        ),
        Panel(
            "Pods scheduled",
            "Pods placed per second.",
            (Query(f"sum({rate(ATTEMPTS, SCHEDULED)})", "pods/s"),),
            unit="ops",
            kind="stat",
            width=4,
            height=4,
        ),
        Panel(
            "Pods waiting",
            "Pods in all tiers of the leader's queue.",
            (Query(f"sum(scheduler_pending_pods{{{HERE}}} {LEADING})", "pods"),),
            kind="stat",
            width=4,
            height=4,
        ),
        Panel(
            "Time to a node, p99",
            "From a pod's arrival in the queue until it is scheduled, over all attempts.",
            quantiles("scheduler_pod_scheduling_sli_duration_seconds", of=(0.99,)),
            unit="s",
            kind="stat",
            width=4,
            height=4,
            red_from=5,
        ),
        Panel(
            "Event loop lag, p99",
            "How late timers of the scheduling thread run.",
            quantiles("equipoise_event_loop_lag_seconds", of=(0.99,)),
            unit="s",
            kind="stat",
            width=4,
            height=4,
            red_from=0.5,
        ),
    ),
)

QUEUE = Row(
    "Queue",
    (
        Panel(
            "Waiting pods by tier",
            "active: scheduled next. backoff: wait for the end of their back-off. unschedulable: "
            "no node fits. gated: rejected by PreEnqueue, not attempted.",
            (Query(f"sum by (queue) (scheduler_pending_pods{{{HERE}}} {LEADING})", "{{queue}}"),),
            stacked=True,
        ),
        Panel(
            "Why pods wait",
            "Unschedulable pods by the plugin that rejected them; a pod counts for each plugin.",
            (
                Query(
                    f"sum by (plugin) (scheduler_unschedulable_pods{{{PROFILE}}} {LEADING})",
                    "{{plugin}}",
                ),
            ),
            empty_until="a pod was unschedulable",
        ),
        Panel(
            "Pods entering the queue",
            "By tier and by the event that moved them; a high rate may mean needless attempts.",
            (
                Query(
                    f"sum by (queue, event) ({rate('scheduler_queue_incoming_pods_total')})",
                    "{{queue}}: {{event}}",
                ),
            ),
            unit="ops",
        ),
        Panel(
            "Attempts per pod",
            "Attempts until a pod is scheduled.",
            quantiles("scheduler_pod_scheduling_attempts", of=(0.5, 0.99)),
        ),
        Panel(
            "Scheduled after a timeout",
            "Pods that fitted although no event requeued them: each means that a queueing hint is "
            "missing.",
            (Query(f"sum({rate('scheduler_pod_scheduled_after_flush_total')})", "pods/s"),),
            unit="ops",
        ),
        Panel(
            "Attempts avoided",
            "Requeued pods that were not attempted, because other pods had taken the free "
            "capacity; and pods requeued without a call of their hint, because too many calls "
            "were deferred.",
            (
                Query(f"sum({rate('equipoise_attempts_spared_total')})", "attempts spared/s"),
                Query(f"sum({rate('equipoise_queueing_hints_skipped_total')})", "hints skipped/s"),
            ),
            unit="ops",
            empty_until="requeued pods find the capacity taken, or hints are skipped",
        ),
        Panel(
            "Decisions not written",
            "Decisions that no longer held before they were written, by cause, and pods requeued "
            "because their namespace has too many bindings in progress.",
            (
                Query(
                    f"sum by (cause) ({rate('equipoise_decisions_outdated_total')})", "{{cause}}"
                ),
                Query(f"sum({rate('equipoise_bindings_postponed_total')})", "namespace hangs"),
            ),
            unit="ops",
            empty_until="the cluster changes while a decision waits to be written",
        ),
        Panel(
            "Beside other schedulers",
            "Pods that other schedulers bound, and bindings that waited because a node kept "
            "headroom for such pods, by outcome.",
            (
                Query(f"sum({rate('equipoise_pods_bound_by_others_total')})", "bound by others"),
                Query(
                    f"sum by (outcome) ({rate('equipoise_headroom_waits_total')})",
                    "waited: {{outcome}}",
                ),
            ),
            unit="ops",
            empty_until="another scheduler binds a pod",
        ),
        Panel(
            "Preemption",
            "Preemption attempts, and victims.",
            (
                Query(f"sum({rate('scheduler_preemption_attempts_total')})", "attempts/s"),
                Query(f"sum({rate('scheduler_preemption_victims_sum')})", "victims/s"),
            ),
            unit="ops",
        ),
    ),
)

LATENCY = Row(
    "Latency",
    (
        Panel(
            "Time to a node",
            "From a pod's arrival in the queue until it is scheduled.",
            quantiles("scheduler_pod_scheduling_sli_duration_seconds"),
            unit="s",
        ),
        Panel(
            "Time of an attempt, p99",
            "From popping a pod to the end of binding, by result.",
            quantiles("scheduler_scheduling_attempt_duration_seconds", "result", PROFILE, (0.99,)),
            unit="s",
        ),
        Panel(
            "Time to choose a node",
            "Filters, scores and selection, without binding.",
            quantiles("scheduler_scheduling_algorithm_duration_seconds"),
            unit="s",
        ),
        Panel(
            "Extension points, p99",
            "All plugins of an extension point together.",
            quantiles(
                "scheduler_framework_extension_point_duration_seconds",
                "extension_point",
                PROFILE,
                (0.99,),
            ),
            unit="s",
        ),
        Panel(
            "Waiting for a permit, p99",
            "How long pods waited at Permit, by result.",
            quantiles("scheduler_permit_wait_duration_seconds", "result", of=(0.99,)),
            unit="s",
            empty_until="a permit plugin makes a pod wait",
        ),
        Panel(
            "Pods that wait for a permit",
            "Pods that hold a node and wait at Permit, for 'plugins' of the scheduler, or "
            "'outside' it for a webhook or members of their gang; approvals and rejections by "
            "users, per minute.",
            (
                Query(f"sum by (held_by) (equipoise_waiting_pods{{{HERE}}})", "{{held_by}}"),
                Query(
                    "sum by (decision) "
                    f"(rate(equipoise_permit_decisions_total{{{HERE}}}[5m])) * 60",
                    "{{decision}}",
                ),
            ),
            empty_until="a user approves or rejects a pod that waits",
        ),
        Panel(
            "Handling watch events, p99",
            "Time to apply one watch event to the cache and the queue.",
            quantiles("scheduler_event_handling_duration_seconds", "event", of=(0.99,)),
            unit="s",
        ),
    ),
)

THROUGHPUT = Row(
    "Throughput",
    (
        Panel(
            "Attempts by result",
            "scheduled, unschedulable (no node fits) or error (the attempt failed).",
            (Query(f"sum by (result) ({rate(ATTEMPTS, PROFILE)})", "{{result}}"),),
            unit="ops",
        ),
        Panel(
            "Bindings in progress",
            "Concurrent tasks by operation.",
            (Query(f"sum by (operation) (scheduler_goroutines{{{HERE}}})", "{{operation}}"),),
        ),
        Panel(
            "Errors of plugins",
            "Exceptions and invalid return values. At PreScore and Score, nodes lose these "
            "scores; elsewhere the attempt fails.",
            (
                Query(
                    f"sum by (plugin, extension_point) ({rate('equipoise_plugin_errors_total')})",
                    "{{plugin}} {{extension_point}}",
                ),
            ),
            unit="ops",
            empty_until="a plugin raises an exception",
        ),
        Panel(
            "Slow plugins",
            "Calls of external plugins that took longer than plugins.slowAfter. No pod is "
            "scheduled meanwhile.",
            (
                Query(
                    "sum by (plugin, extension_point) "
                    f"({rate('equipoise_plugin_slow_calls_total')})",
                    "{{plugin}} {{extension_point}}",
                ),
            ),
            unit="ops",
            empty_until="a plugin of your own is slow",
        ),
        Panel(
            "Pods beyond limits",
            "Pods that exceed `limits`: pending ones are not placed, those on nodes count only in "
            "part. Their conditions and the log name the fields.",
            (
                Query(
                    f"sum by (state) ({rate('equipoise_pods_over_limits_total')})",
                    "{{state}}",
                ),
            ),
            unit="ops",
            empty_until="a pod exceeds a limit",
        ),
    ),
)

EQUIVALENCE = Row(
    "Equivalence cache",
    (
        Panel(
            "Hit rate",
            "Share of results that were cached and still valid.",
            (
                Query(
                    f"sum({rate('equipoise_equivalence_hits_total')}) / "
                    f"(sum({rate('equipoise_equivalence_hits_total')}) + "
                    f"sum({rate('equipoise_equivalence_misses_total')}))",
                    "hits",
                ),
            ),
            unit="percentunit",
        ),
        Panel(
            "Invalidations",
            "Changes of nodes by the aspect that changed.",
            (
                Query(
                    f"sum by (aspect) ({rate('equipoise_equivalence_changes_total')})",
                    "{{aspect}}",
                ),
            ),
            unit="ops",
        ),
        Panel(
            "Classes and columns",
            "Classes of identical pods, and the columns of results cached for them.",
            (
                Query(f"sum(equipoise_equivalence_classes{{{HERE}}} {LEADING})", "classes"),
                Query(f"sum(equipoise_equivalence_columns{{{HERE}}} {LEADING})", "columns"),
            ),
        ),
        Panel(
            "Memory of cached results",
            "The least recently used are evicted when the budget is exceeded.",
            (Query(f"equipoise_equivalence_bytes{{{HERE}}}", "{{instance}}"),),
            unit="bytes",
        ),
        Panel(
            "Evictions",
            "Classes whose cached results were evicted; many mean that the budget is too small.",
            (Query(f"sum({rate('equipoise_equivalence_evictions_total')})", "classes/s"),),
            unit="ops",
        ),
    ),
)

NUMA = Row(
    "NUMA",
    (
        Panel(
            "Pods rejected by kubelets",
            "Pods of this scheduler that a kubelet rejected, by reason; there should be none.",
            (
                Query(
                    f"sum by (reason) (increase(equipoise_pod_admission_errors_total{{{HERE}}}"
                    "[$__rate_interval]))",
                    "{{reason}}",
                ),
            ),
            empty_until="a kubelet rejects a pod",
        ),
        Panel(
            "Dirty nodes",
            "Nodes with pods that were added or removed since their NodeResourceTopology was last "
            "confirmed.",
            (Query(f"sum(equipoise_numa_dirty_nodes{{{HERE}}} {LEADING})", "nodes"),),
        ),
        Panel(
            "Cells with uncertain capacity",
            "NUMA cells whose free capacity is not fully used, because unconfirmed pods may be "
            "there.",
            (Query(f"sum(equipoise_numa_doubtful_cells{{{HERE}}} {LEADING})", "cells"),),
        ),
        Panel(
            "Fingerprints compared",
            "settled: the published pods are those known to the scheduler. mismatch: they differ.",
            (Query(f"sum by (result) ({rate('equipoise_numa_comparisons_total')})", "{{result}}"),),
            unit="ops",
            empty_until="nodes publish pod fingerprints",
        ),
        Panel(
            "Time until confirmed",
            "From the first pod that was added or removed until a published fingerprint matched.",
            quantiles("equipoise_numa_dirty_duration_seconds"),
            unit="s",
            empty_until="nodes publish pod fingerprints",
        ),
    ),
    folded=True,
)

_CONDITIONS = "scheduler_dra_bindingconditions"
_ONE_WAITED = "a pod has waited for a device to become ready"

DEVICES = Row(
    "Devices",
    (
        Panel(
            "Pods that wait for devices",
            "Pods rejected by DynamicResources: no node has the requested devices.",
            (
                Query(
                    f'sum(scheduler_unschedulable_pods{{{PROFILE},plugin="DynamicResources"}} '
                    f"{LEADING})",
                    "pods",
                ),
            ),
            empty_until="a pod was rejected because of missing devices",
        ),
        Panel(
            "Claims created for extended resources",
            "Created by the scheduler for pods that request devices by an extended resource.",
            (
                Query(
                    f"sum by (status) ({rate('scheduler_resourceclaim_creates_total')})",
                    "{{status}}",
                ),
            ),
            unit="ops",
            empty_until="a pod asked for an extended resource that a DeviceClass serves",
        ),
        Panel(
            "Waiting until devices are ready, p99",
            "Until a driver reports the binding conditions, the pod is not bound.",
            quantiles(f"{_CONDITIONS}_wait_duration_seconds", "driver", of=(0.99,)),
            unit="s",
            empty_until=_ONE_WAITED,
        ),
        Panel(
            "Allocations with binding conditions",
            "By driver and outcome; after any outcome but success the pod is requeued.",
            (
                Query(
                    f"sum by (driver, status) ({rate(f'{_CONDITIONS}_allocations_total')})",
                    "{{driver}}: {{status}}",
                ),
            ),
            unit="ops",
            empty_until=_ONE_WAITED,
        ),
    ),
    folded=True,
)

API = Row(
    "API server",
    (
        Panel(
            "Requests by code",
            "Requests to the API server; <error> means no response.",
            (Query(f"sum by (code) ({rate('rest_client_requests_total')})", "{{code}}"),),
            unit="reqps",
        ),
        Panel(
            "Request latency, p99",
            "By method, without watches.",
            quantiles("rest_client_request_duration_seconds", "verb", of=(0.99,)),
            unit="s",
        ),
        Panel(
            "Watch restarts",
            "By kind and reason; a few per hour are normal.",
            (
                Query(
                    f"sum by (kind, reason) ({rate('equipoise_watch_restarts_total')})",
                    "{{kind}} {{reason}}",
                ),
            ),
            unit="ops",
            empty_until="a watch ends, usually after some minutes",
        ),
        Panel(
            "Age of watches",
            "Time since the last event, bookmark or list; a bookmark arrives about once a minute.",
            (Query(f"max by (kind) (equipoise_watch_age_seconds{{{HERE}}})", "{{kind}}"),),
            unit="s",
        ),
        Panel(
            "Decoding watch events, p99",
            "Time for one chunk of the stream.",
            quantiles("equipoise_watch_decode_seconds", of=(0.99,)),
            unit="s",
        ),
        Panel(
            "Objects that could not be decoded",
            "They are skipped, so the scheduler does not know them.",
            (Query(f"sum by (kind) ({rate('equipoise_watch_decode_errors_total')})", "{{kind}}"),),
            unit="ops",
        ),
        Panel(
            "Events dropped",
            "Kubernetes events that were not written.",
            (Query(f"sum({rate('equipoise_events_dropped_total')})", "events/s"),),
            unit="ops",
        ),
    ),
    folded=True,
)

PROCESS = Row(
    "Process",
    (
        Panel(
            "Event loop lag",
            "How late timers run; synchronous work should yield every 5 ms.",
            quantiles("equipoise_event_loop_lag_seconds"),
            unit="s",
        ),
        Panel(
            "Scheduling loop stalled",
            "How long the scheduling loop has made no progress; the process exits after "
            "watchdog.stallSeconds.",
            (Query(f"equipoise_loop_stalled_seconds{{{HERE}}}", "{{instance}}"),),
            unit="s",
        ),
        Panel(
            "Requests not served",
            "Connections and responses that were closed early, by reason.",
            (Query(f"sum by (reason) ({rate('equipoise_serving_dropped_total')})", "{{reason}}"),),
            unit="reqps",
            empty_until="a client is too slow, or too many connect at once",
        ),
        Panel(
            "Recording",
            "Bytes written for replay, and entries dropped because the disk was slow or full.",
            (
                Query(rate("equipoise_recording_bytes_total"), "bytes"),
                Query(rate("equipoise_recording_dropped_entries_total"), "missing entries"),
            ),
            unit="Bps",
        ),
        Panel(
            "Garbage collection, p99",
            "Pauses by generation.",
            quantiles("equipoise_gc_pause_seconds", "generation", of=(0.99,)),
            unit="s",
            empty_until="the garbage collector runs, which is rare",
        ),
        Panel(
            "CPU",
            "Cores used. Scheduling uses one thread, so at most one core helps.",
            (Query(rate("process_cpu_seconds_total"), "{{instance}}"),),
            unit="short",
        ),
        Panel(
            "Memory",
            "Resident memory.",
            (Query(f"process_resident_memory_bytes{{{HERE}}}", "{{instance}}"),),
            unit="bytes",
        ),
        Panel(
            "Memory by cache",
            "The largest caches, indexes and queues, and the JSON of watched objects.",
            (
                Query(
                    f"topk(10, max by (cache) (equipoise_cache_bytes{{{HERE}}}))",
                    "{{cache}}",
                ),
            ),
            unit="bytes",
        ),
        Panel(
            "Cache evictions",
            "By cache; many mean that results are computed repeatedly.",
            (
                Query(
                    f"sum by (cache) ({rate('equipoise_cache_evictions_total')})",
                    "{{cache}}",
                ),
            ),
            unit="ops",
        ),
        Panel(
            "Cluster as the scheduler sees it",
            "Nodes, pods and assumed pods in the cache.",
            (Query(f"max by (type) (scheduler_cache_size{{{HERE}}})", "{{type}}"),),
        ),
        Panel(
            "Cache mismatches",
            "Differences between cache and API server that were found and repaired.",
            (
                Query(
                    f"sum by (kind) (equipoise_cache_mismatches_total{{{HERE}}})",
                    "{{kind}}",
                ),
            ),
        ),
        Panel(
            "Oldest assumed pod",
            "How long a binding has waited for its response, or for the watch to confirm it.",
            (
                Query(
                    f"max by (state) (equipoise_assumed_pod_oldest_seconds{{{HERE}}})", "{{state}}"
                ),
            ),
            unit="s",
        ),
    ),
    folded=True,
)

_TOGETHER = (GANGS, BATCH)
_MATCHED = (NUMA, DEVICES)
ROWS = (
    *(OVERVIEW, QUEUE, LATENCY, THROUGHPUT, EQUIVALENCE),
    *_MATCHED,
    *_TOGETHER,
    *(WEBHOOKS, API, PROCESS),
)
