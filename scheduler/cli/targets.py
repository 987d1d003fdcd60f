"""What a command is about: a pod, or a workload and its pods."""

from __future__ import annotations

from typing import NamedTuple

import click

POD = "Pod"

KINDS = {
    POD: ("pod", "pods", "po"),
    "Deployment": ("deployment", "deployments", "deploy"),
    "StatefulSet": ("statefulset", "statefulsets", "sts"),
    "ReplicaSet": ("replicaset", "replicasets", "rs"),
    "DaemonSet": ("daemonset", "daemonsets", "ds"),
    "Job": ("job", "jobs"),
    "PodGroup": ("podgroup", "podgroups", "pg"),
}
"""How kubectl names the kinds."""
_BY_NAME = {name: kind for kind, names in KINDS.items() for name in names}


class Target(NamedTuple):
    """Kind, namespace and name; the namespace is empty if none was named."""

    kind: str
    namespace: str
    name: str

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return f"{self.namespace}/{self.name}"

    def __str__(self) -> str:
        return f"{self.kind.lower()} {self.key}"


def parse_target(given: str, namespace: str | None) -> Target:
    """``name``, ``namespace/name`` or ``kind/name``; a kind is meant where both may be."""
    first, slash, name = given.partition("/")
    kind = POD
    if not slash:
        first, name = "", given
    elif first.lower() in _BY_NAME:
        kind, first = _BY_NAME[first.lower()], ""
    if not name or "/" in name or (slash and not first and given.startswith("/")):
        raise click.UsageError(f"expected a name, namespace/name or kind/name, not {given!r}")
    if first and namespace and first != namespace:
        kinds = ", ".join(kind.lower() for kind in KINDS)
        raise click.UsageError(
            f"{given}: {first!r} is neither the namespace {namespace!r} "
            f"nor one of the kinds {kinds}"
        )
    return Target(kind, first or namespace or "", name)


def parse_pod(given: str, namespace: str | None) -> Target:
    """Like `parse_target`, where only pods will do."""
    target = parse_target(given, namespace)
    if target.kind != POD:
        raise click.UsageError(f"expected a pod, not {given!r}")
    return target
