"""NUMA nodes of the embedded API server: kubelets that may refuse, agents that publish NRTs."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterable
from types import TracebackType
from typing import Any, Self

import msgspec

from sandbox.errors import ApiError
from sandbox.numa.definition import CRD
from sandbox.numa.kubelet import NumaKubelet
from sandbox.numa.publishing import topology
from sandbox.numa.settings import PublisherSettings
from sandbox.patching import MERGE
from sandbox.registry import Registry
from sandbox.resources import Resource
from sandbox.store import Body
from scheduler.model.objects import from_dict
from scheduler.model.pods import Pod


class NumaNodes:
    """Admission for ``Kubelets``, and an agent per node; ``async with`` runs the agents.

    Nodes that are not among ``kubelets`` have no cells and take every pod. An agent publishes every
    ``publish_seconds``, and not all at once; the first objects are there when the block begins.
    """

    def __init__(
        self,
        registry: Registry,
        kubelets: Iterable[NumaKubelet],
        *,
        publish_seconds: float = 10.0,
        publisher: PublisherSettings | None = None,
    ) -> None:
        self._registry = registry
        self.kubelets = {kubelet.name: kubelet for kubelet in kubelets}
        self._publish_seconds = publish_seconds
        self._publisher = publisher or PublisherSettings()
        self._task: asyncio.Task[None] | None = None
        self.refused = 0
        """Pods that were not let in."""

    async def __aenter__(self) -> Self:
        for name in self.kubelets:
            self.publish(name)
        self._task = asyncio.create_task(self._run(), name="topology agents")
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self) -> None:
        while self.kubelets:
            for name in self.kubelets:
                await asyncio.sleep(self._publish_seconds / len(self.kubelets))
                # Somebody may be deleting the object or its definition; the next round is near.
                with contextlib.suppress(ApiError):
                    self.publish(name)

    # Admission

    def admit(self, node: str, pod: Body) -> tuple[str, str] | None:
        kubelet = self.kubelets.get(node)
        if kubelet is None or pod["metadata"]["uid"] in kubelet:
            return None
        try:
            refusal = kubelet.admit(from_dict(pod, Pod))
        except (msgspec.ValidationError, ValueError) as fault:
            return "UnexpectedAdmissionError", f"Pod was rejected: {fault}"
        if refusal is None:
            return None
        self.refused += 1
        return refusal.reason, refusal.message

    def started(self, node: str, uid: str) -> None:
        if kubelet := self.kubelets.get(node):
            kubelet.started(uid)

    def ended(self, node: str, uid: str) -> None:
        if kubelet := self.kubelets.get(node):
            kubelet.release(uid)

    def gone(self, node: str, uid: str) -> None:
        if kubelet := self.kubelets.get(node):
            kubelet.forget(uid)

    # Agents

    def publish(self, node: str) -> None:
        """Write a node's NRT as its agent sees it now."""
        resource = self._resource()
        body = topology(self.kubelets[node], self._publisher)
        key = ("", node)
        if self._registry.table(resource).get(key) is None:
            self._registry.create(resource, "", body)
        else:
            self._registry.patch(resource, key, MERGE, body)

    def _resource(self) -> Resource:
        """The served NRT, defined if nobody has done so."""
        catalog = self._registry.catalog
        spec: dict[str, Any] = CRD["spec"]
        plural = spec["names"]["plural"]
        if catalog.find(spec["group"], "v1alpha2", plural) is None:
            definitions = self._registry.builtin(
                "customresourcedefinitions", "apiextensions.k8s.io"
            )
            self._registry.create(definitions, "", msgspec.to_builtins(CRD))
        found = catalog.find(spec["group"], "v1alpha2", plural)
        assert found is not None, "it has just been defined"
        return found
