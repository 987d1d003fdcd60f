"""What is said about the choice between the best node and the next best."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from scheduler.explaining.comparison import comparison
from scheduler.simulation import explain
from tests.builders import make_node, make_pod


def answer(node: str | None, nominated: str | None = None, **plugins: dict[str, int]) -> Any:
    scores = {
        name: {"total": sum(parts.values()), "plugins": parts} for name, parts in plugins.items()
    }
    return {"pod": "default/p", "node": node, "nominated": nominated, "scores": scores}


def test_the_plugin_with_the_largest_difference_tipped_it() -> None:
    found = comparison(
        answer("a", a={"X": 50, "Y": 10, "Z": 0}, b={"X": 20, "Y": 10, "Z": 25}, c={"X": 1})
    )
    assert found is not None
    assert (found["node"], found["runnerUp"], found["ties"], found["margin"]) == ("a", "b", 0, 5)
    assert found["parts"] == [
        {"plugin": "X", "node": 50, "runnerUp": 20, "difference": 30},
        {"plugin": "Y", "node": 10, "runnerUp": 10, "difference": 0},
        {"plugin": "Z", "node": 0, "runnerUp": 25, "difference": -25},
    ]
    assert found["message"] == "a is ahead of b by 5: X made the difference (+30), against Z (-25)"


def test_ties_are_counted_and_it_is_said_how_they_are_broken() -> None:
    found = comparison(answer("a", a={"X": 5}, b={"X": 5}, c={"X": 5}, d={"X": 4}))
    assert found is not None
    assert (found["ties"], found["margin"]) == (2, 0)
    assert found["runnerUp"] in ("b", "c")
    assert found["message"].startswith("2 other nodes have the same total as a; ")
    assert "hash" in found["message"]


def test_no_node_no_comparison() -> None:
    assert comparison(answer(None)) is None


def test_the_only_node_and_a_nominated_one_are_not_compared() -> None:
    alone = comparison(answer("a", a={"X": 5}))
    assert alone is not None
    assert alone["message"] == "a is the only node that fits"
    nominated = comparison(answer("a", "a", a={"X": 5}, b={"X": 9}))
    assert nominated is not None
    assert "nominated" in nominated["message"]
    assert nominated["parts"] == []


def test_a_bound_pod_is_compared_as_if_it_were_placed_now() -> None:
    stays = comparison(answer("a", a={"X": 5}, b={"X": 3}), "a")
    assert stays is not None
    assert stays["message"] == "if scheduled now: a is ahead of b by 2: X made the difference (+2)"
    moves = comparison(answer("a", a={"X": 5}, b={"X": 4}, c={"X": 1}), "c")
    assert moves is not None
    assert moves["runnerUp"] == "c"
    assert "it would go to a, not to c, where it is" in moves["message"]


@given(st.lists(st.integers(1, 3), min_size=2, max_size=6))
def test_without_the_winner_the_runner_up_wins(sizes: list[int]) -> None:
    nodes = [make_node(f"n{i}").cpu(4 * size).pods(9).obj() for i, size in enumerate(sizes)]
    pod = make_pod("p").cpu(1).obj()
    found = explain(nodes, pod)
    said = found["comparison"]
    rest = [node for node in nodes if node["metadata"]["name"] != said["node"]]
    assert explain(rest, pod)["node"] == said["runnerUp"]
    parts = {part["plugin"]: part["node"] for part in said["parts"]}
    assert parts == found["scores"][said["node"]]["plugins"]
    totals = found["scores"][said["node"]]["total"], found["scores"][said["runnerUp"]]["total"]
    assert said["margin"] == totals[0] - totals[1] == sum(p["difference"] for p in said["parts"])
