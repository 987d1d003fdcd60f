"""The law of the cache: every answer that is kept is the answer that would be given now.

Nothing here changes what is kept, except for `placed_alike`, which places a pod with its help.
Each check returns sentences that say what is wrong.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator

import numpy as np

from scheduler.equivalence.cache import EquivalenceCache
from scheduler.equivalence.classes import FILTER, Classes, PodClass
from scheduler.equivalence.verdicts import AnswerColumn
from scheduler.framework.faults import PluginFault
from scheduler.framework.runtime import Framework
from scheduler.model.podinfo import PodInfo
from scheduler.model.pods import Pod
from scheduler.model.status import Code, unschedulable
from scheduler.pipeline.evaluation import ClassCache, CycleError, evaluate
from scheduler.pipeline.placement import Placement, fit_error, select_node
from scheduler.plugin_api.cycle import Cycle, Diagnosis
from scheduler.state.columns import Rows
from tests.equivalence.world import World

Outcome = Placement | tuple[object, ...] | str
"""A node, or why there is none, or a fault."""


def violations(world: World, pods: Iterable[Pod]) -> list[str]:
    """What is wrong with all that is kept for the classes of these pods."""
    found: list[str] = []
    from_scratch = {
        profile: Classes(
            profile,
            world.declarations[profile],
            world.core.state.changes,
            by_controller=world.core.config.equipoise.equivalence.key == "ControllerRef",
        )
        for profile in world.core.frameworks
    }
    for pod in pods:
        pod_class = _class_of(world, pod)
        if pod_class is not None:
            found += _wrong_identity(from_scratch[pod_class.profile], pod, pod_class)
            found += _wrong_columns(world, pod, pod_class)
            found += _wrong_verdict(world, pod, pod_class)
    return found


def restart_codes(world: World, others: int) -> None:
    """Give codes of verdicts out anew, the first ones to statuses of nothing that is kept."""
    statuses = world.core.state.statuses
    statuses.restart()
    for number in range(others):
        statuses.code(unschedulable(f"reason {number}"))


def equivalence_of(world: World) -> EquivalenceCache:
    """The classes of a world that has them."""
    assert world.core.equivalence is not None
    return world.core.equivalence


def _class_of(world: World, pod: Pod) -> PodClass | None:
    return equivalence_of(world).class_of(PodInfo(pod))


def _framework(world: World, pod: Pod) -> Framework:
    return world.core.frameworks[pod.spec.scheduler_name]


# Identity


def _wrong_identity(from_scratch: Classes, pod: Pod, pod_class: PodClass) -> Iterator[str]:
    """A class must be the one that all plugins' keys, asked now, make up."""
    fresh = from_scratch.of(PodInfo(pod))
    if fresh is None or fresh.identity != pod_class.identity:
        yield f"{pod.metadata.name}: its class is not that of its keys"


# Entries


def _wrong_columns(world: World, pod: Pod, pod_class: PodClass) -> Iterator[str]:
    for (point, plugin), column in pod_class.columns.items():
        rows = valid_rows(world, column)
        if not len(rows):
            continue
        ask = _fresh_codes if point == FILTER else _fresh_scores
        fresh = ask(world, pod, plugin, rows)
        if fresh is None:
            continue
        for row, kept, new in zip(rows, column.values[rows], fresh, strict=True):
            if kept != new:
                node = world.core.state.name(int(row))
                words = _words(world, point, int(kept)), _words(world, point, int(new))
                yield (
                    f"{pod.metadata.name}: {point} of {plugin} on {node}: kept {words[0]}, "
                    f"now {words[1]}"
                )


def valid_rows(world: World, column: AnswerColumn) -> Rows:
    """The rows that hold a node and whose answer counts as true, found without side effects."""
    reader = copy.copy(column._reader)
    touched = reader.news()
    if touched is None:
        return np.zeros(0, np.intp)
    known = column.known.copy()
    known[[row for row in touched if row < len(known)]] = False
    live = world.core.state.rows()
    live = live[live < len(known)]
    return live[known[live]]


def _fresh_codes(world: World, pod: Pod, name: str, rows: Rows) -> np.ndarray | None:
    """What a filter says now; None if the pod is rejected before any filter is asked."""
    plugin = _framework(world, pod).plugins[name]
    cycle = Cycle(PodInfo(pod), world.core.state)
    if hasattr(plugin, "pre_filter"):
        code = plugin.pre_filter(cycle).status.code
        if code is Code.SKIP:
            return np.zeros(len(rows), np.int32)
        if code is not Code.SUCCESS:
            return None
    try:
        return plugin.filter(cycle, rows)  # type: ignore[attr-defined,no-any-return]  # filters do
    except Exception:
        return None  # a fault is never kept, and what was kept before was not of these rows


def _fresh_scores(world: World, pod: Pod, name: str, rows: Rows) -> np.ndarray | None:
    plugin = _framework(world, pod).plugins[name]
    cycle = Cycle(PodInfo(pod), world.core.state)
    if hasattr(plugin, "pre_score"):
        assert plugin.pre_score(cycle, rows).ok, f"{name} has a score to keep, and skips scoring"
    return plugin.score(cycle, rows)  # type: ignore[attr-defined,no-any-return]  # those here do


