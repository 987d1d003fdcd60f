"""What the sources of the page must keep to, read without a browser."""

from __future__ import annotations

import re
from collections import defaultdict
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
STYLES = ROOT / "web" / "src" / "styles"
SHARED = {"base", "components", "shell", "tokens", "chart"}
"""Styles that every view has; the others come with a view, and stay when it is left."""
_SELECTORS = re.compile(r"([^{}]+)\{")
_FIRST_CLASS = re.compile(r"\.([\w-]+)")
_TOKEN = re.compile(r"create token ([\w-]+)")


def first_classes(style: str) -> set[str]:
    """The class that each selector begins with."""
    plain = re.sub(r"/\*.*?\*/", "", style, flags=re.DOTALL)
    selectors = [each.strip() for many in _SELECTORS.findall(plain) for each in many.split(",")]
    return {found[1] for each in selectors if (found := _FIRST_CLASS.match(each))}


def test_no_two_views_style_the_same_class() -> None:
    where = defaultdict(list)
    for path in sorted(STYLES.glob("*.css")):
        if path.stem not in SHARED:
            for name in first_classes(path.read_text()):
                where[name].append(path.stem)
    assert {name: views for name, views in where.items() if len(views) > 1} == {}


def test_tokens_are_of_an_account_that_the_manifests_create() -> None:
    objects = yaml.safe_load_all((ROOT / "deploy" / "equipoise.yaml").read_text())
    accounts = {
        each["metadata"]["name"] for each in objects if each and each["kind"] == "ServiceAccount"
    }
    texts = [ROOT / "web" / "src" / "token.tsx", *(ROOT / "docs").rglob("*.md")]
    named = {name for path in texts for name in _TOKEN.findall(path.read_text())}
    assert named
    assert named <= accounts
