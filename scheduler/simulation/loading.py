"""From objects as people write them to a scheduler that has seen them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec
from msgspec import structs

from scheduler.assembly import Core, assemble, configure
from scheduler.config.durations import Duration
from scheduler.config.loading import Configuration
from scheduler.config.plugin_args import NodeResourceTopologyMatchArgs
from scheduler.config.schema import KUBE_API_VERSION, KUBE_KIND, PluginConfig
from scheduler.framework.runtime import Framework
from scheduler.gangs.plugin import NAME as COSCHEDULING
from scheduler.garbage import without_collections
from scheduler.model.devices import ResourceClaim
from scheduler.model.nodes import (
    Node,
    NodeResourceTopology,
)
from scheduler.model.objects import KINDS, Change, PodGroup, from_dict
from scheduler.model.podinfo import PodInfo
from scheduler.model.pods import Pod, named_node
from scheduler.model.storage import (
    PersistentVolumeClaim,
)
from scheduler.numa.plugin import NAME as NODE_RESOURCE_TOPOLOGY
from scheduler.observe.metrics import Metrics
from scheduler.simulation.outlet import OfflineOutlet

Object = Mapping[str, Any]


Config = Mapping[str, Any] | Sequence[Mapping[str, Any]] | Configuration | None


PATIENCE = Duration(3600.0)
"""How long the solver may take in a simulation: what comes of a backlog is not for the machine to
decide."""


class InputError(ValueError):
    """An object that cannot be read; the message names it and the field."""


def offline_core(
    config: Config,
    objects: Iterable[Object],
    recorder: OfflineOutlet,
    clock: Callable[[], float],
    *,
    evict: bool = False,
    prepare: bool = False,
) -> Core:
    # What those outside do, to bind a pod for one, would be for real.
    core = assemble(
        _reserving(_patient(configuration_of(config, objects))),
        recorder,
        Metrics(),
        without=() if evict else ("postFilter",),
        only_in_tree=() if prepare else ("preBind",),
        dry=True,
        clock=clock,
    )
    recorder.core = core
    return core


def _patient(config: Configuration) -> Configuration:
    """The same with a solver that may take its time."""
    batch = structs.replace(config.equipoise.batch, solver_timeout=PATIENCE)
    return replace(config, equipoise=structs.replace(config.equipoise, batch=batch))


def _reserving(config: Configuration) -> Configuration:
    """The same with the reserve cache of NUMA cells.

    No kubelet publishes what the simulation has placed, so without it cells would be given out
    twice.
    """

    def reserve(each: PluginConfig) -> PluginConfig:
        if not isinstance(each.args, NodeResourceTopologyMatchArgs):
            return each
        cache = each.args.cache and structs.replace(each.args.cache, mode="")
        args = structs.replace(
            each.args,
            cache_resync_period_seconds=each.args.cache_resync_period_seconds or 1,
            discard_reserved_nodes=False,
            cache=cache,
        )
        return structs.replace(each, args=args)

    profiles = tuple(
        structs.replace(profile, plugin_config=tuple(map(reserve, profile.plugin_config)))
        for profile in config.scheduler.profiles
    )
    scheduler = structs.replace(config.scheduler, profiles=profiles)
    return replace(config, scheduler=scheduler)


def batching(config: Config, objects: Iterable[Object], enabled: bool) -> Configuration:
    """The configuration with backlogs placed at once, or one by one whatever it says."""
    loaded = configuration_of(config, objects)
    settings = structs.replace(
        loaded.equipoise.batch,
        enabled=enabled,
        window=Duration(0.0),
        min_pending=1,
    )
    return replace(loaded, equipoise=structs.replace(loaded.equipoise, batch=settings))


def configuration_of(config: Config, objects: Iterable[Object]) -> Configuration:
    if isinstance(config, Configuration):
        return config
    documents = [config] if isinstance(config, Mapping) else list(config or ())
    if config is None:
        kinds = {item.get("kind") for raw in objects for item in flatten(raw)}
        documents = [_default({name for kind, name in _MEANT.items() if kind in kinds})]
    return configure(documents, environ={})


_MEANT = {NodeResourceTopology.__name__: NODE_RESOURCE_TOPOLOGY, PodGroup.__name__: COSCHEDULING}
"""Plugins that are added to the default profile if objects of a kind are listed."""


def _default(more: Collection[str]) -> Object:
    enabled = [{"name": name} for name in sorted(more)]
    profile = {"plugins": {"multiPoint": {"enabled": enabled}}}
    return {"apiVersion": KUBE_API_VERSION, "kind": KUBE_KIND, "profiles": [profile]}


def unheeded(config: Configuration, objects: Iterable[Object]) -> list[tuple[str, str]]:
    """Kinds among the objects that have no effect, and the plugin of each that is not enabled."""
    sets = [s for p in config.scheduler.profiles for s in p.plugins.by_point().values()]
    enabled = {plugin.name for each in sets for plugin in each.enabled}
    kinds = {item.get("kind") for raw in objects for item in flatten(raw)}
    return [pair for pair in _MEANT.items() if pair[0] in kinds and pair[1] not in enabled]


def profile_names(config: Configuration | None) -> frozenset[str]:
    """The names that pods call our schedulers by; a pod without any is the first one's."""
    profiles = configuration_of(config, ()).scheduler.profiles
    return frozenset({"", *(profile.scheduler_name for profile in profiles)})


