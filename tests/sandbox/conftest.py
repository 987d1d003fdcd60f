"""An embedded server and a plain client for each test."""

from collections.abc import AsyncIterator

import pytest

from sandbox.apiserver import ApiServer
from tests.apicontract.client import ApiEndpoint, Client, connect


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    async with ApiServer() as running:
        yield running


@pytest.fixture
async def client(server: ApiServer) -> AsyncIterator[Client]:
    async with connect(ApiEndpoint(server.url)) as connected:
        yield connected
