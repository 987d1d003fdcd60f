"""A webhook as a plugin: the points of the scheduling cycle.

Its methods are those of any plugin. They answer from what the pod was told, or raise
`AnswerNeeded`; the pod is then suspended, the loop is not.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Coroutine, Hashable, Sequence
from functools import partial
from typing import Any

import numpy as np

from scheduler.bounded import MEBIBYTE, Memo
from scheduler.config.schema import Webhook
from scheduler.equivalence.reads import Key, Reads
from scheduler.equivalence.verdicts import Answers
from scheduler.framework.answers import (
    TOLD,
    AnswerNeeded,
    Failed,
    Question,
    Subject,
    Told,
    names_of,
)
from scheduler.framework.cycle import Cycle, Diagnosis
from scheduler.framework.handle import Handle
from scheduler.framework.interface import PostFilterResult, PreFilterResult
from scheduler.framework.webhooks.asking import Asking
from scheduler.framework.webhooks.binding import BindingPoints
from scheduler.framework.webhooks.gate import Gate
from scheduler.framework.webhooks.hinting import hints_of
from scheduler.framework.webhooks.protocol import (
    FilterAnswer,
    PreFilterAnswer,
    Refusal,
    ScoreAnswer,
    refusal_of,
    refusals_of,
    status_of,
)
from scheduler.framework.webhooks.rows import (
    FILTER,
    SCORE,
    RowQuestions,
    WebhookError,
    codes_of,
    codes_or_pass,
    listening,
    no_scores,
    scores_of,
)
from scheduler.framework.webhooks.views import Views, reads_of
from scheduler.model.podinfo import PodInfo
from scheduler.model.status import SUCCESS, Status, unschedulable
from scheduler.queueing.hints import HintRegistration
from scheduler.queueing.queued_pod import QueuedPod
from scheduler.state.columns import Codes, Rows, Scores

NOT_ASKED = "node(s) changed faster than webhook {} answered"
PRE_FILTER_BYTES = 16 * MEBIBYTE
"""Of answers of pre-filters that are kept; whoever asked has been told in any case."""
MAX_VETOES = 10
"""Each costs a call and another try: who vetoes more should filter."""


class WebhookPlugin(BindingPoints):
    """All points of a webhook; the configuration says which of them are in use."""

    row_by_row = True
    """On trial it says of a node what it said before, whatever pods are there."""
    absolute = True
    comparable = True
    """Its keys are numbers."""

    def __init__(self, webhook: Webhook, asking: Asking, views: Views, handle: Handle) -> None:
        super().__init__(webhook, asking, handle)
        self._views = views
        reads = reads_of(webhook.reads) if webhook.reads is not None else Reads()
        self._rows = RowQuestions(webhook.name, reads)
        self._left_out = unschedulable(NOT_ASKED.format(webhook.name)).by(webhook.name)
        self._gate = Gate(webhook, asking, handle)

    def hints(self) -> Sequence[HintRegistration]:
        """Any event, unless the configuration knows better."""
        return hints_of(self.webhook)

    # Before the queue

    def begin(self) -> None:
        """This replica schedules from now on: ask about the pods that wait at the gate."""
        self._gate.begin()

    def pre_enqueue(self, pod: PodInfo) -> Status:
        """Hold the pod until the webhook has answered, and for as long as it says no."""
        return self._gate.verdict(pod) if self.concerns(pod) else SUCCESS

    def sort_key(self, queued: QueuedPod) -> float:
        """The key that the webhook gave to the pod; 0 for pods that it is not asked about."""
        return self._gate.key(queued.info)

    # Scheduling cycle

    def pre_filter(self, cycle: Cycle) -> PreFilterResult:
        """The webhook's verdict on the pod as a whole."""
        answer = self._asked(cycle, "preFilter")
        if not isinstance(answer, PreFilterAnswer):
            return PreFilterResult()
        names = frozenset(answer.node_names) if answer.node_names is not None else None
        return PreFilterResult(status_of(answer, self.name), names)

    def filter(self, cycle: Cycle, rows: Rows) -> Codes:
        """The webhook's verdict on each row; rows it could not be asked about in time are out."""
        if not self.concerns(cycle.pod):
            return np.zeros(len(rows), np.int32)
        statuses = cycle.state.statuses

        def read(answer: FilterAnswer, names: Sequence[str]) -> Answers:
            verdicts = {node: status_of(each, self.name) for node, each in answer.rejected.items()}
            return codes_of(verdicts, names, statuses)

        codes, missing, failed = self._rows.lookup(
            cycle, FILTER, rows, self._key(cycle.pod), self._ask_rows(cycle.pod), read
        )
        if failed is not None:
            self._fail(failed)
        patient = cycle.find(TOLD) is not None and not cycle.state.changes.on_trial
        out = statuses.code(self._left_out) if patient and failed is None else 0
        return codes_or_pass(codes, missing, out)

    def after_filter(self, cycle: Cycle, rows: Rows) -> Status:
        """What the webhook says to the set of nodes that fit, empty or not."""
        answer = self._asked(cycle, "afterFilter", names=names_of(rows, cycle.state))
        return SUCCESS if answer is None else status_of(answer, self.name)

    def post_score(self, cycle: Cycle, node: str) -> Status:
        """Whether the webhook has anything against the best node.

        It is asked about so many of the best nodes, and the rest will not do either.
        """
        told = cycle.find(TOLD)
        if (
            told is not None
            and told.times(self.name, "postScore") >= MAX_VETOES
            and told.find((self.name, "postScore", node)) is None
        ):
            return unschedulable(f"node(s) came after {MAX_VETOES} that webhook {self.name} vetoed")
        answer = self._asked(cycle, "postScore", node=node)
        return SUCCESS if answer is None else status_of(answer, self.name)

    def post_filter(self, cycle: Cycle, diagnosis: Diagnosis) -> PostFilterResult:
        """What the webhook made of a pod that fits nowhere."""
        names = names_of(diagnosis.rows, cycle.state)
        answer = self._asked(
            cycle, "postFilter", names=names, rejections=partial(_rejections, cycle, diagnosis)
        )
        if answer is None:
            return PostFilterResult(unschedulable())
        node = answer.nominated_node
        if node and cycle.state.row(node) is None:
            raise WebhookError(f"webhook {self.name}: nominatedNode: there is no node {node!r}")
        return PostFilterResult(status_of(answer, self.name), node)

    def pre_score(self, cycle: Cycle, rows: Rows) -> Status:
        """Whether the webhook wants to score the pod."""
        answer = self._asked(cycle, "preScore", names=names_of(rows, cycle.state))
        return SUCCESS if answer is None else status_of(answer, self.name)

    def score(self, cycle: Cycle, rows: Rows) -> Scores:
        """The webhook's scores; zero where there are none, for whatever reason."""
        if not self.concerns(cycle.pod):
            return no_scores(rows)

        def read(answer: ScoreAnswer, names: Sequence[str]) -> Answers:
            return scores_of(answer.scores, names)

        scores, _, _ = self._rows.lookup(
            cycle, SCORE, rows, self._key(cycle.pod), self._ask_rows(cycle.pod), read
        )
        return scores

    def normalize(self, cycle: Cycle, scores: Scores) -> Scores:
        """They are final."""
        return scores

    # Asking

    def _key(self, pod: PodInfo) -> Hashable:
        """What questions about equal pods have in common."""
        return pod.uid

    def _ask_rows(self, pod: PodInfo) -> Callable[[str, Sequence[str]], Coroutine[Any, Any, Any]]:
        async def ask(point: str, names: Sequence[str]) -> Any:
            return await self.asking.ask(point, pod, names=names)

        return ask

    def _asked(
        self,
        cycle: Cycle,
        point: str,
        *,
        names: Sequence[str] | None = None,
        node: str | None = None,
        rejections: Callable[[], list[Refusal]] | None = None,
    ) -> Any:
        """The answer on the pod as a whole; None if there is none and none is needed."""
        pod = cycle.pod
        if not self.concerns(pod):
            return None
        told = listening(cycle, self.name)
        if told is None:
            return None
        subject = (self.name, point, node or "")
        answer = told.find(subject) or self._remembered(point, pod)
        if answer is None:
            # In words now: codes may mean something else when the question is sent.
            said = rejections() if rejections is not None else None
            ask = partial(self.asking.ask, point, pod, names=names, node=node, rejections=said)
            raise AnswerNeeded(self._question(point, subject, pod, ask))
        if isinstance(answer, Failed):
            self._fail(answer)
            return None
        return answer

    def _question(
        self,
        point: str,
        subject: Subject,
        pod: PodInfo,
        ask: Callable[[], Coroutine[Any, Any, Any]],
    ) -> Question:
        def hear(told: Told, answer: Any) -> None:
            told.hear(subject, answer)

        return Question(self.name, (*subject, pod.uid), ask, hear)

    def _remembered(self, point: str, pod: PodInfo) -> Any:
        return None


