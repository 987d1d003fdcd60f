"""Which plugins run at which extension point, in which order and with which weight.

Two rules of kube-scheduler, in this order. *Merging*: a profile's `multiPoint` set changes the
default list: disabled plugins go, plugins that are enabled again are replaced in place, others
are appended. *Expansion*: a plugin of the merged list joins every point it implements, unless
that point disables it; what a point enables by itself overrides the merged list.
"""

from collections.abc import Collection, Mapping
from typing import NamedTuple

import msgspec

from scheduler.config.schema import (
    EXTENSION_POINTS,
    OWN_POINTS,
    OwnPoints,
    PluginRef,
    Plugins,
    PluginSet,
    Profile,
)

ALL = "*"
"""The name that disables every default plugin of a set."""

DEFAULT_PLUGINS = (
    PluginRef(name="SchedulingGates"),
    PluginRef(name="PrioritySort"),
    PluginRef(name="NodeUnschedulable"),
    PluginRef(name="NodeName"),
    PluginRef(name="TaintToleration", weight=3),
    PluginRef(name="NodeAffinity", weight=2),
    PluginRef(name="NodePorts"),
    PluginRef(name="NodeResourcesFit", weight=1),
    PluginRef(name="VolumeRestrictions"),
    PluginRef(name="NodeVolumeLimits"),
    PluginRef(name="VolumeBinding"),
    PluginRef(name="VolumeZone"),
    PluginRef(name="PodTopologySpread", weight=2),
    PluginRef(name="InterPodAffinity", weight=2),
    PluginRef(name="DynamicResources", weight=2),
    PluginRef(name="DefaultPreemption"),
    PluginRef(name="NodeResourcesBalancedAllocation", weight=1),
    PluginRef(name="ImageLocality", weight=1),
    PluginRef(name="DefaultBinder"),
    PluginRef(name="NodeDeclaredFeatures"),
)
"""kube-scheduler's default list; its order is the order of filters, reasons and scores."""

KNOWN_PLUGINS: Mapping[str, frozenset[str]] = {
    name: frozenset(points.split())
    for name, points in {
        "DefaultBinder": "bind",
        "DefaultPreemption": "preEnqueue postFilter",
        "DynamicResources": "preEnqueue preFilter filter postFilter score reserve preBind",
        "GangScheduling": "preEnqueue permit",
        "ImageLocality": "score",
        "InterPodAffinity": "preFilter filter preScore score",
        "NodeAffinity": "preFilter filter preScore score",
        "NodeDeclaredFeatures": "preFilter filter",
        "NodeName": "filter",
        "NodePorts": "preFilter filter",
        "NodeResourcesBalancedAllocation": "preScore score",
        "NodeResourcesFit": "preFilter filter preScore score placementScore",
        "NodeUnschedulable": "filter",
        "NodeVolumeLimits": "preFilter filter",
        "PodGroupPodsCount": "placementScore",
        "PodTopologySpread": "preFilter filter preScore score",
        "PrioritySort": "queueSort",
        "SchedulingGates": "preEnqueue",
        "TaintToleration": "filter preScore score",
        "TopologyPlacementGenerator": "placementGenerate",
        "VolumeBinding": "preFilter filter preScore score reserve preBind",
        "VolumeRestrictions": "preFilter filter",
        "VolumeZone": "preFilter filter",
    }.items()
}
"""Every plugin of kube-scheduler and the points it has there, whether Equipoise has it or not."""

_ONLY_BY_NAME = frozenset({("queueSort", "Coscheduling")})
"""Points that `multiPoint` does not enable. Manifests for scheduler-plugins list Coscheduling under
`queueSort` and disable the default there; under `multiPoint` alone, PrioritySort stays."""

Available = Mapping[str, Collection[str]]
"""The plugins that exist: name to the extension points it implements, as documents spell them."""


class Enabled(NamedTuple):
    """A plugin at a point; the weight counts for scores only and is at least 1."""

    name: str
    weight: int


def merge_plugins(custom: Plugins) -> Plugins:
    """The profile's own plugin sets with the default list merged into `multiPoint`.

    Merging the result again changes nothing, so a printed configuration reads back the same.
    """
    changes = custom.multi_point
    disabled = {plugin.name for plugin in changes.disabled}
    enabled = {plugin.name: plugin for plugin in changes.enabled}
    kept = [p for p in DEFAULT_PLUGINS if p.name not in disabled] if ALL not in disabled else []
    merged = [enabled.get(plugin.name, plugin) for plugin in kept]
    in_place = {plugin.name for plugin in kept}
    merged += [plugin for plugin in changes.enabled if plugin.name not in in_place]
    multi_point = PluginSet(enabled=tuple(merged), disabled=changes.disabled)
    return msgspec.structs.replace(custom, multi_point=multi_point)


def resolve_plugins(
    profile: Profile, available: Available, own: OwnPoints | None = None
) -> dict[str, list[Enabled]]:
    """Who runs at each extension point, in order, for a profile as `loading` returns it.

    What is not available, or not at that point, is left out: loading warned of it or refused it.
    """
    sets = profile.plugins.by_point() | (own or OwnPoints()).by_point()
    return {point: _resolve(point, sets, available) for point in EXTENSION_POINTS + OWN_POINTS}


def _resolve(point: str, sets: Mapping[str, PluginSet], available: Available) -> list[Enabled]:
    own = {p.name: p for p in sets[point].enabled if point in available.get(p.name, ())}
    joining = _joining(point, sets, available)
    overriding = [name for name in own if name in joining]
    added = [name for name in joining if name not in own]
    rest = [name for name in own if name not in joining]
    # What the point says wins as a whole: without a weight there, a default weight is not kept.
    chosen = joining | own
    return [Enabled(name, chosen[name].weight or 1) for name in overriding + added + rest]


def _joining(
    point: str, sets: Mapping[str, PluginSet], available: Available
) -> dict[str, PluginRef]:
    disabled = {plugin.name for plugin in sets[point].disabled}
    if ALL in disabled:
        return {}
    return {
        plugin.name: plugin
        for plugin in sets["multiPoint"].enabled
        if plugin.name not in disabled
        and point in available.get(plugin.name, ())
        and (point, plugin.name) not in _ONLY_BY_NAME
    }
