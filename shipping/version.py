"""The version: said in ``pyproject.toml``, and written from there to where else it must stand."""

import re
import tomllib
from pathlib import Path

from shipping.helm import CHART, PROJECT

PACKAGE = PROJECT / "scheduler" / "__init__.py"
CHART_FILE = CHART / "Chart.yaml"

_PLACES = {
    PACKAGE: (r'^(__version__ = ")[^"]*(")$',),
    CHART_FILE: (r"^(version: )\S+()$", r"^(appVersion: )\S+()$", r"^( *image: equipoise:)\S+()$"),
}


def version() -> str:
    """The version of everything that is released together."""
    project = tomllib.loads((PROJECT / "pyproject.toml").read_text())["project"]
    return str(project["version"])


def with_version() -> dict[Path, str]:
    """The files that repeat the version, as they must be."""
    return {path: _rewritten(path, patterns) for path, patterns in _PLACES.items()}


def _rewritten(path: Path, patterns: tuple[str, ...]) -> str:
    text = path.read_text()
    for pattern in patterns:
        text, count = re.subn(pattern, rf"\g<1>{version()}\g<2>", text, flags=re.M)
        if count != 1:
            raise ValueError(f"{path}: {count} lines match {pattern}, expected one")
    return text
