"""What a plugin gets to work with, and how it is made."""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from scheduler.framework.cycle import Cycle
from scheduler.framework.memory import Memories
from scheduler.framework.outlet import Outlet
from scheduler.framework.waiting import WaitingPod, Waits
from scheduler.model.events import Event
from scheduler.model.podinfo import PodInfo
from scheduler.observe.metrics import Metrics
from scheduler.state.cache import ClusterState
from scheduler.state.columns import Codes, Rows
from scheduler.state.scratch import Scratch

if TYPE_CHECKING:
    from scheduler.framework.interface import Plugin


class Victims(NamedTuple):
    """Who would have to leave a node, and how many of them no disruption budget allows to go."""

    pods: Sequence[PodInfo]
    violations: int


class Handle(msgspec.Struct, frozen=True):
    """What a plugin may hold on to."""

    profile: str
    """The name of the profile it belongs to."""
    state: ClusterState
    outlet: Outlet
    activate: Callable[[Collection[str]], object]
    """Have waiting pods (``namespace/name``) tried again at once, without back-off."""
    tell: Callable[[Event], None]
    """Tell the queue what happened in a plugin's own books, to wake pods that it may have cured."""
    clock: Callable[[], float]
    """Seconds that never go back, for measuring."""
    spawn: Callable[[Coroutine[Any, Any, None]], None]
    """Run a coroutine in the background; it must handle its own errors. Stopped with the daemon."""
    expects: Callable[[str], bool]
    """Whether the pod that is being scheduled, by uid, is still there and has no node."""
    prepare: Callable[[Cycle], bool]
    """Have filters prepare themselves anew, after others changed the state during an attempt; False
    if they reject the pod as a whole now."""
    filter: Callable[[Cycle, Rows], Codes]
    """Run the profile's filters on rows as they are now, nominated pods included."""
    judges_row_by_row: Callable[[Cycle], bool]
    """Whether those filters look at each row alone (see ``FilterPlugin``)."""
    judges_by_sums: Callable[[Cycle], bool]
    """Whether, besides, pods that go change nothing for them but what is requested."""
    trial: Callable[[Cycle], AbstractContextManager[Scratch]]
    """Change the state for the length of a block, and tell plugins (see ``WhatIfPlugin``)."""
    waiting: Callable[[str], WaitingPod | None]
    """A pod that waits for permission, by uid, whatever its profile."""
    waiting_pods: Callable[[], list[WaitingPod]]
    """All pods that wait for permission, of all profiles, in the order in which they began to."""
    waits: Waits
    """For plugins that hold a pod while it is being bound."""
    memories: Memories
    """What plugins remember of pods and nodes beyond one cycle."""
    metrics: Metrics
    trim_victims: Callable[[Cycle, Mapping[str, Victims]], Mapping[str, Victims]]
    """What extenders leave of the victims of preemption, by node."""


PluginFactory = Callable[[Any, Handle], "Plugin"]
"""Makes a plugin from its arguments (a struct of ``config``, or plain data) and the handle."""
