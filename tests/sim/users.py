"""People: they write pods, groups and claims, and change their minds."""

from __future__ import annotations

from functools import singledispatchmethod

from sandbox.patching import MERGE
from sandbox.registry import Registry
from sandbox.resources import Resource
from sandbox.store import Body, Key
from tests.sim import objects
from tests.sim.plan import (
    AddClaim,
    AddGroup,
    AddNamespace,
    AddPod,
    AddVolume,
    DeleteClaim,
    DeleteGroup,
    DeleteNamespace,
    DeletePod,
    PodPlan,
    RecreatePod,
    RelabelPod,
    ResizePod,
    UngatePod,
    UserAction,
)

DEVICES = "resource.k8s.io"


class Users:
    """Performs what users do; raises `ApiFailure` where the API server refuses."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._pods = registry.builtin("pods")
        self._namespaces = registry.builtin("namespaces")
        self._claims = registry.builtin("resourceclaims", DEVICES)

    @singledispatchmethod
    def do(self, action: UserAction) -> None:
        raise NotImplementedError(type(action).__name__)

    @do.register
    def _(self, action: AddPod) -> None:
        self._submit(action.pod)

    def _submit(self, pod: PodPlan) -> None:
        self._registry.create(self._pods, pod.namespace, objects.pod(pod))

    @do.register
    def _(self, action: DeletePod) -> None:
        self._registry.delete(self._pods, (action.namespace, action.name))

    @do.register
    def _(self, action: RecreatePod) -> None:
        pod = action.pod
        key = (pod.namespace, pod.name)
        if self._registry.table(self._pods).get(key) is not None:
            self._registry.delete(self._pods, key, {"gracePeriodSeconds": 0})
        self._submit(pod)

    @do.register
    def _(self, action: RelabelPod) -> None:
        patch = {"metadata": {"labels": {"app": action.app}}}
        self._registry.patch(self._pods, (action.namespace, action.name), MERGE, patch)

    @do.register
    def _(self, action: ResizePod) -> None:
        """As pods/resize does, which the embedded server does not have: written past its rules."""
        key = (action.namespace, action.name)
        body = self._registry.get(self._pods, key).body
        container, *others = body["spec"]["containers"]
        resources = container.get("resources") or {}
        if "limits" in resources:
            return  # a pod that is pinned stays what it is
        requests = {**(resources.get("requests") or {}), "cpu": f"{action.cpu}m"}
        resized = {**container, "resources": {**resources, "requests": requests}}
        spec = {**body["spec"], "containers": [resized, *others]}
        generation = int(body["metadata"].get("generation", 1)) + 1
        metadata = {**body["metadata"], "generation": generation}
        self._registry.table(self._pods).put(key, {**body, "metadata": metadata, "spec": spec})

    @do.register
    def _(self, action: UngatePod) -> None:
        key = (action.namespace, action.name)
        body = self._registry.get(self._pods, key).body
        spec = {name: value for name, value in body["spec"].items() if name != "schedulingGates"}
        self._registry.update(self._pods, key, {**body, "spec": spec})

    @do.register
    def _(self, action: AddGroup) -> None:
        self._registry.create(self._groups(), action.namespace, objects.group(action))

    @do.register
    def _(self, action: DeleteGroup) -> None:
        self._registry.delete(self._groups(), (action.namespace, action.name))

    def _groups(self) -> Resource:
        found = self._registry.catalog.find("scheduling.x-k8s.io", "v1alpha1", "podgroups")
        assert found is not None, "the world has defined it"
        return found

    @do.register
    def _(self, action: AddClaim) -> None:
        self._registry.create(self._claims, action.namespace, objects.claim(action))

    @do.register
    def _(self, action: DeleteClaim) -> None:
        self._registry.delete(self._claims, (action.namespace, action.name))

    @do.register
    def _(self, action: AddVolume) -> None:
        claims = self._registry.builtin("persistentvolumeclaims")
        self._registry.create(claims, action.namespace, objects.volume_claim(action))
        if action.node:
            volume = objects.volume(f"{action.name}-local", action.node, objects.LOCAL)
            self._create("persistentvolumes", ("", volume["metadata"]["name"]), volume)

    def _create(self, plural: str, key: Key, body: Body) -> None:
        if self._registry.store.table(plural).get(key) is None:
            self._registry.create(self._registry.builtin(plural), key[0], body)

    @do.register
    def _(self, action: DeleteNamespace) -> None:
        self._registry.delete(self._namespaces, ("", action.name))

    @do.register
    def _(self, action: AddNamespace) -> None:
        self._registry.create(self._namespaces, "", {"metadata": {"name": action.name}})
