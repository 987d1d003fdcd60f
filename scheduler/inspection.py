"""Views of queue, nodes and verdicts as plain values, for the serving endpoints."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any

import msgspec

from scheduler.assembly import Core
from scheduler.equivalence import debug_view
from scheduler.explaining import findings, pod_progress
from scheduler.explaining.pending_pods import pending
from scheduler.explaining.pod_progress import SETTLED, PodProgress, hypothetical, progress_of
from scheduler.explaining.queries import DecisionsQuery, NodesQuery, QueueQuery
from scheduler.explaining.remedies.held import holding
from scheduler.explaining.remedies.scene import WrittenObjects
from scheduler.explaining.remedies.search import find
from scheduler.explaining.replicas import NOTHING_SUPPOSED, Supposed, replicas
from scheduler.framework.runtime import Framework
from scheduler.gangs.status import describe_group
from scheduler.model.own_claims import ephemeral_claims, with_default_class
from scheduler.model.podinfo import PodInfo
from scheduler.model.pods import Pod
from scheduler.model.storage import PersistentVolumeClaim, StorageClass
from scheduler.slices import checkpoint, in_slices
from scheduler.state.scratch import scratch
from scheduler.views.node_map import node_map
from scheduler.webhooks.answers import RemoteAnswers
from scheduler.webhooks.suspension import answered


class UnknownPod(LookupError):
    """The scheduler does not know this pod."""


class NothingKept(LookupError):
    """There is no such class or node, or nothing is kept at all."""


def queue(core: Core, query: QueueQuery) -> dict[str, Any]:
    """How many pods wait in each tier, and the first of them, best first."""
    return pending(core, query)


def waiting(core: Core, limit: int) -> dict[str, Any]:
    """Pods that hold a node and wait for permission, the oldest first."""
    entries = core.permits.entries()
    return {"count": len(entries), "pods": [_plain(entry) for entry in entries[:limit]]}


def nodes(core: Core, query: NodesQuery) -> dict[str, Any]:
    """Each node's row: what it offers, what is taken, what keeps pods away; or a map of them."""
    if query.resource:
        return node_map(core, query.resource, query.limit)
    names = sorted(core.state.names())
    described = []
    for name in names[: query.limit]:
        checkpoint()
        if core.state.row(name) is not None:  # else it has gone since
            described.append(core.state.describe(name))
    return {"count": len(names), "nodes": described}


def decisions(core: Core, query: DecisionsQuery) -> dict[str, Any]:
    """The latest decisions, newest first: all, or those about one pod."""
    latest = core.decisions.latest(query.limit, query.pod)
    return {"decisions": [_plain(decision) for decision in latest]}


def _plain(value: Any) -> Any:
    checkpoint()
    return msgspec.to_builtins(value)


def equivalence(core: Core, name: int | None, node: str | None, limit: int) -> dict[str, Any]:
    """The classes of equal pods; or one of them, and what is kept for it on all nodes or on one."""
    kept = core.equivalence
    if kept is None:
        raise NothingKept("equivalence.enabled is false: nothing is kept")
    if name is None:
        return debug_view.overview(kept, limit)
    if node is not None and core.state.row(node) is None:
        raise NothingKept(f"unknown node: {node}")
    try:
        if node is None:
            return debug_view.one_class(kept, name, limit)
        return debug_view.one_node(kept, name, node)
    except debug_view.UnknownClass as unknown:
        raise NothingKept(str(unknown)) from unknown


