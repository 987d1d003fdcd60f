"""A webhook as a plugin.

In the scheduling cycle its methods return what the webhook has answered about the pod, or raise
`AnswerNeeded`; the attempt is then suspended, the loop is not. From reserve to unreserve the
webhook is asked in the pod's binding task.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Coroutine, Hashable, Sequence
from functools import partial
from typing import Any

import numpy as np

from scheduler import machine
from scheduler.bounded import MEBIBYTE, Memo, Usage
from scheduler.config.schema import Webhook
from scheduler.equivalence.reads import Key, Reads
from scheduler.equivalence.verdicts import Answers
from scheduler.model.events import Action
from scheduler.model.podinfo import PodInfo
from scheduler.model.status import SKIP, SUCCESS, Code, Status, unschedulable
from scheduler.plugin_api.cycle import Cycle, Diagnosis, Slot
from scheduler.plugin_api.extension_points import PostFilterResult, PreFilterResult
from scheduler.plugin_api.handle import Handle
from scheduler.plugin_api.traits import PluginTraits
from scheduler.plugin_api.waiting import MAX_WAIT, WaitingPod
from scheduler.queueing.hints import ANY_KIND, HintRegistration, by_uid, own_change
from scheduler.queueing.queued_pod import QueuedPod
from scheduler.state.columns import Codes, Rows, Scores
from scheduler.webhooks.answers import (
    REMOTE_ANSWERS,
    AnswerNeeded,
    Failed,
    Question,
    RemoteAnswers,
    Subject,
    names_of,
)
from scheduler.webhooks.asking import Asking
from scheduler.webhooks.gate import Gate
from scheduler.webhooks.protocol import (
    UNRESERVE,
    FilterAnswer,
    PreFilterAnswer,
    Refusal,
    ScoreAnswer,
    StatusAnswer,
    refusal_of,
    refusals_of,
    status_of,
)
from scheduler.webhooks.rows import (
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
from scheduler.webhooks.views import Views, reads_of

AGAIN_SECONDS = 1.0
"""After Wait, if the answer does not say when to ask again."""
GONE = "removed while it waited for permission"
_ASKED: Slot[set[str]] = Slot("webhooks that may have booked something", lasting=True)
NOT_ASKED = "node(s) changed faster than webhook {} answered"
PRE_FILTER_BYTES = 16 * MEBIBYTE
"""Of answers of pre-filters that are kept."""
MAX_VETOES = 10
"""Each costs a call and another attempt; a webhook with more vetoes should filter."""


class WebhookPlugin:
    """All points of a webhook; the configuration says which of them are enabled."""

    traits = PluginTraits(remote=True, row_by_row=True, absolute=True, comparable=True)
    """In a trial it gives a node the verdict from before; its keys are numbers."""

    def __init__(self, webhook: Webhook, asking: Asking, views: Views, handle: Handle) -> None:
        self.name = webhook.name
        self._webhook = webhook
        self._asking = asking
        self._views = views
        self._handle = handle
        self._declared = reads_of(webhook.reads) if webhook.reads is not None else None
        """One that declares what it reads is asked once per class, and its answers are kept."""
        self._pre_filters = _KeptPreFilters()
        self._rows = RowQuestions(webhook.name, self._declared or Reads())
        self._left_out = unschedulable(NOT_ASKED.format(webhook.name)).by(webhook.name)
        self._gate = Gate(webhook, asking, handle)
        self._undoing: dict[str, asyncio.Event] = {}
        """By the uid of a pod: set once the webhook has undone what it did for it."""
        self._fails = webhook.failure_policy == "Fail"
        handle.metrics.caches.follow(f"webhook {webhook.name} {handle.profile}", self._usage)

    def _usage(self) -> dict[str, Usage]:
        return {
            "webhook_gate_answers": self._gate.usage(),
            "webhook_pod_verdicts": self._pre_filters.usage(),
        }

    def concerns(self, pod: PodInfo) -> bool:
        """Whether the webhook is asked about such pods: by namespace and labels."""
        pods, metadata = self._webhook.pods, pod.pod.metadata
        if pods.namespaces and metadata.namespace not in pods.namespaces:
            return False
        return pods.match_labels.items() <= metadata.labels.items()

    def hints(self) -> Sequence[HintRegistration]:
        """Any event, unless the configuration names some."""
        return _hints_of(self._webhook)

    @property
    def filter_reads(self) -> Reads | None:
        """What its verdicts depend on, if that is declared."""
        return self._declared

    @property
    def score_reads(self) -> Reads | None:
        """What its scores depend on, if that is declared."""
        return self._declared

    def filter_key(self, pod: PodInfo) -> Key:
        """What it is shown of the pod; None if it is not asked about such pods."""
        return self._views.key(pod) if self.concerns(pod) else None

    score_key = filter_key

    # Before the queue

    def begin(self) -> None:
        """This replica schedules from now on: ask about the pods at pre-enqueue."""
        self._gate.begin()

    def pre_enqueue(self, pod: PodInfo) -> Status:
        """Gate the pod until the webhook has answered, and for as long as it rejects it."""
        return self._gate.verdict(pod) if self.concerns(pod) else SUCCESS

    def sort_key(self, queued: QueuedPod) -> float:
        """The key that the webhook gave to the pod; 0 for pods that do not concern it."""
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
        """The webhook's verdict on each row; rows without an answer in time are rejected."""
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
        patient = cycle.find(REMOTE_ANSWERS) is not None and not cycle.state.changes.on_trial
        out = statuses.code(self._left_out) if patient and failed is None else 0
        return codes_or_pass(codes, missing, out)

    def after_filter(self, cycle: Cycle, rows: Rows) -> Status:
        """The webhook's verdict on the set of nodes that fit, empty or not."""
        answer = self._asked(cycle, "afterFilter", names=names_of(rows, cycle.state))
        return SUCCESS if answer is None else status_of(answer, self.name)

    def post_score(self, cycle: Cycle, node: str) -> Status:
        """Whether the webhook vetoes the best node; after `MAX_VETOES` all others are vetoed."""
        answers = cycle.find(REMOTE_ANSWERS)
        if (
            answers is not None
            and answers.times(self.name, "postScore") >= MAX_VETOES
            and answers.find((self.name, "postScore", node)) is None
        ):
            return unschedulable(f"node(s) came after {MAX_VETOES} that webhook {self.name} vetoed")
        answer = self._asked(cycle, "postScore", node=node)
        return SUCCESS if answer is None else status_of(answer, self.name)

    def post_filter(self, cycle: Cycle, diagnosis: Diagnosis) -> PostFilterResult:
        """The webhook's answer about a pod that fits nowhere."""
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
        """Whether the webhook scores the pod."""
        answer = self._asked(cycle, "preScore", names=names_of(rows, cycle.state))
        return SUCCESS if answer is None else status_of(answer, self.name)

    def score(self, cycle: Cycle, rows: Rows) -> Scores:
        """The webhook's scores; zero where there are none."""
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

    # Binding, in the pod's task

    def reserve(self, cycle: Cycle, node: str) -> Status:
        """Nothing yet: the webhook is asked at the start of the binding task."""
        return SUCCESS

    def permit(self, cycle: Cycle, node: str) -> tuple[Status, float]:
        """Nothing yet, as for ``reserve``."""
        return SUCCESS, 0.0

    async def reserve_remotely(self, cycle: Cycle, node: str) -> Status:
        """Have the webhook book the pod."""
        return await self._status("reserve", cycle, node)

    async def permit_remotely(self, cycle: Cycle, node: str) -> Status:
        """Ask the webhook until it allows or rejects the pod, or until its timeout."""
        if not self.concerns(cycle.pod):
            return SUCCESS
        await self._note(cycle)
        answer = await self._asking.ask("permit", cycle.pod, node=node)
        if isinstance(answer, Failed) or answer.code != Code.WAIT.value:
            return self._permission(answer)
        timeout = min(answer.timeout_seconds, MAX_WAIT)
        waiting = WaitingPod(cycle.pod, node, {self.name: timeout}, expires=False)
        if (inside := self._handle.permits.waiting(cycle.pod.uid)) is not None:
            waiting.follow(inside)
        with self._handle.permits.holding(cycle, waiting):
            return await self._permitted(cycle, waiting, answer, machine.monotonic() + timeout)

    async def _permitted(
        self, cycle: Cycle, waiting: WaitingPod, answer: StatusAnswer, deadline: float
    ) -> Status:
        """Ask again and again, unless the wait is decided otherwise."""
        while True:
            now = machine.monotonic()
            if now >= deadline:
                words = f"pod {cycle.pod.key} timed out waiting on permit"
                return unschedulable(words).by(self.name)
            pause = answer.retry_after_seconds or AGAIN_SECONDS
            verdict = await waiting.within(min(pause, deadline - now))
            if verdict is not None:
                return verdict
            if not self._handle.state.assumed(cycle.pod.uid):
                return unschedulable(GONE).by(self.name)
            again = await self._asking.ask("permit", cycle.pod, node=waiting.node)
            if isinstance(again, Failed) or again.code != Code.WAIT.value:
                return self._permission(again)
            answer = again

    def _permission(self, answer: StatusAnswer | Failed) -> Status:
        if isinstance(answer, Failed):
            self._fail(answer)
            return SUCCESS
        return status_of(answer, self.name)

    def pre_bind_pre_flight(self, cycle: Cycle, node: str) -> Status:
        """Success for each pod that concerns it: its answer may take long."""
        return SUCCESS if self.concerns(cycle.pod) else SKIP

    async def pre_bind(self, cycle: Cycle, node: str) -> Status:
        """The webhook prepares the node, or objects."""
        return await self._status("preBind", cycle, node)

    async def bind(self, cycle: Cycle, node: str) -> Status:
        """The webhook binds the pod itself, or leaves that to the next plugin."""
        if not self.concerns(cycle.pod):
            return SKIP
        answer = await self._asking.ask("bind", cycle.pod, node=node)
        if isinstance(answer, Failed):
            self._fail(answer)
            return SKIP
        return status_of(answer, self.name)

    def post_bind(self, cycle: Cycle, node: str) -> None:
        """Notify the webhook, in the background."""
        if self.concerns(cycle.pod):
            self._handle.run.spawn(self._notify_bound(cycle.pod, node))

    def unreserve(self, cycle: Cycle, node: str) -> None:
        """Have the webhook undo what it did, in the background, if it was called for the pod."""
        if self.name in (cycle.find(_ASKED) or ()):
            undone = self._undoing[cycle.pod.uid] = asyncio.Event()
            why = refusal_of(cycle.refusal) if cycle.refusal is not None else None
            self._handle.run.spawn(self._undo(cycle.pod, node, why, undone))

    async def _undo(
        self, pod: PodInfo, node: str, why: Refusal | None, undone: asyncio.Event
    ) -> None:
        try:
            await self._asking.ask(UNRESERVE, pod, node=node, rejection=why)
        finally:
            undone.set()
            if self._undoing.get(pod.uid) is undone:
                del self._undoing[pod.uid]

    async def _note(self, cycle: Cycle) -> None:
        """Note that unreserve is needed; before the call, since a lost answer may be a yes.

        What an earlier attempt did is undone first, so that the two are not confused.
        """
        if (undone := self._undoing.get(cycle.pod.uid)) is not None:
            await undone.wait()
        cycle.put(_ASKED, (cycle.find(_ASKED) or set()) | {self.name})

    async def _notify_bound(self, pod: PodInfo, node: str) -> None:
        await self._asking.ask("postBind", pod, node=node)

    async def _status(self, point: str, cycle: Cycle, node: str) -> Status:
        if not self.concerns(cycle.pod):
            return SUCCESS
        await self._note(cycle)
        answer: StatusAnswer | Failed = await self._asking.ask(point, cycle.pod, node=node)
        if isinstance(answer, Failed):
            self._fail(answer)
            return SUCCESS
        return status_of(answer, self.name)

    # Asking

    def _key(self, pod: PodInfo) -> Hashable:
        """The key of questions about equal pods."""
        return pod.uid if self._declared is None else self._views.key(pod)

    def _ask_rows(self, pod: PodInfo) -> Callable[[str, Sequence[str]], Coroutine[Any, Any, Any]]:
        async def ask(point: str, names: Sequence[str]) -> Any:
            return await self._asking.ask(point, pod, names=names)

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
        answers = listening(cycle, self.name)
        if answers is None:
            return None
        subject = (self.name, point, node or "")
        answer = answers.find(subject)
        key: bytes | None = None
        if answer is None and point == "preFilter" and self._declared is not None:
            key = self._views.key(pod)
            answer = self._pre_filters.find(key)
        if answer is None:
            # Texts, because codes may have other meanings when the question is sent.
            said = rejections() if rejections is not None else None
            ask = partial(self._asking.ask, point, pod, names=names, node=node, rejections=said)
            raise AnswerNeeded(self._question(subject, pod, key, ask))
        if isinstance(answer, Failed):
            self._fail(answer)
            return None
        return answer

    def _question(
        self,
        subject: Subject,
        pod: PodInfo,
        key: bytes | None,
        ask: Callable[[], Coroutine[Any, Any, Any]],
    ) -> Question:
        """The question on a pod as a whole; with a key, its answer is that of all equal pods."""

        def record(answers: RemoteAnswers, answer: Any) -> None:
            answers.record(subject, answer)
            if key is not None and not isinstance(answer, Failed):
                self._pre_filters.keep(key, answer)

        asked = (*subject, pod.uid) if key is None else (self._handle.profile, *subject, key)
        return Question(self.name, asked, ask, record)

    def _fail(self, failed: Failed) -> Any:
        """Go on without an answer, or raise, as the policy says."""
        if self._fails:
            raise WebhookError(failed.message)


