"""One plugin on a small cluster, asked through the runtime as the scheduler asks it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import msgspec
import numpy as np

from scheduler.assembly import assemble, available
from scheduler.config.defaults import SCHEDULER_NAME
from scheduler.config.loading import from_dicts
from scheduler.config.schema import KUBE_API_VERSION, KUBE_KIND
from scheduler.model.events import Event
from scheduler.model.podinfo import PodInfo
from scheduler.model.status import Status
from scheduler.observe.metrics import Metrics
from scheduler.pipeline.evaluation import evaluate
from scheduler.plugin_api.cycle import Cycle
from scheduler.queueing.hints import HintRegistration, HintTable, Requeue
from scheduler.queueing.queued_pod import QueuedPod
from scheduler.queueing.waiters import Waiters
from tests.builders import Json, NodeBuilder, PodBuilder
from tests.pipeline.support import RecordingOutlet

METRICS = Metrics()


def cured(
    plugin: str,
    hints: Mapping[str, Sequence[HintRegistration]],
    pod: PodInfo,
    event: Event,
    metrics: Metrics,
) -> bool:
    """Whether an event brings back a pod that the plugin rejected: by its hint and its column."""
    table = HintTable({SCHEDULER_NAME: hints}, metrics, clock=lambda: 0.0)
    queued = QueuedPod(pod, 0.0, unschedulable_plugins={plugin})
    by_hint = table.verdict(queued, event) is not Requeue.SKIP
    waiters = Waiters(table, metrics)
    waiter = waiters.join(queued, pod, (0,), SCHEDULER_NAME, [plugin], frozenset())
    waiters.mark(event)
    if not (isinstance(event.new, PodInfo) and event.new.uid == pod.uid):
        assert bool(waiters.marked) is by_hint, "the column answers as the hint"
    waiters.leave(waiter)
    waiters.mark(event)
    assert not waiters.marked, "nobody waits any more"
    return by_hint


def only(plugin: str, args: Any) -> Json:
    """A configuration with this plugin and the two that no profile can do without."""
    names = dict.fromkeys(("PrioritySort", plugin, "DefaultBinder"))
    profile: Json = {
        "plugins": {
            "multiPoint": {
                "disabled": [{"name": "*"}],
                "enabled": [{"name": name, "weight": 1} for name in names],
            }
        },
    }
    if args is not None:
        profile["pluginConfig"] = [{"name": plugin, "args": msgspec.to_builtins(args)}]
    return {"apiVersion": KUBE_API_VERSION, "kind": KUBE_KIND, "profiles": [profile]}


class Bench:
    """A plugin (class and arguments) and the nodes and pods it judges."""

    def __init__(
        self,
        plugin: Any,
        nodes: Iterable[NodeBuilder],
        pods: Iterable[PodBuilder] = (),
        args: Any = None,
    ) -> None:
        config = from_dicts([only(plugin.name, args)], available(), environ={})
        core = assemble(config, RecordingOutlet(), METRICS)
        self.name = plugin.name
        self.state = core.state
        self.framework = core.frameworks[SCHEDULER_NAME]
        for node in nodes:
            self.state.set_node(node.struct())
        for pod in pods:
            self.state.set_pod(pod.info())

    def verdicts(self, pod: PodBuilder) -> dict[str, Status]:
        """The verdict on each node; a node alone gets the same from the plugin."""
        cycle = Cycle(pod.info(), self.state)
        diagnosis = evaluate(self.framework, cycle).diagnosis()
        if diagnosis.pre_filter is not None:
            return dict.fromkeys(self.state.names(), diagnosis.pre_filter)
        if self.framework.filters.include(self.name) and self.name not in cycle.skipped["filter"]:
            together = self.framework.filters.judge(self.name, cycle, diagnosis.rows)
            rows = diagnosis.rows.tolist()
            alone = [self.framework.filters.judge_one(self.name, cycle, row) for row in rows]
            assert alone == together.tolist()
        return {
            self.state.name(int(row)): self.state.statuses.status(int(code))
            for row, code in zip(diagnosis.rows, diagnosis.codes, strict=True)
        }

    def scores(
        self, pod: PodBuilder, feasible: Collection[str] | None = None
    ) -> dict[str, int] | None:
        """The normalised score of these nodes, or of every node; None if the plugin skipped."""
        names = self.state.names() if feasible is None else feasible
        rows = np.array([r for r in self.state.rows() if self.state.name(r) in names], np.intp)
        parts = self.framework.run_scores(Cycle(pod.info(), self.state), rows).plugins
        if self.name not in parts:
            return None
        return {
            self.state.name(int(row)): int(score)
            for row, score in zip(rows, parts[self.name], strict=True)
        }

    def wakes(self, pod: PodBuilder, event: Event) -> bool:
        """Whether an event brings back a pod that the plugin rejected."""
        return cured(self.name, self.framework.hints(), pod.info(), event, METRICS)
