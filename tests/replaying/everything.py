"""Records every core that a test makes, and has it decide again when the test is over.

``pytest -p tests.replaying.everything tests/daemon tests/gangs tests/webhooks``: what these tests
think of is far more than tests of recordings could. Tests that change the state behind the
scheduler's back, or plant plugins that fail once, differ rightly.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from scheduler import assembly
from scheduler.assembly import Core, assemble
from scheduler.config.loading import Configuration
from scheduler.observe.metrics import Metrics
from scheduler.recording.tape import Tape
from scheduler.replaying import following
from scheduler.replaying.driving import follow
from tests.replaying.support import BOUNDS


class Made(NamedTuple):
    """A core of a test, and where it is recorded."""

    tape: Tape
    directory: Path
    config: Configuration
    options: dict[str, Any]


_made: list[Made] = []
_LEFT_ALONE = (__name__, assembly.__name__, following.__name__)


def _assemble(config: Configuration, outlet: Any, metrics: Metrics, **options: Any) -> Core:
    if options.get("dry"):  # a simulation, or a replay
        return assemble(config, outlet, metrics, **options)
    directory = Path(tempfile.mkdtemp(prefix="recorded-"))
    clock = options.get("clock", time.monotonic)
    tape = Tape(directory, BOUNDS, config.for_others(), Metrics(), clock)
    tape.start()
    _made.append(Made(tape, directory, config, options))
    return assemble(config, outlet, metrics, **{**options, "journal": tape})


@pytest.fixture(autouse=True)
def _decided_again(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for module in list(sys.modules.values()):
        if module.__name__ not in _LEFT_ALONE and vars(module).get("assemble") is assemble:
            monkeypatch.setattr(module, "assemble", _assemble)
    _made.clear()
    yield
    for each in _made:
        each.tape.close()
        _replay(each, monkeypatch)


def _replay(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    def with_same_points(*args: Any, **options: Any) -> Core:
        return assemble(*args, without=made.options.get("without", ()), **options)

    monkeypatch.setattr(following, "assemble", with_same_points)
    comparison = follow(
        made.directory, made.config, registry=made.options.get("registry")
    ).comparison
    shutil.rmtree(made.directory)
    assert comparison.differences[:5] == []
