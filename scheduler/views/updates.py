"""What has happened since a reader last looked: new decisions, and the newest sample."""

from __future__ import annotations

import msgspec

from scheduler.assembly import Core
from scheduler.observe.decisions import Decision
from scheduler.observe.samples import Sample, Samples

MAX_DECISIONS = 200
"""How many are sent at once; of further ones only their number."""


class Updates(msgspec.Struct, frozen=True):
    """What is new, and from where to ask next."""

    seq: int
    """The number of the newest decision."""
    decisions: list[Decision]
    """The newest, oldest first."""
    skipped: int
    """How many were made before these, since the last look."""
    taken: int
    """The number of the newest sample."""
    sample: Sample | None
    """The newest sample, unless the reader has it."""
    loop_lag_ms: float


def updates(core: Core, samples: Samples, lag: float, seq: int | None, taken: int) -> Updates:
    """What is new after decision ``seq`` (None: no decision is sent) and sample ``taken``."""
    made = core.decisions.made
    fresh = [] if seq is None else core.decisions.since(seq, MAX_DECISIONS)
    skipped = 0 if seq is None else max(0, made - seq - len(fresh))
    sample = samples.newest if samples.taken != taken else None
    return Updates(made, fresh, skipped, samples.taken, sample, round(1000 * lag, 3))
