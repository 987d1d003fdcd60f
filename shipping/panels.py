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
            "Anything but success is a failure; the runbook of the alert explains the words.",
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
            "With its retries and its wait for a free slot; by webhook and extension point.",
            quantiles(_CALLS, "webhook, point", of=(0.99,)),
            unit="s",
            empty_until=_NEVER,
        ),
        Panel(
            "Calls in flight, and repeated",
            "How many are under way, and how many a second are made again after a failure.",
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
            "0: calls are made. 1: one call tries. 2: nothing is sent after too many failures.",
            (
                Query(
                    f"max by (webhook) (equipoise_webhook_breaker_state{{{HERE}}})", "{{webhook}}"
                ),
            ),
            empty_until=_NEVER,
        ),
        Panel(
            "Suspended pods",
            "Pods whose attempt waits for an answer, and pods put back because too many do.",
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
            "PodGroups; those in Scheduling have enough members and not enough room.",
            (Query(f"sum by (phase) (equipoise_gang_groups{{{HERE}}} {LEADING})", "{{phase}}"),),
            empty_until="there are PodGroups",
        ),
        Panel(
            "Passes by result",
            "Attempts to place a gang; unplaced ones were undone as a whole.",
            (Query(f"sum by (result) ({rate('equipoise_gang_passes_total')})", "{{result}}"),),
            unit="ops",
            empty_until="there are PodGroups",
        ),
        Panel(
            "Time until whole",
            "From when enough members existed until all of them had nodes.",
            quantiles("equipoise_gang_placement_duration_seconds"),
            unit="s",
            empty_until="there are PodGroups",
        ),
        Panel(
            "Time of a pass, p99",
            "Nothing else is done meanwhile: large gangs of pods that differ make others wait.",
            quantiles("equipoise_gang_pass_duration_seconds", of=(0.99,)),
            unit="s",
            empty_until="there are PodGroups",
        ),
        Panel(
            "Pods that wait for members",
            "They hold nodes, for as long as their group's scheduleTimeoutSeconds says.",
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
            "Solved at once; uncontended and greedy: one by one was as good; nowhere: none took "
            "part; failed: the solver did.",
            (Query(f"sum by (result) ({rate('equipoise_batch_tiers_total')})", "{{result}}"),),
            unit="ops",
            empty_until="batch.enabled is true and a backlog comes",
        ),
        Panel(
            "Pods of backlogs",
            "Placed at once, or left to the normal cycle.",
            (Query(f"sum by (outcome) ({rate('equipoise_batch_pods_total')})", "{{outcome}}"),),
            unit="ops",
            empty_until="batch.enabled is true and a backlog comes",
        ),
        Panel(
            "Time to solve",
            "From posing a problem to its solution.",
            quantiles("equipoise_batch_solve_duration_seconds"),
            unit="s",
            empty_until="batch.enabled is true and pods contend",
        ),
        Panel(
            "Time to compare",
            "Trying a solution and one by one, to keep the better; batch.compare: false saves it.",
            quantiles("equipoise_batch_compare_duration_seconds"),
            unit="s",
            empty_until="batch.enabled is true and pods contend",
        ),
        Panel(
            "Arcs of the last network",
            "Between classes of pods, domains and nodes.",
            (Query(f"max(equipoise_batch_arcs{{{HERE}}})", "arcs"),),
        ),
        Panel(
            "Refused placements, rounds",
            "What filters did not confirm of what the solver proposed, and problems solved.",
            (
                Query(f"sum({rate('equipoise_batch_refused_total')})", "refused/s"),
                Query(f"sum({rate('equipoise_batch_rounds_total')})", "rounds/s"),
            ),
            unit="ops",
        ),
        Panel(
            "Pods that took no part",
            "By reason; they take the normal cycle.",
            (
                Query(
                    f"sum by (reason) ({rate('equipoise_batch_excluded_pods_total')})",
                    "{{reason}}",
                ),
            ),
            unit="ops",
            empty_until="a pod with volumes to bind, claims or the like is in a backlog",
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
            empty_until="the solver fails, which it should not",
        ),
    ),
    folded=True,
)


