"""These tests need helm, which ``make controlplane`` builds; ``make test`` does that first."""

from pathlib import Path

import pytest

from e2e.controlplane.binaries import locate


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what is in this directory, with the reason, while there is no helm."""
    try:
        locate("helm")
    except FileNotFoundError as missing:
        for item in items:
            if Path(__file__).parent in item.path.parents:
                item.add_marker(pytest.mark.skip(reason=str(missing)))
