"""The one decision function: what the plugins of a profile say of all nodes for one pod.

::

    evaluate ─► PreFilter ─► feasible(): Filter on every node ─► AfterFilter ─► totals(): Score
                    │            │ kept for the pod's class: only rows that changed, then the
                    │            │ filters and scores whose results are not kept
                    └────────────┴─► diagnosis(): the verdict on every node

Placing a pod (`placement.select_node`), batches, explanations and the last check before a binding
all start with `evaluate`. With a class it reads what is kept for equal pods (`ClassCache`), without
one it asks every plugin about every node. Both give the same answer: what is kept only saves work.
A stage runs when its result is first read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager

import numpy as np

from scheduler.equivalence.cache import EquivalenceCache
from scheduler.equivalence.class_results import UNFIT, ClassResults
from scheduler.equivalence.classes import FILTER, SCORE, ClassVerdict, PodClass
from scheduler.equivalence.row_memo import RowMemo
from scheduler.equivalence.top_rows import Best
from scheduler.framework.runtime import Framework, PreFilterOutcome
from scheduler.model.events import Action
from scheduler.model.podinfo import PodInfo
from scheduler.model.status import Code, Status
from scheduler.plugin_api.cycle import Cycle, Diagnosis
from scheduler.queueing.hints import HintRegistration, by_uid, own_change
from scheduler.state.columns import Codes, Rows, Scores
from scheduler.state.interning import distinct_codes
from scheduler.state.scratch import as_if_rows_requested

_NO_ROWS: Rows = np.zeros(0, np.intp)
_NO_CODES: Codes = np.zeros(0, np.int32)

POD_SPEC = "PodSpec"
NODES = "Nodes"
OWN_VERDICTS = frozenset({POD_SPEC, NODES})
"""Verdicts that no plugin gives. They carry a name like a plugin's, by which the queue finds the
events that may cure them."""
HINTS: Mapping[str, Sequence[HintRegistration]] = {
    POD_SPEC: (HintRegistration("Pod", Action.UPDATE, own_change, by_uid),),
    NODES: (HintRegistration("Node", Action.ADD),),
}


class CycleError(Exception):
    """The attempt ends: a plugin reported a fault instead of a verdict."""

    def __init__(self, plugin: str, message: str, diagnosis: Diagnosis | None = None) -> None:
        super().__init__(message)
        self.plugin = plugin
        self.diagnosis = diagnosis
        """The verdicts on all nodes, if the fault is that of a filter on some of them."""


def evaluate(
    framework: Framework,
    cycle: Cycle,
    pod_class: PodClass | None = None,
    cache: ClassCache | None = None,
) -> Evaluation:
    """Run PreFilter and return the evaluation of the pod; raises PluginFault, CycleError.

    ``cache`` has what is kept for the class of the pod; without both nothing kept is used.
    """
    if pod_class is not None:
        cycle.skip("filter", pod_class.silent[FILTER])
        cycle.skip("score", pod_class.silent[SCORE])
    return Evaluation(framework, cycle, _pre_filter(framework, cycle), pod_class, cache)


def _pre_filter(framework: Framework, cycle: Cycle) -> PreFilterOutcome | Diagnosis:
    """The outcome of PreFilter, or why no node needs to be filtered."""
    pod = cycle.pod
    if pod.excess:
        return _own_rejection(f"pod too large: {'; '.join(pod.excess)}", POD_SPEC)
    if pod.faults:
        return _own_rejection(f"invalid pod: {'; '.join(pod.faults)}", POD_SPEC)
    if not cycle.state.node_count:
        return _own_rejection("no nodes available to schedule pods", NODES)
    outcome = framework.run_pre_filter(cycle)
    if outcome.rejection is None:
        return outcome
    if not outcome.rejection.rejected:
        raise CycleError(outcome.rejection.plugin, outcome.rejection.message)
    return _pod_rejected(outcome.rejection, outcome.narrowing)


def _own_rejection(reason: str, name: str) -> Diagnosis:
    return _pod_rejected(Status(Code.UNRESOLVABLE, (reason,), name))


def _pod_rejected(status: Status, narrowing: Iterable[str] = ()) -> Diagnosis:
    """The diagnosis of a pod that is rejected as a whole."""
    return Diagnosis(_NO_ROWS, _NO_CODES, pre_filter=status, unschedulable_plugins=set(narrowing))


class Evaluation:
    """The answers of plugins for one pod: verdicts, feasible rows and totals, each at first use.

    It is also the `Evaluator` through which class results ask single plugins. Valid until the state
    changes.
    """

    __slots__ = (
        *("_cache", "_feasible", "_outcome", "_pod_class", "_results", "_totals", "_verdicts"),
        *("cycle", "framework", "nominated_row", "parts", "reads_class_results", "rejection"),
    )

    def __init__(
        self,
        framework: Framework,
        cycle: Cycle,
        prepared: PreFilterOutcome | Diagnosis,
        pod_class: PodClass | None,
        cache: ClassCache | None,
    ) -> None:
        self.framework = framework
        self.cycle = cycle
        self.rejection: Diagnosis | None = None
        """Set when the pod is rejected as a whole, by PreFilter or by AfterFilter."""
        self.nominated_row: int | None = None
        """The row of the node that the pod is nominated to."""
        self.parts: dict[str, Scores] = {}
        """Each plugin's weighted part of the totals, as far as it was not kept."""
        self.reads_class_results = False
        """Whether the evaluation reads what is kept for the class of the pod."""
        self._pod_class = pod_class
        self._cache = cache
        self._results: ClassResults | None = None
        self._feasible: Rows | None = None
        self._totals: Scores | None = None
        self._verdicts: list[tuple[Rows, Codes]] = []
        """Verdicts in the order in which they were given; a later one on a row counts."""
        if isinstance(prepared, Diagnosis):
            self.rejection = prepared
            self._feasible = _NO_ROWS
            return
        self._outcome = prepared
        self.nominated_row = nominated_row(cycle)
        # What is kept is about all nodes. It does not serve a pod for which few are in question.
        self.reads_class_results = (
            cache is not None
            and pod_class is not None
            and self.nominated_row is None
            and prepared.node_names is None
        )

    @property
    def node_names(self) -> frozenset[str] | None:
        """The only nodes that PreFilter leaves; None: all."""
        return self._outcome.node_names if self.rejection is None else None

    @property
    def excluded(self) -> Status:
        """The verdict on the nodes that PreFilter left out."""
        return self._outcome.excluded

    def feasible(self) -> Rows:
        """The rows that pass Filter and AfterFilter; none if the pod is rejected as a whole."""
        if self._feasible is None:
            rows = self._filter_by_class() if self.reads_class_results else self._filter_all()
            if self.cycle.state.statuses.faults:
                self._fail_on_faults()
            self._feasible = rows if self.passes_after_filter(rows) else _NO_ROWS
        return self._feasible

    def _fail_on_faults(self) -> None:
        """End the attempt if a filter failed on some node, as in kube-scheduler.

        The fault is asked for again: what is kept was found for an equal pod, which it may name.
        """
        state = self.cycle.state
        found = self._all_verdicts()
        failed = np.flatnonzero(np.isin(found.codes, state.statuses.faults))
        if not len(failed):
            return
        first = int(failed[0])
        status = state.statuses.status(int(found.codes[first]))
        if self.reads_class_results:
            code = self.filter_one(status.plugin, int(found.rows[first]))
            status = state.statuses.status(code)
        raise CycleError(status.plugin, status.message, found)

    def passes_after_filter(self, rows: Rows) -> bool:
        """Whether AfterFilter accepts these rows; if not, the pod is rejected as a whole."""
        status = self.framework.run_after_filters(self.cycle, rows)
        if status.ok:
            return True
        self.rejection = _pod_rejected(status)
        self.rejection.settled = True
        return False

    def totals(self) -> Scores:
        """The total score of each feasible row."""
        if self._totals is None:
            rows = self.feasible()
            if self._results is None:
                scored = self.framework.run_scores(self.cycle, rows)
                self.parts, self._totals = scored.plugins, scored.totals
            else:
                self._totals = self._join(self._results, rows)
        return self._totals

    def _join(self, results: ClassResults, rows: Rows) -> Scores:
        """The totals of kept scores, and of those that are not."""
        any_live = self._prepares_live_scores(rows)
        with self.framework.runner.timed("score"):
            live = self.framework.scores.totals(self.cycle, rows) if any_live else None
            totals = results.totals_of(rows, self)
            return totals if live is None else totals + live

    def live_totals(self, rows: Rows) -> Scores | None:
        """The sum of the scores that are not kept for the class; None if they are all zero."""
        if not self._prepares_live_scores(rows):
            return None
        return self.framework.scores.totals(self.cycle, rows)

    def _prepares_live_scores(self, rows: Rows) -> bool:
        """Run PreScore of the plugins whose scores are not kept for the class, if there are any."""
        pod_class = self._pod_class
        assert pod_class is not None, "without a class all scores are live"
        if pod_class.live_scores:
            self.cycle.skipped["score"] = pod_class.not_live
            self.framework.scores.run_pre_score(self.cycle, rows)
        return pod_class.live_scores

    def best_kept(self) -> Best | None:
        """The rows with the highest total, if kept results say so.

        They do if what is not kept rejects no row, and rates all alike.
        """
        rows, results = self.feasible(), self._results
        if results is None or len(rows) != results.count:
            return None
        any_live = self._prepares_live_scores(rows)
        with self.framework.runner.timed("score"):
            if any_live and (live := self.framework.scores.totals(self.cycle, rows)) is not None:
                self._totals = results.totals.take(rows) + live
                return None
            best = results.best()
            assert best.total != UNFIT, "a row that fits has a total"
        return best

    def veto(self, vetoes: Mapping[int, Status]) -> None:
        """Count PostScore vetoes on feasible rows as verdicts."""
        if vetoes:
            code, rows = self.cycle.state.statuses.code, np.array(list(vetoes), np.intp)
            codes = np.array([code(status) for status in vetoes.values()], np.int32)
            self._verdicts.append((rows, codes))

    def diagnosis(self) -> Diagnosis:
        """A verdict for every node (0 fits), of the first plugin that rejected it.

        It names the plugins whose verdicts must change before another attempt makes sense.
        """
        if self.rejection is None:
            self.feasible()
        if self.rejection is not None:
            return _with_plugins(self.rejection, self.cycle)
        return _with_plugins(self._all_verdicts(), self.cycle)

    def _all_verdicts(self) -> Diagnosis:
        """A verdict for every node, without the names of plugins."""
        state = self.cycle.state
        rows = state.rows()
        if self._results is None:
            codes: Codes = np.zeros(state.columns.capacity, np.int32)
        else:
            codes = self._results.codes.copy()
        for where, verdicts in self._verdicts:
            codes[where] = verdicts
        narrowing = set(self._outcome.narrowing)
        return Diagnosis(rows, codes[rows], unschedulable_plugins=narrowing)

    # Filter

    def _filter_all(self) -> Rows:
        """Ask all filters about all nodes, or about those that PreFilter left."""
        state, outcome = self.cycle.state, self._outcome
        rows = state.rows()
        if outcome.node_names is None:
            codes: Codes = filter_with_nominated_pods(self.framework, self.cycle, rows)
        else:
            named = [row for name in outcome.node_names if (row := state.row(name)) is not None]
            codes = np.full(len(rows), state.statuses.code(outcome.excluded), np.int32)
            chosen = np.isin(rows, named)
            codes[chosen] = filter_with_nominated_pods(self.framework, self.cycle, rows[chosen])
        self._verdicts.append((rows, codes))
        feasible: Rows = rows[codes == 0]
        return feasible

    def _filter_by_class(self) -> Rows:
        """Bring the class results up to date, then ask the filters whose results are not kept."""
        assert self._pod_class is not None
        assert self._cache is not None
        with self.framework.runner.timed("filter"):
            results = self._results = self._cache.results(self._pod_class)
            results.refresh(self)
            rejected = self._cache.rejected_with_nominated_pods(self.framework, self.cycle)
            rows = self._filter_live(self._pod_class, results)
            if rejected is not None:
                self._verdicts.append(rejected)
                rows = rows[~np.isin(rows, rejected[0])]
        return rows

    def _filter_live(self, pod_class: PodClass, results: ClassResults) -> Rows:
        """The rows that pass also the filters that are not joined in the class results."""
        rows, framework, cycle = results.feasible(), self.framework, self.cycle
        for each, _ in pod_class.plugins[FILTER][results.joined :]:
            if not len(rows):
                break
            name = each.plugin
            column = pod_class.columns.get((FILTER, name))
            codes: Codes | None = None
            if column is not None:
                codes = results.rejected_by(column, rows, self)
            elif name not in cycle.skipped["filter"] and framework.filters.include(name):
                codes = self.filter(name, rows)
            if codes is not None and np.count_nonzero(codes):
                self._verdicts.append((rows, codes))
                rows = rows[codes == 0]
        return rows

    # Single plugins, for class results

    def filter(self, plugin: str, rows: Rows) -> Codes:
        """The verdict of one plugin on each row."""
        return self.framework.filters.judge(plugin, self.cycle, rows)

    def score(self, plugin: str, rows: Rows) -> Scores:
        """The raw score of one plugin for each row."""
        return self.framework.scores.score(plugin, self.cycle, rows)

    def filter_one(self, plugin: str, row: int) -> int:
        """The verdict of one plugin on one row."""
        return self.framework.filters.judge_one(plugin, self.cycle, row)

    def score_one(self, plugin: str, row: int) -> int:
        """The raw score of one plugin for one row."""
        return self.framework.scores.score_one(plugin, self.cycle, row)

    def normalize(self, plugin: str, scores: Scores) -> Scores:
        """Raw scores of all feasible rows brought into 0..100."""
        return self.framework.scores.normalize(plugin, self.cycle, scores)