async def explain(
    core: Core,
    pods: Mapping[str, Pod],
    key: str,
    *,
    leading: bool = True,
    manifest: Pod | None = None,
    claims: Sequence[PersistentVolumeClaim] = (),
    count: int | None = None,
) -> dict[str, Any]:
    """The state of a pod, and the verdict of every node for it, as if it were scheduled now.

    A pod that is on a node, or holds one, is judged as if it did not; one that is not tried, as if
    nothing held it. A ``manifest`` is judged as if it were created now, in the place of any pod of
    its name: claims of its own templates are made anew, and those of ``claims`` that are not there
    yet. With ``count``, ``replicas`` says how many pods like it fit together. Waits for
    answers of webhooks and extenders, unless the pod itself waits for one. Only the leader's queue
    has the state of a pod.
    """
    known = pods.get(key)
    pod = manifest or known
    if pod is None:
        raise UnknownPod(key)
    waiting = _as_waiting(pod, known, next(iter(core.frameworks)))
    info = PodInfo(waiting, core.config.equipoise.limits)
    if manifest is None:
        progress = progress_of(core, pod, info, leading)
        supposed = NOTHING_SUPPOSED
    else:
        progress = hypothetical(core, waiting, info)
        supposed = _supposed(core, waiting, claims)
    framework = core.frameworks.get(waiting.spec.scheduler_name)
    framework = framework or next(iter(core.frameworks.values()))

    judge = partial(_judge, core, framework, info, supposed, making_room=not progress.held)
    if progress.state == "suspended":  # waiting for the same answer would not explain it
        found = await in_slices(judge, None)
    else:
        found = await answered(judge)
    await asyncio.sleep(0)  # work that begins now has a slice of its own
    answer = await in_slices(_describe, core, framework, pod, info, progress, found)
    await asyncio.sleep(0)
    together = None
    if count is not None:
        together = await in_slices(replicas, core, framework, info, count, supposed)
    await asyncio.sleep(0)
    remedies: list[dict[str, Any]] = []
    too_few = together is not None and together["fit"] < together["asked"]
    if progress.state not in SETTLED and (progress.held or not found.fits or too_few):
        steps = holding(waiting, core.frameworks)
        originals = WrittenObjects()
        remedies = await in_slices(
            find, framework, core.state, info, originals, steps, core.seed, None, count, supposed
        )
    batch = pod_progress.batched(core.config.equipoise.batch)
    return {**answer, "batch": batch, "remedies": remedies, "replicas": together}


def _as_waiting(pod: Pod, known: Pod | None, default_profile: str) -> Pod:
    """The pod without a node, with the identity of the known one.

    A manifest may leave the scheduler to us; the API server names one in every pod.
    """
    profile = pod.spec.scheduler_name or default_profile
    spec = msgspec.structs.replace(pod.spec, node_name="", scheduler_name=profile)
    uid = pod.metadata.uid if known is None else known.metadata.uid
    metadata = msgspec.structs.replace(pod.metadata, uid=uid)
    return msgspec.structs.replace(pod, metadata=metadata, spec=spec)


def _judge(
    core: Core,
    framework: Framework,
    info: PodInfo,
    supposed: Supposed,
    answers: RemoteAnswers | None,
    *,
    making_room: bool,
) -> findings.Findings:
    """The verdicts and scores of all nodes, as if the pod were on none and its claims existed."""
    if info.volumes.attachable:
        core.state.attachments.catch_up()
    with nullcontext() if supposed is NOTHING_SUPPOSED else supposed.acted(core.state):
        placed = core.state.pod(info.uid)
        if placed is None:
            return findings.judge_all(
                framework, core.state, info, core.seed, answers, room=making_room
            )
        with scratch(core.state) as changes:
            changes.remove(placed)
            return findings.judge_all(framework, core.state, info, core.seed, answers)


def _describe(
    core: Core,
    framework: Framework,
    pod: Pod,
    info: PodInfo,
    progress: PodProgress,
    found: findings.Findings,
) -> dict[str, Any]:
    return pod_progress.concluded(
        findings.described(found),
        progress,
        framework.counting_own_pods,
        describe_group(core.state, pod),
        history=core.decisions.history.of(info.uid),
        seed=core.seed,
    )


def _supposed(core: Core, pod: Pod, given: Sequence[PersistentVolumeClaim]) -> Supposed:
    """The claims that come with a pod if it is created now."""
    namespace, classes = pod.metadata.namespace, core.state.objects.all(StorageClass)
    added = [
        with_default_class(
            msgspec.structs.replace(
                claim, metadata=msgspec.structs.replace(claim.metadata, namespace=namespace)
            ),
            classes,
        )
        for claim in given
    ]
    own = ephemeral_claims(pod, pod.metadata.uid)
    replaced = [with_default_class(claim, classes) for claim in own]
    return Supposed(tuple(added), tuple(replaced)) if added or replaced else NOTHING_SUPPOSED
