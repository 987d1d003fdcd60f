"""An extender of kube-scheduler as a plugin, with kube-scheduler's behaviour.

It filters after all plugins, prioritizes beside them, binds before them, and trims the victims of
preemption. Without an answer an ``ignorable`` extender is skipped; any other fails the attempt,
except in prioritizing, whose failures give zero. It has no hints: any event may cure a rejection.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

import msgspec
import numpy as np

from scheduler.config.schema import Extender
from scheduler.equivalence.verdicts import Answers
from scheduler.model.podinfo import PodInfo
from scheduler.model.status import SKIP, SUCCESS, Status, error, unresolvable, unschedulable
from scheduler.observe.logs import get_logger
from scheduler.plugin_api.cycle import Cycle
from scheduler.plugin_api.handle import Handle, Victims
from scheduler.plugin_api.traits import PluginTraits
from scheduler.state.columns import Codes, Rows, Scores
from scheduler.webhooks import extender_protocol as wire
from scheduler.webhooks.answers import (
    MAX_ROUNDS,
    REMOTE_ANSWERS,
    AnswerNeeded,
    Failed,
    Question,
    RemoteAnswers,
    Subject,
)
from scheduler.webhooks.caller import WebhookCalls
from scheduler.webhooks.originals import Originals
from scheduler.webhooks.protocol import clean
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
from scheduler.webhooks.transport import CallFailed

log = get_logger(__name__)

SCALE = 100 // wire.MAX_EXTENDER_PRIORITY
_LIMIT = 2**26
"""Of a score, either way: kube-scheduler takes any, and sums must not overflow, whatever weight."""
NOT_ASKED = "node(s) changed faster than the extender answered"
UNEXPLAINED = "node(s) were left out by the extender"

T = TypeVar("T")


class ExtenderPlugin:
    """One extender in one profile."""

    traits = PluginTraits(remote=True, row_by_row=True, unbounded=True)

    def __init__(
        self,
        name: str,
        extender: Extender,
        caller: WebhookCalls,
        originals: Originals,
        handle: Handle,
    ) -> None:
        self.name = name
        self._extender = extender
        self._caller = caller
        self._originals = originals
        self._state = handle.state
        self._rows = RowQuestions(name)
        self._managed = frozenset(resource.name for resource in extender.managed_resources)

    def concerns(self, pod: PodInfo) -> bool:
        """Whether the pod asks for one of the managed resources, or the extender for all pods."""
        spec = pod.pod.spec
        return not self._managed or any(
            not self._managed.isdisjoint(wanted)
            for container in (*spec.containers, *spec.init_containers)
            for wanted in (container.resources.requests, container.resources.limits)
        )

    def filter(self, cycle: Cycle, rows: Rows) -> Codes:
        """The extender's verdict on each row."""
        if not self.concerns(cycle.pod):
            return np.zeros(len(rows), np.int32)
        if self._extender.preempt_verb and cycle.state.changes.on_trial:
            # It will have its say on victims and nodes when it trims them.
            return np.zeros(len(rows), np.int32)
        # Questions outlive the attempt: they hold the pod, and not all that its cycle holds.
        pod, statuses = cycle.pod, cycle.state.statuses

        def read(verdicts: Mapping[str, Status], names: Sequence[str]) -> Answers:
            return codes_of(verdicts, names, statuses)

        async def ask(point: str, names: Sequence[str]) -> Mapping[str, Status] | Failed:
            return await self._filter(pod, names)

        codes, missing, failed = self._rows.lookup(cycle, FILTER, rows, pod.uid, ask, read)
        if failed is not None and not self._extender.ignorable:
            raise WebhookError(failed.message)
        patient = cycle.find(REMOTE_ANSWERS) is not None and not cycle.state.changes.on_trial
        left_out = unschedulable(NOT_ASKED).by(self.name)
        out = statuses.code(left_out) if patient and failed is None else 0
        return codes_or_pass(codes, missing, out)

    def score(self, cycle: Cycle, rows: Rows) -> Scores:
        """The extender's priorities in our range; a single node is not worth a call."""
        if len(rows) < 2 or not self.concerns(cycle.pod):
            return no_scores(rows)
        pod = cycle.pod

        def values(scores: Mapping[str, int], names: Sequence[str]) -> Answers:
            return SCALE * scores_of(scores, names, _LIMIT)

        async def ask(point: str, names: Sequence[str]) -> Mapping[str, int] | Failed:
            body = self._args(pod, names)
            read = partial(wire.read_priorities, items=len(names))
            return await self._call(pod, "prioritize", self._extender.prioritize_verb, body, read)

        scores, _, _ = self._rows.lookup(cycle, SCORE, rows, pod.uid, ask, values)
        return scores

    def normalize(self, cycle: Cycle, scores: Scores) -> Scores:
        """They are final."""
        return scores

    async def bind(self, cycle: Cycle, node: str) -> Status:
        """Success once the extender says that it has bound the pod."""
        pod = cycle.pod
        if not self.concerns(pod):
            return SKIP
        metadata = pod.pod.metadata
        args = wire.BindingArgs(metadata.name, metadata.namespace, metadata.uid, node)
        body = msgspec.json.encode(args)
        said = await self._call(
            pod, "bind", self._extender.bind_verb, lambda: body, wire.read_binding, repeatable=False
        )
        problem = said.message if isinstance(said, Failed) else said
        if not problem:
            return SUCCESS
        return SKIP if self._extender.ignorable else error(clean(problem))

    def trim(self, cycle: Cycle, victims: Mapping[str, Victims]) -> Mapping[str, Victims]:
        """The nodes and victims that the extender leaves; raises AnswerNeeded."""
        if not self._extender.preempt_verb or not self.concerns(cycle.pod):
            return victims
        answers = listening(cycle, self.name)
        if answers is None:
            return victims
        # What it said of other victims, while the cluster was another, is of no use.
        subject = (self.name, "preempt", _described(victims))
        answer = answers.find(subject)
        if answer is None:
            if answers.times(self.name, "preempt") < MAX_ROUNDS:
                raise AnswerNeeded(self._preemption(cycle.pod, subject, victims))
            answer = Failed(f"victims changed faster than extender {self.name} answered")
        try:
            if isinstance(answer, Failed):
                raise WebhookError(answer.message)
            return self._found(answer)
        except WebhookError as fault:
            if not self._extender.ignorable:
                raise
            log.debug("Extender is passed over", extender=self.name, exc=fault)
            return victims

    # Calls

    async def _filter(self, pod: PodInfo, names: Sequence[str]) -> Mapping[str, Status] | Failed:
        """The verdicts on nodes that do not pass."""
        whole = not self._extender.node_cache_capable
        read = partial(wire.read_filter, items=len(names), whole=whole)
        result = await self._call(
            pod, "filter", self._extender.filter_verb, self._args(pod, names), read
        )
        if isinstance(result, Failed):
            return result
        if result.error:
            return Failed(clean(result.error))
        cached = self._extender.node_cache_capable and result.node_names is not None
        passing = (result.node_names if cached else result.nodes) or frozenset()
        if strangers := passing - set(names):
            return Failed(
                f'extender "{self.name}" claims a filtered node "{clean(min(strangers))}" which is '
                "not found in the input node list"
            )
        return {name: self._verdict(name, result) for name in names if name not in passing}

    def _verdict(self, name: str, result: wire.FilterResult) -> Status:
        if name in result.unresolvable:
            status = unresolvable(clean(result.unresolvable[name]))
        elif name in result.failed:
            status = unschedulable(clean(result.failed[name]))
        else:
            status = unresolvable(UNEXPLAINED)
        return status.by(self.name)

    def _args(self, pod: PodInfo, names: Sequence[str]) -> Callable[[], bytes]:
        def body() -> bytes:
            original = self._originals.pod(pod.pod)
            if self._extender.node_cache_capable:
                return msgspec.json.encode(wire.ExtenderArgs(original, None, list(names)))
            nodes = [
                self._originals.node(self._state, name)
                for name in names
                if self._state.node(name) is not None
            ]
            return msgspec.json.encode(wire.ExtenderArgs(original, wire.NodeList({}, nodes), None))

        return body

    def _preemption(
        self, pod: PodInfo, subject: Subject, victims: Mapping[str, Victims]
    ) -> Question:
        def body() -> bytes:
            original = self._originals.pod(pod.pod)
            if self._extender.node_cache_capable:
                metas = {
                    node: wire.WireVictims([wire.MetaPod(v.uid) for v in pods], violations)
                    for node, (pods, violations) in victims.items()
                }
                return msgspec.json.encode(wire.PreemptionArgs(original, None, metas))
            whole = {
                node: wire.WireVictims([self._originals.pod(v.pod) for v in pods], violations)
                for node, (pods, violations) in victims.items()
            }
            return msgspec.json.encode(wire.PreemptionArgs(original, whole, None))

        async def ask() -> Any:
            items = sum(1 + len(each.pods) for each in victims.values())
            read = partial(wire.read_preemption, items=items)
            return await self._call(pod, "preempt", self._extender.preempt_verb, body, read)

        def record(answers: RemoteAnswers, answer: Any) -> None:
            answers.record(subject, answer)

        return Question(self.name, (*subject, pod.uid), ask, record)

    def _found(self, answer: Mapping[str, wire.VictimRefs]) -> dict[str, Victims]:
        """The victims behind uids; raises WebhookError if one is not where it should be."""
        found: dict[str, Victims] = {}
        for node, refs in answer.items():
            on_node = {pod.uid: pod for pod in self._state.pods_on(node)}
            if missing := [uid for uid in refs.uids if uid not in on_node]:
                raise WebhookError(
                    f"extender: {self.name} claims to preempt pod (UID: {clean(missing[0])}) on "
                    f"node: {clean(node)}, but the pod is not found on that node"
                )
            if refs.uids:
                found[node] = Victims([on_node[uid] for uid in refs.uids], refs.violations)
            elif not self._extender.ignorable:
                raise WebhookError(f'expected at least one victim pod on node "{clean(node)}"')
        return found

    async def _call(
        self,
        pod: PodInfo,
        point: str,
        verb: str,
        body: Callable[[], bytes],
        read: Callable[[bytes], T],
        *,
        repeatable: bool = True,
    ) -> T | Failed:
        try:
            return await self._caller.call(
                point,
                verb,
                body,
                read,
                namespace=pod.pod.metadata.namespace,
                pod=pod.key,
                repeatable=repeatable,
            )
        except CallFailed as failure:
            log.debug("Extender failed", extender=self.name, verb=verb, exc=failure)
            return Failed(f"extender {self.name}: failed {verb}: {failure}")


def _described(victims: Mapping[str, Victims]) -> str:
    """Nodes and victims, the same for the same."""
    nodes = (f"{node}: {sorted(v.uid for v in victims[node].pods)}" for node in sorted(victims))
    return "; ".join(nodes)
