"""Takes every step of a recording again, and compares each decision with the recorded one.

::

    recording ──► Changed ───────────────► event handlers: state, plugins' books
                  NodeSearched ────────────────► find_node, on the state of that moment ──► equal?
                  MadeRoom ──────────────► PostFilter                              ──► equal?
                  Reserved ──────────────► assume on the *recorded* node, Reserve, Permit ──► equal?
                  BindingAnswered, Reverted, … ─► PostBind, Unreserve and forget, …

The recording says what happened and in which order: which pod was tried when, which writes were
answered how, who waited for how long. Decided anew are the node of each pod (all plugins, scores,
ties), preemption, and the verdicts of Reserve and Permit. After a difference the replay goes on
from what was recorded, so that each decision is compared on the state that it was made on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from scheduler.assembly import Core, assemble
from scheduler.config.loading import Configuration
from scheduler.dra.ledger import DeviceLedger
from scheduler.framework.faults import PluginFault
from scheduler.framework.registry import Registry
from scheduler.model.devices import ResourceClaim
from scheduler.model.objects import Change
from scheduler.model.podinfo import PodInfo
from scheduler.model.status import SUCCESS, Status, error
from scheduler.observe.metrics import Metrics
from scheduler.pipeline.attempt import Attempt, NodeReservation, unreserve_and_forget
from scheduler.pipeline.evaluation import CycleError
from scheduler.pipeline.failure import UNSCHEDULABLE, brief
from scheduler.pipeline.placement import NO_PROPOSALS, Placement, Proposals, fit_error
from scheduler.plugin_api.cycle import Diagnosis
from scheduler.plugin_api.groups import IN_PASS
from scheduler.plugin_api.outlet import ObjectRequest, StaleReason, WriteError, never_stale
from scheduler.queueing.queued_pod import QueuedPod
from scheduler.recording import entries
from scheduler.recording.entries import AnyEntry, NodeSearched
from scheduler.recording.reader import as_object
from scheduler.replaying.pods import RecordedObjects
from scheduler.replaying.virtual_time import VirtualTime, settled
from scheduler.webhooks.answers import AnswerNeeded, Question, RemoteAnswers
from scheduler.webhooks.recorded import RecordedAnswers

MOST_DIFFERENCES = 10_000
"""How many differences are kept; all are counted."""
_PER_TURN = 256


class Difference(NamedTuple):
    """A decision that came out another way."""

    number: int
    """Of the entry."""
    time: float
    pod: str
    what: str
    """Which decision it is: ``node``, ``preemption``, ``message``, ``reserve`` or ``permit``."""
    recorded: str
    replayed: str


class DecisionComparison:
    """How the decisions of a replay compare with the recorded ones."""

    def __init__(self, *, exact: bool = True) -> None:
        self.exact = exact
        """Whether scores and words count; else only which node it is, or that there is none."""
        self.decisions = 0
        """Searches for a node that were made again."""
        self.placed = 0
        """Those of them that had found one."""
        self.bound = 0
        self.failed = 0
        self.different = 0
        self.differences: list[Difference] = []
        self.reasons: dict[str, int] = {}
        """Why decisions could not be compared, such as answers that are not recorded."""

    def differs(self, difference: Difference) -> None:
        """Count a difference, and keep it if there are not too many."""
        self.different += 1
        if len(self.differences) < MOST_DIFFERENCES:
            self.differences.append(difference)

    def leave_out(self, reason: str) -> None:
        """Count what cannot be compared."""
        self.reasons[reason] = self.reasons.get(reason, 0) + 1


class _Answers:
    """The outlet of a replay: nothing is written, and evictions end when the recording says so."""

    def __init__(self) -> None:
        self._evictions: dict[str, asyncio.Future[None]] = {}

    def answer(self, uid: str, fault: str) -> None:
        """An eviction is answered."""
        waiting = self._evictions.pop(uid, None)
        if waiting is None or waiting.done():
            return
        if fault:
            waiting.set_exception(WriteError(fault))
        else:
            waiting.set_result(None)

    async def bind(self, pod: PodInfo, node: str, stale: StaleReason = never_stale) -> Status:
        return SUCCESS

    async def patch(self, kind: str, key: str, patch: Mapping[str, Any]) -> None:
        """Nothing is written."""

    async def send(self, request: ObjectRequest) -> Any:
        """Never answered: the recording shows what became of the object."""
        await asyncio.get_running_loop().create_future()

    async def evict(self, pod: PodInfo, condition: Mapping[str, Any]) -> None:
        waiting = self._evictions.get(pod.uid)
        if waiting is None:
            waiting = self._evictions[pod.uid] = asyncio.get_running_loop().create_future()
        await waiting

    def record_event(self, pod: PodInfo, type_: str, reason: str, action: str, note: str) -> None:
        """Nothing is written."""

    def set_condition(self, pod: PodInfo, reason: str, message: str) -> None:
        """Nothing is written."""

    def nominate(self, pod: PodInfo, node: str) -> None:
        """Nothing is written."""


class Follower:
    """A core that takes the steps of one run of the daemon. To be used within its loop."""

    def __init__(
        self,
        config: Configuration,
        loop: VirtualTime,
        comparison: DecisionComparison,
        registry: Registry | None = None,
    ) -> None:
        self._loop = loop
        self._outlet = _Answers()
        self._answers = RecordedAnswers()
        self.core: Core = assemble(
            config,
            self._outlet,
            Metrics(),
            registry=registry,
            dry=True,
            clock=loop.time,
            recorded=self._answers,
        )
        self.comparison = comparison
        self.comparing = True
        """Whether decisions are compared; steps are taken all the same."""
        self._objects = RecordedObjects(config.equipoise.limits)
        self._attempts: dict[str, Attempt] = {}
        """The newest attempt at each pod, by uid."""
        self._reservations: dict[str, NodeReservation] = {}
        self._found: dict[str, tuple[Diagnosis, int]] = {}
        """Why pods fit nowhere, and how much had happened by then; until their attempts end."""
        self._kept_answers: dict[str, RemoteAnswers] = {}
        """Answers about pods whose attempts were suspended, by uid; until they end."""
        self._questions: dict[str, Question] = {}
        """What attempts wait for, by uid."""
        self._last_answer: Any = None
        self._happened = 0
        """Grows with every step that changes the state."""
        self._number = 0
        self._now = 0.0
        self._known: list[entries.Known] = []
        self._held: list[entries.Held] = []
        self._steps: dict[type, Callable[[Any], None]] = {
            entries.Changed: self._change,
            entries.NodeSearched: self._search_and_reserve,
            entries.MadeRoom: self._make_room,
            entries.Reserved: self._reserve,
            entries.WaitEnded: self._end_wait,
            entries.Reverted: self._revert,
            entries.Forgotten: self._forget,
            entries.BindingAnswered: self._bound,
            entries.FailedAttempt: self._failed,
            entries.Nominated: self._nominate,
            entries.Evicted: self._evicted,
            entries.Asked: self._ask,
            entries.Answered: self._take_answer,
            entries.Renewed: self._renew,
            entries.ClaimWritten: self._claim_written,
        }

    @property
    def unknown_kinds(self) -> set[str]:
        """Kinds of the recording that this version does not know."""
        return self._objects.unknown

    async def follow(self, each: AnyEntry, number: int) -> None:
        """Take a step; ``number`` is that of its entry."""
        self._number = number
        self._take(each)
        if isinstance(each, entries.AnswerTold):
            await self._tell(each)
        elif isinstance(each, entries.MadeRoom | entries.Evicted):
            await settled()
        elif self._number % _PER_TURN == 0:
            await asyncio.sleep(0)

    async def restore(self, first: Iterable[AnyEntry]) -> None:
        """Take over what was there when a segment began: all entries up to `Complete`."""
        nominated = []
        for each in first:
            if isinstance(each, entries.Known):
                self._known.append(each)
            elif isinstance(each, entries.Held):
                self._held.append(each)
            elif isinstance(each, entries.Nominated):
                nominated.append(each)
        # Nodes come before pods, and what plugins look up before both.
        order = {"Node": 1, "Pod": 2}
        self._known.sort(key=lambda each: order.get(each.kind, 0))
        for known in self._known:
            self._apply(known.kind, known.key, known.object)
        for held in self._held:
            self._hold(held)
        for each in nominated:
            self._nominate(each)
        self._known, self._held = [], []

    async def close(self) -> None:
        """End all that was started."""
        await self.core.stop()

    def _take(self, entry: AnyEntry) -> None:
        step = self._steps.get(type(entry))
        if step is None:
            return
        self._now = self._loop.now = entry.time  # type: ignore[union-attr]  # all steps have one
        step(entry)

    # What happened

    def _change(self, entry: entries.Changed) -> None:
        self._apply(entry.kind, entry.key, entry.object)

    def _apply(self, kind: str, key: str, value: Any) -> None:
        change: Change[Any] | None = self._objects.change(kind, key, value)
        if change is None:
            return
        self._happened += 1
        self.core.event_handlers.handler(kind)([change])
        if kind == "Pod" and change.new is None and change.old is not None:
            self._drop(change.old.metadata.uid)
            if self.core.remotes.factories:
                self._answers.drop(key)

    def _drop(self, uid: str) -> None:
        """A pod is gone; its attempt is needed as long as it is assumed."""
        self._found.pop(uid, None)
        self._end_questions(uid)
        if self.core.state.pod(uid) is None:
            self._attempts.pop(uid, None)
            self._reservations.pop(uid, None)

    def _hold(self, held: entries.Held) -> None:
        """Assume a pod that was assumed when the segment began."""
        pod = self._objects.pod(held.key)
        if pod is None or pod.spec.node_name or pod.metadata.uid != held.uid:
            return
        attempt = self._new_attempt(held.uid, pod.metadata.resource_version, in_pass=False)
        if attempt is None:
            return
        reservation = self._assume(attempt, held.node)
        if held.waits:
            self.core.scheduler.permit(reservation)

    def _end_wait(self, entry: entries.WaitEnded) -> None:
        attempt = self._attempts.get(entry.uid)
        if attempt is None:
            return
        if (waiting := attempt.framework.waiting.pop(entry.uid, None)) is not None:
            waiting.dismiss()

    def _revert(self, entry: entries.Reverted) -> None:
        self._happened += 1
        attempt = self._attempts.get(entry.uid)
        reservation = self._reservations.pop(entry.uid, None)
        if attempt is None or attempt.placement is None:
            self.core.state.forget(entry.uid, trial=entry.trial)
        elif entry.trial and reservation is not None:
            reservation.revert()
        else:
            self._end_questions(entry.uid)
            unreserve_and_forget(attempt, error("as recorded"))

    def _forget(self, entry: entries.Forgotten) -> None:
        self._happened += 1
        self._reservations.pop(entry.uid, None)
        self.core.state.forget(entry.uid, own=False)

    def _bound(self, entry: entries.BindingAnswered) -> None:
        self.comparison.bound += self.comparing
        self._end_questions(entry.uid)
        attempt = self._attempts.get(entry.uid)
        if attempt is None or attempt.placement is None:
            return
        attempt.drop_transient_slots()
        self._reservations.pop(entry.uid, None)
        try:
            attempt.framework.run_post_bind(attempt.cycle, entry.node)
        except PluginFault:
            return  # reported, and of no consequence, in the daemon too

    def _nominate(self, entry: entries.Nominated) -> None:
        self._happened += 1
        pod = self._objects.info(entry.uid)
        if entry.node and pod is not None:
            self.core.state.nominations.set(pod, entry.node)
        else:
            self.core.state.nominations.remove(entry.uid)

    def _evicted(self, entry: entries.Evicted) -> None:
        self._outlet.answer(entry.uid, entry.fault)

    def _claim_written(self, entry: entries.ClaimWritten) -> None:
        """What a pod has reserved is the claim's now: others that share it see it as it is."""
        self._happened += 1
        ledger = self.core.state.shared.get(DeviceLedger)
        if ledger is None:  # this configuration does not look at devices
            return
        if entry.claim is None:
            ledger.deleted(entry.uid, entry.key)
        else:
            claim = as_object(entry.claim, ResourceClaim.__name__, entry.key, ResourceClaim)
            ledger.written(entry.uid, entry.key, claim)

    # Answers from out of process

    def _take_answer(self, entry: entries.Answered) -> None:
        where = (entry.plugin, entry.path, entry.pod)
        self._answers.record(*where, entry.answer, entry.fault)

    def _ask(self, entry: entries.Asked) -> None:
        """Take the step again that could not go on; it asks the same question."""
        attempt = self._attempts.get(entry.uid)
        if not entry.for_room:
            attempt = self._new_attempt(entry.uid, entry.version, in_pass=entry.in_pass)
        if attempt is None:
            return
        found = self._found.pop(entry.uid, None)
        try:
            if not entry.for_room:
                self._prepare(attempt)
                self.core.scheduler.find_node(attempt, _proposals(entry))
            elif found is not None:
                self.core.scheduler.make_room(attempt, found[0])
        except AnswerNeeded as needed:
            self._questions[entry.uid] = needed.question
            self._kept_answers[entry.uid] = attempt.answers
        except (PluginFault, CycleError):
            return  # the search that follows shows it

    async def _tell(self, entry: entries.AnswerTold) -> None:
        question, answers = self._questions.get(entry.uid), self._kept_answers.get(entry.uid)
        if question is None or answers is None:
            return
        if entry.first:
            self._last_answer = await question.ask()
        question.record(answers, self._last_answer)

    def _renew(self, entry: entries.Renewed) -> None:
        if (answers := self._kept_answers.get(entry.uid)) is not None:
            answers.restart()

    def _end_questions(self, uid: str) -> None:
        self._questions.pop(uid, None)
        self._kept_answers.pop(uid, None)

    # What is decided again

    def _new_attempt(self, uid: str, version: str, *, in_pass: bool) -> Attempt | None:
        pod = self._objects.info(uid, version)
        if pod is None or pod.pod.spec.scheduler_name not in self.core.frameworks:
            return None
        attempt = self.core.scheduler.new_attempt(QueuedPod(pod, self._now, self._number))
        if in_pass:
            attempt.cycle.put(IN_PASS, True)
        attempt.answers = self._kept_answers.get(uid) or attempt.answers
        self._attempts[uid] = attempt
        return attempt

    def _search(self, entry: NodeSearched) -> None:
        self._found.pop(entry.uid, None)
        attempt = self._new_attempt(entry.uid, entry.version, in_pass=entry.in_pass)
        if attempt is None:
            self._leave_out("the version of the pod, or its profile, is not known")
            return
        self._prepare(attempt)
        try:
            found = self.core.scheduler.find_node(attempt, _proposals(entry))
        except AnswerNeeded:
            self._leave_out("an answer of a webhook or an extender came before the recording")
            return
        except (PluginFault, CycleError) as fault:
            self._compare(entry.key, "node", _described(entry), f"a fault: {fault}")
            return
        if isinstance(found, Diagnosis) and not entry.in_pass:
            self._found[entry.uid] = found, self._happened
        self._count(entry)
        chosen = found.node if isinstance(found, Placement) else ""
        # The score of a node that a batch proposed is as old as the solver's question.
        by_batch = bool(entry.model) and entry.proposed == entry.node
        if chosen != entry.node or (self.comparison.exact and not by_batch):
            self._compare(entry.key, "node", _described(entry), _description(found))

    def _search_and_reserve(self, entry: NodeSearched) -> None:
        self._search(entry)
        if entry.reserved:
            node, accepted = entry.node, SUCCESS.code.value
            self._reserve(entries.Reserved(entry.time, entry.uid, node, accepted, "", accepted, ""))

    def _prepare(self, attempt: Attempt) -> None:
        state = self.core.state
        if state.statuses.overfull:
            state.statuses.restart()
        state.columns.labels.trim()
        self.core.scheduler.prepare(attempt)

    def _count(self, entry: NodeSearched) -> None:
        if self.comparing:
            self.comparison.decisions += 1
            self.comparison.placed += bool(entry.node)

    def _make_room(self, entry: entries.MadeRoom) -> None:
        attempt, found = self._attempts.get(entry.uid), self._found.get(entry.uid)
        if attempt is None or found is None:
            return
        diagnosis, happened = found
        try:
            self.core.scheduler.make_room(attempt, diagnosis)
        except (PluginFault, CycleError, AnswerNeeded):
            self._leave_out("preemption needs plugins out of process")
            return
        if not self.comparison.exact and entry.nominated == (diagnosis.nominated_node or ""):
            return
        recorded = _room(entry.message, entry.nominated)
        replayed = _room(diagnosis.post_filter, diagnosis.nominated_node or "")
        self._found[entry.uid] = diagnosis, self._happened
        if recorded != replayed and happened != self._happened:
            self._leave_out("the cluster changed while victims were looked for")
            del self._found[entry.uid]
            return
        self._compare(attempt.cycle.pod.key, "preemption", recorded, replayed)

    def _assume(self, attempt: Attempt, node: str) -> NodeReservation:
        self._happened += 1
        placement = Placement(node, None, 1, 1)
        reservation = self.core.scheduler.assume_and_reserve(attempt, placement)
        self._reservations[attempt.cycle.pod.uid] = reservation
        return reservation

    def _reserve(self, entry: entries.Reserved) -> None:
        attempt = self._attempts.get(entry.uid)
        if attempt is None:
            self._leave_out("the version of the pod, or its profile, is not known")
            return
        reservation, pod = self._assume(attempt, entry.node), attempt.cycle.pod.key
        recorded, status = _verdict(entry.code, entry.message), reservation.status
        self._compare(pod, "reserve", recorded, _verdict(status.code.value, status.message))
        if entry.permit_code:
            self.core.scheduler.permit(reservation)
            recorded = _verdict(entry.permit_code, entry.permit_message)
            status = reservation.status
            self._compare(pod, "permit", recorded, _verdict(status.code.value, status.message))

    def _failed(self, entry: entries.FailedAttempt) -> None:
        self.comparison.failed += self.comparing
        self._end_questions(entry.uid)
        attempt, found = self._attempts.get(entry.uid), self._found.pop(entry.uid, None)
        if attempt is None or found is None or entry.reason != UNSCHEDULABLE:
            return
        if not self.comparison.exact:
            return
        diagnosis, _ = found
        message = self._message(attempt, diagnosis)
        if message != entry.message and not diagnosis.final and diagnosis.nominated_node is None:
            # The verdict was that of an equal pod, with what preemption had said of it.
            self.core.scheduler.make_room(attempt, diagnosis)
            message = self._message(attempt, diagnosis)
        diagnosis.message = message
        self._compare(attempt.cycle.pod.key, "message", entry.message, message)

    @staticmethod
    def _message(attempt: Attempt, diagnosis: Diagnosis) -> str:
        return brief(diagnosis.message or fit_error(attempt.cycle, diagnosis))

    def _compare(self, pod: str, what: str, recorded: str, replayed: str) -> None:
        if self.comparing and recorded != replayed:
            difference = Difference(self._number, self._now, pod, what, recorded, replayed)
            self.comparison.differs(difference)

    def _leave_out(self, reason: str) -> None:
        if self.comparing:
            self.comparison.leave_out(reason)


def _proposals(entry: NodeSearched | entries.Asked) -> Proposals:
    return Proposals({entry.uid: entry.proposed}, entry.model) if entry.proposed else NO_PROPOSALS


def _described(entry: NodeSearched) -> str:
    if not entry.node:
        return f"no node of {entry.evaluated} ({', '.join(entry.plugins)})"
    return _chosen(entry.node, entry.score, entry.feasible, entry.evaluated)


def _description(found: Placement | Diagnosis) -> str:
    if isinstance(found, Placement):
        return _chosen(found.node, found.score, found.feasible, found.evaluated)
    plugins = sorted(found.unschedulable_plugins | found.pending_plugins)
    return f"no node of {len(found.rows)} ({', '.join(plugins)})"


def _chosen(node: str, score: int | None, feasible: int, evaluated: int) -> str:
    points = "" if score is None else f", score {score}"
    return f"{node}{points}, {feasible} of {evaluated} fit"


def _room(message: str, nominated: str) -> str:
    return f"nominated to {nominated}" if nominated else message


def _verdict(code: str, message: str) -> str:
    return f"{code}: {message}" if message else code
