"""Holds the turns of a plan: a fresh control plane for each case, contestants in turn on it."""

import asyncio
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.cluster.arena import prepare
from bench.cluster.contestants import Launcher
from bench.cluster.ledger import Ledger, Turn
from bench.cluster.measuring import BenchError, Course
from bench.cluster.plan import Case
from bench.cluster.progress import Screen, screen
from bench.cluster.run import Clock
from e2e.harness.client import api_client
from e2e.harness.cluster import ControlPlane

APISERVER_FLAGS = (
    # No kubelet reports nodes ready here, no controller creates service accounts, and pods have
    # their priorities as numbers.
    "--disable-admission-plugins=TaintNodesByCondition,ServiceAccount,Priority",
    # What a turn has left behind is to be gone soon.
    "--delete-collection-workers=16",
)


@dataclass(frozen=True)
class Held:
    """How far a run of the bench came."""

    in_time: bool
    """Whether every turn could begin before the deadline."""
    failures: list[str]
    """Turns that went wrong, in words; what was left of their cases was not held."""


@dataclass(frozen=True)
class Runner:
    """Holds outstanding turns until ``deadline``, and writes each down when it is finished."""

    ledger: Ledger
    screen: Screen
    fairness: bool
    deadline: float
    clock: Clock = time.monotonic

    def hold(self, cases: Sequence[Case]) -> Held:
        """Hold what is outstanding. A case that fails does not keep the others from their turns."""
        failures: list[str] = []
        for case in cases:
            outstanding = [turn for turn in case.turns() if self.ledger.get(turn) is None]
            try:
                if outstanding and not self._hold(case, outstanding):
                    return Held(False, failures)
            except BenchError as error:
                failures.append(f"{case.workload.name}, {case.size.nodes} nodes: {error}")
                self.screen.step(failures[-1])
        return Held(True, failures)

    def _hold(self, case: Case, turns: Sequence[Turn]) -> bool:
        if self._late():
            return False
        flags = [*APISERVER_FLAGS, f"--enable-priority-and-fairness={str(self.fairness).lower()}"]
        with tempfile.TemporaryDirectory(prefix="equipoise-bench-") as directory:
            self.screen.step(f"{case.workload.name}: starting etcd and kube-apiserver")
            with ControlPlane(Path(directory), bare=True, apiserver_flags=flags) as plane:
                return asyncio.run(self._hold_on(plane, case, turns))

    async def _hold_on(self, plane: ControlPlane, case: Case, turns: Sequence[Turn]) -> bool:
        async with api_client(plane.url, plane.admin_context) as api:
            arena = await prepare(api, case.workload, case.size, self.screen.step)
            course = Course(arena, Launcher(plane), plane.certificates.trust(), plane.pids)
            for turn in turns:
                if self._late():
                    return False
                self.screen.turn(turn.title, case.size.measured)
                measured = await course.run(turn.contestant, self.screen.bound)
                self.ledger.put(turn, measured)
                self.screen.done(
                    f"{measured.pods_per_second:.0f} pods/s, CPU {measured.cpu_seconds:.1f} s, "
                    f"{measured.peak_memory_mib:.0f} MiB"
                )
        return True

    def _late(self) -> bool:
        return self.clock() > self.deadline


def hold(cases: Sequence[Case], ledger: Ledger, *, fairness: bool, deadline: float) -> Held:
    """Hold what is outstanding, with progress on standard error."""
    outstanding = sum(ledger.get(turn) is None for case in cases for turn in case.turns())
    with screen(outstanding) as shown:
        return Runner(ledger, shown, fairness, deadline).hold(cases)
