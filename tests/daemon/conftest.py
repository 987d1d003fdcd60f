"""An embedded cluster for each scenario."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from e2e.harness.ports import free_port
from sandbox.apiserver import ApiServer
from tests.daemon.support import Cluster


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    server = ApiServer()
    # Nobody else takes it while a test has the server stopped.
    await server.start(port=free_port())
    try:
        yield Cluster(server)
        server.faults.clear()
    finally:
        await server.stop()


@pytest.fixture
async def lax_cluster() -> AsyncIterator[Cluster]:
    """A cluster whose API server takes everything."""
    async with ApiServer(validate=False) as server:
        yield Cluster(server)
        server.faults.clear()
