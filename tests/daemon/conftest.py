"""An embedded cluster for each scenario."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from sandbox.apiserver import ApiServer
from tests.daemon.support import Cluster


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    async with ApiServer() as server:
        yield Cluster(server)
        server.faults.clear()


@pytest.fixture
async def lax_cluster() -> AsyncIterator[Cluster]:
    """A cluster whose API server takes everything."""
    async with ApiServer(validate=False) as server:
        yield Cluster(server)
        server.faults.clear()
