"""After any history of pods, nodes and objects, the columns are what the ledgers say."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.builders import PodBuilder
from tests.numa.support import Numa, fits_where, large_node, make_topology, pinned

NODES = ("n1", "n2", "n3")
SIZES = (1, 2, 4, 6)

steps = st.lists(
    st.one_of(
        st.tuples(st.just("assume"), st.integers(0, 5), st.sampled_from(NODES)),
        st.tuples(st.just("bind"), st.integers(0, 5), st.sampled_from(NODES)),
        st.tuples(st.just("run"), st.integers(0, 5), st.just("")),
        st.tuples(st.just("delete"), st.integers(0, 5), st.just("")),
        st.tuples(st.just("finish"), st.integers(0, 5), st.just("")),
        st.tuples(st.just("lose"), st.integers(0, 5), st.just("")),
        st.tuples(st.just("publish"), st.integers(0, 8), st.sampled_from(NODES)),
        st.tuples(st.just("unpublish"), st.just(0), st.sampled_from(NODES)),
        st.tuples(st.just("remove"), st.just(0), st.sampled_from(NODES)),
        st.tuples(st.just("return"), st.just(0), st.sampled_from(NODES)),
        st.tuples(st.just("judge"), st.integers(1, 9), st.just("")),
    ),
    max_size=40,
)


class History:
    """Plays steps that make sense, and passes over those that do not."""

    def __init__(self) -> None:
        self.numa = Numa().nodes(*NODES)
        self.nodes = set(NODES)
        self.published: set[str] = set()
        self.assumed: dict[int, str] = {}
        self.bound: dict[int, PodBuilder] = {}
        self.version = 0

    def play(self, what: str, number: int, node: str) -> None:
        getattr(self, f"_{what}")(number, node)

    def _pod(self, number: int) -> PodBuilder:
        return pinned(f"p{number}", SIZES[number % len(SIZES)])

    def _assume(self, number: int, node: str) -> None:
        if number not in self.assumed and number not in self.bound:
            self.assumed[number] = node
            self.numa.assume(self._pod(number), node=node)

    def _bind(self, number: int, node: str) -> None:
        if number not in self.bound:
            node = self.assumed.pop(number, node)
            self.bound[number] = self._pod(number).on(node)
            self.numa.see(self.bound[number])

    def _run(self, number: int, node: str) -> None:
        if number in self.bound:
            self.numa.see(self.bound[number].phase("Running"))

    def _delete(self, number: int, node: str) -> None:
        if number in self.bound:
            self.numa.see(self.bound[number].deleting())

    def _finish(self, number: int, node: str) -> None:
        if number in self.bound:
            self.numa.see(self.bound[number].phase("Succeeded"))

    def _lose(self, number: int, node: str) -> None:
        if number in self.assumed:
            self.numa.state.forget(f"uid-p{number}")
            del self.assumed[number]
        elif number in self.bound:
            self.numa.lose(self.bound.pop(number))

    def _publish(self, left: int, node: str) -> None:
        self.version += 1
        there = [p for p in self.bound.values() if p.obj()["spec"]["nodeName"] == node]
        topology = make_topology(node).cell(left).cell(8).knows(*there[: left or None])
        self.numa.publish(topology.version(self.version))
        self.published.add(node)

    def _unpublish(self, number: int, node: str) -> None:
        if node in self.published:
            self.published.discard(node)
            self.numa.unpublish(node)

    def _remove(self, number: int, node: str) -> None:
        if node in self.nodes:
            self.nodes.discard(node)
            self.numa.stage.lose(large_node(node, 64, "512Gi"))

    def _return(self, number: int, node: str) -> None:
        self.nodes.add(node)
        self.numa.nodes(node)

    def _judge(self, cpus: int, node: str) -> None:
        if self.nodes:
            self.numa.fits(pinned("p", cpus), sorted(self.nodes)[0])


@settings(max_examples=60, deadline=None)
@given(steps)
def test_columns_are_what_the_ledgers_say(history: list[tuple[Any, ...]]) -> None:
    world = History()
    for step in history:
        world.play(*step)
    cells = world.numa.cache.cells
    rows = world.numa.state.rows()
    cells.follow(rows)
    for row in rows.tolist():
        node = world.numa.state.name(row)
        ledger = world.numa.cache.ledger(node)
        capacity = None if ledger is None else ledger.capacity_view()
        if capacity is None:
            assert not cells.exists[:, row].any()
            assert cells.kind[row] == 0
            continue
        view = capacity.cells()
        for name, column in (("free", cells.free), ("sure", cells.sure)):
            for resource, amounts in getattr(view, name).items():
                index = cells.resources.find(resource)
                assert index is not None
                assert column[index, : len(amounts), row].tolist() == amounts
        assert (node in world.numa.cache.dirty()) == bool(ledger and ledger.dirty)
        sure, free = cells.sure[:, :, row], cells.free[:, :, row]
        assert np.all(sure <= free)


@settings(max_examples=60, deadline=None)
@given(steps)
def test_a_quick_look_says_what_the_filter_says(history: list[tuple[Any, ...]]) -> None:
    world = History()
    for step in history:
        world.play(*step)
    rows = world.numa.state.rows()
    for cpus in (1, 3, 5, 8, 9):
        pod = pinned("p", cpus)
        looked = world.numa.plugin.accepts(pod.info(), rows)
        names = [world.numa.state.name(row) for row in rows.tolist()]
        accepted = [name for name, yes in zip(names, looked.tolist(), strict=True) if yes]
        assert accepted == fits_where(world.numa, pod, names)


def test_a_quick_look_is_no_rejection() -> None:
    """Nodes are compared after so many rejections; looks in passing must not bring that forward."""
    numa = Numa(compareAfterRejections=3).nodes("n1").publish(make_topology("n1").cell(4).cell(4))
    assert numa.plugin.accepts(pinned("p", 9).info(), numa.state.rows()).all()
