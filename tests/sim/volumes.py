"""The volume controller and a provisioner, as far as claims of plans need them."""

from __future__ import annotations

import asyncio

from sandbox.errors import ApiFailure
from sandbox.patching import MERGE
from sandbox.registry import Registry
from sandbox.store import Body, Version
from scheduler.model.volumes import BIND_COMPLETED, SELECTED_NODE
from tests.sim import objects

LOOK_SECONDS = 0.5


class VolumeController:
    """Completes what the scheduler has chosen; `run` it in a task of the world's host."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._claims = registry.builtin("persistentvolumeclaims")
        self._volumes = registry.builtin("persistentvolumes")

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            for claim in list(self._registry.table(self._claims).current.values()):
                if not claim.body["spec"].get("volumeName"):
                    try:
                        self._sync(claim)
                    except ApiFailure:
                        continue  # changed meanwhile: the next look is near

    def _sync(self, claim: Version) -> None:
        volume = self._promised(claim.body)
        if volume is not None:
            self._bind(claim, volume)
            return
        annotations = claim.body["metadata"].get("annotations") or {}
        if claim.body["spec"].get("storageClassName") == objects.REMOTE and (
            node := annotations.get(SELECTED_NODE)
        ):
            self._provision(claim, node)

    def _promised(self, claim: Body) -> Version | None:
        uid = claim["metadata"]["uid"]
        for volume in self._registry.table(self._volumes).current.values():
            if (volume.body["spec"].get("claimRef") or {}).get("uid") == uid:
                return volume
        return None

    def _bind(self, claim: Version, volume: Version) -> None:
        patch = {
            "metadata": {"annotations": {BIND_COMPLETED: "yes"}},
            "spec": {"volumeName": volume.key[1]},
        }
        self._registry.patch(self._claims, claim.key, MERGE, patch)
        bound = {"status": {"phase": "Bound"}}
        self._registry.patch(self._claims, claim.key, MERGE, bound, "status")
        self._registry.patch(self._volumes, volume.key, MERGE, bound, "status")

    def _provision(self, claim: Version, node: str) -> None:
        if self._registry.store.table("nodes").get(("", node)) is None:
            nothing = {"metadata": {"annotations": {SELECTED_NODE: None}}}
            self._registry.patch(self._claims, claim.key, MERGE, nothing)
            return
        metadata = claim.body["metadata"]
        reference = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "namespace": claim.key[0],
            "name": claim.key[1],
            "uid": metadata["uid"],
        }
        name = f"pv-{metadata['uid']}"
        body = objects.volume(name, node, objects.REMOTE, reference)
        self._registry.create(self._volumes, "", body)
