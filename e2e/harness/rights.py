"""Whether anybody tried what they have no right to."""

import re

from e2e.harness.client import ApiClient

_DENIED = re.compile(
    r'^authorization_attempts_total\{result="(?:denied|no-opinion)"\} (\S+)$', re.M
)


async def denials(api: ApiClient) -> int:
    """How many requests the API server has denied since it started."""
    return sum(int(float(count)) for count in _DENIED.findall(await api.text("/metrics")))
