"""Trials: the state changed for a while, and the plugins told that keep notes of it per cycle."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager

from scheduler.framework.cycle import Cycle
from scheduler.framework.interface import WhatIfPlugin
from scheduler.framework.runtime import Framework
from scheduler.model.podinfo import PodInfo
from scheduler.state.scratch import Scratch, scratch


def trial(framework: Framework, cycle: Cycle) -> AbstractContextManager[Scratch]:
    """Change the state for the length of a block, within an attempt. Nothing inside may await."""
    told = [
        (name, plugin) for name, plugin in framework.what_if if name not in cycle.skipped["filter"]
    ]
    return scratch(cycle.state, _Told(framework, cycle, told) if told else None)


class _Told:
    """Passes changes on to plugins; a fault of one ends the attempt."""

    def __init__(
        self, framework: Framework, cycle: Cycle, plugins: Sequence[tuple[str, WhatIfPlugin]]
    ) -> None:
        self._framework = framework
        self._cycle = cycle
        self._plugins = plugins

    def added(self, pod: PodInfo, node: str) -> None:
        for name, plugin in self._plugins:
            try:
                plugin.add_pod(self._cycle, pod, node)
            except Exception as fault:
                raise self._framework.complaints.fault(name, "AddPod", fault) from fault

    def removed(self, pod: PodInfo, node: str) -> None:
        for name, plugin in self._plugins:
            try:
                plugin.remove_pod(self._cycle, pod, node)
            except Exception as fault:
                raise self._framework.complaints.fault(name, "RemovePod", fault) from fault
