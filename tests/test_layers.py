"""The import contracts of pyproject.toml hold."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

PYPROJECT = Path(__file__).parent.parent / "pyproject.toml"


def test_import_contracts() -> None:
    # In a process of its own: the linter reconfigures logging for whoever calls it.
    linter = Path(sys.executable).parent / "lint-imports"
    command = [str(linter), "--config", str(PYPROJECT), "--no-cache"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout + result.stderr
