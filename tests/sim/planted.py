"""Bugs that are planted on purpose, to show that the simulation finds them.

``python -m tests.sim --planted`` plants one after the other and says with which seed each was
found, and by which rule. That each rule can be broken is tested in ``test_invariants``.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import msgspec
import numpy as np

from scheduler.dra.ledger import DeviceLedger
from scheduler.dra.plugin import DynamicResources
from scheduler.gangs.plugin import Coscheduling
from scheduler.kube import writes
from scheduler.kube.fencing import Fence
from scheduler.kube.lease import LeaderElector
from scheduler.kube.paging import Pager
from scheduler.kube.watch import Reflector
from scheduler.model.events import ASSIGNED_POD
from scheduler.numa.cell_cache import ReserveCache
from scheduler.pipeline import attempt
from scheduler.pipeline.event_handlers import EventHandlers
from scheduler.pipeline.failure import FailureHandler
from scheduler.plugin_api.groups import PodGroupState
from scheduler.plugins import inter_pod_affinity
from scheduler.plugins.topology_spread import PodTopologySpread
from scheduler.state.cache import ClusterState
from tests.sim.drawing import draw
from tests.sim.objects import FOREIGN
from tests.sim.plan import (
    AddClaim,
    AddGroup,
    AddPod,
    AnyAction,
    Compact,
    CutConnection,
    DelayRequests,
    DropAnswers,
    FailRequests,
    Plan,
    PodPlan,
    SetPlugin,
    StallThread,
    StopServer,
)
from tests.sim.run import run

MOST_SEEDS = 200


class Bug(NamedTuple):
    """What is replaced by what."""

    what: str
    owner: Any
    attribute: str
    make: Callable[[Any], Any]
    """The wrong function, made from the right one."""
    shows: Callable[[Plan], bool] = lambda plan: True
    """Whether a plan could show it at all; others need not be run."""


@contextmanager
def planted(bug: Bug) -> Iterator[None]:
    """The bug is there within the block."""
    right = vars(bug.owner)[bug.attribute]
    setattr(bug.owner, bug.attribute, bug.make(right))
    try:
        yield
    finally:
        setattr(bug.owner, bug.attribute, right)


def _with(*kinds: type[AnyAction]) -> Callable[[Plan], bool]:
    """Plans that have actions of all these kinds."""

    def shows(plan: Plan) -> bool:
        return set(kinds) <= {type(each.action) for each in plan.actions}

    return shows


def _failing(plan: Plan) -> bool:
    """Plans in which bindings fail."""
    kinds = FailRequests | DropAnswers | SetPlugin | StopServer | CutConnection
    return any(isinstance(each.action, kinds) for each in plan.actions)


def _failing_with(kind: type[AnyAction]) -> Callable[[Plan], bool]:
    return lambda plan: _failing(plan) and _with(kind)(plan)


def _unheeded(plan: Plan) -> bool:
    """Plans in which a scheduling thread may run on when its lease is another's."""
    return len(plan.replicas) > 1 and any(
        isinstance(each.action, StallThread)
        and each.action.thread == "heartbeat"
        and each.action.seconds > 16.0
        for each in plan.actions
    )


def _pinned(plan: Plan) -> bool:
    return _failing(plan) and _with_pods(lambda pod: pod.pinned)(plan)


def _foreign(plan: Plan) -> bool:
    foreign = _with_pods(lambda pod: pod.foreign)(plan)
    return foreign and any(node.shared for node in plan.nodes)


def _contested(plan: Plan) -> bool:
    return len(plan.replicas) > 1


def _nothing(right: Any) -> Any:
    def do_nothing(*args: Any, **options: Any) -> None:
        """As if somebody had forgotten the call."""

    return do_nothing


def _unreserve_only(right: Any) -> Any:
    def unreserve(framework: Any, cycle: Any, node: str, *args: Any, **options: Any) -> bool:
        framework.run_unreserve(cycle, node)
        return True

    return unreserve


def _without_requeue(right: Any) -> Any:
    def failed(self: Any, attempt: Any, message: str) -> None:
        self._nominate(attempt, "")

    return failed


def _any_number(right: Any) -> Any:
    def standing(self: Any, group: str) -> PodGroupState:
        found: PodGroupState = right(self, group)
        return msgspec.structs.replace(found, minimum=min(1, found.minimum))

    return standing


def _only_in_memory(right: Any) -> Any:
    def unreserve(self: Any, cycle: Any, node: str) -> None:
        spawn, self._handle.run.spawn = self._handle.run.spawn, lambda work: work.close()
        try:
            right(self, cycle, node)
        finally:
            self._handle.run.spawn = spawn

    return unreserve


def _of_ours_only(right: Any) -> Any:
    def add_pod_to_cache(self: Any, was: Any, now: Any) -> None:
        if now.pod.spec.scheduler_name != FOREIGN:
            right(self, was, now)

    return add_pod_to_cache


def _position_only(right: Any) -> Any:
    async def list_objects(self: Any) -> None:
        if not self.synced.is_set():
            await right(self)
            return
        page = await Pager(self._client, self.resource.path, self.resource.params).fetch_all()
        self._position = page.metadata.resource_version

    return list_objects


