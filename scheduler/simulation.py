"""A scheduler over a list of objects: no API server, no clock, no side effects.

The same core as the daemon's, fed with Kubernetes objects (dicts as ``kubectl get -o json`` gives
them). ``explain`` judges one pod, ``place`` schedules all that wait, in queue order.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

import msgspec

from scheduler.assembly import Core, assemble, configure
from scheduler.config.durations import Duration
from scheduler.config.loading import Configuration
from scheduler.config.plugin_args import NodeResourceTopologyMatchArgs
from scheduler.config.schema import KUBE_API_VERSION, KUBE_KIND, PluginConfig
from scheduler.flow.problem import Solution
from scheduler.framework.answers import Told
from scheduler.framework.outlet import Stale, holds
from scheduler.gangs.plugin import NAME as COSCHEDULING
from scheduler.gangs.status import describe_group
from scheduler.model.nodes import NodeResourceTopology
from scheduler.model.objects import KINDS, PodGroup, from_dict
from scheduler.model.podinfo import PodInfo
from scheduler.model.pods import Pod
from scheduler.model.status import SUCCESS, Status
from scheduler.numa.plugin import NAME as NODE_RESOURCE_TOPOLOGY
from scheduler.observe.metrics import Metrics
from scheduler.pipeline import explanation
from scheduler.pipeline.batch_problem import Posed
from scheduler.pipeline.suspension import answered
from scheduler.queueing.tiers import Tier

T = TypeVar("T")
Object = Mapping[str, Any]
Config = Mapping[str, Any] | Sequence[Mapping[str, Any]] | Configuration | None


Look = Callable[[Core, list[PodInfo], list["Placed"]], T]
"""Looks at a core when all is placed, the pods that waited, and what became of them."""


class InputError(ValueError):
    """An object that cannot be read; the message names it and the field."""


class Placed(NamedTuple):
    """Where a pod went, or why it waits."""

    pod: str
    node: str | None
    message: str


class _Change(NamedTuple):
    old: Any
    new: Any


class _Recorder:
    """An outlet that binds at once and remembers."""

    def __init__(self) -> None:
        self.bound: dict[str, str] = {}
        self.messages: dict[str, str] = {}
        self.tried: dict[str, None] = {}

    async def bind(self, pod: PodInfo, node: str, stale: Stale = holds) -> Status:
        self.bound[pod.key] = node
        self.tried[pod.key] = None
        return SUCCESS

    def record_event(self, pod: PodInfo, type_: str, reason: str, action: str, note: str) -> None:
        """Nobody listens."""

    async def patch(self, kind: str, key: str, patch: Mapping[str, Any]) -> None:
        """Nobody listens."""

    async def evict(self, pod: PodInfo, condition: Mapping[str, Any]) -> None:
        """A simulation evicts nobody."""

    def nominate(self, pod: PodInfo, node: str) -> None:
        """Nobody listens."""

    def set_condition(self, pod: PodInfo, reason: str, message: str) -> None:
        self.messages[pod.key] = message
        self.tried[pod.key] = None


def explain(objects: Iterable[Object], pod: Object, config: Config = None) -> dict[str, Any]:
    """The verdict of every node for one pod, and the scores of those that fit.

    Returns ``fit`` (names), ``nodes`` (per node: fit, plugin, code, reasons), ``scores`` (per
    feasible node: total and each plugin's weighted part) and ``message`` (the filter part of the
    FailedScheduling text, empty if a node fits), and ``group``, if the pod is in one: how that
    stands. Without a configuration it is the default profile, with NUMA alignment if some node's
    cells are among the objects, and with gangs if PodGroups are.
    """
    objects = list(objects)
    core = _core(config, objects, _Recorder())
    if core.remotes.originals is not None:
        return asyncio.run(_explain_outside(core, objects, pod))
    return _explain(core, objects, pod)


def _explain(
    core: Core, objects: Iterable[Object], pod: Object, told: Told | None = None
) -> dict[str, Any]:
    _load(core, objects)
    info = PodInfo(_own(core, _decode(pod, Pod, "Pod")), core.config.equipoise.limits)
    _keep(core, "Pod", info.pod, pod)
    framework = core.frameworks.get(info.pod.spec.scheduler_name)
    framework = framework or next(iter(core.frameworks.values()))
    answer = explanation.explain(framework, core.state, info, core.seed, told)
    group = describe_group(core.state, info.pod)
    return {**answer, "group": group} if group else answer


async def _explain_outside(core: Core, objects: Iterable[Object], pod: Object) -> dict[str, Any]:
    """The same with webhooks and extenders, which are really asked."""
    _load(core, objects)

    def explained(told: Told) -> dict[str, Any]:
        return _explain(core, (), pod, told)

    try:
        return await answered(explained)
    finally:
        await core.stop()


def place(objects: Iterable[Object], config: Config = None) -> list[tuple[str, str | None, str]]:
    """Schedule every pending pod that names one of our schedulers (or none), in queue order.

    Evicts nobody; a pod that fits nowhere is tried once and comes with its message.
    """
    return list(asyncio.run(_place(objects, config)))


def played(
    objects: Iterable[Object],
    config: Config,
    look: Look[T],
    *,
    batch: bool,
    watch: Callable[[Posed, Solution], None] | None = None,
) -> T:
    """Schedule as ``place`` does, at once or one by one, and let somebody look at the result."""
    return asyncio.run(_played(objects, config, look, batch, watch))


async def _played(
    objects: Iterable[Object],
    config: Config,
    look: Look[T],
    batch: bool,
    watch: Callable[[Posed, Solution], None] | None,
) -> T:
    recorder = _Recorder()
    objects = list(objects)
    loaded = _configuration(config, objects)
    settings = msgspec.structs.replace(
        loaded.equipoise.batch, enabled=batch, window=Duration(0.0), min_pending=1
    )
    own = msgspec.structs.replace(loaded.equipoise, batch=settings)
    core = _core(replace(loaded, equipoise=own), objects, recorder)
    if core.loop.batches is not None:
        core.loop.batches.watch = watch
    waiting = _load(core, objects)
    return look(core, waiting, await _placed(core, recorder, waiting))


async def _place(objects: Iterable[Object], config: Config) -> list[Placed]:
    recorder = _Recorder()
    objects = list(objects)
    core = _core(config, objects, recorder)
    return await _placed(core, recorder, _load(core, objects))


async def _placed(core: Core, recorder: _Recorder, waiting: list[PodInfo]) -> list[Placed]:
    core.loop.begin()
    await core.background.idle()
    at_once: dict[str, None] = {}
    if core.loop.batches is not None and core.loop.batches.due:
        ready = Tier.ACTIVE.value
        at_once = dict.fromkeys(e.pod for e in core.queue.snapshot() if e.tier == ready)
        while (head := core.queue.peek()) is not None and not head.attempts:
            if not await core.loop.run_batch():
                break
            await core.bindings.idle()
    while (queued := core.loop.schedule_next()) is not None and queued.attempts == 1:
        await core.suspension.idle()
        await core.bindings.idle()
        await core.background.idle()
    await core.stop()
    # In the order of their first attempt; those that are never tried (gated) come last.
    order = at_once | recorder.tried | dict.fromkeys(info.key for info in waiting)
    for entry in core.queue.snapshot():
        recorder.messages.setdefault(entry.pod, entry.message)
    return [Placed(key, recorder.bound.get(key), _message(recorder, key)) for key in order]


def _message(recorder: _Recorder, key: str) -> str:
    return "" if key in recorder.bound else recorder.messages.get(key, "")


def _core(config: Config, objects: Iterable[Object], recorder: _Recorder) -> Core:
    # It evicts nobody, so there is nothing to do for pods that fit nowhere; and nobody is there to
    # bind volumes, so those that a pod would get are simply taken.
    without = ("postFilter", "preBind")
    # What those outside do, to bind a pod for one, would be for real.
    reserving = _reserving(_configuration(config, objects))
    return assemble(reserving, recorder, Metrics(), without=without, dry=True)


def _reserving(config: Configuration) -> Configuration:
    """The same with the reserve cache of NUMA cells.

    No kubelet publishes what the simulation has placed, so without it cells would be given out
    twice.
    """

    def reserve(each: PluginConfig) -> PluginConfig:
        if not isinstance(each.args, NodeResourceTopologyMatchArgs):
            return each
        cache = each.args.cache and msgspec.structs.replace(each.args.cache, mode="")
        args = msgspec.structs.replace(
            each.args,
            cache_resync_period_seconds=each.args.cache_resync_period_seconds or 1,
            discard_reserved_nodes=False,
            cache=cache,
        )
        return msgspec.structs.replace(each, args=args)

    profiles = tuple(
        msgspec.structs.replace(profile, plugin_config=tuple(map(reserve, profile.plugin_config)))
        for profile in config.scheduler.profiles
    )
    scheduler = msgspec.structs.replace(config.scheduler, profiles=profiles)
    return replace(config, scheduler=scheduler)


def _configuration(config: Config, objects: Iterable[Object]) -> Configuration:
    if isinstance(config, Configuration):
        return config
    documents = [config] if isinstance(config, Mapping) else list(config or ())
    if config is None:
        kinds = {item.get("kind") for raw in objects for item in _flatten(raw)}
        documents = [_default({name for kind, name in _MEANT.items() if kind in kinds})]
    return configure(documents, environ={})


_MEANT = {NodeResourceTopology.__name__: NODE_RESOURCE_TOPOLOGY, PodGroup.__name__: COSCHEDULING}
"""Plugins that the default profile has for objects of a kind: who lists them means them."""


def _default(more: Collection[str]) -> Object:
    enabled = [{"name": name} for name in sorted(more)]
    profile = {"plugins": {"multiPoint": {"enabled": enabled}}}
    return {"apiVersion": KUBE_API_VERSION, "kind": KUBE_KIND, "profiles": [profile]}


def _load(core: Core, objects: Iterable[Object]) -> list[PodInfo]:
    """Feed all objects to the core, nodes before pods; returns the pods that wait for us."""
    by_kind: dict[str, list[Any]] = {}
    for raw in objects:
        for item in _flatten(raw):
            kind = str(item.get("kind", ""))
            if kind in KINDS:
                decoded = _decode(item, KINDS[kind].type, kind)
                if KINDS[kind].namespaced:
                    decoded = _in_some_namespace(decoded)
                by_kind.setdefault(kind, []).append(decoded)
                _keep(core, kind, _own(core, decoded) if kind == "Pod" else decoded, item)
    pods = [_own(core, pod) for pod in by_kind.pop("Pod", [])]
    for kind, items in by_kind.items():
        core.ingest.handler(kind)([_Change(None, item) for item in items])
    core.ingest.handler("Pod")([_Change(None, pod) for pod in pods])
    limits = core.config.equipoise.limits
    return [PodInfo(p, limits) for p in pods if core.ingest.responsible(p) and _waits(p)]


def _keep(core: Core, kind: str, decoded: Any, raw: Object) -> None:
    """Remember an object as it was given, if somebody outside wants to see it."""
    originals = core.remotes.originals
    if originals is not None and (keep := originals.keeper(kind)) is not None:
        keep(decoded.metadata.key, decoded, msgspec.json.encode(raw))


def _waits(pod: Pod) -> bool:
    return not pod.spec.node_name and not pod.finished


def _flatten(raw: Object) -> Iterable[Object]:
    """The objects of a List, or the object itself."""
    if str(raw.get("kind", "")).endswith("List") and isinstance(raw.get("items"), Sequence):
        for item in raw["items"]:
            yield from _flatten(item)
    else:
        yield raw


def _in_some_namespace(item: Any) -> Any:
    """An object where kubectl would put it: in the default namespace, unless it says otherwise."""
    namespace = item.metadata.namespace or "default"
    metadata = msgspec.structs.replace(item.metadata, namespace=namespace)
    return msgspec.structs.replace(item, metadata=metadata)


def _own(core: Core, pod: Pod) -> Pod:
    """A pod with what the API server would have filled in."""
    pod = _in_some_namespace(pod)
    metadata = pod.metadata
    metadata = msgspec.structs.replace(metadata, uid=metadata.uid or metadata.key)
    name = pod.spec.scheduler_name or next(iter(core.frameworks))
    spec = msgspec.structs.replace(pod.spec, scheduler_name=name)
    return msgspec.structs.replace(pod, metadata=metadata, spec=spec)


def _decode(raw: Object, type_: Any, kind: str) -> Any:
    try:
        return from_dict(raw, type_)
    except (msgspec.ValidationError, UnicodeError) as fault:
        metadata = raw.get("metadata")
        name = metadata.get("name", "?") if isinstance(metadata, Mapping) else "?"
        raise InputError(f"{kind} {name}: {fault}") from None
