"""An embedded server and a plain client for each test."""

from collections.abc import AsyncIterator

import pytest

from scheduler.sandbox.apiserver import ApiServer

pytest.register_assert_rewrite("tests.apicontract")

from tests.apicontract.client import (  # noqa: E402  because its asserts are to be rewritten
    ApiEndpoint,
    Client,
    connect,
)


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    async with ApiServer() as running:
        yield running


@pytest.fixture
async def client(server: ApiServer) -> AsyncIterator[Client]:
    async with connect(ApiEndpoint(server.url)) as connected:
        yield connected
