"""Our instruments against the library's: the same touches give the same exposition."""

import gc
import itertools
from collections.abc import Callable
from typing import Any

import prometheus_client as library
import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from scheduler.observe.instruments import Counter, Gauge, Histogram

BOUNDS = (0.001, 0.0022, 0.5, 1.0, 64.0)
amounts = st.one_of(
    st.sampled_from(BOUNDS), st.floats(0, 100, allow_subnormal=False), st.integers(0, 100)
)
labels = st.sampled_from([("a", "x"), ("a", "y"), ('quo"te', "new\nline"), ("", "")])


@pytest.fixture(autouse=True, scope="module")
def _no_created_samples() -> Any:
    library.disable_created_metrics()  # type: ignore[no-untyped-call]  # it forgot `-> None`


def expositions(registry: CollectorRegistry) -> list[bytes]:
    """As text and as OpenMetrics."""
    accepted = ("", "application/openmetrics-text")
    return [choose_encoder(accept)[0](registry) for accept in accepted]


@given(touches=st.lists(st.tuples(labels, amounts)))
def test_counters(touches: list[tuple[tuple[str, str], float]]) -> None:
    ours, theirs = CollectorRegistry(), CollectorRegistry()
    plain, families = Counter("plain_total", "Text."), Counter("c_total", "Te\\xt", ("one", "two"))
    ours.register(plain)
    ours.register(families)
    their_plain = library.Counter("plain_total", "Text.", registry=theirs)
    their_families = library.Counter("c_total", "Te\\xt", ("one", "two"), registry=theirs)
    for values, amount in touches:
        plain.inc()
        their_plain.inc()
        families.labels(*values).inc(amount)
        their_families.labels(*values).inc(amount)
    assert expositions(ours) == expositions(theirs)


@given(touches=st.lists(st.tuples(labels, st.sampled_from(["set", "inc", "dec"]), amounts)))
def test_gauges(touches: list[tuple[tuple[str, str], str, float]]) -> None:
    ours, theirs = CollectorRegistry(), CollectorRegistry()
    families = Gauge("g", "Text.", ("one", "two"))
    ours.register(families)
    their_families = library.Gauge("g", "Text.", ("one", "two"), registry=theirs)
    for values, verb, amount in touches:
        getattr(families.labels(*values), verb)(amount)
        getattr(their_families.labels(*values), verb)(amount)
    assert expositions(ours) == expositions(theirs)


@given(touches=st.lists(st.tuples(labels, amounts)))
def test_histograms(touches: list[tuple[tuple[str, str], float]]) -> None:
    ours, theirs = CollectorRegistry(), CollectorRegistry()
    plain = Histogram("plain_seconds", "Text.", buckets=BOUNDS)
    families = Histogram("h_seconds", "Text.", ("one", "two"), buckets=BOUNDS)
    ours.register(plain)
    ours.register(families)
    their_plain = library.Histogram("plain_seconds", "Text.", buckets=BOUNDS, registry=theirs)
    their_families = library.Histogram(
        "h_seconds", "Text.", ("one", "two"), buckets=BOUNDS, registry=theirs
    )
    for values, amount in touches:
        plain.observe(amount)
        their_plain.observe(amount)
        families.labels(*values).observe(amount)
        their_families.labels(*values).observe(amount)
    assert expositions(ours) == expositions(theirs)


def test_a_child_is_made_once() -> None:
    family = Counter("c_total", "Text.", ("one",))
    assert family.labels("a") is family.labels("a")
    assert family.labels("a") is not family.labels("b")


@pytest.mark.parametrize(
    "touch",
    [
        lambda: Counter("c_total", "Text.", ("one",)).inc(),
        lambda: Gauge("g", "Text.", ("one",)).set(1),
        lambda: Gauge("g", "Text.", ("one",)).inc(),
        lambda: Histogram("h", "Text.", ("one",), buckets=BOUNDS).observe(1),
    ],
    ids=["counter", "gauge set", "gauge inc", "histogram"],
)
def test_a_family_cannot_be_touched_without_labels(touch: Callable[[], None]) -> None:
    with pytest.raises(AttributeError):
        touch()


@pytest.mark.parametrize(
    ("names", "values"), [((), ("a",)), (("one",), ()), (("one",), ("a", "b"))]
)
def test_label_values_must_be_as_many_as_names(
    names: tuple[str, ...], values: tuple[str, ...]
) -> None:
    with pytest.raises(ValueError, match="c_total has the labels"):
        Counter("c_total", "Text.", names).labels(*values)


def test_a_name_is_taken_once() -> None:
    registry = CollectorRegistry()
    registry.register(Counter("c_total", "Text."))
    with pytest.raises(ValueError, match="Duplicated"):
        registry.register(Counter("c_total", "Text."))


def test_children_that_another_thread_adds_do_not_disturb_a_scrape() -> None:
    """The collector's callbacks stand for the other thread: they run wherever memory is asked."""
    counter = Counter("things_total", "Things.", ("kind",))
    for number in range(2000):
        counter.labels(str(number)).inc()
    more = itertools.count(2000)

    def add(phase: str, info: object) -> None:
        counter.labels(str(next(more))).inc()

    before = gc.get_threshold()
    gc.callbacks.append(add)
    gc.set_threshold(5)
    try:
        (family,) = counter.collect()
    finally:
        gc.set_threshold(*before)
        gc.callbacks.remove(add)
    assert len(family.samples) >= 2000
    assert next(more) > 2001, "children were added meanwhile"
