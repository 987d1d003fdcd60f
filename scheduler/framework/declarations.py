"""What a plugin declares about itself, read once when it is registered.

A plugin says what it can do by the methods it has, and what it promises by its traits. Neither is
looked for again while pods are scheduled. What looks like a misspelt declaration is refused: the
plugin would otherwise work slowly, or not at all, without a word.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields
from functools import cache
from typing import Protocol, runtime_checkable

import msgspec

from scheduler.equivalence.reads import Declaration, Key, Reads
from scheduler.model.events import Action
from scheduler.model.podinfo import PodInfo
from scheduler.plugin_api import extension_points
from scheduler.plugin_api.extension_points import (
    EnqueueExtensions,
    EquivalentFilter,
    EquivalentScore,
    InterestedPlugin,
    Plugin,
)
from scheduler.plugin_api.facts import FactsPlugin, NodeFactsPlugin
from scheduler.plugin_api.groups import GroupPlugin
from scheduler.plugin_api.traits import NO_TRAITS, PluginTraits, suggestion
from scheduler.queueing.hints import ANY_KIND, HintRegistration

_EVERYTHING = (HintRegistration(ANY_KIND, ~Action(0)),)
_TRAITS = tuple(field.name for field in fields(PluginTraits))
_CLOSE = 0.88
"""How much a method's name must resemble a known one to be taken for it, of 1."""


class DeclarationError(ValueError):
    """A plugin declares something that does not exist; the message names it."""


@runtime_checkable
class _WithTraits(Protocol):
    @property
    def traits(self) -> PluginTraits: ...


def traits_of(plugin: Plugin) -> PluginTraits:
    """A plugin's traits; none, if it does not say."""
    return plugin.traits if isinstance(plugin, _WithTraits) else NO_TRAITS


def check_declarations(name: str, plugin: object) -> None:
    """Refuse misspelt methods and traits of a plugin, or of its class. Raises DeclarationError."""
    kind = plugin if isinstance(plugin, type) else type(plugin)
    problems = list(_problems_of_class(kind))
    if kind is not plugin:
        problems += _problems(vars(plugin) if hasattr(plugin, "__dict__") else {})
    if problems:
        raise DeclarationError(f"plugin {name!r}: {'; '.join(problems)}")


@cache
def _problems_of_class(kind: type) -> tuple[str, ...]:
    members = {name: inspect.getattr_static(kind, name) for name in dir(kind)}
    return tuple(_problems(members))


def _problems(members: dict[str, object]) -> Iterator[str]:
    for name, value in members.items():
        if name.startswith("_"):
            continue
        if name == "traits":
            if not isinstance(value, PluginTraits | property):
                yield f"traits is {type(value).__name__}, not PluginTraits"
        elif isinstance(value, PluginTraits):
            yield f"{name} holds the plugin's traits; call it traits"
        elif name in _TRAITS and isinstance(value, bool | property):
            given = value if isinstance(value, bool) else True
            yield f"{name} is a trait: write traits = PluginTraits({name}={given})"
        elif name not in _known_names() and _may_be_declared(value):
            snake = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()
            if meant := suggestion(snake, _known_names(), _CLOSE):
                yield f"no extension point has {name!r}{meant} Names of helpers begin with _"


def _may_be_declared(value: object) -> bool:
    """Whether it is of a kind that plugins declare: a method, a property, or what they read."""
    return callable(value) or isinstance(value, property | staticmethod | classmethod | Reads)


@cache
def _known_names() -> list[str]:
    """All that the protocols of plugins name."""
    protocols = [
        value
        for value in vars(extension_points).values()
        if isinstance(value, type)
        and issubclass(value, Protocol)
        and value.__module__ == extension_points.__name__
    ]
    names = {
        name
        for protocol in (*protocols, GroupPlugin, FactsPlugin, NodeFactsPlugin)
        for name in vars(protocol)
    }
    return sorted(name for name in names if not name.startswith("_"))


def declared_hints(plugin: Plugin) -> Sequence[HintRegistration]:
    """The events that may cure a plugin's rejections; all without hints. Raises ValueError."""
    if not isinstance(plugin, EnqueueExtensions):
        return _EVERYTHING
    try:
        hints = tuple(plugin.hints())
    except Exception as fault:
        problem = f"{type(fault).__name__}: {fault}"
        raise ValueError(f"plugin {plugin.name!r}: hints: {problem}") from fault
    for hint in hints:
        if not isinstance(hint, HintRegistration):
            problem = f"{hint!r:.40} is not a HintRegistration"
            raise ValueError(f"plugin {plugin.name!r}: hints: {problem}")
    return hints


def declared_filter(plugin: Plugin, *, judges: bool) -> Declaration:
    """What a plugin's verdicts depend on; one that does not judge nodes has none to keep."""
    if isinstance(plugin, EquivalentFilter) and (reads := plugin.filter_reads) is not None:
        kept = reads if judges else msgspec.structs.replace(reads, kept=False)
        return Declaration(plugin.name, kept, plugin.filter_key, concerns=_concerns(plugin))
    return Declaration(plugin.name, None, _undeclared(plugin))


def declared_score(plugin: Plugin, weight: int) -> Declaration:
    """What a plugin's scores depend on."""
    if isinstance(plugin, EquivalentScore) and (reads := plugin.score_reads) is not None:
        absolute = traits_of(plugin).absolute
        key, concerns = plugin.score_key, _concerns(plugin)
        return Declaration(plugin.name, reads, key, weight, absolute, concerns)
    return Declaration(plugin.name, None, _undeclared(plugin), weight)


def _undeclared(plugin: Plugin) -> Callable[[PodInfo], Key]:
    """The same key for all pods that concern the plugin, whose answers are never kept.

    None for all others: the plugin does not judge them.
    """
    if not isinstance(plugin, InterestedPlugin):
        return _concerned
    concerns = plugin.concerns
    return lambda pod: "" if concerns(pod) else None


def _concerns(plugin: Plugin) -> Callable[[PodInfo], bool] | None:
    return plugin.concerns if isinstance(plugin, InterestedPlugin) else None


def _concerned(pod: PodInfo) -> Key:
    return ""