class _KeptPreFilters:
    """Verdicts on pods as a whole, by the digest of what a webhook is shown of them.

    They depend on nothing else, if it declares what it reads. A key itself may be long.
    """

    def __init__(self) -> None:
        self._answers: Memo[bytes, PreFilterAnswer] = Memo(PRE_FILTER_BYTES, _size)

    def find(self, key: bytes) -> PreFilterAnswer | None:
        return self._answers.get(_digest(key))

    def keep(self, key: bytes, answer: PreFilterAnswer) -> None:
        self._answers.put(_digest(key), answer)

    def usage(self) -> Usage:
        return self._answers.usage()


def _rejections(cycle: Cycle, diagnosis: Diagnosis) -> list[Refusal]:
    """Why no node fits, by verdict; one on the pod as a whole names no nodes."""
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


_ACTIONS = {"Add": Action.ADD, "Delete": Action.DELETE, "Update": Action.UPDATE}
_NO_CURE = frozenset(("preEnqueue", "queueSort", "score", "preScore", "postBind"))
"""Points at which no event cures a rejection, or none is possible."""


def _hints_of(webhook: Webhook) -> Sequence[HintRegistration]:
    """All events, or those that the configuration names.

    A webhook that only rejects at pre-enqueue is asked again in its own time, and when the pod
    changes.
    """
    own = HintRegistration("Pod", Action.UPDATE, own_change, by_uid)
    if frozenset(webhook.points) <= _NO_CURE:
        return (own,)
    if not webhook.retry_on:
        return (HintRegistration(ANY_KIND, ~Action(0)),)
    named = (event.split("/") for event in webhook.retry_on)
    return (own, *(HintRegistration(kind, _ACTIONS[action]) for kind, action in named))