def framework_of(core: Core, pod: Pod) -> Framework:
    """The profile that a pod names, or the first."""
    return core.frameworks.get(pod.spec.scheduler_name) or next(iter(core.frameworks.values()))


@without_collections()
def load(core: Core, objects: Iterable[Object]) -> list[PodInfo]:
    """Feed all objects to the core, nodes before pods; returns the pods that wait for us."""
    by_kind: dict[str, list[Any]] = {}
    for raw in objects:
        for item in flatten(raw):
            kind = str(item.get("kind", ""))
            if kind in KINDS:
                decoded = decode(item, KINDS[kind].type, kind)
                if kind == Node.__name__ and not decoded.metadata.name:
                    raise InputError("Node ?: metadata.name is missing")
                if KINDS[kind].namespaced:
                    decoded = _in_some_namespace(decoded)
                if kind in _KNOWN_BY_UID:
                    decoded = with_uid(decoded)
                by_kind.setdefault(kind, []).append(decoded)
                _keep(core, kind, completed(core, decoded) if kind == "Pod" else decoded, item)
    pods = [_counted(core, completed(core, pod)) for pod in by_kind.pop("Pod", [])]
    for kind, items in by_kind.items():
        core.event_handlers.handler(kind)([Change(None, item) for item in items])
    core.event_handlers.handler("Pod")([Change(None, pod) for pod in pods])
    limits = core.config.equipoise.limits
    return [PodInfo(p, limits) for p in pods if core.event_handlers.responsible(p) and _waits(p)]


_KNOWN_BY_UID = (PersistentVolumeClaim.__name__, ResourceClaim.__name__)
"""Kinds, besides pods, of which objects are told apart by uid."""


def _keep(core: Core, kind: str, decoded: Any, raw: Object) -> None:
    """Keep an object as it was given, if webhooks or extenders get whole objects."""
    originals = core.remotes.originals
    if originals is not None and (keep := originals.keeper(kind)) is not None:
        keep(decoded.metadata.key, decoded, msgspec.json.encode(raw))


def _counted(core: Core, pod: Pod) -> Pod:
    """The pod, on its node if it is a DaemonSet's and another scheduler binds it there."""
    if not _waits(pod) or core.event_handlers.responsible(pod) or not of_daemon_set(pod):
        return pod
    node = named_node(pod)
    return structs.replace(pod, spec=structs.replace(pod.spec, node_name=node))


def _waits(pod: Pod) -> bool:
    return not pod.spec.node_name and not pod.finished


def of_daemon_set(pod: Pod) -> bool:
    owner = pod.metadata.controller
    return owner is not None and owner.kind == "DaemonSet"


def flatten(raw: Object) -> Iterable[Object]:
    """The objects of a List, or the object itself."""
    if not isinstance(raw, Mapping):
        raise InputError(f"expected an object, not {str(raw)[:40]!r}")
    if str(raw.get("kind", "")).endswith("List") and isinstance(raw.get("items"), Sequence):
        for item in raw["items"]:
            yield from flatten(item)
    else:
        yield raw


def _in_some_namespace(item: Any) -> Any:
    """An object where kubectl would put it: in the default namespace, unless it says otherwise."""
    namespace = item.metadata.namespace or "default"
    metadata = structs.replace(item.metadata, namespace=namespace)
    return structs.replace(item, metadata=metadata)


def completed(core: Core, pod: Pod) -> Pod:
    """A pod with what the API server would have filled in."""
    pod = with_uid(_in_some_namespace(pod))
    name = pod.spec.scheduler_name or next(iter(core.frameworks))
    return structs.replace(pod, spec=structs.replace(pod.spec, scheduler_name=name))


def with_uid(item: Any) -> Any:
    metadata = item.metadata
    uid = metadata.uid or metadata.key
    return structs.replace(item, metadata=structs.replace(metadata, uid=uid))


def decode(raw: Object, type_: Any, kind: str) -> Any:
    try:
        return from_dict(raw, type_)
    except (msgspec.ValidationError, UnicodeError) as fault:
        metadata = raw.get("metadata")
        name = metadata.get("name", "?") if isinstance(metadata, Mapping) else "?"
        raise InputError(f"{kind} {name}: {fault}") from None
