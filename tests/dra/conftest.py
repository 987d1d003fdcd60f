"""An embedded cluster for each scenario."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from sandbox.apiserver import ApiServer
from tests.dra.devices import DeviceCluster


@pytest.fixture
async def cluster() -> AsyncIterator[DeviceCluster]:
    async with ApiServer() as server:
        yield DeviceCluster(server)
        server.faults.clear()
