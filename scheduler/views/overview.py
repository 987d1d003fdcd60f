"""How the scheduler does, and what keeps most pods waiting."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scheduler import machine
from scheduler.assembly import Core
from scheduler.explaining.reasons import reasons_of
from scheduler.observe.samples import INTERVAL_SECONDS, Samples
from scheduler.pipeline.permits import SUSPENDED, WAITING
from scheduler.slices import checkpoint

MOST_FAILING = 10
MAX_MESSAGES = 10_000
"""How many different verdicts are read; further ones are left out of what fails most."""


def overview(core: Core, samples: Samples) -> dict[str, Any]:
    """Counts now, the samples of the last half hour, and the reasons that most pods wait for."""
    tiers = _tiers(core)
    return {
        "now": machine.wall(),
        "profiles": list(core.frameworks),
        "nodes": core.state.node_count,
        "pods": {"bound": core.state.pod_count, "pending": sum(tiers.values())},
        "tiers": tiers,
        "intervalSeconds": INTERVAL_SECONDS,
        "series": samples.series(),
        "failing": _failing(core),
    }


def _tiers(core: Core) -> dict[str, int]:
    """Pods in each tier; of those in flight, which wait for permission or an answer."""
    waiting, suspended = len(core.permits.entries()), len(core.suspension)
    counts = core.queue.view.counts()
    counts["in-flight"] = max(0, counts["in-flight"] - waiting - suspended)
    return {**counts, WAITING: waiting, SUSPENDED: suspended}


class _Failing:
    """The pods that one reason keeps waiting."""

    __slots__ = ("classes", "pods")

    def __init__(self) -> None:
        self.pods = 0
        self.classes = 0


def _failing(core: Core) -> list[dict[str, Any]]:
    """The reasons that most pods wait for, each with its plugin; a pod may wait for several."""
    found: dict[tuple[str, str], _Failing] = {}
    signers = _signers(core)
    for number, verdict in enumerate(core.queue.view.verdicts()):
        checkpoint()
        if number >= MAX_MESSAGES:
            break
        for reason in dict.fromkeys(reasons_of(verdict.message)):
            plugin = signers.get(reason) or ", ".join(verdict.plugins)
            entry = found.setdefault((plugin, reason), _Failing())
            entry.pods += verdict.pods
            entry.classes += 1
    most = sorted(found.items(), key=lambda each: (-each[1].pods, each[0]))[:MOST_FAILING]
    return [
        {"plugin": plugin, "reason": reason, "pods": each.pods, "classes": each.classes}
        for (plugin, reason), each in most
    ]


def _signers(core: Core) -> Mapping[str, str]:
    """The plugin that gives each reason, as far as verdicts are kept."""
    table = core.state.statuses
    signers: dict[str, str] = {}
    generation = table.generation
    for code in range(len(table)):
        checkpoint()
        if table.generation != generation:
            break
        status = table.status(code)
        for reason in status.reasons:
            signers.setdefault(reason, status.plugin)
    return signers