def _words(world: World, point: str, value: int) -> str:
    return str(world.core.state.statuses.status(value)) if point == FILTER else str(value)


# Verdicts on whole classes


def _wrong_verdict(world: World, pod: Pod, pod_class: PodClass) -> Iterator[str]:
    """That no pod of a class fits anywhere must be what is found out alone, in the same words."""
    cycle = Cycle(PodInfo(pod), world.core.state)
    kept = cache_of(world).unschedulable(pod_class, cycle)
    if kept is None:
        return
    fresh = outcome_alone(world, pod)
    words = _without_post_filter(cycle, kept)
    if fresh != words:
        yield f"{pod.metadata.name}: verdict of the class {words}, alone {fresh}"


def _without_post_filter(cycle: Cycle, diagnosis: Diagnosis) -> Outcome:
    plain = copy.copy(diagnosis)
    plain.post_filter = ""
    return _told(cycle, plain)


# Placements


def placed_alike(world: World, rebuilt: World, pod: Pod) -> list[str]:
    """What is wrong with where a pod goes, or with why it goes nowhere.

    ``rebuilt`` is the same world without a past: no memory of plugins can deceive both.
    """
    alone, together = outcome_alone(rebuilt, pod), outcome_by_class(world, pod)
    if alone == together:
        return []
    return [f"{pod.metadata.name}: alone {alone}, by class {together}"]


def outcome_alone(world: World, pod: Pod) -> Outcome:
    """Where a pod goes if nothing is kept."""
    cycle = Cycle(PodInfo(pod), world.core.state)
    try:
        return _told(cycle, select_node(evaluate(_framework(world, pod), cycle), world.core.seed))
    except (PluginFault, CycleError) as fault:
        return str(fault)


def outcome_by_class(world: World, pod: Pod) -> Outcome:
    """Where a pod goes by what is kept for its class."""
    cache = cache_of(world)
    cycle = Cycle(PodInfo(pod), world.core.state)
    pod_class = cache.class_of(cycle)
    if pod_class is None:
        return outcome_alone(world, pod)
    if pod_class.known:
        cycle.equivalence_class = pod_class
    try:
        evaluation = evaluate(_framework(world, pod), cycle, pod_class, cache)
        return _told(cycle, select_node(evaluation, world.core.seed))
    except (PluginFault, CycleError) as fault:
        return str(fault)


def cache_of(world: World) -> ClassCache:
    """What the scheduler itself places pods with."""
    cache = world.core.scheduler.class_cache
    assert cache is not None
    return cache


def _told(cycle: Cycle, chosen: Placement | Diagnosis) -> Placement | tuple[object, ...]:
    if isinstance(chosen, Placement):
        return chosen
    statuses = cycle.state.statuses
    return (
        {
            cycle.state.name(int(row)): statuses.status(int(code))
            for row, code in zip(chosen.rows, chosen.codes, strict=True)
        },
        chosen.pre_filter,
        frozenset(chosen.unschedulable_plugins),
        frozenset(chosen.pending_plugins),
        fit_error(cycle, chosen),
    )


def results_alike(world: World, pod: Pod) -> list[str]:
    """What is wrong with the joined answers of a class, once they are refreshed."""
    pod_class = _class_of(world, pod)
    if pod_class is None or pod_class.results is None or not world.core.state.node_count:
        return []
    outcome_by_class(world, pod)  # refreshes, if nothing rejects the pod before
    results = pod_class.results
    framework, cycle = _framework(world, pod), Cycle(PodInfo(pod), world.core.state)
    kept = {each.plugin for each, _ in pod_class.plugins[FILTER][: results.joined]}
    cycle.skip(FILTER, frozenset(framework.plugins.keys() - kept))
    rows = world.core.state.rows()
    try:
        outcome = framework.run_pre_filter(cycle)
        if outcome.rejection is not None or outcome.node_names is not None:
            return []
        codes = framework.run_filters(cycle, rows)
    except PluginFault:
        return []
    feasible = rows[codes == 0]
    checks = {
        "verdicts": np.array_equal(results.codes[rows], codes),
        "fits": np.array_equal(results.feasible(), feasible),
        "count": results.count == len(feasible) == int(results.fits.sum()),
    }
    if results.complete and len(feasible):
        totals = framework.run_scores(cycle, feasible).totals
        checks["totals"] = np.array_equal(results.totals[feasible], totals)
        unfit = np.setdiff1d(np.arange(len(results.totals)), feasible)
        checks["no totals elsewhere"] = bool((results.totals[unfit] == -1).all())
    return [
        f"{pod.metadata.name}: results is wrong: {k}" for k, right in checks.items() if not right
    ]


def books_balance(equivalence: EquivalenceCache) -> list[str]:
    """What is wrong with the bytes and the users that are counted."""
    columns = equivalence._columns.values()
    results = [each.results for each in equivalence if each.results is not None]
    size = sum(column.nbytes for column in columns) + sum(each.nbytes for each in results)
    users = sum(column.users for column in columns)
    held = sum(len(each.columns) for each in equivalence)
    found = []
    if size != equivalence.bytes:
        found.append(f"{equivalence.bytes} bytes are counted, {size} are there")
    if users != held:
        found.append(f"columns count {users} users, classes have {held}")
    return found
