"""Pending pods as people ask for them: some of them, one by one or equal ones together."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator
from operator import attrgetter
from typing import Any

import msgspec

from scheduler.assembly import Core
from scheduler.explaining.queries import QueueQuery
from scheduler.model.podinfo import PodInfo
from scheduler.model.selectors import Selector
from scheduler.model.workloads import POD_GROUP_LABEL, pod_group_of
from scheduler.pipeline.permits import SUSPENDED, WAITING, suspended_entries
from scheduler.queueing.queued_pod import QueuedPod, Tier
from scheduler.queueing.view import QueueEntry
from scheduler.slices import checkpoint, paced

NAMES_OF_GROUP = 3
"""How many pods of a group are named."""
_TIMESTAMP = attrgetter("timestamp")

Accepts = Callable[[PodInfo], bool]


class PodKind(msgspec.Struct, frozen=True):
    """What equal pods have in common."""

    namespace: str
    profile: str
    tier: str
    owner: str
    """``Kind/name`` of their controller or PodGroup; empty if they have none."""
    alike: Hashable
    """Tells pods without an owner apart that are not equal."""


class PendingGroup(msgspec.Struct, rename="camel"):
    """Pending pods of one owner, or equal ones without, in one tier."""

    namespace: str
    profile: str
    tier: str
    owner: str
    """``Kind/name`` of their controller or PodGroup; empty: they have none, and are equal or have
    not been tried yet."""
    count: int
    oldest_seconds: float
    """How long the oldest of them has waited since it was added or its last attempt failed."""
    retry_seconds: float | None
    """Until the first of them is tried again by itself, if that is known."""
    attempts: int
    """The most that one of them has had."""
    plugins: tuple[str, ...]
    message: str
    """Why the one waits that was tried last."""
    pods: list[str]
    """The first of them."""
    youngest_seconds: float
    """How long the one has waited that was tried last."""


def pending(core: Core, query: QueueQuery) -> dict[str, Any]:
    """How many of the pods asked for are in each tier, and the first of them or of their groups.

    O(pods that wait) with a filter or groups; yields to the event loop.
    """
    if query == QueueQuery(query.limit):
        return _first(core, query.limit)
    accepts = _filter(query)
    counts: Counter[str] = Counter()
    entries: list[QueueEntry] = []
    groups: dict[PodKind, PendingGroup] = {}
    active = _grouped_active(core, query, accepts, groups) if query.group else None
    for entry, info, cohort in _all(core, None if active is None else Tier.ACTIVE):
        checkpoint()
        if active is not None and info in active:  # it has moved since
            continue
        if not accepts(info) or query.tier not in ("", entry.tier):
            continue
        counts[entry.tier] += 1
        if query.group:
            _join(groups, entry, info, cohort)
        elif len(entries) < query.limit:
            entries.append(entry)
    counts[Tier.ACTIVE.value] += len(active or ())
    tiers = [*(tier.value for tier in Tier), WAITING, SUSPENDED]
    shown = {tier: counts[tier] for tier in tiers}
    if not query.group:
        return {"counts": shown, "pods": [_plain(entry) for entry in entries]}
    largest = sorted(groups.values(), key=lambda group: -group.count)[: query.limit]
    return {"counts": shown, "groups": [_plain(group) for group in largest], "pods": []}


def _first(core: Core, limit: int) -> dict[str, Any]:
    """The first of all; O(pods), but describes only those."""
    waiting = core.permits.entries()
    suspended = suspended_entries(core.suspension, core.queue.view.now())
    queued = core.queue.view.first(limit)
    # They are half of what is shown, or more where the queue leaves room.
    others = [*waiting, *suspended][: max(limit // 2, limit - len(queued))]
    counts = {**core.queue.view.counts(), WAITING: len(waiting), SUSPENDED: len(suspended)}
    counts["in-flight"] = max(0, counts["in-flight"] - len(waiting) - len(suspended))
    return {
        "counts": counts,
        "pods": [_plain(entry) for entry in [*others, *queued][:limit]],
    }


def _grouped_active(
    core: Core, query: QueueQuery, accepts: Accepts, groups: dict[PodKind, PendingGroup]
) -> set[PodInfo]:
    """Put active pods that are asked for into groups, and return them.

    There may be thousands, of which nothing is known but their owners: before they are tried
    whether they are equal is not known. So they are neither sorted nor described one by one.
    """
    found: set[PodInfo] = set()
    active = Tier.ACTIVE
    if query.tier not in ("", active.value):
        return found
    everybody, now = accepts is _all_of_them, core.queue.view.now()
    untried: dict[tuple[str, str, str], list[QueuedPod]] = {}
    for queued in paced(core.queue.view.active()):
        info = queued.info
        if queued.tier is not active or not (everybody or accepts(info)):
            continue
        found.add(info)
        if queued.attempts:
            _join(groups, core.queue.view.described(queued), info, None)
            continue
        metadata = info.pod.metadata
        owned = metadata.owner_references or POD_GROUP_LABEL in metadata.labels
        kind = (metadata.namespace, info.pod.spec.scheduler_name, _owner(info) if owned else "")
        alike = untried.get(kind)
        if alike is None:
            untried[kind] = [queued]
        else:
            alike.append(queued)
    for (namespace, profile, owner), pods in untried.items():
        checkpoint()
        kind_of = PodKind(namespace, profile, active.value, owner, None if owner else "untried")
        groups[kind_of] = _merged(groups.get(kind_of), _group_of_untried(kind_of, pods, now))
    return found


def _group_of_untried(kind: PodKind, pods: list[QueuedPod], now: float) -> PendingGroup:
    since = list(map(_TIMESTAMP, pods))
    return PendingGroup(
        kind.namespace,
        kind.profile,
        kind.tier,
        kind.owner,
        len(pods),
        now - min(since),
        None,
        0,
        (),
        "",
        [queued.info.key for queued in pods[:NAMES_OF_GROUP]],
        now - max(since),
    )


def _merged(tried: PendingGroup | None, untried: PendingGroup) -> PendingGroup:
    """Pods of one owner, of which some were tried and say why they wait."""
    if tried is None:
        return untried
    tried.count += untried.count
    tried.oldest_seconds = max(tried.oldest_seconds, untried.oldest_seconds)
    tried.pods = [*tried.pods, *untried.pods][:NAMES_OF_GROUP]
    return tried


def _all_of_them(info: PodInfo) -> bool:
    return True


def _filter(query: QueueQuery) -> Accepts:
    namespace, selector = query.namespace, query.selector
    if not namespace and selector == Selector():
        return _all_of_them

    def accepts(info: PodInfo) -> bool:
        metadata = info.pod.metadata
        return namespace in ("", metadata.namespace) and selector.matches(metadata.labels)

    return accepts


def _all(
    core: Core, but: Tier | None = None
) -> Iterator[tuple[QueueEntry, PodInfo, Hashable | None]]:
    """All pending pods that can be described: those on permit, suspended, then the queue's."""
    held = {attempt.cycle.pod.key: attempt.queued for attempt in core.bindings.attempts()}
    held |= {attempt.queued.key: attempt.queued for attempt, _ in core.suspension.asking()}
    outside = suspended_entries(core.suspension, core.queue.view.now())
    for entry in [*core.permits.entries(), *outside]:
        if (queued := held.get(entry.pod)) is not None:
            yield entry, queued.info, None
    yield from ((entry, each.info, _cohort(each)) for entry, each in core.queue.view.all(but))


