"""What tests need to know of leader election: times, and who holds the lease."""

from e2e.harness.client import ApiClient
from e2e.harness.objects import Json
from e2e.harness.scheduler import LEASE, NAMESPACE


def _election(lease: int, renew: int) -> tuple[str, ...]:
    return (
        "--leader-elect=true",
        f"--leader-elect-lease-duration={lease}s",
        f"--leader-elect-renew-deadline={renew}s",
        "--leader-elect-retry-period=500ms",
        f"--leader-elect-resource-namespace={NAMESPACE}",
    )


QUICK_ELECTION = _election(12, 10)
"""For takeovers from a leader that does not release: shorter than usual."""
PATIENT_ELECTION = _election(240, 200)
"""For all else: a leader on a machine that has much else to do keeps its lease."""
NO_ELECTION = ("--leader-elect=false",)


def holder(lease: Json) -> str:
    """The identity of the leader, empty if there is none."""
    return str(lease["spec"].get("holderIdentity") or "")


async def wait_for_leader(api: ApiClient, other_than: str = "") -> str:
    """Wait until a replica other than ``other_than`` leads; return its identity."""
    lease = await api.wait_until(LEASE, lambda lease: holder(lease) not in ("", other_than))
    return holder(lease)
