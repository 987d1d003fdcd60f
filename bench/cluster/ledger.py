"""What was measured already: a turn that is finished need not be repeated after an interruption.

One file for each version of the code, versions of the programs, and machine; one line for each
turn. Figures of different code never mix.
"""

import hashlib
import json
import subprocess
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench.cluster.contestants import Contestant
from bench.cluster.measuring import Measurement
from bench.cluster.workloads import Size, Workload
from e2e.controlplane.binaries import ETCD, KUBERNETES, cache_dir

ROOT = Path(__file__).parents[2]
CODE = ("scheduler", "bench/cluster", "e2e/harness")
KEPT_FILES = 20


@dataclass(frozen=True)
class Turn:
    """One contestant, one workload, one round."""

    workload: Workload
    size: Size
    round: int
    contestant: Contestant

    @property
    def key(self) -> str:
        """What a repeated turn has in common with the first."""
        size = self.size
        counts = f"{size.nodes}/{size.init}/{size.measured}/{size.unfit}"
        return f"{self.workload.name}/{counts}/{self.round}/{self.contestant.name}"

    @property
    def title(self) -> str:
        """For people."""
        where = f"{self.workload.name} {self.size.nodes} nodes"
        return f"{where}, round {self.round + 1}, {self.contestant.name}"


class Ledger:
    """The finished turns of one file. A line that was cut short counts as not written."""

    def __init__(self, path: Path, run: str) -> None:
        self._path = path
        self._run = run
        self._lines: dict[str, dict[str, Any]] = {}
        if path.exists():
            for line in path.read_text().splitlines():
                try:
                    entry = json.loads(line)
                    Measurement(**entry["measurement"])
                except (ValueError, KeyError, TypeError):
                    continue
                self._lines[entry["turn"]] = entry

    def get(self, turn: Turn) -> Measurement | None:
        """What the turn showed, if it is finished."""
        entry = self._lines.get(turn.key)
        return Measurement(**entry["measurement"]) if entry else None

    def put(self, turn: Turn, measurement: Measurement) -> None:
        """Write a finished turn down at once."""
        entry = {"turn": turn.key, "run": self._run, "measurement": asdict(measurement)}
        self._lines[turn.key] = entry
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a") as file:
            # After a line that was cut short, the next must not continue it.
            file.write(f"\n{json.dumps(entry)}")

    def runs(self, turns: list[Turn]) -> int:
        """From how many runs of the bench these turns come."""
        return len({self._lines[turn.key]["run"] for turn in turns if turn.key in self._lines})


def open_ledger(run: str, *, cores: int, fairness: bool, fresh: bool) -> Ledger:
    """The ledger for the code as it is now; a fresh one forgets what it had."""
    versions = (KUBERNETES.version, ETCD.version, str(cores), str(fairness))
    name = hashlib.sha256("\n".join((code_version(), *versions)).encode()).hexdigest()[:16]
    path = cache_dir().parent / "bench" / f"{name}.jsonl"
    if fresh:
        path.unlink(missing_ok=True)
    _forget_old(path.parent)
    return Ledger(path, run)


def code_version() -> str:
    """A name for the content of all that takes part in a measurement."""
    digest = hashlib.sha256()
    for part in CODE:
        for path in sorted((ROOT / part).rglob("*.py")):
            digest.update(f"{path.relative_to(ROOT)}\n".encode())
            digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def commit() -> str:
    """The commit of the checkout, with a plus if the code differs from it; empty without git."""
    git = ("git", "-C", str(ROOT))
    try:
        head = subprocess.run(
            [*git, "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=True
        )
        changed = subprocess.run([*git, "diff", "--quiet", "HEAD", "--", *CODE], check=False)
    except (OSError, subprocess.CalledProcessError):
        return ""
    return head.stdout.strip() + ("+" if changed.returncode else "")


def _forget_old(directory: Path) -> None:
    files = sorted(directory.glob("*.jsonl"), key=lambda path: path.stat().st_mtime)
    for path in files[:-KEPT_FILES]:
        path.unlink(missing_ok=True)
