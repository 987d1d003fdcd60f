"""Caches of functions, and those that are bounded in bytes: each has a bound, and who asks for it.

A cache that is added without an entry here is found.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import scheduler
from scheduler.kube import fields

ROOT = Path(scheduler.__file__).parent

UNBOUNDED = {
    "cel/regex_syntax.py: _categories": "one value",
    "cel/regex_syntax.py: _script": "the names of scripts that RE2 knows",
    "cli/snapshots.py: _decoder": "the structs of the model",
    "cli/snapshots.py: _shapes": "the kinds of the model",
    "framework/declarations.py: _known_names": "one value",
    "framework/declarations.py: _problems_of_class": "the classes of plugins",
    "framework/simple.py: completed": "the classes of plugins",
    "kube/credentials.py: library": "one value",
    "kube/fields.py: _named": "the definitions of the API",
    "kube/fields.py: _shape_of_known": "the kinds of the API",
    "kube/schemas.py: _custom": "one value",
    "kube/schemas.py: built_in": "one value",
    "kube/schemas.py: definitions": "one value",
}
"""Functions that remember all their values, and what there are no more of."""

METRICS = {
    "cel/regex.py": "device_patterns",
    "cel/selector.py": "device_selectors",
    "devices/selectors.py": "device_selector_verdicts",
    "observe/verdict_history.py": "verdict_history",
    "plugin_api/memory.py": "memory_",
    "plugins/inter_pod_affinity.py": "affinity_sayings",
    "state/podindex.py": "pod_counters_of_groups",
    "webhooks/plugin.py": "webhook_pod_verdicts",
}
"""Modules with a `Memo` or a `Recent`, and the value of ``cache`` that shows it in metrics."""


def decorated() -> Iterator[tuple[str, str]]:
    """Every function that is cached, and its decorator."""
    for path in ROOT.rglob("*.py"):
        for each in ast.walk(ast.parse(path.read_text())):
            if isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef):
                for decorator in map(ast.unparse, each.decorator_list):
                    if decorator.partition("(")[0].rpartition(".")[2] in ("cache", "lru_cache"):
                        yield f"{path.relative_to(ROOT)}: {each.name}", decorator


def test_functions_that_remember_everything_are_known() -> None:
    unbounded = {name for name, text in decorated() if "maxsize=" not in text or "None" in text}
    assert unbounded == UNBOUNDED.keys()


def test_every_cache_in_bytes_is_shown_by_a_metric() -> None:
    made = {
        str(path.relative_to(ROOT))
        for path in ROOT.rglob("*.py")
        for each in ast.walk(ast.parse(path.read_text()))
        if isinstance(each, ast.Call) and ast.unparse(each.func) in ("Memo", "Recent")
    }
    assert made == METRICS.keys()
    page = (ROOT.parent / "docs" / "memory.md").read_text()
    assert [name for name in METRICS.values() if f"`{name}" not in page] == []


def test_words_of_manifests_are_not_remembered() -> None:
    list(fields.oddities({"apiVersion": "v1", "kind": "Pod"}))
    before = fields._shape_of_known.cache_info().currsize
    for number in range(10):
        body = {"apiVersion": f"v{number}-{'x' * 100}", "kind": "Pod", "nonsense": 1}
        assert list(fields.oddities(body)) == []
    assert fields._shape_of_known.cache_info().currsize == before