def _cohort(queued: QueuedPod) -> Hashable | None:
    """What pods that wait as a cohort share; None if the pod waits by itself."""
    return queued.cohort if queued.tier is Tier.UNSCHEDULABLE else None


def _join(
    groups: dict[PodKind, PendingGroup], entry: QueueEntry, info: PodInfo, cohort: Hashable | None
) -> None:
    owner = _owner(info)
    alike = None if owner else cohort or entry.pod
    namespace = info.pod.metadata.namespace
    kind = PodKind(namespace, entry.profile, entry.tier, owner, alike)
    group = groups.get(kind)
    if group is None:
        groups[kind] = PendingGroup(
            namespace,
            entry.profile,
            entry.tier,
            owner,
            1,
            entry.waiting_seconds,
            entry.retry_seconds,
            entry.attempts,
            entry.plugins,
            entry.message,
            [entry.pod],
            entry.waiting_seconds,
        )
        return
    group.count += 1
    group.oldest_seconds = max(group.oldest_seconds, entry.waiting_seconds)
    group.attempts = max(group.attempts, entry.attempts)
    retries = [each for each in (group.retry_seconds, entry.retry_seconds) if each is not None]
    group.retry_seconds = min(retries, default=None)
    if entry.waiting_seconds < group.youngest_seconds:
        group.youngest_seconds = entry.waiting_seconds
        group.plugins, group.message = entry.plugins, entry.message
    if len(group.pods) < NAMES_OF_GROUP:
        group.pods.append(entry.pod)


def _owner(info: PodInfo) -> str:
    metadata = info.pod.metadata
    if (group := pod_group_of(metadata)) is not None:
        return f"PodGroup/{group.partition('/')[2]}"
    controller = metadata.controller
    return f"{controller.kind}/{controller.name}" if controller is not None else ""


def _plain(value: Any) -> Any:
    checkpoint()
    return msgspec.to_builtins(value)
