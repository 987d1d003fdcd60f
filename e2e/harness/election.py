"""What tests need to know of leader election: short times, and who holds the lease."""

from e2e.harness.client import ApiClient
from e2e.harness.objects import Json
from e2e.harness.scheduler import LEASE, NAMESPACE

# Shorter than usual, so that a takeover is quick; long enough for a renewal on a busy machine.
QUICK_ELECTION = (
    "--leader-elect=true",
    "--leader-elect-lease-duration=12s",
    "--leader-elect-renew-deadline=10s",
    "--leader-elect-retry-period=500ms",
    f"--leader-elect-resource-namespace={NAMESPACE}",
)
NO_ELECTION = ("--leader-elect=false",)


def holder(lease: Json) -> str:
    """The identity of the leader, empty if there is none."""
    return str(lease["spec"].get("holderIdentity") or "")


async def wait_for_leader(api: ApiClient, other_than: str = "") -> str:
    """Wait until a replica other than ``other_than`` leads; return its identity."""
    lease = await api.wait_until(LEASE, lambda lease: holder(lease) not in ("", other_than))
    return holder(lease)
