"""Tests of rules need promtool: ``make controlplane`` fetches it, ``make test`` does that first."""

from pathlib import Path

import pytest

from e2e.controlplane.debian import PROMETHEUS


@pytest.fixture(scope="session")
def promtool() -> Path:
    """The program that checks rules and runs their tests."""
    try:
        return PROMETHEUS.locate("promtool")
    except FileNotFoundError as missing:
        pytest.skip(str(missing))
