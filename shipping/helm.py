"""Helm as tests and generators call it: the chart rendered to objects, or why it is not."""

import json
import os
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from e2e.controlplane.binaries import locate

PROJECT = Path(__file__).parents[1]
CHART = PROJECT / "charts" / "equipoise"
RELEASE = "equipoise"
NAMESPACE = "equipoise-system"
SECONDS = 600

Json = dict[str, Any]


class HelmError(Exception):
    """Helm refused; the message is what it said."""


def helm(*arguments: str | Path, environment: Mapping[str, str] | None = None) -> str:
    """Run helm to its end, with nothing of its user's own settings, and return what it printed."""
    with tempfile.TemporaryDirectory() as home:
        nothing = {f"HELM_{kind}_HOME": home for kind in ("CONFIG", "DATA", "CACHE")}
        done = subprocess.run(
            [locate("helm"), *arguments],
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
            env={**os.environ, **nothing, **(environment or {})},
        )
    output: str = done.stdout
    if done.returncode:
        raise HelmError(f"{done.stderr.strip()}\n{output.strip()}".strip())
    return output


def render(values: Json | None = None, *arguments: str, release: str = RELEASE) -> str:
    """The manifests that an installation with these values would apply, without its tests."""
    with tempfile.TemporaryDirectory() as directory:
        file = Path(directory) / "values.json"
        file.write_text(json.dumps(values or {}))
        return helm(
            *("template", release, CHART, "--namespace", NAMESPACE, "--values", file),
            *arguments,
        )


def objects(values: Json | None = None, *arguments: str, release: str = RELEASE) -> list[Json]:
    """The same as plain objects."""
    text = render(values, *arguments, release=release)
    return [each for each in yaml.safe_load_all(text) if each]
