"""All functions by name, as the compiler calls them."""

from __future__ import annotations

from collections.abc import Callable

from scheduler.cel import (
    arithmetic,
    authorization,
    conversions,
    formats,
    formatting,
    kubernetes,
    lists,
    network,
    patterns,
    texts,
    times,
    urls,
)
from scheduler.cel.values import Value

FUNCTIONS: dict[str, Callable[..., Value]] = {
    **arithmetic.OPERATORS,
    **authorization.FUNCTIONS,
    **conversions.FUNCTIONS,
    **formats.FUNCTIONS,
    **formatting.FUNCTIONS,
    **kubernetes.FUNCTIONS,
    **lists.FUNCTIONS,
    **network.FUNCTIONS,
    **patterns.FUNCTIONS,
    **texts.FUNCTIONS,
    **times.FUNCTIONS,
    **urls.FUNCTIONS,
}
