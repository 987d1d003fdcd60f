"""Who is next: one key, several, or a comparison; and what becomes of those that fail."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.plugin_api import PluginTraits
from scheduler.plugins.enqueueing import PrioritySort
from scheduler.queueing.heap import KeyedHeap
from scheduler.queueing.queued_pod import QueuedPod
from tests.builders import make_pod
from tests.framework.fakes import Fake, faults, framework_of


class ByLabel(Fake):
    """Sorts by a label's value; perhaps says so by vouching for its keys."""

    def __init__(self, name: str, *, comparable: bool = False) -> None:
        super().__init__(name)
        self.traits = PluginTraits(comparable=comparable)

    def sort_key(self, queued: QueuedPod) -> Any:
        return queued.info.pod.metadata.labels.get(self.name, "")


class Raising(Fake):
    def sort_key(self, queued: QueuedPod) -> Any:
        if queued.info.pod.metadata.labels.get("bad"):
            raise RuntimeError("boom")
        return queued.info.pod.metadata.name


class Incomparable(Fake):
    def sort_key(self, queued: QueuedPod) -> Any:
        return {} if queued.info.pod.metadata.labels.get("bad") else 1


class Priority(PrioritySort):
    def __init__(self) -> None: ...


def queued(name: str, priority: int = 0, timestamp: float = 0.0, **labels: str) -> QueuedPod:
    return QueuedPod(make_pod(name).priority(priority).label(**labels).info(), timestamp)


def order(*pods: QueuedPod, by: tuple[Any, ...]) -> list[str]:
    """The names in the order in which the queue's heap gives them out."""
    heap: KeyedHeap[QueuedPod] = KeyedHeap(framework_of(*by).sort_key)
    for pod in pods:
        heap.put(pod.key, pod)
    names = []
    while (first := heap.peek()) is not None:
        heap.remove(first.key)
        names.append(first.info.pod.metadata.name)
    return names


@pytest.mark.parametrize("comparable", [True, False])
def test_the_first_plugin_that_does_not_say_equal_decides(comparable: bool) -> None:
    by = (ByLabel("team", comparable=comparable), ByLabel("stage", comparable=comparable))
    pods = [
        queued("last", team="b", stage="a"),
        queued("second", team="a", stage="b"),
        queued("first", team="a", stage="a"),
    ]
    assert order(*pods, by=by) == ["first", "second", "last"]


def test_all_equal_is_first_come_first_served() -> None:
    assert order(queued("b"), queued("a"), by=(ByLabel("team"),)) == ["b", "a"]


def test_one_plugin_that_vouches_for_its_keys_is_called_as_it_is() -> None:
    plugin = Priority()
    framework = framework_of(plugin)
    assert framework.sort_key(queued("p", 5, 7.0)) == (-5, 7.0)


@pytest.mark.parametrize("plugin", [Raising("Bad"), Incomparable("Bad")])
def test_a_plugin_that_fails_leaves_the_order_to_priority(plugin: Any) -> None:
    framework = framework_of(plugin)
    heap: KeyedHeap[QueuedPod] = KeyedHeap(framework.sort_key)
    for pod in (queued("a", 1, bad="yes"), queued("b", 9), queued("c", 5, bad="yes")):
        heap.put(pod.key, pod)
    assert sorted(pod.info.pod.metadata.name for pod in heap) == ["a", "b", "c"]
    assert faults(framework, "Bad", "QueueSort") >= 1


@given(
    st.lists(
        st.tuples(st.sampled_from("abc"), st.sampled_from("xyz"), st.integers(0, 3)), max_size=12
    )
)
def test_guarded_keys_sort_as_tuples_do(rows: list[tuple[str, str, int]]) -> None:
    pods = [queued(f"p{i}", k, i, team=t, stage=s) for i, (t, s, k) in enumerate(rows)]
    guarded = framework_of(ByLabel("team"), ByLabel("stage"), Priority()).sort_key
    expected = sorted(
        pods,
        key=lambda q: (
            q.info.pod.metadata.labels["team"],
            q.info.pod.metadata.labels["stage"],
            -q.info.priority,
            q.timestamp,
        ),
    )
    assert sorted(pods, key=guarded) == expected


# Rank: what counts before time


def test_pods_of_one_rank_differ_in_time_only() -> None:
    rank = framework_of(ByLabel("team"), Priority()).rank

    first = rank(queued("a", 5, 1.0, team="x"))
    assert first == rank(queued("b", 5, 2.0, team="x"))
    assert rank(queued("c", 6, 3.0, team="x")) < first
    assert first < rank(queued("d", 6, 0.0, team="y"))


def test_a_plugin_that_fails_leaves_the_rank_to_priority() -> None:
    rank = framework_of(Raising("r")).rank

    one, other = rank(queued("a", 5, 1.0, bad="yes")), rank(queued("b", 5, 2.0, bad="yes"))
    assert one == other
    assert rank(queued("c", 6, 3.0, bad="yes")) < one
