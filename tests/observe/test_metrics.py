"""Names, types, labels and buckets of the metrics, against kube-scheduler's table."""

from typing import Any, NamedTuple

import pytest
from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families

from scheduler.observe.instruments import Counter, Gauge, Histogram, Instrument
from scheduler.observe.metrics import Children, Metrics, attempts_label, exponential_buckets


class Row(NamedTuple):
    """One metric as it is declared in Kubernetes' source."""

    attribute: str
    name: str
    kind: type[Instrument[Any]]
    labels: tuple[str, ...] = ()
    first: float = 0.0
    factor: float = 0.0
    buckets: int = 0


KUBE_SCHEDULER = [
    # stable
    Row("schedule_attempts", "scheduler_schedule_attempts_total", Counter, ("result", "profile")),
    Row(
        "scheduling_attempt_duration",
        "scheduler_scheduling_attempt_duration_seconds",
        *(Histogram, ("result", "profile"), 0.001, 2, 15),
    ),
    Row("preemption_victims", "scheduler_preemption_victims", Histogram, (), 1, 2, 7),
    Row("preemption_attempts", "scheduler_preemption_attempts_total", Counter),
    Row("pending_pods", "scheduler_pending_pods", Gauge, ("queue",)),
    Row("pod_scheduling_attempts", "scheduler_pod_scheduling_attempts", Histogram, (), 1, 2, 5),
    Row(
        "extension_point_duration",
        "scheduler_framework_extension_point_duration_seconds",
        *(Histogram, ("extension_point", "status", "profile"), 0.0001, 2, 12),
    ),
    Row("queue_incoming_pods", "scheduler_queue_incoming_pods_total", Counter, ("queue", "event")),
    # beta
    Row(
        "pod_scheduling_sli_duration",
        "scheduler_pod_scheduling_sli_duration_seconds",
        *(Histogram, ("attempts",), 0.01, 2, 20),
    ),
    Row("goroutines", "scheduler_goroutines", Gauge, ("operation",)),
    Row(
        "permit_wait_duration",
        "scheduler_permit_wait_duration_seconds",
        *(Histogram, ("result",), 0.001, 2, 15),
    ),
    Row("unschedulable_pods", "scheduler_unschedulable_pods", Gauge, ("plugin", "profile")),
    Row(
        "plugin_evaluations",
        "scheduler_plugin_evaluation_total",
        *(Counter, ("plugin", "extension_point", "profile")),
    ),
    # alpha
    Row(
        "scheduling_algorithm_duration",
        "scheduler_scheduling_algorithm_duration_seconds",
        *(Histogram, (), 0.001, 2, 15),
    ),
    Row(
        "event_handling_duration",
        "scheduler_event_handling_duration_seconds",
        *(Histogram, ("event",), 0.0001, 2, 12),
    ),
    Row(
        "queueing_hint_execution_duration",
        "scheduler_queueing_hint_execution_duration_seconds",
        *(Histogram, ("plugin", "event", "hint"), 0.00001, 1.5, 20),
    ),
    Row("resourceclaim_creates", "scheduler_resourceclaim_creates_total", Counter, ("status",)),
    Row(
        "binding_conditions_allocations",
        "scheduler_dra_bindingconditions_allocations_total",
        *(Counter, ("profile", "driver", "status")),
    ),
    Row(
        "binding_conditions_wait",
        "scheduler_dra_bindingconditions_wait_duration_seconds",
        *(Histogram, ("profile", "driver", "status"), 0.1, 2, 14),
    ),
    Row("inflight_events", "scheduler_inflight_events", Gauge, ("event",)),
    Row("cache_size", "scheduler_cache_size", Gauge, ("type",)),
    Row("pod_scheduled_after_flush", "scheduler_pod_scheduled_after_flush_total", Counter),
    Row("rest_client_requests", "rest_client_requests_total", Counter, ("code", "method", "host")),
    Row("leader_status", "leader_election_master_status", Gauge, ("name",)),
]


def touch(metric: Instrument[Any], labels: tuple[str, ...]) -> None:
    """Make the metric show all its samples."""
    child = metric.labels(*(f"a-{label}" for label in labels)) if labels else metric
    if isinstance(child, Counter):
        child.inc()
    elif isinstance(child, Gauge):
        child.set(1)
    elif isinstance(child, Histogram):
        child.observe(1)