def _still_assumed(right: Any) -> Any:
    def set_pod(self: Any, info: Any, old: Any = None) -> None:
        assumed = self.assumed(info.uid)
        right(self, info, old)
        if assumed:
            self._assumed[info.uid] = info

    return set_pod


def _for_any_version(right: Any) -> Any:
    def body(self: Any) -> Any:
        return self.patch

    return body


def _at_once(right: Any) -> Any:
    def may_take(self: Any) -> bool:
        return not self.leading.is_set()

    return may_take


def _silently(right: Any) -> Any:
    def remove_pod(self: Any, uid: str) -> bool:
        return self.unbook(uid) is not None

    return remove_pod


def _never_back(right: Any) -> Any:
    def on_event(self: Any, event: Any) -> Any:
        given_up = event.kind == ASSIGNED_POD and event.new is None and event.own
        return None if given_up else right(self, event)

    return on_event


def _and_waits(right: Any) -> Any:
    waiting = []

    def failed(self: Any, attempt: Any, message: str) -> None:
        waiting.append(asyncio.get_running_loop().create_task(asyncio.Event().wait()))
        right(self, attempt, message)

    return failed


def _anywhere(right: Any) -> Any:
    def answer(*args: Any) -> Any:
        return np.zeros_like(right(*args))

    return answer


def _with_pods(wanted: Callable[[PodPlan], object]) -> Callable[[Plan], bool]:
    """Plans with such pods."""

    def shows(plan: Plan) -> bool:
        pods = (each.action.pod for each in plan.actions if isinstance(each.action, AddPod))
        return any(map(wanted, pods))

    return shows


BUGS = {
    "undo": Bug(
        "A failed binding does not forget the assumed pod.",
        attempt,
        "unreserve",
        _unreserve_only,
        _failing,
    ),
    "fence": Bug("Writes are not fenced.", Fence, "check", _nothing, _unheeded),
    "requeue": Bug(
        "A pod whose binding failed is not tried again.",
        FailureHandler,
        "failed",
        _without_requeue,
        _failing,
    ),
    "deletion": Bug(
        "The deletion of a pod on a node is ignored.",
        EventHandlers,
        "delete_pod_from_cache",
        _nothing,
    ),
    "cells": Bug(
        "Cells that were reserved for a pod that is given up are not given back.",
        ReserveCache,
        "on_event",
        _never_back,
        _pinned,
    ),
    "gang": Bug(
        "A gang is bound as soon as one fits.",
        Coscheduling,
        "standing",
        _any_number,
        _with(AddGroup),
    ),
    "claim": Bug(
        "A claim stays reserved for a pod that is given up.",
        DynamicResources,
        "unreserve",
        _only_in_memory,
        _failing_with(AddClaim),
    ),
    "foreign": Bug(
        "Pods that others bind do not count.",
        EventHandlers,
        "add_pod_to_cache",
        _of_ours_only,
        _foreign,
    ),
    "relist": Bug(
        "Nothing is listed after 410.", Reflector, "_list", _position_only, _with(Compact)
    ),
    "confirm": Bug("An assumed pod is never confirmed.", ClusterState, "set_pod", _still_assumed),
    "condition": Bug(
        "A condition is written whatever has become of the pod.",
        writes._PatchRequest,
        "body",
        _for_any_version,
        _with(DelayRequests),
    ),
    "lease": Bug(
        "The lease is taken before it expires.", LeaderElector, "_may_take", _at_once, _contested
    ),
    "wake": Bug("Nobody is woken when a pod ends.", ClusterState, "remove_pod", _silently),
    "device": Bug(
        "Devices of pods that are being bound do not count.",
        DeviceLedger,
        "reserve",
        _nothing,
        _with(AddClaim),
    ),
    "spread": Bug(
        "Required topology spread is not looked at.",
        PodTopologySpread,
        "filter",
        _anywhere,
        _with_pods(lambda pod: pod.spread),
    ),
    "near": Bug(
        "Required affinity to other pods is not looked at.",
        inter_pod_affinity,
        "_lonely",
        _anywhere,
        _with_pods(lambda pod: pod.near),
    ),
    "task": Bug(
        "A task waits for ever after each binding that failed.",
        FailureHandler,
        "failed",
        _and_waits,
        _failing,
    ),
}


class Found(NamedTuple):
    """How a bug was found; seed None: it was not."""

    seed: int | None
    rule: str
    seconds: float
    """Of CPU."""


def find(bug: Bug, seeds: range = range(MOST_SEEDS)) -> Found:
    """The first seed whose plan fails with this bug and not without."""
    began = time.process_time()
    for seed in seeds:
        plan = draw(seed)
        if not bug.shows(plan):
            continue
        with planted(bug):
            rules = run(plan).rules
        if rules and not run(plan).rules:
            return Found(seed, min(rules), time.process_time() - began)
    return Found(None, "", time.process_time() - began)


def main(names: list[str]) -> int:
    """Plant these, or all; the exit code says whether each was found."""
    missed = 0
    for name in names or BUGS:
        found = find(BUGS[name])
        seen = f"seed {found.seed}, rule {found.rule}" if found.seed is not None else "NOT FOUND"
        print(f"{name:10} {seen:32} {found.seconds:6.1f} s  {BUGS[name].what}", flush=True)
        missed += found.seed is None
    return 1 if missed else 0
