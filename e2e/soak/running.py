"""A soak: a control plane, the program, churn and samples."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from e2e.adversity.scene import APISERVER_FLAGS, OTHERS
from e2e.harness.client import ApiClient, api_client
from e2e.harness.cluster import ControlPlane
from e2e.harness.election import NO_ELECTION
from e2e.harness.groups import define_podgroups, with_coscheduling
from e2e.harness.scheduler import NAMESPACE, SchedulerProcess
from e2e.soak.churn import Churn
from e2e.soak.samples import Sample, take, trends
from e2e.soak.trend import Trend

SAMPLES = 64
"""So many samples are taken, at equal distances."""


@dataclass(frozen=True)
class Soaked:
    """What came of it."""

    seconds: float
    rounds: int
    placed: int
    samples: list[Sample]

    @property
    def trends(self) -> list[Trend]:
        """Of all series."""
        return trends(self.samples)

    @property
    def grown(self) -> list[str]:
        """Those that are not flat."""
        return [
            f"{each.name}: {each.second:,.0f} to {each.last:,.0f}"
            for each in self.trends
            if not each.flat
        ]


async def soak(
    directory: Path,
    seconds: float,
    tell: Callable[[str], None] = lambda text: None,
    number: int = SAMPLES,
) -> Soaked:
    """Churn for so long, and until there are so many samples; the directory gets the logs."""
    with ControlPlane(directory, bare=True, apiserver_flags=APISERVER_FLAGS) as plane:
        async with api_client(plane.url, plane.admin_context) as api:
            spaces = [{"metadata": {"name": name}} for name in (OTHERS, NAMESPACE)]
            await api.create_all("/api/v1/namespaces", spaces)
            await define_podgroups(api)
            arguments = (*NO_ELECTION, with_coscheduling(directory))
            program = SchedulerProcess(plane.admin_kubeconfig, directory / "run.log", *arguments)
            with program:
                return await _churn(api, program, seconds, tell, number)


async def _churn(
    api: ApiClient,
    program: SchedulerProcess,
    seconds: float,
    tell: Callable[[str], None],
    number: int,
) -> Soaked:
    churn = Churn(api)
    await churn.begin()
    samples: list[Sample] = []
    began = time.monotonic()
    while (passed := time.monotonic() - began) < seconds or len(samples) < number:
        await churn.turn()
        if passed >= seconds * len(samples) / number:
            pid = program.process.pid
            samples.append(await asyncio.to_thread(take, program.url, pid))
            tell(f"{passed:6.0f} s  {churn.placed:7d} pods  {_short(samples[-1])}")
    return Soaked(passed, churn.rounds, churn.placed, samples)


def _short(sample: Sample) -> str:
    shown = {name: f"{value:,.0f}" for name, value in sample.items() if "cache" not in name}
    return "  ".join(f"{name} {value}" for name, value in shown.items())
