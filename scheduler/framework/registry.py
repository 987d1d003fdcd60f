"""Plugins by name: an explicit table, merged from explicit tables."""

from __future__ import annotations

from collections.abc import Mapping

from scheduler.framework.simple import completed
from scheduler.plugin_api.extension_points import POINTS
from scheduler.plugin_api.handle import PluginFactory

Registry = Mapping[str, PluginFactory]


class RegistryError(ValueError):
    """Two plugins claim the same name."""


def merge(*registries: Registry) -> dict[str, PluginFactory]:
    """One registry of several; a name may come only once."""
    merged: dict[str, PluginFactory] = {}
    for registry in registries:
        for name, factory in registry.items():
            if name in merged:
                raise RegistryError(f"plugin {name!r} is registered twice")
            merged[name] = factory
    return merged


def points_of(factory: PluginFactory) -> frozenset[str]:
    """The extension points that a plugin's class implements, by their keys in configuration."""
    plugin = completed(factory)
    if not isinstance(plugin, type):
        return frozenset()
    return frozenset(key for key, point in POINTS.items() if issubclass(plugin, point.protocol))