OVERVIEW = Row(
    "Overview",
    (
        Panel(
            "Leader",
            "The replica that schedules; the others keep their caches warm.",
            (Query(f"leader_election_master_status{{{HERE}}} == 1", "{{instance}}"),),
            kind="stat",
            text="name",
            width=5,
            height=4,
            empty_until="leader election is on and a replica leads",
        ),
        Panel(
            "Replicas",
            "Replicas that answer, and the versions they run.",
            (Query(f"sum by (version) (equipoise_build_info{{{HERE}}})", "{{version}}"),),
            kind="stat",
            width=3,
            height=4,
        ),
        Panel(
            "Pods scheduled",
            "Pods that got a node, each second.",
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
            "From a pod's arrival in the queue until it is scheduled, over all its attempts.",
            quantiles("scheduler_pod_scheduling_sli_duration_seconds", of=(0.99,)),
            unit="s",
            kind="stat",
            width=4,
            height=4,
            red_from=5,
        ),
        Panel(
            "Event loop lag, p99",
            "How late the one thread that decides gets to what is due.",
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
            "Active is next, backoff waits for its time, unschedulable was tried in vain, gated "
            "was never tried.",
            (Query(f"sum by (queue) (scheduler_pending_pods{{{HERE}}} {LEADING})", "{{queue}}"),),
            stacked=True,
        ),
        Panel(
            "Why pods wait",
            "Unschedulable pods by the plugin that rejected them; a pod counts for each of them.",
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
            "By tier and by the event that moved them; a flood here wakes pods in vain.",
            (
                Query(
                    f"sum by (queue, event) ({rate('scheduler_queue_incoming_pods_total')})",
                    "{{queue}}: {{event}}",
                ),
            ),
            unit="ops",
        ),
        Panel(
            "Attempts a pod needs",
            "How often a pod was tried until it was scheduled.",
            quantiles("scheduler_pod_scheduling_attempts", of=(0.5, 0.99)),
        ),
        Panel(
            "Scheduled after a timeout",
            "Pods that no event woke although they fitted: each shows that an event is missing.",
            (Query(f"sum({rate('scheduler_pod_scheduled_after_flush_total')})", "pods/s"),),
            unit="ops",
        ),
        Panel(
            "Attempts spared",
            "Pods that an event woke and that went back without an attempt, because others had "
            "taken the room; and pods woken without asking hints, because too many were waiting "
            "to be asked.",
            (
                Query(f"sum({rate('equipoise_attempts_spared_total')})", "attempts spared/s"),
                Query(f"sum({rate('equipoise_queueing_hints_skipped_total')})", "hints skipped/s"),
            ),
            unit="ops",
            empty_until="pods wake and find the room taken, or hints are skipped",
        ),
        Panel(
            "Decisions not written",
            "Decisions that no longer held when they were about to be written, by cause, and pods "
            "put back because bindings of their namespace hang.",
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
            "Pods that other schedulers bound, and bindings of ours that waited because a node "
            "kept room for more of them, by outcome.",
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
            "Attempts to evict pods of lower priority for a pod, and how many victims each chose.",
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
            "From pop to the end of binding, by result.",
            quantiles("scheduler_scheduling_attempt_duration_seconds", "result", PROFILE, (0.99,)),
            unit="s",
        ),
        Panel(
            "Time to choose a node",
            "Filters, scores and the choice, without binding.",
            quantiles("scheduler_scheduling_algorithm_duration_seconds"),
            unit="s",
        ),
        Panel(
            "Extension points, p99",
            "All plugins of a point together.",
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
            "Pods that a permit plugin held back, by how it ended.",
            quantiles("scheduler_permit_wait_duration_seconds", "result", of=(0.99,)),
            unit="s",
            empty_until="a permit plugin makes a pod wait",
        ),
        Panel(
            "Pods that wait for a permit",
            "They hold nodes. 'plugins' in the process have them wait, or a webhook or the rest of"
            " their gang 'outside' it; decisions from outside, per minute.",
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
            "Taking in events, p99",
            "Time to bring one event of the cluster into the columns and the queue.",
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
            "Scheduled, unschedulable (no node fits) or error (the scheduler failed).",
            (Query(f"sum by (result) ({rate(ATTEMPTS, PROFILE)})", "{{result}}"),),
            unit="ops",
        ),
        Panel(
            "Bindings under way",
            "Concurrent tasks by the work they do.",
            (Query(f"sum by (operation) (scheduler_goroutines{{{HERE}}})", "{{operation}}"),),
        ),
        Panel(
            "Errors of plugins",
            "Exceptions and answers they must not give; at PreScore and Score each cost nodes that "
            "score, elsewhere one pod one attempt.",
            (
                Query(
                    f"sum by (plugin, extension_point) ({rate('equipoise_plugin_errors_total')})",
                    "{{plugin}} {{extension_point}}",
                ),
            ),
            unit="ops",
            empty_until="a plugin raises an exception, which none should",
        ),
        Panel(
            "Slow plugins",
            "Answers of plugins of your own that kept all scheduling waiting for longer than "
            "plugins.slowAfter.",
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
            "Pods with lists longer than `limits` allows: waiting ones are not placed, placed ones "
            "count in part only. Their conditions and the log name the fields.",
            (
                Query(
                    f"sum by (state) ({rate('equipoise_pods_over_limits_total')})",
                    "{{state}}",
                ),
            ),
            unit="ops",
            empty_until="a pod is beyond a limit",
        ),
    ),
)