def _with_plugins(diagnosis: Diagnosis, cycle: Cycle) -> Diagnosis:
    """The diagnosis with the names of the plugins that rejected."""
    if diagnosis.pre_filter is not None:
        statuses = [diagnosis.pre_filter]
    else:
        codes = distinct_codes(diagnosis.codes)
        statuses = [cycle.state.statuses.status(code) for code in codes if code]
    for status in statuses:
        if status.code is Code.PENDING:
            diagnosis.pending_plugins.add(status.plugin)
        else:
            diagnosis.unschedulable_plugins.add(status.plugin)
    return diagnosis


class ClassCache:
    """What is kept for classes of equal pods (`equivalence`), as evaluations read it."""

    def __init__(self, equivalence: EquivalenceCache) -> None:
        self._equivalence = equivalence
        self._with_nominated: RowMemo[int] = RowMemo(equivalence.state, classes=64)
        """Verdicts on rows as they will be when nominated pods have come."""

    def class_of(self, cycle: Cycle) -> PodClass | None:
        """The class of a cycle's pod; None if nothing is kept for it.

        A pod beyond the limits is rejected before its requests are read.
        """
        if cycle.pod.excess:
            return None
        return self._equivalence.class_of(cycle.pod)

    def derive_keys(self, pod: PodInfo) -> None:
        """Derive what decides the class of a long pod, with checkpoints."""
        self._equivalence.derive_keys(pod)

    def stamp(self, profile: str) -> tuple[int, ...]:
        """Changes when the class of some pod of a profile may have changed."""
        return self._equivalence.classes[profile].stamp()

    def results(self, pod_class: PodClass) -> ClassResults:
        """The results of a class; to be refreshed before they are read."""
        return self._equivalence.results(pod_class)

    def unschedulable(self, pod_class: PodClass, cycle: Cycle) -> Diagnosis | None:
        """Why no pod of the class fits anywhere, if that is known and nothing changed since."""
        state = cycle.state
        verdict = pod_class.verdict
        if verdict is None or verdict.version != state.changes.version:
            return None
        if verdict.generation != state.statuses.generation:
            return None
        if state.nominations.node_of(cycle.pod.uid):
            return None
        diagnosis: Diagnosis = verdict.diagnosis
        return diagnosis

    def keep_unschedulable(self, pod_class: PodClass, cycle: Cycle, diagnosis: Diagnosis) -> None:
        """Keep a diagnosis for the whole class, until something changes.

        Not that of a nominated pod: it depends on the node that is kept for this pod.
        """
        state = cycle.state
        if pod_class.known and not state.nominations.node_of(cycle.pod.uid):
            version, generation = state.changes.version, state.statuses.generation
            pod_class.verdict = ClassVerdict(diagnosis, version, generation)

    def rejected_with_nominated_pods(
        self, framework: Framework, cycle: Cycle
    ) -> tuple[Rows, Codes] | None:
        """The rows that do not fit because other pods are nominated to them, and the verdicts."""
        if not cycle.state.nominations:
            return None
        rows = cycle.state.nominations.rows_ahead_of(cycle.pod)
        if cycle.equivalence_class is None or not framework.filters.judge_row_by_row(cycle):
            codes = with_nominated_pods(framework, cycle, rows)
        else:
            known, asked = self._with_nominated.about(cycle.equivalence_class), rows.tolist()
            unknown = [row for row in asked if row not in known]
            if unknown:
                found = with_nominated_pods(framework, cycle, np.array(unknown, np.intp))
                known.update(zip(unknown, found, strict=True))
            codes = np.array([known[row] for row in asked], np.int32)
        failed = codes != 0
        return rows[failed], codes[failed]


