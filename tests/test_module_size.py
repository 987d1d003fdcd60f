"""A module that outgrows 400 lines hides two ideas."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
CEILING = 400
MODULES = sorted(
    path for top in ("scheduler", "tests", "e2e", "shipping") for path in (ROOT / top).rglob("*.py")
)


def test_modules_are_found() -> None:
    assert Path(__file__) in MODULES


@pytest.mark.parametrize("module", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_module_is_small(module: Path) -> None:
    assert len(module.read_text().splitlines()) <= CEILING
