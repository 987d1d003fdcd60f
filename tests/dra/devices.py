"""Devices on an embedded API server: the vocabulary of the scenarios."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable
from typing import Any

from sandbox.apiserver import ApiServer
from tests.builders import Json, PodBuilder, make_pod
from tests.daemon.support import Cluster

GROUP = "resource.k8s.io"
GROUP_LABEL = "resource.kubernetes.io"
DRIVER = "gpu.example.com"


def device_class(name: str = "gpu", **spec: Any) -> Json:
    selector = {"cel": {"expression": f'device.driver == "{DRIVER}"'}}
    return {"metadata": {"name": name}, "spec": {"selectors": [selector], **spec}}


def slice_of(node: str, count: int = 2, **more: Any) -> Json:
    """The devices of one node."""
    devices = [{"name": f"gpu-{i}", **more} for i in range(count)]
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": DRIVER, "pool": pool, "nodeName": node, "devices": devices}
    return {"metadata": {"name": f"{node}-gpus"}, "spec": spec}


def claim(name: str, count: int = 1) -> Json:
    exactly = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": count}
    requests = [{"name": "r", "exactly": exactly}]
    metadata = {"name": name, "namespace": "default"}
    return {"metadata": metadata, "spec": {"devices": {"requests": requests}}}


def using(name: str, *claims: str) -> PodBuilder:
    """A pod with claims by name."""
    entries = [{"name": f"c{i}", "resourceClaimName": each} for i, each in enumerate(claims)]
    return make_pod(name).spec(resourceClaims=entries)


class DeviceCluster(Cluster):
    """A cluster with claims, slices and classes."""

    def __init__(self, server: ApiServer) -> None:
        super().__init__(server)
        registry = self._registry
        self._kinds = {
            kind: registry.builtin(kind, GROUP)
            for kind in ("resourceclaims", "resourceslices", "deviceclasses")
        }

    def publish(self, *slices: Json) -> None:
        for each in slices:
            self._registry.create(self._kinds["resourceslices"], "", copy.deepcopy(each))

    def classes(self, *classes: Json) -> None:
        for each in classes:
            self._registry.create(self._kinds["deviceclasses"], "", copy.deepcopy(each))

    def claim(self, *claims: Json) -> None:
        for each in claims:
            self._registry.create(self._kinds["resourceclaims"], "default", copy.deepcopy(each))

    def let_administrators_look(self) -> None:
        """Allow claims with admin access."""
        body = {"metadata": {"name": "default", "labels": {f"{GROUP_LABEL}/admin-access": "true"}}}
        self._registry.update(self._registry.builtin("namespaces"), ("", "default"), body)

    def claims(self) -> dict[str, Json]:
        """All claims, by name."""
        table = self._registry.table(self._kinds["resourceclaims"])
        return {key[1]: version.body for key, version in table.current.items()}

    def change_claim(
        self, name: str, change: Callable[[Json], None], subresource: str = ""
    ) -> None:
        body = copy.deepcopy(self.claims()[name])
        change(body)
        self._registry.update(self._kinds["resourceclaims"], ("default", name), body, subresource)

    def delete_claim(self, name: str) -> None:
        self._registry.delete(self._kinds["resourceclaims"], ("default", name))

    def devices_of(self, name: str) -> list[str]:
        """The devices that a claim holds, as ``pool/device``."""
        allocation = self.claims()[name].get("status", {}).get("allocation")
        results = allocation["devices"]["results"] if allocation else []
        return [f"{each['pool']}/{each['device']}" for each in results]

    def consumers(self, name: str) -> list[str]:
        """The pods that a claim is reserved for."""
        status = self.claims()[name].get("status", {})
        return [each["name"] for each in status.get("reservedFor", ())]

    def given_twice(self) -> list[str]:
        """Devices that more than one claim holds."""
        held = Counter(device for name in self.claims() for device in self.devices_of(name))
        return [device for device, count in held.items() if count > 1]
