"""How many seeds were simulated, as it is kept in the repository.

``python -m tests.reliability --simulated world=verdicts.jsonl`` adds a run, from the verdicts that
``python -m tests.sim --output`` wrote.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec

FILE = Path(__file__).parent / "simulated.json"


class Verdict(msgspec.Struct, frozen=True):
    """What counts of a seed."""

    seed: int
    fault: str
    virtual_seconds: float
    callbacks: int


class Run(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Some seeds of a scenario, all of which were run to their end."""

    scenario: str
    first: int
    last: int
    seeds: int
    """How many there are between first and last."""
    virtual_seconds: float
    callbacks: int
    failed: list[int]
    """Seeds that failed then."""


def summarised(scenario: str, lines: Iterable[bytes]) -> Run:
    """A run, from verdicts as JSON lines; the last line may be cut off, if it is still going on."""
    whole = [each for each in lines if each.endswith(b"\n")]
    verdicts = [msgspec.json.decode(each, type=Verdict) for each in whole]
    if not verdicts:
        raise ValueError("there is no verdict")
    seeds = {each.seed for each in verdicts}
    if len(seeds) != len(verdicts):
        raise ValueError("a seed has two verdicts")
    return Run(
        scenario=scenario,
        first=min(seeds),
        last=max(seeds),
        seeds=len(seeds),
        virtual_seconds=round(sum(each.virtual_seconds for each in verdicts)),
        callbacks=sum(each.callbacks for each in verdicts),
        failed=sorted(each.seed for each in verdicts if each.fault),
    )


def added(runs: Sequence[Run], new: Run) -> list[Run]:
    """The runs with one more. One of the same seeds is replaced, so that no seed counts twice."""
    others = [
        each
        for each in runs
        if each.scenario != new.scenario or each.last < new.first or new.last < each.first
    ]
    return sorted([*others, new], key=lambda each: (each.scenario != "world", each.first))


def load() -> list[Run]:
    """All runs."""
    return msgspec.json.decode(FILE.read_bytes(), type=list[Run])


def save(runs: Sequence[Run]) -> None:
    """Keep them, in a form that shows in a diff what has changed."""
    FILE.write_bytes(msgspec.json.format(msgspec.json.encode(runs), indent=1) + b"\n")
