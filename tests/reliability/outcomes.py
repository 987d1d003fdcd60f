"""What `make faults` measured, as it is kept in the repository."""

from __future__ import annotations

from pathlib import Path

import msgspec

FILE = Path(__file__).parent / "outcomes.json"


class Outcome(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One fault: what was done, what is promised, what the API and its audit log showed."""

    fault: str
    """Its name for `make faults`."""
    what: str
    promised: str
    rounds: int
    """How often it was done."""
    pods: int
    """How many pods there were, in all rounds."""
    in_flight: int
    """How many had no node yet when it was done, in all rounds."""
    recovery_seconds: list[float]
    """For each round, from the end of the fault until every pod that fits had a node."""
    lost: int = 0
    """Pods that fit and got no node."""
    doubled: int = 0
    """Pods with a second successful binding."""
    unentitled: int = 0
    """Successful bindings by a replica while another held the lease."""
    overcommitted: int = 0
    """Nodes whose pods request more than is allocatable, of those that only we use."""
    left_behind: int = 0
    """Claims, nominations and assumed pods that nobody needs any more."""
    seen: str = ""
    """What else was seen; one line."""

    @property
    def sound(self) -> bool:
        """Whether every promise was kept."""
        counts = (self.lost, self.doubled, self.unentitled, self.overcommitted, self.left_behind)
        return not any(counts)


class Fencing(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A leader was stopped between check and write, until another replica had the lease."""

    deadline: bool
    """Whether the timer of the kernel was set that ends such a process."""
    rounds: int
    ended_by_timer: int
    """How often the process ended by it."""
    sent: int
    """Bindings that the old leader sent while another replica held the lease."""
    late: int
    """Those of them that took effect."""


class Outcomes(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All of them, and how they were measured."""

    taken: str
    rows: list[Outcome]
    fencing: list[Fencing] = []


def load() -> Outcomes:
    """What was measured last."""
    return msgspec.json.decode(FILE.read_bytes(), type=Outcomes)


def save(outcomes: Outcomes) -> None:
    """Keep it, in a form that shows in a diff what has changed."""
    FILE.write_bytes(msgspec.json.format(msgspec.json.encode(outcomes), indent=1) + b"\n")
