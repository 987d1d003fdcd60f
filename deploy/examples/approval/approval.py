"""Has pods with the label ``approval.example.com/required`` wait until somebody approves them.

Such a pod holds its node meanwhile. `equipoise queue` lists it, and `equipoise approve` lets it go.
"""

from scheduler.plugin_api import (
    SUCCESS,
    Code,
    Cycle,
    Handle,
    HintRegistration,
    Status,
)

REQUIRED = "approval.example.com/required"
WAIT = Status(Code.WAIT)


class Approval:
    """Says Wait, and leaves the rest to people; without a word the pod goes back in time."""

    name = "Approval"

    def __init__(self, args: dict[str, float] | None, handle: Handle) -> None:
        self._seconds = float((args or {}).get("timeoutSeconds", 600))

    def permit(self, cycle: Cycle, node: str) -> tuple[Status, float]:
        """Have the pod wait, if it says so."""
        if REQUIRED in cycle.pod.pod.metadata.labels:
            return WAIT, self._seconds
        return SUCCESS, 0.0

    def hints(self) -> list[HintRegistration]:
        """No event cures a pod that was rejected: it is tried again when it has waited for long."""
        return []