EQUIVALENCE = Row(
    "Equivalence cache",
    (
        Panel(
            "Hit rate",
            "Share of verdicts that were kept and still held.",
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
            "What made verdicts stale",
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
            "Classes of equal pods, and the columns of verdicts kept for them.",
            (
                Query(f"sum(equipoise_equivalence_classes{{{HERE}}} {LEADING})", "classes"),
                Query(f"sum(equipoise_equivalence_columns{{{HERE}}} {LEADING})", "columns"),
            ),
        ),
        Panel(
            "Memory of kept verdicts",
            "Those not used for longest go first when the budget is spent.",
            (Query(f"equipoise_equivalence_bytes{{{HERE}}}", "{{instance}}"),),
            unit="bytes",
        ),
        Panel(
            "Evictions",
            "Classes that lost what was kept for them; many of them mean the budget is too small.",
            (Query(f"sum({rate('equipoise_equivalence_evictions_total')})", "classes/s"),),
            unit="ops",
        ),
    ),
)

NUMA = Row(
    "NUMA",
    (
        Panel(
            "Pods refused by kubelets",
            "Our pods that a kubelet did not take, by reason; there should be none.",
            (
                Query(
                    f"sum by (reason) (increase(equipoise_pod_admission_errors_total{{{HERE}}}"
                    "[$__rate_interval]))",
                    "{{reason}}",
                ),
            ),
            empty_until="a kubelet refuses a pod",
        ),
        Panel(
            "Nodes not settled",
            "Nodes on which pods came or went that their NodeResourceTopology has not told about.",
            (Query(f"sum(equipoise_numa_dirty_nodes{{{HERE}}} {LEADING})", "nodes"),),
        ),
        Panel(
            "Doubtful cells",
            "Cells of which less is counted on than may be free, because unsettled pods might be "
            "there.",
            (Query(f"sum(equipoise_numa_doubtful_cells{{{HERE}}} {LEADING})", "cells"),),
        ),
        Panel(
            "Fingerprints compared",
            "Settled: the published pods are those known here. Mismatch: one side is ahead.",
            (Query(f"sum by (result) ({rate('equipoise_numa_comparisons_total')})", "{{result}}"),),
            unit="ops",
            empty_until="nodes publish pod fingerprints",
        ),
        Panel(
            "Time until settled",
            "From the first pod that came or went until the node was settled.",
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
            "Rejected by DynamicResources: no node has the devices that they ask for.",
            (
                Query(
                    f'sum(scheduler_unschedulable_pods{{{PROFILE},plugin="DynamicResources"}} '
                    f"{LEADING})",
                    "pods",
                ),
            ),
            empty_until="a pod was rejected for want of devices",
        ),
        Panel(
            "Claims made for extended resources",
            "By the scheduler itself, for pods that ask without a claim.",
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
            "Drivers report binding conditions; until then the pod is not bound.",
            quantiles(f"{_CONDITIONS}_wait_duration_seconds", "driver", of=(0.99,)),
            unit="s",
            empty_until=_ONE_WAITED,
        ),
        Panel(
            "Allocations with binding conditions",
            "By driver and outcome; anything but success sends the pod back to the queue.",
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
            "Answers of the API server; <error> is no answer.",
            (Query(f"sum by (code) ({rate('rest_client_requests_total')})", "{{code}}"),),
            unit="reqps",
        ),
        Panel(
            "Request latency, p99",
            "By method; watches do not count.",
            quantiles("rest_client_request_duration_seconds", "verb", of=(0.99,)),
            unit="s",
        ),
        Panel(
            "Watches started again",
            "By kind and reason; a few each hour are normal.",
            (
                Query(
                    f"sum by (kind, reason) ({rate('equipoise_watch_restarts_total')})",
                    "{{kind}} {{reason}}",
                ),
            ),
            unit="ops",
            empty_until="a watch ends, some minutes after the start",
        ),
        Panel(
            "Age of watches",
            "Time since the last event, bookmark or list; a bookmark comes about once a minute.",
            (Query(f"max by (kind) (equipoise_watch_age_seconds{{{HERE}}})", "{{kind}}"),),
            unit="s",
        ),
        Panel(
            "Decoding watch events, p99",
            "One chunk of the stream.",
            quantiles("equipoise_watch_decode_seconds", of=(0.99,)),
            unit="s",
        ),
        Panel(
            "Objects that did not decode",
            "Skipped, and therefore unknown to the scheduler.",
            (Query(f"sum by (kind) ({rate('equipoise_watch_decode_errors_total')})", "{{kind}}"),),
            unit="ops",
            empty_until="an object cannot be read, which none should",
        ),
        Panel(
            "Events dropped",
            "Events (the Kubernetes kind) that were not written.",
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
            "How late a timer ran; synchronous work should yield every 5 ms.",
            quantiles("equipoise_event_loop_lag_seconds"),
            unit="s",
        ),
        Panel(
            "Scheduling stands still",
            "For how long the scheduling loop has made no progress; watchdog.stallSeconds end it.",
            (Query(f"equipoise_loop_stalled_seconds{{{HERE}}}", "{{instance}}"),),
            unit="s",
        ),
        Panel(
            "Callers not served",
            "Connections and answers that were cut, by reason.",
            (Query(f"sum by (reason) ({rate('equipoise_serving_dropped_total')})", "{{reason}}"),),
            unit="reqps",
            empty_until="a client is too slow, or too many connect at once",
        ),
        Panel(
            "Recording",
            "Bytes written for replay, and entries that are missing because the disk was slow or "
            "full.",
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
            empty_until="the collector runs, which it seldom does",
        ),
        Panel(
            "CPU",
            "Cores in use; one thread decides, so one core is the most that helps.",
            (Query(rate("process_cpu_seconds_total"), "{{instance}}"),),
            unit="short",
        ),
        Panel(
            "Memory",
            "Resident set.",
            (Query(f"process_resident_memory_bytes{{{HERE}}}", "{{instance}}"),),
            unit="bytes",
        ),
        Panel(
            "Memory by cache",
            "What caches, indexes and queues hold, and the JSON of watched objects; the largest.",
            (
                Query(
                    f"topk(10, max by (cache) (equipoise_cache_bytes{{{HERE}}}))",
                    "{{cache}}",
                ),
            ),
            unit="bytes",
        ),
        Panel(
            "Entries that made room",
            "Evictions by cache; many of them mean that something is computed over and over.",
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
            "Nodes, pods and pods assumed to be bound.",
            (Query(f"max by (type) (scheduler_cache_size{{{HERE}}})", "{{type}}"),),
        ),
        Panel(
            "Cache mismatches",
            "Differences from the API server that comparisons found and repaired.",
            (
                Query(
                    f"sum by (kind) (equipoise_cache_mismatches_total{{{HERE}}})",
                    "{{kind}}",
                ),
            ),
        ),
        Panel(
            "Oldest assumed pod",
            "For how long a binding has waited for its answer, and one that was answered for the "
            "watch to show it.",
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
