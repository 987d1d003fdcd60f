"""How many pods equal to one fit together: copies placed one after the other, on trial.

Where filters read nothing of other pods but what they request, the number of copies that a node
takes is found for all nodes at once. Otherwise copies are placed one by one as the cycle would
place them. Blocks in which the state shows copies are not interrupted: after each, the copies are
taken off, the event loop may run, and they are put back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import Any, NamedTuple

import msgspec
import numpy as np

from scheduler import machine
from scheduler.assembly import Core
from scheduler.framework.faults import PluginFault
from scheduler.framework.runtime import Framework
from scheduler.model.meta import ObjectMeta
from scheduler.model.own_claims import FindClaim, claims_of_copy, has_own_claims
from scheduler.model.podinfo import PodInfo
from scheduler.model.storage import PersistentVolumeClaim
from scheduler.pipeline.evaluation import CycleError, evaluate
from scheduler.pipeline.placement import choose
from scheduler.plugin_api.cycle import Cycle
from scheduler.slices import SLICE_SECONDS, checkpoint, whole_slice
from scheduler.state.cache import ClusterState
from scheduler.state.columns import Rows, Scores
from scheduler.state.nodes_on_trial import as_if_objects
from scheduler.state.scratch import Scratch, as_if_rows_requested, scratch

MOST_COPIES = 100_000
"""More copies are not asked about."""
MOST_ONE_BY_ONE = 256
"""So many copies are placed one by one."""
MOST_WITH_CLAIMS = 64
"""Of those, if each has claims of its own, which are put there and taken away with every slice."""

LARGEST_SUM = 2**61
"""Copies that request more together are not asked about: sums of 64 bits would overflow."""


class Supposed(NamedTuple):
    """Claims that would be made with a pod that does not exist."""

    added: tuple[PersistentVolumeClaim, ...] = ()
    """Those that are there already stay as they are."""
    replaced: tuple[PersistentVolumeClaim, ...] = ()
    """Those of its own templates, which are made anew with it."""

    def find(self, state: ClusterState) -> FindClaim:
        """Look a claim up as it would be."""
        anew = {claim.metadata.key: claim for claim in self.replaced}
        if_missing = {claim.metadata.key: claim for claim in self.added}

        def found(key: str) -> PersistentVolumeClaim | None:
            there = anew.get(key) or state.objects.get(PersistentVolumeClaim, key)
            return there or if_missing.get(key)

        return found

    def acted(self, state: ClusterState) -> AbstractContextManager[None]:
        """Have them for the length of a block."""
        return as_if_objects(state, self.added, self.replaced)


NOTHING_SUPPOSED = Supposed()


def replicas(
    core: Core,
    framework: Framework,
    info: PodInfo,
    count: int,
    supposed: Supposed = NOTHING_SUPPOSED,
) -> dict[str, Any]:
    """How many of ``count`` pods like this one fit at the same time, and one way to place them.

    The pod itself counts as one that waits, wherever it is. No pod is evicted for them. Each has
    claims of its own where controllers would make some for it. Has checkpoints; the state is as
    before.
    """
    asked = max(0, min(count, MOST_COPIES))
    own = has_own_claims(info.pod)
    most = MOST_WITH_CLAIMS if own else MOST_ONE_BY_ONE
    if framework.remote.enabled and framework.remote.concerns(info):
        return _answer(asked, {}, "plugins out of process judge the pod, which are not asked here")
    try:
        whole_slice()
        with supposed.acted(core.state):
            found = None if own else by_sums(framework, core.state, info, asked)
        if found is None or (sum(found.values()) > asked and asked <= most):
            found = _one_by_one(core, framework, info, min(asked, most), supposed)
            tried_all = asked <= most or sum(found.values()) < most
            return _answer(asked, found, _notes(framework, info, 0 if tried_all else most))
    except (PluginFault, CycleError) as fault:
        return _answer(asked, {}, str(fault))
    return _answer(asked, _first(found, asked), "")


def _answer(asked: int, nodes: dict[str, int], note: str) -> dict[str, Any]:
    fit = sum(nodes.values())
    message = f"{fit} of {asked} fit together"
    return {
        "asked": asked,
        "fit": fit,
        "nodes": dict(sorted(nodes.items())),
        "message": f"{message}; {note}" if note else message,
    }


def _notes(framework: Framework, info: PodInfo, most: int) -> str:
    """What the number leaves out; ``most``: no more were tried."""
    notes = [f"no more than {most} were tried"] if most else []
    if apart := framework.filters.with_own_accounting(info):
        notes.append(f"{', '.join(apart)} judged each pod as if it came alone")
    return "; ".join(notes)


def _first(nodes: dict[str, int], most: int) -> dict[str, int]:
    """As many copies, in the order of the names of nodes."""
    taken: dict[str, int] = {}
    for name in sorted(nodes):
        if number := min(nodes[name], most):
            taken[name] = number
            most -= number
    return taken


# By sums


def by_sums(
    framework: Framework, state: ClusterState, info: PodInfo, asked: int
) -> dict[str, int] | None:
    """How many copies each node takes, at most as many as asked; None if sums do not say it.

    Where so many nodes fit that one copy on each will do, no more are counted.
    """
    if framework.filters.with_own_accounting(info):
        return None
    with scratch(state) as changes:
        _take_off(changes, state, info)
        cycle = Cycle(info, state)
        evaluation = evaluate(framework, cycle)
        if evaluation.rejection is not None:
            return {}
        if framework.judges_choice or not framework.filters.judge_by_sums(cycle):
            return None
        if state.nominations:
            return None  # filters run twice on the nodes of nominated pods
        rows = evaluation.feasible()
        if 0 < asked <= len(rows):
            return dict.fromkeys(map(state.name, rows.tolist()), 1)
        taken = _taken(framework, cycle, rows, asked)
        return {state.name(row): n for row, n in zip(rows.tolist(), taken.tolist(), strict=True)}


def _taken(framework: Framework, cycle: Cycle, rows: Rows, asked: int) -> Scores:
    """How many copies each of these rows takes: a search by halves, all rows at once."""
    columns, requests = cycle.state.columns, cycle.pod.requests
    each = np.zeros((len(columns.resources), 1), np.int64)
    for resource, amount in requests.items():
        if (place := columns.resources.find(resource)) is not None:
            each[place] = amount
    requested, pod_count = columns.requested[:, rows], columns.pod_count[rows]
    most = max(1, min(asked, LARGEST_SUM // max(1, int(each.max(initial=0)))))
    low, high = np.ones(len(rows), np.int64), np.full(len(rows), most, np.int64)
    while (low < high).any():
        middle = (low + high + 1) // 2
        before = middle - 1
        with as_if_rows_requested(cycle.state, rows, requested + before * each, pod_count + before):
            fits = framework.run_filters(cycle, rows) == 0
        low = np.where(fits, middle, low)
        high = np.where(fits, high, before)
    return low if asked else low * 0


# One by one


def place_together(
    framework: Framework,
    state: ClusterState,
    seed: int,
    pods: Sequence[PodInfo],
    block: Callable[[], AbstractContextManager[object]],
    *,
    stop_early: bool = False,
) -> dict[str, str]:
    """The node of each pod that finds one, by uid, placed in order.

    ``block`` shows the state in which they are placed. It is entered again after every slice.
    With ``stop_early`` none is tried after one that fits nowhere.
    """
    tried: list[tuple[PodInfo, str | None]] = []
    while len(tried) < len(pods):
        checkpoint()
        _place_some(framework, state, seed, pods, tried, block)
        if stop_early and tried[-1][1] is None:
            break
    return {pod.uid: node for pod, node in tried if node is not None}


def _place_some(
    framework: Framework,
    state: ClusterState,
    seed: int,
    pods: Sequence[PodInfo],
    tried: list[tuple[PodInfo, str | None]],
    block: Callable[[], AbstractContextManager[object]],
) -> None:
    """Try pods for about half a slice, at least one, and until one fits nowhere."""
    until = machine.perf_counter() + SLICE_SECONDS / 2
    with block(), scratch(state) as changes:
        for place, (pod, node) in enumerate(tried):
            if node is not None and state.row(node) is None:  # it has gone meanwhile
                del tried[place:]
                break
            if node is not None:
                changes.add(pod, node)
        while len(tried) < len(pods):
            pod = pods[len(tried)]
            node = _chosen(framework, state, seed, pod)
            tried.append((pod, node))
            if node is None:
                break
            changes.add(pod, node)
            if machine.perf_counter() >= until:
                break


def _chosen(framework: Framework, state: ClusterState, seed: int, pod: PodInfo) -> str | None:
    """The node that a pod would get now."""
    evaluation = evaluate(framework, Cycle(pod, state))
    rows = evaluation.feasible()
    chosen = choose(evaluation, seed) if len(rows) else None
    return None if chosen is None else state.name(int(rows[chosen]))


def _one_by_one(
    core: Core, framework: Framework, info: PodInfo, count: int, supposed: Supposed
) -> dict[str, int]:
    state = core.state
    copies = copies_of(info, count, supposed.find(state))
    there = Supposed((*supposed.added, *copies.claims), supposed.replaced)

    @contextmanager
    def without_itself() -> Iterator[None]:
        with there.acted(state), scratch(state) as changes:
            _take_off(changes, state, info)
            yield

    placed = place_together(
        framework, state, core.seed, copies.pods, without_itself, stop_early=True
    )
    return dict(Counter(placed.values()))


def _take_off(changes: Scratch, state: ClusterState, info: PodInfo) -> None:
    if (booked := state.pod(info.uid)) is not None:
        changes.remove(booked)


class Copies(NamedTuple):
    """Pods equal to one, under names of their own."""

    pods: list[PodInfo]
    claims: list[PersistentVolumeClaim]
    """Those that each of them would have for itself."""


def copies_of(info: PodInfo, count: int, find: FindClaim) -> Copies:
    """So many copies of a pod."""
    if not has_own_claims(info.pod):
        return Copies([_copy(info, number) for number in range(count)], [])
    copies = Copies([], [])
    for number in range(count):
        named = _copy_name(info, number)
        volumes, claims = claims_of_copy(info.pod, named.name, named.uid, find)
        spec = msgspec.structs.replace(info.pod.spec, volumes=volumes)
        pod = msgspec.structs.replace(info.pod, metadata=named, spec=spec)
        copy = PodInfo(pod, info.limits)
        copy.adopt_but_claims(info)
        copies.pods.append(copy)
        copies.claims.extend(claims)
    return copies


def _copy(info: PodInfo, number: int) -> PodInfo:
    named = _copy_name(info, number)
    copy = PodInfo(msgspec.structs.replace(info.pod, metadata=named), info.limits)
    copy.adopt(info)
    return copy


def _copy_name(info: PodInfo, number: int) -> ObjectMeta:
    metadata = info.pod.metadata
    return msgspec.structs.replace(
        metadata, name=f"{metadata.name}-{number}", uid=f"{info.uid}/copy/{number}"
    )
