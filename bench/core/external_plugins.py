"""Ten trivial filter plugins from outside the tree, and what they add to a decision."""

from __future__ import annotations

from typing import Any

import numpy as np

from scheduler.equivalence.reads import Reads
from scheduler.framework.registry import Registry
from scheduler.model.podinfo import PodInfo
from scheduler.model.status import SUCCESS, Status
from scheduler.plugin_api import Handle, NodeView
from scheduler.plugin_api.cycle import Cycle
from scheduler.plugin_api.traits import PluginTraits
from scheduler.plugins.table import IN_TREE
from scheduler.state.aspects import Aspect
from scheduler.state.columns import Codes, Rows
from tests.builders import Json

NUMBER = 10


class InColumns:
    """Lets every row pass, for all or for one, as the in-tree plugins do."""

    traits = PluginTraits(row_by_row=True)
    filter_reads = Reads(rows=frozenset({Aspect.PODS}))

    def __init__(self, args: Any, handle: Handle) -> None: ...

    def filter_key(self, pod: PodInfo) -> str:
        return pod.pod.metadata.namespace

    def filter(self, cycle: Cycle, rows: Rows) -> Codes:
        return np.zeros(len(rows), np.int32)

    def filter_one(self, cycle: Cycle, row: int) -> int:
        return 0


class ForOneNode:
    """The same, one node at a time."""

    traits = PluginTraits(row_by_row=True)
    filter_reads = InColumns.filter_reads

    def __init__(self, args: Any, handle: Handle) -> None: ...

    def filter_key(self, pod: PodInfo) -> str:
        return pod.pod.metadata.namespace

    def filter_node(self, cycle: Cycle, node: NodeView) -> Status:
        return SUCCESS


def external_plugins(kind: type) -> tuple[Json, Registry]:
    """A profile with ten plugins of a kind besides the default ones, and where to find them.

    Every placement changes what they read, so each is asked about one row in every decision.
    """
    names = [f"{kind.__name__}{number}" for number in range(NUMBER)]
    plugins = {"multiPoint": {"enabled": [{"name": name} for name in names]}}
    config = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"plugins": plugins}],
    }
    return config, {**IN_TREE, **{name: type(name, (kind,), {"name": name}) for name in names}}
