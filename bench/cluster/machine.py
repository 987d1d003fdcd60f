"""What the machine is like, and what a process on it has used so far; Linux only."""

import os
import platform
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

CALIBRATION_ROWS = 5_000
CALIBRATION_STEPS = 2_000


@dataclass(frozen=True)
class Machine:
    """What figures depend on besides the programs."""

    cores: int
    architecture: str
    python: str
    numpy: str

    @classmethod
    def this(cls) -> "Machine":
        """The one we run on; cores are those this process may use."""
        cores = len(os.sched_getaffinity(0))
        return cls(cores, platform.machine(), platform.python_version(), np.__version__)


@dataclass(frozen=True)
class Usage:
    """CPU time and the most memory a process has used up to now, with all its threads."""

    cpu_seconds: float
    peak_mib: float

    @classmethod
    def of(cls, pid: int) -> "Usage":
        """Read it from /proc while the process runs.

        The rusage of an ended child would not do: its peak is never below what the parent itself
        occupied when it started the child.
        """
        directory = Path("/proc") / str(pid)
        # The second field, the program's name, may contain spaces but ends with the last bracket.
        fields = (directory / "stat").read_text().rpartition(")")[2].split()
        ticks = int(fields[11]) + int(fields[12])
        status = (directory / "status").read_text()
        peak_kib = int(status.partition("VmHWM:")[2].split()[0])
        return cls(ticks / os.sysconf("SC_CLK_TCK"), peak_kib / 1024)


def cpu_seconds(pids: Iterable[int]) -> float:
    """What some processes have used together."""
    return sum(Usage.of(pid).cpu_seconds for pid in pids)


def calibrate(clock: Callable[[], float] = time.perf_counter) -> float:
    """Milliseconds for a fixed amount of NumPy work, so that figures of machines can be compared.

    Takes some tens of milliseconds; more means a slower machine or one with other work to do.
    """
    free = np.arange(CALIBRATION_ROWS, dtype=np.int64)
    began = clock()
    for step in range(CALIBRATION_STEPS):
        scores = np.where(free > step, free * 100 // CALIBRATION_ROWS, -1)
        free[int(scores.argmax())] -= 1
    return (clock() - began) * 1000