@pytest.mark.parametrize("row", KUBE_SCHEDULER, ids=lambda row: row.name)
def test_metric_has_the_declared_name_type_labels_and_buckets(row: Row) -> None:
    metrics = Metrics()
    metric = getattr(metrics, row.attribute)
    assert isinstance(metric, row.kind)
    touch(metric, row.labels)

    families = {f.name: f for f in text_string_to_metric_families(scrape(metrics))}
    family = families[row.name.removesuffix("_total")]
    assert family.type == row.kind.__name__.lower()
    suffixes = {"_bucket", "_count", "_sum"} if row.kind is Histogram else {""}
    assert {sample.name for sample in family.samples} == {row.name + end for end in suffixes}
    expected = {label: f"a-{label}" for label in row.labels}
    for sample in family.samples:
        assert {k: v for k, v in sample.labels.items() if k != "le"} == expected
    bounds = [float(s.labels["le"]) for s in family.samples if "le" in s.labels]
    wanted = [row.first * row.factor**k for k in range(row.buckets)]
    assert bounds == pytest.approx([*wanted, float("inf")] if wanted else [])


def test_request_duration_has_client_gos_uneven_buckets() -> None:
    metrics = Metrics()
    metrics.rest_client_request_duration.labels("GET", "api").observe(0.01)
    bounds = [
        sample.labels["le"]
        for family in text_string_to_metric_families(scrape(metrics))
        for sample in family.samples
        if sample.name == "rest_client_request_duration_seconds_bucket"
    ]
    wanted = [0.005, 0.025, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60, float("inf")]
    assert [float(bound) for bound in bounds] == wanted


def test_every_metric_that_is_not_our_own_is_in_the_table() -> None:
    """Our own are in docs/metrics.md, with labels and buckets, and compared with it."""
    known = {row.attribute for row in KUBE_SCHEDULER} | {"rest_client_request_duration"}
    instruments = {k: v for k, v in vars(Metrics()).items() if isinstance(v, Instrument)}
    others = {k for k, v in instruments.items() if not v.name.startswith("equipoise_")}
    assert others == known


def test_process_metrics_and_build_info_are_there_and_created_samples_are_not() -> None:
    text = scrape(Metrics(version="1.2.3"))
    assert "process_resident_memory_bytes" in text
    assert "process_cpu_seconds_total" in text
    assert 'equipoise_build_info{version="1.2.3"} 1.0' in text
    assert "_created" not in text


def test_two_sets_of_metrics_do_not_share_values() -> None:
    one, other = Metrics(), Metrics()
    one.preemption_attempts.inc()
    assert one.registry.get_sample_value("scheduler_preemption_attempts_total") == 1
    assert other.registry.get_sample_value("scheduler_preemption_attempts_total") == 0


def test_bounds_are_the_products_that_the_go_client_writes() -> None:
    # Printed by a Go program that multiplies as its ExponentialBuckets does; powers would differ.
    bounds = exponential_buckets(0.00001, 1.5, 20)
    assert repr(bounds[3]) == "3.375000000000001e-05"
    assert repr(bounds[-1]) == "0.02216837820053101"
    assert bounds[-1] != 0.00001 * 1.5**19


@pytest.mark.parametrize(("attempts", "label"), [(1, "1"), (14, "14"), (15, "15+"), (900, "15+")])
def test_attempts_label_is_bounded(attempts: int, label: str) -> None:
    assert attempts_label(attempts) == label


def test_children_resolve_each_label_combination_once() -> None:
    metrics = Metrics()
    children = Children(metrics.schedule_attempts)
    children["scheduled", "equipoise"].inc()
    children["scheduled", "equipoise"].inc()
    children["error", "equipoise"].inc()
    assert children["scheduled", "equipoise"] is children["scheduled", "equipoise"]
    sample = metrics.registry.get_sample_value
    labels = {"result": "scheduled", "profile": "equipoise"}
    assert sample("scheduler_schedule_attempts_total", labels) == 2
    assert sample("scheduler_schedule_attempts_total", {**labels, "result": "error"}) == 1


def scrape(metrics: Metrics) -> str:
    return generate_latest(metrics.registry).decode()
