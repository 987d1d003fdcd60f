"""The facets of the handle that plugins get (`plugin_api.handle`).

Plugins are made before the frameworks that run them, and before the queue, which needs their hints.
So the facets look both up when they are called.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Coroutine, Mapping
from contextlib import AbstractContextManager
from typing import Any

from scheduler.framework.runtime import Framework
from scheduler.model.events import Event
from scheduler.pipeline.background import Background
from scheduler.pipeline.evaluation import filter_with_nominated_pods
from scheduler.plugin_api.cycle import Cycle
from scheduler.plugin_api.handle import Victims
from scheduler.plugin_api.waiting import WaitingPod, Waits
from scheduler.queueing.scheduling_queue import SchedulingQueue
from scheduler.state.columns import Codes, Rows
from scheduler.state.scratch import Scratch


class HandleQueue:
    """The scheduling queue, from the moment it is connected."""

    def __init__(self) -> None:
        self._queue: SchedulingQueue | None = None

    def connect(self, queue: SchedulingQueue) -> None:
        """Use this queue from now on; called once, when it is made."""
        self._queue = queue

    def activate(self, keys: Collection[str]) -> object:
        """Move waiting pods to the active queue, without back-off."""
        return self._connected.activate(keys)

    def retry(self, keys: Collection[str]) -> None:
        """Have waiting pods tried again after their back-off."""
        self._connected.retry(keys)

    def tell(self, event: Event) -> None:
        """Publish a change in a plugin's own books."""
        self._connected.on_event(event)

    def expects(self, uid: str) -> bool:
        """Whether the pod that is being scheduled still exists and has no node."""
        return self._connected.is_in_flight(uid)

    @property
    def _connected(self) -> SchedulingQueue:
        assert self._queue is not None, "the queue is made after all plugins"
        return self._queue


class HandleRun:
    """The plugins of one profile, and work in the background."""

    def __init__(
        self,
        frameworks: Mapping[str, Framework],
        profile: str,
        background: Background,
        clock: Callable[[], float],
    ) -> None:
        self._frameworks = frameworks
        self._profile = profile
        self._background = background
        self._clock = clock

    @property
    def _framework(self) -> Framework:
        return self._frameworks[self._profile]

    def clock(self) -> float:
        """Seconds that never go back."""
        return self._clock()

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine in the background."""
        self._background.spawn(work)

    def prepare(self, cycle: Cycle) -> bool:
        """Run PreFilter anew; False if it rejects the pod as a whole."""
        cycle.skipped["filter"] = frozenset()
        return self._framework.run_pre_filter(cycle).rejection is None

    def filter(self, cycle: Cycle, rows: Rows) -> Codes:
        """Run the filters on rows as they are now, with nominated pods."""
        return filter_with_nominated_pods(self._framework, cycle, rows)

    def judges_row_by_row(self, cycle: Cycle) -> bool:
        """Whether all filters have the trait ``row_by_row``."""
        return self._framework.filters.judge_row_by_row(cycle)

    def judges_by_sums(self, cycle: Cycle) -> bool:
        """Whether, besides, removed pods change nothing for them but what is requested."""
        return self._framework.filters.judge_by_sums(cycle)

    def trial(self, cycle: Cycle) -> AbstractContextManager[Scratch]:
        """Change the state for the length of a block."""
        return self._framework.trial(cycle)

    def trim_victims(self, cycle: Cycle, victims: Mapping[str, Victims]) -> Mapping[str, Victims]:
        """The victims of preemption that extenders allow."""
        return self._framework.trim_victims(cycle, victims)


class HandlePermits:
    """Pods that wait on permit, of all profiles."""

    def __init__(self, waits: Waits) -> None:
        self._waits = waits

    def waiting(self, uid: str) -> WaitingPod | None:
        """A pod that a plugin had wait at ``permit``."""
        return self._waits.by_plugins.get(uid)

    def waiting_pods(self) -> list[WaitingPod]:
        """All of them, in the order in which they began to wait."""
        return list(self._waits.by_plugins.values())

    def holding(self, cycle: Cycle, waiting: WaitingPod) -> AbstractContextManager[WaitingPod]:
        """Have a pod wait for the length of a block of its binding task."""
        return self._waits.holding(cycle, waiting)
