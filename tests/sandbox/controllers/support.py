"""A registry with nodes, kubelets, controllers, and a scheduler that takes the first node."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from sandbox.controllers.manager import controller_manager
from sandbox.kubelets import Kubelets
from sandbox.patching import MERGE
from sandbox.registry import Registry
from sandbox.store import Body, Version
from tests.patience import PATIENCE

GROUPS = {"jobs": "batch", "poddisruptionbudgets": "policy"}
CORE = ("pods", "nodes", "configmaps", "namespaces", "events", "persistentvolumeclaims")


class World:
    """What tests do to a registry, and what they see in it."""

    def __init__(self, registry: Registry) -> None:
        self.registry = registry

    def group(self, plural: str) -> str:
        return "" if plural in CORE else GROUPS.get(plural, "apps")

    def create(self, plural: str, name: str, spec: Body, **metadata: Any) -> Version:
        resource = self.registry.builtin(plural, self.group(plural))
        namespace = "default" if resource.namespaced else ""
        body = {"metadata": {"name": name, **metadata}, "spec": spec}
        return self.registry.create(resource, metadata.get("namespace", namespace), body)

    def get(self, plural: str, name: str, namespace: str = "default") -> Body | None:
        resource = self.registry.builtin(plural, self.group(plural))
        key = (namespace if resource.namespaced else "", name)
        found = self.registry.table(resource).get(key)
        return found.body if found is not None else None

    def change(self, plural: str, name: str, patch: Body) -> None:
        resource = self.registry.builtin(plural, self.group(plural))
        key = ("default" if resource.namespaced else "", name)
        self.registry.patch(resource, key, MERGE, patch)

    def delete(self, plural: str, name: str, policy: str = "Background") -> None:
        resource = self.registry.builtin(plural, self.group(plural))
        options = {"propagationPolicy": policy}
        self.registry.delete(resource, ("default", name), options)

    def all(self, plural: str, namespace: str = "default") -> list[Body]:
        resource = self.registry.builtin(plural, self.group(plural))
        bodies = (each.body for each in self.registry.table(resource).list_at())
        return [each for each in bodies if each["metadata"].get("namespace", "") in (namespace, "")]

    def status(self, plural: str, name: str) -> Body:
        found = self.get(plural, name)
        return (found or {}).get("status") or {}

    def pods(self) -> list[str]:
        return [pod["metadata"]["name"] for pod in self.all("pods")]

    def images(self) -> list[str]:
        return sorted({pod["spec"]["containers"][0]["image"] for pod in self.all("pods")})

    def reasons(self) -> set[str]:
        return {event["reason"] for event in self.all("events")}

    def history(self, plural: str) -> list[dict[str, Body]]:
        """The objects by name as they were after each write, the first write first."""
        table = self.registry.table(self.registry.builtin(plural, self.group(plural)))
        now: dict[str, Body] = {}
        states = []
        for change in table.changes(0) or ():
            now = {name: body for name, body in now.items() if name != change.key[1]}
            if change.after is not None:
                now[change.key[1]] = change.after.body
            states.append(now)
        return states

    def removed(self, plural: str) -> list[int]:
        """The revisions at which objects went."""
        table = self.registry.table(self.registry.builtin(plural, self.group(plural)))
        return [change.revision for change in table.changes(0) or () if change.after is None]

    async def until(self, condition: Callable[[], Any]) -> None:
        """Return when something holds; looks after every write."""
        written = self.registry.store
        async with asyncio.timeout(PATIENCE):
            seen = -1
            while not condition():
                while written.revision == seen:  # noqa: ASYNC110  any table may have changed
                    await asyncio.sleep(0.005)
                seen = written.revision


def template(image: str = "web:1", **spec: Any) -> Body:
    containers = [{"name": "c", "image": image, **spec.pop("container", {})}]
    return {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": containers, **spec}}


def workload(replicas: int, image: str = "web:1", **more: Any) -> Body:
    return {
        "replicas": replicas,
        "selector": {"matchLabels": {"app": "web"}},
        "template": template(image),
        **more,
    }


@asynccontextmanager
async def world(nodes: int = 3, *, scheduled: bool = True) -> AsyncIterator[World]:
    registry = Registry()
    found = World(registry)
    for i in range(nodes):
        found.create("nodes", f"n{i}", {})
    async with Kubelets(registry, finish_seconds=0.0), controller_manager(registry):
        binder = asyncio.create_task(_bind_all(registry)) if scheduled else None
        try:
            yield found
        finally:
            if binder is not None:
                binder.cancel()
                await asyncio.gather(binder, return_exceptions=True)


async def _bind_all(registry: Registry) -> None:
    """Bind each pod to the node that it names by affinity, else to the first."""
    pods, woken = registry.table(registry.builtin("pods")), asyncio.Event()
    pods.wakers[woken] = None
    while True:
        woken.clear()
        for pod in list(pods.current.values()):
            if not pod.body["spec"].get("nodeName"):
                target = {"kind": "Node", "name": _node(pod.body)}
                with contextlib.suppress(Exception):  # gated or in deletion
                    registry.bind(pod.key[0], {"metadata": {"name": pod.key[1]}, "target": target})
        await woken.wait()


def _node(pod: Body) -> str:
    affinity = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    required = affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}
    for term in required.get("nodeSelectorTerms") or ():
        for field in term.get("matchFields") or ():
            return str(field["values"][0])
    return "n0"
