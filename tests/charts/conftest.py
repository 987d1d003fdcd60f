"""All tests of the chart need helm."""

from pathlib import Path

import pytest

from tests.charts.support import needs_helm


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what is in this directory, with the reason, while there is no helm."""
    here = Path(__file__).parent
    for item in items:
        if item.path.parent == here:
            item.add_marker(needs_helm)