# Nominated pods


def nominated_row(cycle: Cycle) -> int | None:
    """The row of the node that the pod is nominated to, if there is one."""
    return cycle.state.row(cycle.state.nominations.node_of(cycle.pod.uid))


def filter_with_nominated_pods(framework: Framework, cycle: Cycle, rows: Rows) -> Codes:
    """A verdict per row that holds with and without the pods that are nominated to it.

    Only nominated pods of this priority or higher count. They may come or may not, so both cases
    must pass.
    """
    codes = framework.run_filters(cycle, rows)
    if not cycle.state.nominations:
        return codes
    ahead = cycle.state.nominations.rows_ahead_of(cycle.pod)
    nominated = np.flatnonzero(np.isin(rows, ahead))
    if len(nominated):
        verdicts = with_nominated_pods(framework, cycle, rows[nominated])
        codes[nominated] = np.where(verdicts, verdicts, codes[nominated])
    return codes


def with_nominated_pods(framework: Framework, cycle: Cycle, rows: Rows) -> Codes:
    """A verdict per row as if the pods that are nominated to it were there."""
    with _as_if_they_requested(cycle, rows):
        codes = framework.filters.run_by_sums(cycle, rows)
        if framework.filters.judge_by_sums(cycle):
            return codes
    # Most nodes with nominated pods are full: what these evict takes a while to leave.
    left = np.flatnonzero(codes == 0)
    together = len(left) > 0 and framework.filters.judge_row_by_row(cycle)
    for group in [left] if together else left[:, np.newaxis]:
        with framework.trial(cycle) as changes:
            for row in rows[group].tolist():
                node = cycle.state.name(row)
                for pod in cycle.state.nominations.ahead_of(cycle.pod, node):
                    changes.add(pod, node)
            codes[group] = framework.run_filters(cycle, rows[group])
    return codes


def _as_if_they_requested(cycle: Cycle, rows: Rows) -> AbstractContextManager[None]:
    """Have rows show what is requested there with the pods that are nominated to them.

    After many preemptions there are thousands of them, and to put them there takes far longer.
    """
    columns, find = cycle.state.columns, cycle.state.columns.resources.find
    requested, pod_count = columns.requested[:, rows], columns.pod_count[rows]
    for place, row in enumerate(rows.tolist()):
        for pod in cycle.state.nominations.ahead_of(cycle.pod, columns.names[row]):
            pod_count[place] += 1
            for resource, amount in pod.requests.items():
                index = find(resource)
                if index is not None:
                    requested[index, place] += amount
    return as_if_rows_requested(cycle.state, rows, requested, pod_count)
