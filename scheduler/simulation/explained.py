"""Explains one pod when its turn comes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import structs

from scheduler.assembly import Core
from scheduler.explaining import findings, pod_progress
from scheduler.explaining.pod_progress import SETTLED, PodProgress
from scheduler.explaining.remedies.held import holding
from scheduler.explaining.remedies.scene import WrittenObjects
from scheduler.explaining.remedies.search import find as find_remedies
from scheduler.framework.runtime import Framework
from scheduler.gangs.status import describe_group
from scheduler.model.objects import KINDS
from scheduler.model.podinfo import PodInfo
from scheduler.model.pods import Pod
from scheduler.pipeline.attempt import Attempt
from scheduler.plugin_api.groups import IN_PASS
from scheduler.simulation.loading import (
    Config,
    Object,
    completed,
    decode,
    flatten,
    framework_of,
    load,
    offline_core,
)
from scheduler.simulation.outlet import OfflineOutlet, StillClock
from scheduler.simulation.placing import place_waiting
from scheduler.state.cache import ClusterState
from scheduler.state.scratch import scratch
from scheduler.webhooks.answers import RemoteAnswers
from scheduler.webhooks.suspension import answered


def judge(objects: Iterable[Object], pod: Object, config: Config = None) -> dict[str, Any]:
    """The verdict of every node for one pod in the current state, and scores of those that fit.

    No other pod of the objects is placed, gates and pod groups are not looked at, and plugins
    outside are not asked. Returns ``fit`` (names), ``nodes`` (per node: fit, plugin, code,
    reasons, and ``all`` rejections with their facts), ``facts`` (of the whole cluster), ``scores``
    (per feasible node: total and each plugin's weighted part) and ``message``
    (the filter part of the FailedScheduling text, empty if a node fits). Of a pod with claims or
    with resources that come as devices also ``allocations`` (per feasible node: what each claim
    would get), ``preenqueue`` (why the pod is not queued) and ``postfilter`` (what is taken back).
    """
    objects = list(objects)
    core = offline_core(config, objects, OfflineOutlet(), StillClock())
    load(core, objects)
    info = PodInfo(completed(core, decode(pod, Pod, "Pod")), core.config.equipoise.limits)
    return findings.explain(framework_of(core, info.pod), core.state, info, core.seed)


def explain(
    objects: Iterable[Object], pod: Object, config: Config = None, *, count: int | None = None
) -> dict[str, Any]:
    """What `place` does with one pod, and why: the verdict of every node when it is popped.

    The pod takes the place of the object of its name, or comes last. Besides what `judge` returns:
    ``node``, the node that it gets; ``wouldGoTo``, where it would go if nothing held it;
    ``standing``, its state; ``preemption``, the victims if it fits nowhere; ``remedies``, the
    smallest changes that would let it run, each with how many of ``count`` pods like it then fit;
    ``batch``, whether the cost model of a backlog chose the node, if that is configured; and
    ``group``, if it is in one: how that stands before it is tried. Webhooks and extenders are
    really asked. A pod that is not tried is judged as if nothing held it: one that is gated when
    all others are placed, one that is on a node, has ended or is left to others before.
    Without a configuration it is the default profile, with NUMA alignment if some node's cells are
    among the objects, and with gangs if PodGroups are.
    """
    return asyncio.run(ExplainedPod(list(objects), pod, config, count).run())


class ExplainedPod:
    """A play that explains one pod when it is popped."""

    def __init__(
        self, objects: list[Object], pod: Object, config: Config, count: int | None = None
    ) -> None:
        self._count = count
        self._objects = _with_pod([o for raw in objects for o in flatten(raw)], pod)
        self._recorder = OfflineOutlet()
        self._clock = StillClock()
        self._config = config
        self._core = core = offline_core(config, self._objects, self._recorder, self._clock)
        self._given: Core | None = None
        """Another one with the objects as they were given, where no pod has been placed."""
        self._others_wait = False
        self._pod = completed(core, decode(pod, Pod, "Pod"))
        spec = structs.replace(self._pod.spec, node_name="")
        waiting = structs.replace(self._pod, spec=spec)
        self._info = PodInfo(waiting, core.config.equipoise.limits)
        self._originals = WrittenObjects(pod, {_identity(each): each for each in self._objects})
        self._findings: findings.Findings | None = None
        self._remedies: list[dict[str, Any]] | None = None
        self._attempt: Attempt | None = None

    async def run(self) -> dict[str, Any]:
        core = self._core
        waiting = load(core, self._objects)
        self._others_wait = any(info.uid != self._info.uid for info in waiting)
        group = describe_group(core.state, self._pod)
        progress = pod_progress.beyond_scheduling(self._pod)
        if progress is None and self._pod.spec.scheduler_name not in core.frameworks:
            progress = pod_progress.elsewhere(self._pod, core.frameworks)
        try:
            if progress is not None:
                answer = self._concluded(await self._judged_now(), progress, group)
                remedies = self._sought(progress)
                return {**answer, "batch": self._batched(), "remedies": remedies}
            core.scheduler.on_attempt = self._on_attempt
            outcomes = await place_waiting(core, self._recorder, waiting, self._clock)
            placed = {each.pod: each for each in outcomes}
            progress, outcome = self._progress(), placed[self._info.key]
            found = self._findings and findings.described(self._findings)
            answer = self._concluded(found or await self._judged_now(), progress, group)
            held = outcome.node is None
            return {
                **answer,
                "node": outcome.node,
                "wouldGoTo": answer["node"] or answer["wouldGoTo"] if held else None,
                "message": answer["message"] if progress.held else outcome.message,
                "batch": self._batched(),
                "remedies": self._sought(progress) if held else [],
            }
        finally:
            await core.stop()
            if self._given is not None:
                await self._given.stop()

    def _concluded(
        self, answer: dict[str, Any], progress: PodProgress, group: Any
    ) -> dict[str, Any]:
        counting = framework_of(self._core, self._pod).counting_own_pods
        return pod_progress.concluded(answer, progress, counting, group)

    def _on_attempt(self, attempt: Attempt) -> None:
        """See an attempt at the explained pod: what is found now is what the attempt finds."""
        if attempt.queued.info.uid != self._info.uid:
            return
        core = self._core
        self._attempt = attempt
        answers = attempt.answers if attempt.framework.remote.enabled else None
        alone = attempt.cycle.find(IN_PASS) is None
        self._findings = findings.judge_all(
            attempt.framework, core.state, self._info, core.seed, answers, room=alone
        )

        if not self._findings.fits:
            self._remedies = self._found_remedies()

    def _sought(self, progress: PodProgress) -> list[dict[str, Any]]:
        """What would let the pod run: when it was tried, or now if it was not."""
        if self._remedies is not None and not progress.held:
            return self._remedies
        if progress.state in SETTLED:
            return []
        return self._found_remedies()

    def _found_remedies(self) -> list[dict[str, Any]]:
        core = self._core
        framework = framework_of(core, self._pod)
        steps = holding(self._pod, core.frameworks)
        given = self._as_given if self._others_wait else None
        return find_remedies(
            framework,
            core.state,
            self._info,
            self._originals,
            steps,
            core.seed,
            given,
            self._count,
        )

    def _as_given(self) -> tuple[Framework, ClusterState]:
        """The cluster before any pod is placed, in which the changes are applied."""
        if self._given is None:
            self._given = offline_core(self._config, self._objects, OfflineOutlet(), StillClock())
            load(self._given, self._objects)
        return framework_of(self._given, self._pod), self._given.state

    def _batched(self) -> dict[str, Any] | None:
        placement = self._attempt and self._attempt.placement
        settings = self._core.config.equipoise.batch
        return pod_progress.batched(settings, placement.model if placement else "")

    def _progress(self) -> PodProgress:
        """The state of the pod after its attempt."""
        core, info = self._core, self._info
        entry = core.queue.view.entry(info.key, info.uid)
        if info.key in self._recorder.bound or entry is None:
            return PodProgress("active")
        groups = framework_of(core, self._pod).groups
        group = None if groups is None else groups.group_of(info)
        progress = pod_progress.waiting(entry, group)
        return progress if progress.held else PodProgress("active")

    async def _judged_now(self) -> dict[str, Any]:
        """The verdicts in the current state, without the pod itself."""
        core, info = self._core, self._info

        def judged(answers: RemoteAnswers) -> findings.Findings:
            with scratch(core.state) as changes:
                if (placed := core.state.pod(info.uid)) is not None:
                    changes.remove(placed)
                framework = framework_of(core, self._pod)
                return findings.judge_all(framework, core.state, info, core.seed, answers)

        return findings.described(await answered(judged))


def _with_pod(objects: list[Object], pod: Object) -> list[Object]:
    """The objects with a pod in the place of the one of its name, or at the end."""
    named = {"kind": "Pod", **pod}
    key = _identity(named)
    same = [i for i, each in enumerate(objects) if _identity(each) == key]
    if not same:
        return [*objects, named]
    return [named if i == same[0] else each for i, each in enumerate(objects)]


def _identity(raw: Object) -> tuple[Any, ...]:
    metadata = raw.get("metadata")
    metadata = metadata if isinstance(metadata, Mapping) else {}
    kind = raw.get("kind")
    namespaced = kind not in KINDS or KINDS[kind].namespaced
    namespace = (metadata.get("namespace") or "default") if namespaced else ""
    return kind, namespace, metadata.get("name")
