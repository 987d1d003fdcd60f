"""Time as Kubernetes writes it: RFC 3339 in UTC with six digits (`metav1.MicroTime`)."""

from datetime import UTC, datetime


def micro_time(moment: datetime) -> str:
    """``2026-01-31T12:00:00.000000Z``: always six digits, which the API server insists on."""
    naive = moment.astimezone(UTC).replace(tzinfo=None)
    return naive.isoformat(timespec="microseconds") + "Z"
