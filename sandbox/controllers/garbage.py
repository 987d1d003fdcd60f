"""Deletes what has lost its owners; cascades in the foreground, orphans.

```
 DELETE, background ──► owner gone ──► its dependents are deleted
 DELETE, foreground ──► owner waits (finalizer) ──► dependents deleted ──► gone: owner goes
 DELETE, orphan ──────► owner waits (finalizer) ──► dependents lose the reference ──► owner goes
```
An owner of a kind that the cluster does not serve may exist elsewhere: what it owns is kept.
"""

from __future__ import annotations

import contextlib
from typing import Any

from sandbox.controllers.ownership import OwnerAddress, Ownership, owner_references
from sandbox.deletion import FOREGROUND, ORPHAN
from sandbox.errors import ApiFailure
from sandbox.patching import MERGE
from sandbox.registry import Registry
from sandbox.resources import Resource
from sandbox.store import Version

_BATCH = 32
"""Deletions between two returns to the event loop."""


class GarbageCollector:
    """Collects a little at each call."""

    def __init__(self, registry: Registry, ownership: Ownership) -> None:
        self._registry = registry
        self._ownership = ownership
        self._suspects: dict[OwnerAddress, None] = {}
        self._leaving: dict[OwnerAddress, None] = {}
        self._blocked: set[OwnerAddress] = set()

    def see(self, address: OwnerAddress, version: Version) -> None:
        """An object was written."""
        references = owner_references(version.body)
        if any(self._ownership.where(each["uid"]) is None for each in references):
            self._suspects[address] = None
        metadata = version.body["metadata"]
        if "deletionTimestamp" in metadata and metadata.get("finalizers"):
            self._leaving[address] = None

    def lose(self, address: OwnerAddress, last: Version) -> None:
        """An object is gone; called while it is still known as an owner."""
        for dependent in self._ownership.dependents(last.body["metadata"]["uid"]):
            self._suspects[dependent] = None
        for reference in owner_references(last.body):
            owner = self._ownership.where(reference["uid"])
            if owner is not None and owner in self._blocked:
                self._leaving[owner] = None
        self._blocked.discard(address)

    def collect(self) -> bool:
        """Delete some of what is due; returns whether there is more."""
        for address in list(self._suspects)[:_BATCH]:
            del self._suspects[address]
            if self._is_ownerless(address):
                self._delete(address, "Background")
        for address in list(self._leaving)[:_BATCH]:
            del self._leaving[address]
            self._let_go(address)
        return bool(self._suspects or self._leaving)

    def _is_ownerless(self, address: OwnerAddress) -> bool:
        version = self._ownership.read(address)
        if version is None:
            return False
        references = owner_references(version.body)
        return bool(references) and all(
            self._ownership.where(each["uid"]) is None and self._is_served(each)
            for each in references
        )

    def _is_served(self, reference: dict[str, Any]) -> bool:
        named = (reference.get("apiVersion"), reference.get("kind"))
        return any((each.api_version, each.kind) == named for each in self._registry.catalog)

    # Owners that wait

    def _let_go(self, address: OwnerAddress) -> None:
        """Do what the finalizers of an object in deletion ask for; remove those that are done."""
        version = self._ownership.read(address)
        if version is None:
            return
        metadata = version.body["metadata"]
        finalizers = metadata.get("finalizers") or []
        if ORPHAN in finalizers:
            for dependent in self._ownership.dependents(metadata["uid"]):
                self._release(dependent, metadata["uid"])
            self._unblock(address, version, ORPHAN)
        elif FOREGROUND in finalizers:
            if self._blocks(metadata["uid"]):
                self._blocked.add(address)
            else:
                self._unblock(address, version, FOREGROUND)

    def _blocks(self, uid: str) -> bool:
        """Delete what an object owns; returns whether something still keeps it."""
        blocked = False
        for dependent in self._ownership.dependents(uid):
            version = self._ownership.read(dependent)
            if version is None:
                continue
            metadata = version.body["metadata"]
            references = owner_references(version.body)
            blocked |= any(
                each["uid"] == uid and bool(each.get("blockOwnerDeletion")) for each in references
            )
            shared = any(
                each["uid"] != uid and self._ownership.where(each["uid"]) for each in references
            )
            if "deletionTimestamp" not in metadata and not shared:
                owns = self._ownership.dependents(metadata["uid"])
                self._delete(dependent, "Foreground" if owns else "Background")
        return blocked

    def _release(self, dependent: OwnerAddress, uid: str) -> None:
        version, resource = self._ownership.read(dependent), self._resource(dependent)
        if version is not None and resource is not None:
            kept = [each for each in owner_references(version.body) if each["uid"] != uid]
            patch = {"metadata": {"ownerReferences": kept or None}}
            self._registry.patch(resource, dependent.key, MERGE, self._dated(version, patch))

    def _unblock(self, address: OwnerAddress, version: Version, finalizer: str) -> None:
        resource = self._resource(address)
        if resource is not None:
            kept = [each for each in version.body["metadata"]["finalizers"] if each != finalizer]
            patch = {"metadata": {"finalizers": kept or None}}
            self._registry.patch(resource, address.key, MERGE, self._dated(version, patch))

    def _dated(self, version: Version, patch: dict[str, Any]) -> dict[str, Any]:
        """The patch with the version it is meant for: some kinds take no others."""
        patch["metadata"]["resourceVersion"] = version.body["metadata"]["resourceVersion"]
        return patch

    def _delete(self, address: OwnerAddress, policy: str) -> None:
        resource, version = self._resource(address), self._ownership.read(address)
        if resource is None or version is None:
            return
        options = {
            "propagationPolicy": policy,
            "preconditions": {"uid": version.body["metadata"]["uid"]},
        }
        # The only refusal that is left is that of an object which may never be deleted.
        with contextlib.suppress(ApiFailure):
            self._registry.delete(resource, address.key, options)

    def _resource(self, address: OwnerAddress) -> Resource | None:
        return next((each for each in self._registry.catalog if each.table == address.table), None)
