"""What holds for every Kubernetes API server that Equipoise may meet, the embedded one included.

A subclass of `ApiContract` provides the fixture `api`, an `ApiEndpoint` with an administrator's
rights:

```python
pytest.register_assert_rewrite("tests.apicontract")  # in the topmost conftest.py

class TestMyServer(ApiContract):
    @pytest.fixture
    async def api(self) -> AsyncIterator[ApiEndpoint]: ...
```

Each test works in a namespace of its own, so a shared server will do.
"""

from collections.abc import AsyncIterator

import pytest

from tests.apicontract.applying import Applying
from tests.apicontract.binding import Binding
from tests.apicontract.client import ApiEndpoint, Client, connect, new_namespace
from tests.apicontract.describing import Describing
from tests.apicontract.devices import Devices
from tests.apicontract.kinds import Kinds
from tests.apicontract.reading import Reading
from tests.apicontract.reviews import Reviews
from tests.apicontract.subresources import Subresources
from tests.apicontract.tables import Tables
from tests.apicontract.writing import Writing

__all__ = ["ApiContract", "ApiEndpoint"]


class ApiContract(
    Reading, Writing, Binding, Kinds, Reviews, Describing, Tables, Applying, Subresources, Devices
):
    """All contract tests."""

    @pytest.fixture
    async def client(self, api: ApiEndpoint) -> AsyncIterator[Client]:
        async with connect(api) as client:
            yield client

    @pytest.fixture
    async def namespace(self, client: Client) -> AsyncIterator[str]:
        async with new_namespace(client) as name:
            yield name
