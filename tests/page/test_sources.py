"""What the sources of the page must keep to, read without a browser."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
_TOKEN = re.compile(r"create token ([\w-]+)")


def test_tokens_are_of_an_account_that_the_manifests_create() -> None:
    objects = yaml.safe_load_all((ROOT / "deploy" / "equipoise.yaml").read_text())
    accounts = {
        each["metadata"]["name"] for each in objects if each and each["kind"] == "ServiceAccount"
    }
    texts = [ROOT / "web" / "src" / "token.tsx", *(ROOT / "docs").rglob("*.md")]
    named = {name for path in texts for name in _TOKEN.findall(path.read_text())}
    assert named
    assert named <= accounts
