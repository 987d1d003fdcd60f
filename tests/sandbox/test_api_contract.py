"""The embedded API server keeps the contract that the real one defines."""

from collections.abc import AsyncIterator

import pytest

from sandbox.apiserver import ApiServer
from tests.apicontract import ApiContract, ApiEndpoint


class TestEmbeddedServer(ApiContract):
    @pytest.fixture
    async def api(self) -> AsyncIterator[ApiEndpoint]:
        async with ApiServer(bookmark_seconds=0.05) as server:
            yield ApiEndpoint(server.url)