class DeclaringWebhook(WebhookPlugin):
    """A webhook that says what it reads: asked once per class, and its answers are kept."""

    def __init__(self, webhook: Webhook, asking: Asking, views: Views, handle: Handle) -> None:
        super().__init__(webhook, asking, views, handle)
        assert webhook.reads is not None, "it declares nothing"
        self._declared = reads_of(webhook.reads)
        self._pre_filters: Memo[bytes, PreFilterAnswer] = Memo(PRE_FILTER_BYTES, _size)
        """By digest of the key, which may be long: the verdict on a pod as a whole depends on
        nothing else that is shown."""

    @property
    def filter_reads(self) -> Reads:
        """What its verdicts depend on."""
        return self._declared

    @property
    def score_reads(self) -> Reads:
        """What its scores depend on."""
        return self._declared

    def filter_key(self, pod: PodInfo) -> Key:
        """What it is shown of the pod; None if it is not asked about such pods."""
        return self._views.key(pod) if self.concerns(pod) else None

    score_key = filter_key

    def _key(self, pod: PodInfo) -> Hashable:
        return self._views.key(pod)

    def _question(
        self,
        point: str,
        subject: Subject,
        pod: PodInfo,
        ask: Callable[[], Coroutine[Any, Any, Any]],
    ) -> Question:
        if point != "preFilter":
            return super()._question(point, subject, pod, ask)
        key = self._views.key(pod)

        def hear(told: Told, answer: Any) -> None:
            told.hear(subject, answer)
            if not isinstance(answer, Failed):
                self._pre_filters.put(_digest(key), answer)

        return Question(self.name, (self._handle.profile, *subject, key), ask, hear)

    def _remembered(self, point: str, pod: PodInfo) -> Any:
        if point != "preFilter":
            return None
        return self._pre_filters.get(_digest(self._views.key(pod)))


def _rejections(cycle: Cycle, diagnosis: Diagnosis) -> list[Refusal]:
    """Why no node will do, by verdict; one on the pod as a whole names no nodes."""
    if diagnosis.pre_filter is not None:
        return [refusal_of(diagnosis.pre_filter)]
    names = names_of(diagnosis.rows, cycle.state)
    by_code: dict[int, list[str]] = {}
    for name, code in zip(names, diagnosis.codes.tolist(), strict=True):
        if code:
            by_code.setdefault(code, []).append(name)
    statuses = cycle.state.statuses
    return refusals_of((statuses.status(code), nodes) for code, nodes in by_code.items())


def _size(key: bytes, answer: PreFilterAnswer) -> int:
    return len(key) + 80 * len(answer.node_names or ()) + 300 * (1 + len(answer.reasons))


def _digest(key: bytes) -> bytes:
    return hashlib.blake2b(key, digest_size=32).digest()
