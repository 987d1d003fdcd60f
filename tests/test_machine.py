"""The daemon reads clocks and draws lots in one place, which a simulation replaces."""

from __future__ import annotations

import ast
import time
import uuid
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from scheduler import machine
from scheduler.queueing.scheduling_queue import SchedulingQueue

ROOT = Path(machine.__file__).parent
SOURCES = {
    "time": {"monotonic", "time", "perf_counter", "clock_gettime", "monotonic_ns", "time_ns"},
    "random": {"random", "uniform", "randrange", "randint", "choice", "shuffle", "sample"},
    "uuid": {"uuid1", "uuid4"},
    "datetime": {"now", "utcnow", "today"},
}
ELSEWHERE = {
    "machine.py",
    # Processes of their own.
    "serve/self_signed.py",
    "flow/solving.py",
    "flow/cpu_memory.py",
}


class StillMachine:
    """Says the same for ever."""

    def monotonic(self) -> float:
        return 1.0

    def boottime(self) -> float:
        return 2.0

    def wall(self) -> float:
        return 3.0

    def perf_counter(self) -> float:
        return 4.0

    def random(self) -> float:
        return 0.5

    def uuid4(self) -> uuid.UUID:
        return uuid.UUID(int=6)


def modules() -> Iterator[Path]:
    """All that runs in the daemon; commands are for people."""
    for path in sorted(ROOT.rglob("*.py")):
        name = path.relative_to(ROOT).as_posix()
        if name not in ELSEWHERE and not name.startswith("cli/"):
            yield path


MODULES = list(modules())


def readings(source: str) -> list[str]:
    """Where code asks the machine itself."""
    found = []
    for part in ast.walk(ast.parse(source)):
        if (
            isinstance(part, ast.Attribute)
            and isinstance(part.value, ast.Name)
            and part.attr in SOURCES.get(part.value.id, set())
        ):
            found.append(f"{part.lineno}: {part.value.id}.{part.attr}")
        if isinstance(part, ast.ImportFrom) and part.module in ("time", "random", "uuid"):
            found += [
                f"{part.lineno}: {part.module}.{alias.name}"
                for alias in part.names
                if alias.name in SOURCES[part.module]
            ]
    return found


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_nothing_else_asks_the_machine(path: Path) -> None:
    assert readings(path.read_text()) == []


def test_readings_are_found() -> None:
    assert readings("import time\nnow = time.monotonic()") == ["2: time.monotonic"]
    assert readings("from uuid import uuid4") == ["1: uuid.uuid4"]
    assert readings("def f(now=datetime.now): ...") == ["1: datetime.now"]


def test_a_default_bound_at_import_asks_the_machine_in_use() -> None:
    (default,) = (
        value
        for value in (SchedulingQueue.__init__.__kwdefaults__ or {}).values()
        if value is machine.monotonic
    )
    with machine.use(StillMachine()):
        assert default() == 1.0
        assert (machine.boottime(), machine.wall(), machine.perf_counter()) == (2.0, 3.0, 4.0)
        assert machine.utc_now() == datetime(1970, 1, 1, 0, 0, 3, tzinfo=UTC)
        assert machine.random() == 0.5
        assert machine.uuid4() == uuid.UUID(int=6)
    before = time.monotonic()
    assert before <= default() <= time.monotonic()
    assert machine.perf_counter is time.perf_counter
