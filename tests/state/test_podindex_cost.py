"""What the pod index costs: linear in labels, little beyond them, and all of it is freed."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest

from scheduler.model.affinity import PodSet
from scheduler.model.podinfo import PodInfo
from scheduler.model.pods import Pod
from scheduler.model.selectors import Requirement, Selector, equals
from scheduler.state import podindex
from scheduler.state.aspects import ChangeLog
from scheduler.state.cache import ClusterState
from scheduler.state.podindex import PodIndex
from tests.builders import make_node, make_pod, pod_term

HERE = frozenset(("default",))
PODS, LABELS = 50, 5_000


class CountedLabels(dict[str, str]):
    """Counts how often it is read from Python."""

    looks = 0

    def _look(self) -> None:
        CountedLabels.looks += 1

    def __getitem__(self, key: str) -> str:
        self._look()
        return super().__getitem__(key)

    def __contains__(self, key: object) -> bool:
        self._look()
        return super().__contains__(key)

    def __iter__(self) -> Iterator[str]:
        for key in super().__iter__():
            self._look()
            yield key

    def get(self, key: str, default: Any = None) -> Any:
        self._look()
        return super().get(key, default)

    def items(self) -> Any:
        for key in super().__iter__():
            self._look()
            yield key, super().__getitem__(key)


def counted(name: str, labels: int) -> PodInfo:
    info = make_pod(name).struct()
    many = CountedLabels({"app": "x"} | {f"k{i:05}": f"v{i}" for i in range(labels)})
    msgspec.structs.force_setattr(info.metadata, "labels", many)
    return PodInfo(info)


def looks_of_a_life(labels: int) -> int:
    """How often labels are looked at while a pod comes, is asked about and goes."""
    index = PodIndex({}, capacity=1, changes=ChangeLog())
    index.add(0, make_pod("other").apart(pod_term("zone", {"app": "x"})).info())
    index.counter(PodSet(HERE, Selector((equals("app", "x"),))))
    index.counter(PodSet(HERE, Selector((Requirement("k00001", "Exists"),))))
    before = CountedLabels.looks
    pod = counted("p", labels)
    index.add(0, pod)
    assert len(index.terms_about(pod)) == 1
    index.counter(PodSet(HERE, Selector((equals("k00002", "v2"),))))
    index.remove(0, pod)
    return CountedLabels.looks - before


def test_labels_that_no_selector_asks_about_are_never_looked_at() -> None:
    assert looks_of_a_life(100) == looks_of_a_life(10_000) > 0


def pods_with_many_labels() -> list[bytes]:
    """All labels distinct, as no author would, but may."""
    return [
        msgspec.json.encode(
            make_pod(f"p{n}")
            .scheduler("another")
            .on("n")
            .label(**{f"k{i:05}": f"v{n}-{i}" for i in range(LABELS)})
            .obj()
        )
        for n in range(PODS)
    ]


@pytest.fixture
def traced() -> Iterator[None]:
    gc.collect()
    tracemalloc.start()
    yield
    tracemalloc.stop()


def held() -> int:
    gc.collect()
    return tracemalloc.get_traced_memory()[0]


@pytest.mark.usefixtures("traced")
def test_pods_with_many_labels_cost_little_more_than_their_labels_and_all_is_given_back() -> None:
    raw = pods_with_many_labels()
    decode = msgspec.json.Decoder(Pod).decode
    state = ClusterState()
    state.set_node(make_node("n").struct())
    state.index.counter(PodSet(HERE, Selector((equals("app", "x"),))))
    start = held()
    infos = [PodInfo(decode(each)) for each in raw]
    objects = held() - start
    for info in infos:
        state.set_pod(info)
    assert held() - start - objects < 0.1 * objects
    assert state.index.usage()["pod_groups"].entries == PODS
    assert state.index.usage()["pod_groups_by_label"].entries == 0
    for info in infos:
        state.remove_pod(info.uid)
    del info, infos
    assert held() - start < 64 * 1024
    assert state.index.usage()["pod_groups"].entries == 0


@pytest.mark.usefixtures("traced")
def test_equal_labels_are_kept_once() -> None:
    raw = [each.replace(b"uid-p", b"uid-q") for each in pods_with_many_labels()[:1]] * 20
    decode = msgspec.json.Decoder(Pod).decode
    state = ClusterState()
    state.set_node(make_node("n").struct())
    start = held()
    state.set_pod(PodInfo(decode(raw[0])))
    one = held() - start
    for n, each in enumerate(raw):
        state.set_pod(PodInfo(decode(each.replace(b"uid-q0", b"uid-r%d" % n))))
    assert held() - start < 1.2 * one


def test_a_key_that_selectors_ask_about_is_indexed_until_others_need_the_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(podindex, "_KEPT_KEYS", 2)
    index = PodIndex({}, capacity=1, changes=ChangeLog())
    pods = [make_pod(f"p{n}").label(a="1", b="1", c="1", n=str(n)).info() for n in range(3)]
    for pod in pods:
        index.add(0, pod)
    for key in "abc":
        assert index.counter(PodSet(HERE, Selector((equals(key, "1"),)))).total == 3
    assert index.usage()["pod_groups_by_label"][::2] == (6, 3)
    index.add(0, make_pod("late").label(c="1").info())
    index.counter(PodSet(HERE, Selector((equals("c", "2"),))))
    assert index.usage()["pod_groups_by_label"].entries == 7
    for pod in pods:
        index.remove(0, pod)
    index.remove(0, make_pod("late").label(c="1").info())
    assert index.usage()["pod_groups_by_label"].entries == 0


def test_counters_go_when_they_take_too_many_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    index = PodIndex({}, capacity=1000, changes=ChangeLog())
    one = index.counter(PodSet(HERE, Selector((equals("app", "0"),))))
    monkeypatch.setattr(podindex, "_COUNTER_BYTES", 3 * one.nbytes)
    for n in range(10):
        index.counter(PodSet(HERE, Selector((equals("app", str(n)),))))
    assert index.usage()["pod_counters"] == (3, 3 * one.nbytes, 7)
    long = Requirement("app", "In", frozenset(map(str, range(1000))))
    index.counter(PodSet(HERE, Selector((long,))))
    assert index.usage()["pod_counters"].entries == 1
