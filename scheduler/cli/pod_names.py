"""How a pod is named on the command line."""

from __future__ import annotations

import click

_PREFIXES = ("pod", "pods", "po")


def pod_name(given: str, namespace: str | None) -> tuple[str, str]:
    """Namespace and name of ``name``, ``namespace/name`` or ``pod/name``."""
    first, slash, name = given.partition("/")
    if not slash:
        first, name = "", given
    elif first in _PREFIXES:
        first = ""
    if not name or "/" in name or (slash and not first and given.startswith("/")):
        raise click.UsageError(f"POD is a name, namespace/name or pod/name, not {given!r}")
    if first and namespace and first != namespace:
        raise click.UsageError(f"{given} is not in namespace {namespace}")
    return first or namespace or "default", name
