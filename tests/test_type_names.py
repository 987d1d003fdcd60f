"""A name of a type means one thing in all that is installed."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent


def types() -> Iterator[tuple[str, str]]:
    """Each class with the place of its definition; a leading underscore makes no other name."""
    for package in ("scheduler", "sandbox"):
        for path in sorted((ROOT / package).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                if isinstance(node, ast.ClassDef):
                    yield node.name.lstrip("_"), f"{path.relative_to(ROOT)}:{node.lineno}"


def test_no_type_name_is_defined_twice() -> None:
    places = defaultdict(list)
    for name, place in types():
        places[name].append(place)
    assert {name: found for name, found in places.items() if len(found) > 1} == {}
