"""TaintToleration: nodes repel pods that do not tolerate their taints."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from scheduler.bounded import Usage
from scheduler.equivalence.reads import Key, Reads
from scheduler.model.events import Action, Event, Hint
from scheduler.model.nodes import Node, Taint
from scheduler.model.podinfo import PodInfo
from scheduler.model.pods import Toleration
from scheduler.model.status import Code, Status
from scheduler.model.tolerations import Cover, repelled
from scheduler.plugin_api import Handle
from scheduler.plugin_api.cycle import Cycle
from scheduler.plugin_api.facts import Fact
from scheduler.plugin_api.scoring import normalize_by_max
from scheduler.plugin_api.traits import PluginTraits
from scheduler.plugins.names import TAINT_TOLERATION
from scheduler.plugins.taint_toleration_facts import (
    Failure,
    facts_of,
    facts_of_cluster,
    taints_of,
)
from scheduler.queueing.columns import alike
from scheduler.queueing.hints import HintRegistration, by_uid, own_change
from scheduler.state.aspects import Aspect
from scheduler.state.columns import Codes, Mask, Rows, Scores
from scheduler.state.interning import InternedAnswers

_Tolerations = tuple[Toleration, ...]
_Taints = tuple[Taint, ...]


class TaintToleration:
    """Judged once per distinct set of taints, however many nodes carry it."""

    name = TAINT_TOLERATION
    traits = PluginTraits(row_by_row=True)
    UNTOLERATED = Status(Code.UNRESOLVABLE, ("node(s) had untolerated taint(s)",), TAINT_TOLERATION)

    filter_reads = score_reads = Reads(rows=frozenset({Aspect.TAINTS}), claims=False)

    def __init__(self, args: Any, handle: Handle) -> None:
        self._state = handle.state
        sets = handle.state.columns.taints.interner
        self._repelled: InternedAnswers[_Tolerations, _Taints] = InternedAnswers(
            sets, np.bool_, len
        )
        self._disliked: InternedAnswers[_Tolerations, _Taints] = InternedAnswers(
            sets, np.int64, len
        )
        handle.metrics.caches.follow(f"{self.name} {handle.profile}", self._usage)

    def _usage(self) -> dict[str, Usage]:
        held = zip(self._repelled.usage(), self._disliked.usage(), strict=True)
        return {"tolerations": Usage(*map(sum, held))}

    def filter_key(self, pod: PodInfo) -> Key:
        """What the pod tolerates."""
        return pod.pod.spec.tolerations

    score_key = filter_key

    def filter(self, cycle: Cycle, rows: Rows) -> Codes:
        """Reject nodes with a NoSchedule or NoExecute taint that the pod does not tolerate."""
        tolerations = cycle.pod.pod.spec.tolerations
        answers = self._repelled.ask(tolerations, Cover(tolerations).repelled)
        return cycle.reject(answers[cycle.state.columns.taints.numbers[rows]], self.UNTOLERATED)

    def failures(self, cycle: Cycle, rows: Rows, codes: Codes) -> Sequence[Failure]:
        """The taints of each row."""
        return taints_of(cycle, rows)

    def facts(self, pod: PodInfo, failure: Failure) -> Iterator[Fact]:
        """Each taint, and the toleration that comes near."""
        return facts_of(pod.pod.spec.tolerations, failure)

    def cluster_facts(self, cycle: Cycle, rows: Rows, codes: Codes) -> Iterator[Fact]:
        """Each taint with the number of nodes that it closes."""
        return facts_of_cluster(cycle, rows)

    def score(self, cycle: Cycle, rows: Rows) -> Scores:
        """The number of PreferNoSchedule taints that the pod does not tolerate."""
        tolerations = cycle.pod.pod.spec.tolerations
        answers = self._disliked.ask(tolerations, Cover(tolerations).disliked)
        counts: Scores = answers[cycle.state.columns.taints.numbers[rows]]
        return counts

    def normalize(self, cycle: Cycle, scores: Scores) -> Scores:
        """Fewer is better."""
        return normalize_by_max(scores, reverse=True)

    def hints(self) -> Sequence[HintRegistration]:
        """A node whose taints the pod tolerates now, or the pod's own new toleration."""
        return (
            HintRegistration(
                "Node",
                Action.ADD | Action.NODE_TAINT,
                self._after_node,
                alike(self._after_node, self.filter_key),
            ),
            HintRegistration("Pod", Action.POD_TOLERATION, own_change, by_uid),
        )

    def accepts(self, pod: PodInfo, rows: Rows) -> Mask:
        """The nodes whose taints the pod tolerates."""
        tolerations = pod.pod.spec.tolerations
        answers = self._repelled.ask(tolerations, Cover(tolerations).repelled)
        tolerated: Mask = ~answers[self._state.columns.taints.numbers[rows]]
        return tolerated

    def _after_node(self, pod: PodInfo, event: Event) -> Hint:
        tolerations = pod.pod.spec.tolerations
        old, new = event.old, event.new
        if not isinstance(new, Node) or repelled(tolerations, new.spec.taints):
            return Hint.SKIP
        was_repelled = not isinstance(old, Node) or repelled(tolerations, old.spec.taints)
        return Hint.QUEUE if was_repelled else Hint.SKIP
