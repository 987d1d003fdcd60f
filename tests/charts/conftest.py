"""All tests of the chart need helm."""

from pathlib import Path

import pytest

from tests.charts.support import needs_helm


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skip what is in this directory, with the reason, while there is no helm."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(needs_helm)
