"""Plugins made of functions: ``register("pre-filter", function)``.

A function is registered at an extension point, under the name of a plugin. Functions of one name
are one plugin, which a profile enables like any other; plugins run in the order in which profiles
list them, so list them as they were registered if that is the order you mean.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

from scheduler.equivalence.reads import Key, Reads
from scheduler.model.podinfo import PodInfo
from scheduler.model.status import SUCCESS, Status
from scheduler.plugin_api.cycle import Cycle
from scheduler.plugin_api.extension_points import POINTS
from scheduler.plugin_api.handle import PluginFactory
from scheduler.state.columns import Scores

F = TypeVar("F", bound=Callable[..., Any])

_ALIASES = {
    "queue_sort": "sort_key",
    "normalize_score": "normalize",
    "scoring": "score",
    "post_scoring": "post_score",
    "pre_reservation": "post_score",
    "reject": "unreserve",
}
"""Other names of methods: those of the first design, and those of kube-scheduler."""

_METHODS = {
    *(point.method for point in POINTS.values()),
    *("filter_node", "filter_one", "score_node", "score_one", "normalize", "less", "unreserve"),
    *("add_pod", "remove_pod", "hints"),
}


class RegistrationError(ValueError):
    """A function that cannot be registered so; the message names it."""


class Registrations:
    """Functions by plugin and point, in the order registered."""

    def __init__(self) -> None:
        self._members: dict[str, dict[str, Any]] = {}

    def register(
        self,
        point: str,
        function: Callable[..., Any],
        *,
        name: str = "",
        reads: Reads | None = None,
        key: Callable[[PodInfo], Key] | None = None,
    ) -> None:
        """Have a function called at a point: ``pre-filter``, ``preFilter`` or ``pre_filter``.

        The plugin's name is the function's, or that of the object whose method it is, unless
        ``name`` gives another. Besides the points, the simple methods (``filter-node``,
        ``score-node``, ``less``), ``normalize``, ``unreserve`` (``reject``), ``add-pod``,
        ``remove-pod`` and ``hints`` are registered likewise. At ``queue-sort`` a function of two
        pods is ``less``, of one it gives a key. With ``reads`` and ``key`` a filter or score says
        what it depends on.
        """
        if not callable(function):
            raise RegistrationError(f"{function!r} is registered at {point!r} and is no function")
        method = _method(point, function)
        plugin = name or _plugin_name(function)
        members = self._members.setdefault(plugin, {})
        if method in members:
            raise RegistrationError(f"plugin {plugin!r} has two functions at {point!r}")
        members[method] = staticmethod(function)
        stem = method.split("_")[0]
        if reads is not None:
            if stem not in {"filter", "score"} or key is None:
                raise RegistrationError(
                    f"plugin {plugin!r} at {point!r}: reads and key go together, with a filter or "
                    "a score"
                )
            members[f"{stem}_reads"] = reads
            members[f"{stem}_key"] = staticmethod(key)

    def plugins(self) -> dict[str, PluginFactory]:
        """A plugin for each name, in the order of their first functions."""
        return {name: _made(name, members) for name, members in self._members.items()}


def register(
    point: str,
    function: F,
    *,
    name: str = "",
    reads: Reads | None = None,
    key: Callable[[PodInfo], Key] | None = None,
) -> F:
    """The same as ``Registrations.register``, for the plugin file that is being loaded."""
    current = _current.get()
    if current is None:
        raise RegistrationError(
            f"register({point!r}, …) works while a plugin file is loaded; elsewhere make a "
            "Registrations of your own"
        )
    current.register(point, function, name=name, reads=reads, key=key)
    return function


@contextmanager
def collecting() -> Iterator[Registrations]:
    """Collect what is registered within a block."""
    found = Registrations()
    token = _current.set(found)
    try:
        yield found
    finally:
        _current.reset(token)


_current: ContextVar[Registrations | None] = ContextVar("registrations", default=None)


def _method(point: str, function: Callable[..., Any]) -> str:
    snake = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", point).replace("-", "_").lower()
    method = _ALIASES.get(snake, snake)
    if method == "sort_key" and _takes(function) == 2:
        method = "less"
    if method not in _METHODS:
        known = ", ".join(sorted(each.replace("_", "-") for each in _METHODS))
        raise RegistrationError(f"there is no extension point {point!r}; there are {known}")
    return method


def _takes(function: Callable[..., Any]) -> int:
    try:
        return len(inspect.signature(function).parameters)
    except (TypeError, ValueError):  # some built-in functions have no signature
        return 0


def _plugin_name(function: Callable[..., Any]) -> str:
    owner = getattr(function, "__self__", None)
    if owner is not None and not inspect.ismodule(owner):
        name = getattr(owner, "name", None)
        return name if isinstance(name, str) and name else type(owner).__name__
    return getattr(function, "__name__", type(function).__name__)


def _made(name: str, members: dict[str, Any]) -> PluginFactory:
    body = {"name": name, "__init__": _nothing, "__doc__": f"Functions registered as {name}."}
    body |= members
    if "unreserve" in body or "reserve" in body:
        body.setdefault("reserve", _agree)
        body.setdefault("unreserve", _nothing)
    if "score" in body:
        body.setdefault("normalize", _as_they_are)
    return type(name, (), body)


def _agree(self: object, cycle: Cycle, node: str) -> Status:
    return SUCCESS


def _as_they_are(self: object, cycle: Cycle, scores: Scores) -> Scores:
    return scores


def _nothing(self: object, cycle: Any, node: Any) -> None:
    """Takes what the constructor and ``unreserve`` are given, and does nothing."""
