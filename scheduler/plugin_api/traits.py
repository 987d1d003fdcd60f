"""Traits: guarantees about a plugin's answers, besides the methods that it has."""

from __future__ import annotations

import dataclasses
import difflib
from dataclasses import dataclass
from typing import Any, Self


@dataclass(frozen=True, slots=True, kw_only=True)
class PluginTraits:
    """The traits of a plugin, as its class attribute ``traits``; all default to False.

    They are read once, when the plugin is registered. A trait that does not exist is a TypeError.
    """

    row_by_row: bool = False
    """``filter``: the verdict on a row depends on nothing but the node and the pods on that row."""
    by_sums: bool = False
    """``filter``: of the pods on a row, only ``requested`` and ``pod_count`` are read."""
    absolute: bool = False
    """``score``: raw scores are final, in 0..100; ``normalize`` is left out."""
    unbounded: bool = False
    """``score``: scores may be outside 0..100, as those of extenders in kube-scheduler."""
    comparable: bool = False
    """``sort_key``: any two keys can be compared, without an exception."""
    answers_for_class: bool = False
    """``after_filter``, ``post_filter``, ``post_score``: the answer is the same for all pods of a
    class without nomination, while nothing changes."""
    own_accounting: bool = False
    """``filter``: the plugin has its own record of the pods on nodes, which trials do not change;
    its verdict on a pod's own node may count the pod itself."""
    skips_reserve: bool = False
    """``reserve``, ``pre_bind_pre_flight``: there is nothing to reserve for a pod that the filter
    skips (``pre_filter`` says Skip, or the key is None), nor to write before it is bound. The
    plugin is not called for it."""
    asks_if_stale: bool = False
    """``bind``: asks `STALE` immediately before each request, as `Outlet.bind` does if it is given
    that. Else the decision is checked only before the plugin is called."""
    remote: bool = False
    """The plugin answers from another process, and may suspend an attempt (`webhooks`)."""

    def __new__(cls, *args: Any, **traits: Any) -> Self:
        """Name the trait that was probably meant."""
        known = [field.name for field in dataclasses.fields(cls)]
        for name in traits:
            if name not in known:
                raise TypeError(f"there is no trait {name!r}{suggestion(name, known)}")
        return object.__new__(cls)


NO_TRAITS = PluginTraits()


def suggestion(name: str, known: list[str], cutoff: float = 0.6) -> str:
    """The known name that is closest, as the end of a message; empty if none is close."""
    close = difflib.get_close_matches(name, known, 1, cutoff)
    return f"; did you mean {close[0]!r}?" if close else ""
