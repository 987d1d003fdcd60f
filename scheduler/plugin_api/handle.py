"""What a plugin gets to work with: a handle of a few facets, given to its constructor.

::

    handle.state      the cluster in columns; read only
    handle.queue      activate pods, publish an event of the plugin's own
    handle.run        run the profile's filters, trials, background tasks, the clock
    handle.permits    pods that wait on permit
    handle.write      the API server
    handle.memories   what plugins keep by pod or node beyond one cycle
    handle.metrics    the metrics registry
    handle.settings   our own settings (EquipoiseConfiguration)
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import msgspec

from scheduler.config.schema import EquipoiseConfiguration
from scheduler.model.events import Event
from scheduler.model.podinfo import PodInfo
from scheduler.observe.metrics import Metrics
from scheduler.plugin_api.cycle import Cycle
from scheduler.plugin_api.memory import Memories
from scheduler.plugin_api.outlet import Outlet
from scheduler.plugin_api.waiting import WaitingPod
from scheduler.state.cache import ClusterState
from scheduler.state.columns import Codes, Rows
from scheduler.state.scratch import Scratch

if TYPE_CHECKING:
    from scheduler.plugin_api.extension_points import Plugin


class Victims(NamedTuple):
    """The pods to evict from a node, and how many of them violate a disruption budget."""

    pods: Sequence[PodInfo]
    violations: int


class PluginQueue(Protocol):
    """The scheduling queue, as plugins see it. Not before all plugins are made."""

    def activate(self, keys: Collection[str]) -> object:
        """Move waiting pods (``namespace/name``) to the active queue, without back-off."""
        ...

    def retry(self, keys: Collection[str]) -> None:
        """Have waiting pods (``namespace/name``) tried again after their back-off."""
        ...

    def tell(self, event: Event) -> None:
        """Publish an event: a change in a plugin's own state. Hints decide which pods it wakes."""
        ...

    def expects(self, uid: str) -> bool:
        """Whether the pod that is being scheduled still exists and has no node."""
        ...


class PluginRun(Protocol):
    """The profile's plugins, and work in the background. Not before all plugins are made."""

    def clock(self) -> float:
        """Monotonic seconds, for measuring."""
        ...

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine in the background; it handles its own errors. Cancelled at shutdown."""
        ...

    def prepare(self, cycle: Cycle) -> bool:
        """Run PreFilter anew, after the state changed during an attempt.

        False if a plugin now rejects the pod as a whole.
        """
        ...

    def filter(self, cycle: Cycle, rows: Rows) -> Codes:
        """Run the profile's filters on rows as they are now, with nominated pods."""
        ...

    def judges_row_by_row(self, cycle: Cycle) -> bool:
        """Whether all those filters have the trait ``row_by_row``."""
        ...

    def judges_by_sums(self, cycle: Cycle) -> bool:
        """Whether, besides, all of them have the trait ``by_sums``."""
        ...

    def trial(self, cycle: Cycle) -> AbstractContextManager[Scratch]:
        """Change the state for the length of a block (see ``WhatIfPlugin``)."""
        ...

    def trim_victims(self, cycle: Cycle, victims: Mapping[str, Victims]) -> Mapping[str, Victims]:
        """The victims of preemption, by node, that extenders allow."""
        ...


class PluginPermits(Protocol):
    """Pods that wait on permit, of all profiles."""

    def waiting(self, uid: str) -> WaitingPod | None:
        """A pod that a plugin had wait at ``permit``."""
        ...

    def waiting_pods(self) -> list[WaitingPod]:
        """All of them, in the order in which they began to wait."""
        ...

    def holding(self, cycle: Cycle, waiting: WaitingPod) -> AbstractContextManager[WaitingPod]:
        """Have a pod wait for the length of a block of its binding task."""
        ...


class Handle(msgspec.Struct, frozen=True):
    """What a plugin may hold on to."""

    profile: str
    """The ``schedulerName`` of the profile that the plugin belongs to."""
    state: ClusterState
    queue: PluginQueue
    run: PluginRun
    permits: PluginPermits
    write: Outlet
    memories: Memories
    metrics: Metrics
    settings: EquipoiseConfiguration = EquipoiseConfiguration()
    """Our own settings."""


PluginFactory = Callable[[Any, Handle], "Plugin"]
"""Makes a plugin from its arguments (a struct of ``config``, or plain data) and the handle."""
