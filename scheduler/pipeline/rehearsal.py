"""Ask plugins about a large pod before its attempt, one at a time.

An attempt asks all plugins about all nodes in one piece. For a pod whose lists are long (hundreds
of node requirements, dozens of terms and constraints) the first attempt of its class takes tens of
milliseconds: label columns are made, selectors evaluated, domains found. A rehearsal does that
before, and the event loop runs other tasks in between. All it leaves is what plugins and the class
keep anyway; the attempt that follows reads that, and asks again only about what has changed
meanwhile. So it takes a few milliseconds, and its result is as without a rehearsal.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from scheduler.equivalence.classes import FILTER, SCORE, PodClass
from scheduler.framework.faults import PluginFault
from scheduler.framework.runtime import Framework
from scheduler.model.podinfo import PodInfo
from scheduler.model.status import Code
from scheduler.pipeline.evaluation import ClassCache, CycleError, evaluate
from scheduler.plugin_api.cycle import Cycle
from scheduler.slices import checkpoint, whole_slice
from scheduler.state.cache import ClusterState


def rehearse(
    framework: Framework,
    pod: PodInfo,
    state: ClusterState,
    pod_class: PodClass,
    cache: ClassCache,
) -> None:
    """Have plugins compute what they keep for a class; the event loop may run meanwhile.

    A plugin that fails here fails in the attempt as well, and is reported there.
    """
    label_columns(pod, state)
    cache.results(pod_class)  # makes its columns
    for point, ask in ((FILTER, _ask_filter), (SCORE, _ask_score)):
        for each, _ in pod_class.plugins[point]:
            if each.reads is not None and each.plugin not in framework.looks_ahead:
                checkpoint()
                try:
                    ask(framework, Cycle(pod, state), pod_class, each.plugin)
                except PluginFault:
                    continue
    checkpoint()
    _join(framework, Cycle(pod, state), pod_class, cache)
    checkpoint()
    state.index.expect(pod)
    whole_slice()  # for the attempt


def label_columns(pod: PodInfo, state: ClusterState) -> None:
    """Make the label columns that a pod asks for; the event loop may run between two of them."""
    for key in _label_keys(pod):
        if state.columns.labels.lacks(key):
            state.columns.labels.column(key)
            checkpoint()


def _join(framework: Framework, cycle: Cycle, pod_class: PodClass, cache: ClassCache) -> None:
    """Join what is kept of all plugins, as the attempt would."""
    if framework.remote.enabled:
        return  # PreFilter may ask out of process
    try:
        evaluation = evaluate(framework, cycle, pod_class, cache)
        if evaluation.reads_class_results:
            cache.results(pod_class).refresh(evaluation)
    except (PluginFault, CycleError):
        return


def _ask_filter(framework: Framework, cycle: Cycle, pod_class: PodClass, plugin: str) -> None:
    prepared = framework.prepare_filter(plugin, cycle) is Code.SUCCESS
    if prepared and framework.filters.include(plugin):
        rows, column = cycle.state.rows(), pod_class.columns.get((FILTER, plugin))
        if column is None:
            framework.filters.judge(plugin, cycle, rows)
        else:
            column.ask(rows, partial(framework.filters.judge, plugin, cycle))


def _ask_score(framework: Framework, cycle: Cycle, pod_class: PodClass, plugin: str) -> None:
    if framework.prepare_filter(plugin, cycle) not in (Code.SUCCESS, Code.SKIP):
        return
    rows, column = cycle.state.rows(), pod_class.columns.get((SCORE, plugin))
    if column is not None:
        column.ask(rows, partial(framework.scores.score, plugin, cycle))
    elif framework.scores.prepare(plugin, cycle, rows):
        framework.scores.score(plugin, cycle, rows)


def _label_keys(pod: PodInfo) -> Iterator[str]:
    """The labels of nodes that a pod names, each once."""
    matcher, terms = pod.node_matcher, pod.affinity
    requirements = list(matcher.selector)
    for term in (*(matcher.terms or ()), *(each.term for each in pod.node_preferences)):
        requirements += term.labels
    keys = [requirement.key for requirement in requirements]
    keys += [constraint.topology_key for constraint in pod.spread]
    for each in (terms.required, terms.preferred, terms.anti_required, terms.anti_preferred):
        keys += [term.topology_key for term in each]
    return iter(dict.fromkeys(keys))
