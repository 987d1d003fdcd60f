"""Whether a decision still holds when its turn to be written comes.

Between the decision and the request a pod may wait: for permission, for volumes, for a slot, for
another try. Meanwhile nodes go, change and get pods of others. What our own later decisions took
was taken with this pod in its place, so it does not matter. The state numbers what does
(`ClusterState.node_version`): if the number is what it was, nothing is to be done, else the filters
judge that one node again, with the pod itself taken off it.

Plugins that reserve keep books of their own, in which the pod counts already, and those outside
cannot be asked in passing: their verdict stands as it was.
"""

from __future__ import annotations

import numpy as np

from scheduler.framework.complaints import PluginFault
from scheduler.framework.cycle import Cycle, Diagnosis
from scheduler.pipeline.attempt import Attempt
from scheduler.pipeline.open_bindings import OpenBindings
from scheduler.pipeline.placement import CycleError, prepare
from scheduler.queueing.scheduling_queue import SchedulingQueue
from scheduler.state.scratch import scratch

POD_GONE = "pod"
NODE_GONE = "node"
NO_ROOM = "fit"


class Turn:
    """The turn of one binding to be written. Called before each request; see `Outlet.bind`."""

    __slots__ = ("_attempt", "_node", "_open", "_queue", "_uid", "cause", "reason")

    def __init__(self, attempt: Attempt, queue: SchedulingQueue, open_: OpenBindings) -> None:
        self._attempt = attempt
        self._uid = attempt.cycle.pod.uid
        assert attempt.placement is not None, "a decision has a node"
        self._node = attempt.placement.node
        self._queue = queue
        self._open = open_
        self.reason = ""
        """Why the decision does not hold; empty as long as it does."""
        self.cause = ""

    def __call__(self) -> str:
        """A request is about to go out: why the decision no longer holds; empty if it does."""
        self._open.sent(self._uid, self._attempt.cycle.pod.pod.metadata.namespace)
        return self.check()

    def check(self) -> str:
        """Why the decision no longer holds; empty if it does."""
        attempt, uid = self._attempt, self._uid
        # An assumed pod is where it was assumed to be.
        holds = attempt.cycle.state.undisturbed(uid, self._node, attempt.node_version)
        return "" if holds and self._queue.wants(uid) else self._explain()

    def _explain(self) -> str:
        pod, node = self._attempt.cycle.pod, self._node
        state = self._attempt.cycle.state
        booked = state.pod(pod.uid)
        if booked is None:
            return self._refuse(POD_GONE, "the pod is gone")
        if booked.node_name != node:
            return self._refuse(POD_GONE, f"the pod is on node {booked.node_name}")
        if not state.assumed(pod.uid):
            return ""  # bound already: the API server says so too
        if not self._queue.wants(pod.uid):
            return self._refuse(POD_GONE, "the pod is being deleted")
        return self._look_again(state.node_version(node))

    def _look_again(self, version: int) -> str:
        node = self._attempt.node
        if not version:
            return self._refuse(NODE_GONE, f"node {node} is gone")
        try:
            reason = _verdict(self._attempt)
        except (PluginFault, CycleError) as fault:
            reason = str(fault)
        if reason:
            return self._refuse(NO_ROOM, f"node {node} no longer fits: {reason}")
        self._attempt.node_version = version
        return ""

    def _refuse(self, cause: str, reason: str) -> str:
        self.cause, self.reason = cause, reason
        return reason


def _verdict(attempt: Attempt) -> str:
    """Why the pod does not fit on its node any more, as if it were not there yet; empty if it does.

    One row for each filter, and the preparation of each for the pod. Nothing here awaits.
    """
    state, framework = attempt.cycle.state, attempt.framework
    cycle = Cycle(attempt.cycle.pod, state)
    cycle.skipped["filter"] |= framework.bookkeepers
    with scratch(state) as changes:
        changes.remove(attempt.cycle.pod)
        prepared = prepare(framework, cycle)
        if isinstance(prepared, Diagnosis):
            return prepared.pre_filter.message if prepared.pre_filter is not None else ""
        if prepared.node_names is not None and attempt.node not in prepared.node_names:
            return prepared.excluded.message
        row = state.row(attempt.node)
        assert row is not None, "a node with a version has a row"
        (code,) = framework.run_filters(cycle, np.array([row], np.intp))
        return state.statuses.status(int(code)).message if code else ""
