"""Programs that tests need: ``make controlplane`` fetches them, ``make test`` does that first."""

from pathlib import Path

import pytest

from e2e.controlplane.debian import PROMETHEUS, UMOCI, Package


@pytest.fixture(scope="session")
def promtool() -> Path:
    """The program that checks rules and runs their tests."""
    return program(PROMETHEUS, "promtool")


@pytest.fixture(scope="session")
def umoci() -> Path:
    """The program that unpacks images without an engine."""
    return program(UMOCI, "umoci")


def program(package: Package, name: str) -> Path:
    """Where a program is; the test is skipped if it has not been fetched."""
    try:
        return package.locate(name)
    except FileNotFoundError as missing:
        pytest.skip(str(missing))
