"""Every verdict, score, allocation and write equals what kube-scheduler's DynamicResources gave.

But for one write that is left out: see `_created_with_finalizer`.
"""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any

import pytest

from scheduler.explaining import findings
from scheduler.simulation import explain
from tests.builders import Json
from tests.dra.recorded import FILES, TABLES, Player, cases, objects_of
from tests.test_parity import verdict

CEL = "CEL runtime error: "

BETTER = ("field is immutable", "nil or empty request mappings")
"""Errors in which kube-scheduler's own PreBind ends, and ours does not: the page of the plugin."""


def cut(text: str) -> str:
    """A text without the words of a CEL interpreter."""
    return text.split(CEL, maxsplit=1)[0] + CEL if CEL in text else text


def shortened(node: Json) -> Json:
    found = verdict(node)
    if not found["fit"]:
        found["reasons"] = [cut(reason) for reason in found["reasons"]]
    return found


def differences(case: Json, want: Json) -> dict[str, tuple[Any, Any]]:
    """What is not equal, by part of the answer: ours and theirs."""
    player = Player(case)
    got = findings.explain(player.framework, player.core.state, player.info)
    parts: dict[str, tuple[Any, Any]] = {
        "nodes": (
            {name: shortened(node) for name, node in got["nodes"].items()},
            {name: shortened(node) for name, node in want["nodes"].items()},
        ),
        "scores": (
            {name: node["plugins"] for name, node in got["scores"].items()},
            {name: node["plugins"] for name, node in want.get("scores", {}).items()},
        ),
        "totals": (
            {name: node["total"] for name, node in got["scores"].items()},
            {name: node["total"] for name, node in want.get("scores", {}).items()},
        ),
        "allocations": (got.get("allocations", {}), want.get("allocations", {})),
        "preenqueue": (got.get("preenqueue"), want.get("preenqueue")),
        "postfilter": (got.get("postfilter"), want.get("postfilter")),
        "bind": _bind(player, want),
    }
    if "error" in want:
        texts = {
            cut(reason)
            for node in want["nodes"].values()
            if node.get("code") == "Error"
            for reason in node["reasons"]
        }
        parts["error"] = (cut(got["message"]) in texts, True)
    else:
        parts["message"] = (got["message"], want.get("fitError", ""))
    return {part: (ours, theirs) for part, (ours, theirs) in parts.items() if ours != theirs}


def _bind(player: Player, want: Json) -> tuple[Any, Any]:
    theirs = want.get("bind")
    if theirs is None:
        return None, None
    ours = asyncio.run(player.bind(theirs["node"]))
    if any(text in theirs.get("error", "") for text in BETTER):
        return "error" in ours, False
    return ours, _created_with_finalizer(_without_nulls(theirs))


def _created_with_finalizer(bind: Json) -> Json:
    """One write less than kube-scheduler: a claim that is created has its finalizer at once."""
    writes = bind.get("writes", ())
    for created, added in pairwise(writes):
        finalizers = added.get("object", {}).get("metadata", {}).get("finalizers")
        if created["verb"] == "create" and finalizers:
            made = created["object"]
            made = {**made, "metadata": {**made["metadata"], "finalizers": finalizers}}
            kept = [each for each in writes if each is not added]
            kept[kept.index(created)] = {**created, "object": made}
            return {**bind, "writes": kept}
    return bind


def _without_nulls(value: Any) -> Any:
    """Go writes a list that was never set as null."""
    if isinstance(value, dict):
        return {key: _without_nulls(each) for key, each in value.items() if each is not None}
    return [_without_nulls(each) for each in value] if isinstance(value, list) else value


@pytest.mark.parametrize("name", FILES)
def test_every_recorded_case_is_equal(name: str) -> None:
    different = {
        case["id"]: found for case, want in cases(name) if (found := differences(case, want))
    }
    assert not different


def _own_words(answer: Json) -> Json:
    """What the plugin says, as far as the tables have it: no writes and no mappings."""
    allocations = {
        name: [{key: part for key, part in each.items() if key != "mappings"} for each in claims]
        for name, claims in answer.get("allocations", {}).items()
    }
    taken = {key: answer.get("postfilter", {}).get(key) for key in ("code", "reasons")}
    nodes = {
        name: shortened({"plugin": "DynamicResources", **node})
        for name, node in answer["nodes"].items()
    }
    return {
        "nodes": nodes,
        "allocations": allocations,
        "postfilter": taken,
        "preenqueue": answer.get("preenqueue"),
    }


def test_every_case_of_the_tables_is_equal() -> None:
    different = {}
    for case, want in cases(TABLES):
        player = Player(case)
        got = findings.explain(player.framework, player.core.state, player.info)
        if _own_words(got) != _own_words(want):
            different[case["id"]] = got, want
    assert not different


def test_explain_shows_the_same() -> None:
    """What others call; a pod that waits for its devices gets them at once there."""
    for case, want in cases("quirks"):
        got = explain(objects_of(case), {"kind": "Pod", **case["pending"]})
        assert got["fit"] == sorted(name for name, node in want["nodes"].items() if node["fit"])
        for part in ("allocations", "preenqueue", "postfilter"):
            assert got.get(part) == want.get(part), (case["id"], part)
        assert bool(got["node"]) == ("scores" in want), case["id"]


def test_all_files_are_compared() -> None:
    assert len(cases(TABLES)) == 271
    assert sum(len(cases(name)) for name in FILES) == 1011
