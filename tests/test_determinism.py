"""The same cluster and the same pod give the same node, whatever happened before."""

from __future__ import annotations

from collections import Counter
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from scheduler.explaining import findings
from scheduler.simulation import explain
from tests.builders import Json, make_pod, make_worker
from tests.pipeline.support import Stage

NODES = [f"node-{i}" for i in range(8)]

OWN_CONFIG = {"apiVersion": "equipoise.dev/v1alpha1", "kind": "EquipoiseConfiguration"}


def chosen(nodes: list[str], pod: str, config: list[Json] | None = None) -> str:
    """The node that a pod goes to among equal ones."""
    answer = explain([make_worker(name).obj() for name in nodes], make_pod(pod).obj(), config)
    assert len({score["total"] for score in answer["scores"].values()}) == 1
    node: str = answer["node"]
    return node


@given(st.permutations(NODES), st.sampled_from(["a", "b", "c"]))
def test_the_order_of_nodes_does_not_matter(order: list[str], pod: str) -> None:
    assert chosen(order, pod) == chosen(NODES, pod)


@given(st.randoms(use_true_random=False))
def test_history_and_reuse_of_rows_do_not_matter(random: Random) -> None:
    stage = Stage()
    for _ in range(30):
        name = random.choice([*NODES, "gone-1", "gone-2"])
        if stage.core.state.row(name) is None:
            stage.see(make_worker(name))
        else:
            stage.lose(make_worker(name))
    for name in NODES:
        if stage.core.state.row(name) is None:
            stage.see(make_worker(name))
    for name in ("gone-1", "gone-2"):
        if stage.core.state.row(name) is not None:
            stage.lose(make_worker(name))
    framework = stage.core.frameworks["equipoise"]
    for pod in ("a", "b", "c"):
        got = findings.explain(framework, stage.core.state, make_pod(pod).info(), stage.core.seed)
        assert got["node"] == chosen(NODES, pod)


def test_different_pods_break_the_same_tie_differently() -> None:
    counts = Counter(chosen(NODES, f"pod-{i}") for i in range(200))
    assert counts.keys() == set(NODES)
    # 200 pods over 8 equal nodes: 25 each on average, and no node is a magnet
    assert max(counts.values()) < 50


def test_another_seed_breaks_ties_differently_and_repeatably() -> None:
    def choices(seed: int) -> list[str]:
        config = [{**OWN_CONFIG, "tieBreakSeed": seed}]
        return [chosen(NODES, f"pod-{i}", config) for i in range(20)]

    assert choices(1) == choices(1)
    assert choices(1) != choices(2)
