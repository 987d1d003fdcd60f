"""docs/explain.md says what explanations say."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import Any

import yaml

from scheduler.simulation import explain
from shipping.docs import plugin_pages as pages
from shipping.helm import PROJECT
from tests.gangs.support import make_group, member

PAGE = (PROJECT / "docs" / "explain.md").read_text()
_DYNAMIC = {"podAffinity", "podAntiAffinity", "existingAntiAffinity"}
_SOURCES = {"nodeSelector", "nodeAffinity", "addedAffinity"}


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", PAGE, re.M | re.S)


def names(cell: str) -> set[str]:
    return set(re.findall(r"`(\w+)`", cell))


def documented() -> dict[str, tuple[set[str], set[str]]]:
    """By type, the values of facts on a node and about the cluster."""
    rows = pages.table_in(PAGE.partition("\n## Facts\n")[2].partition("\n## ")[0])
    return {row[0].strip("`"): (names(row[2]), names(row[3])) for row in rows}


def check_documented(answer: dict[str, Any]) -> None:
    """Every value of every fact is on the page."""
    known = documented()
    for verdict in answer["nodes"].values():
        for entry in verdict["all"]:
            for each in entry["facts"]:
                assert each.keys() - {"type", "message"} <= known[each["type"]][0], each
    for each in answer["facts"]:
        common = {"type", "message", "plugin", "nodes"}
        assert each.keys() - common <= known[each["type"]][1], each


def test_the_example() -> None:
    *nodes, pod = yaml.safe_load(blocks("yaml")[0])
    answer = explain(nodes, pod)
    verdict, facts = map(json.loads, blocks("json"))
    assert answer["nodes"]["gpu-0"] == verdict
    assert answer["facts"] == facts


def test_every_field_of_the_answer_is_told() -> None:
    head = PAGE.partition("\n## ")[0]
    told = {name for row in pages.table_in(head) for name in names(row[0])}
    objects = [make_group("g", 1).obj(), member("m", "g").obj()]
    assert explain(objects, objects[-1]).keys() == told


def test_every_type_of_fact_is_told() -> None:
    given = _DYNAMIC | _SOURCES
    for path in sorted((PROJECT / "scheduler").rglob("*.py")):
        given |= types_in(path)
    assert documented().keys() == given


def types_in(path: Path) -> set[str]:
    calls = (node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call))
    named = (call for call in calls if isinstance(call.func, ast.Name) and call.func.id == "fact")
    firsts = (call.args[0] for call in named if call.args)
    return {str(each.value) for each in firsts if isinstance(each, ast.Constant)}
