"""Listeners to pods that come to nodes, change there and go.

For state that is kept beside the columns, such as that of NUMA cells. Trials that are undone again
(``scratch``) are not passed on.
"""

from __future__ import annotations

from collections.abc import Callable

from scheduler.model.podinfo import PodInfo
from scheduler.model.pods import Pod
from scheduler.state.aspects import ChangeLog

PodListener = Callable[[PodInfo, str, bool, bool], None]
"""Called with a pod, its node, whether it came (or changed) or went, and whether it is only assumed
there. One that went and was only assumed was never to be bound: its leaving frees nothing new."""
FinishedListener = Callable[[str, str, str, bool], None]
"""Called with namespace, name and node of a finished pod, and whether it is there or deleted."""

EveryPodListener = Callable[[Pod | None, Pod | None], None]
"""Called with the old and the new version of any pod, on any node and of any scheduler."""


class PodListeners:
    """Passes on what happens to pods on nodes, in order. Free while there are no listeners."""

    def __init__(self, changes: ChangeLog) -> None:
        self._changes = changes
        self._listeners: list[PodListener] = []
        self._finished_listeners: list[FinishedListener] = []
        self._every_listeners: list[EveryPodListener] = []

    def watch(self, listener: PodListener) -> None:
        """Call a listener on all pods that come, change and go from now on."""
        self._listeners.append(listener)

    def watch_finished(self, listener: FinishedListener) -> None:
        """Call a listener on pods that are finished and not deleted."""
        self._finished_listeners.append(listener)

    def watch_all(self, listener: EveryPodListener) -> None:
        """Call a listener on all pods, waiting ones included, before any other listener."""
        self._every_listeners.append(listener)

    def came(self, info: PodInfo, *, assumed: bool) -> None:
        """A pod is on its node now, or there is a new version of it."""
        if self._listeners and not self._changes.on_trial:
            for listener in self._listeners:
                listener(info, info.node_name, True, assumed)

    def went(self, info: PodInfo, *, assumed: bool = False) -> None:
        """A pod is no longer on its node; or was only ``assumed`` there, as a trial."""
        if self._listeners and not self._changes.on_trial:
            for listener in self._listeners:
                listener(info, info.node_name, False, assumed)

    def follow(self, old: Pod | None, new: Pod | None) -> None:
        """A pod changed: it may have come, gone or finished, or be gone after it had."""
        for each in self._every_listeners:
            each(old, new)
        if not self._finished_listeners:
            return
        was, now = _finished_on(old), _finished_on(new)
        if was == now:
            return
        for listener in self._finished_listeners:
            if old is not None and was:
                listener(old.metadata.namespace, old.metadata.name, was, False)
            if new is not None and now:
                listener(new.metadata.namespace, new.metadata.name, now, True)


def _finished_on(pod: Pod | None) -> str:
    """The node on which a pod is finished, or "" if it is not."""
    return pod.spec.node_name if pod is not None and pod.finished else ""
