"""Who owns whom, by uid, over all kinds: kept from the changes of the store, never searched."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from sandbox.store import Body, Key, Store, Version


class OwnerAddress(NamedTuple):
    """Where an object is: the name of its table, and its key there."""

    table: str
    key: Key


def owner_references(body: Body) -> list[dict[str, Any]]:
    """The owner references that are well formed enough to name an owner."""
    listed = body["metadata"].get("ownerReferences") or ()
    return [each for each in listed if isinstance(each, dict) and each.get("uid")]


def controller_of(body: Body) -> dict[str, Any] | None:
    """The reference to the object that manages this one."""
    return next((each for each in owner_references(body) if each.get("controller")), None)


def reference_to(owner: Body) -> dict[str, Any]:
    """The reference that a controller gives to what it makes."""
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }


class Ownership:
    """Owners and dependents of all followed tables."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._alive: dict[str, OwnerAddress] = {}
        self._dependents: dict[str, dict[OwnerAddress, None]] = {}
        self._owners: dict[OwnerAddress, tuple[str, ...]] = {}

    def set(self, address: OwnerAddress, version: Version) -> None:
        """An object is there, with these owners."""
        self._alive[version.body["metadata"]["uid"]] = address
        owners = tuple(each["uid"] for each in owner_references(version.body))
        if owners == self._owners.get(address, ()):
            return
        self._leave(address)
        self._owners[address] = owners
        for uid in owners:
            self._dependents.setdefault(uid, {})[address] = None

    def remove(self, address: OwnerAddress, version: Version) -> None:
        """An object is gone."""
        uid = version.body["metadata"]["uid"]
        if self._alive.get(uid) == address:
            del self._alive[uid]
        self._leave(address)

    def clear(self) -> None:
        """Forget everything, to read it all again."""
        self._alive.clear()
        self._dependents.clear()
        self._owners.clear()

    def where(self, uid: str) -> OwnerAddress | None:
        """Where the object with this uid is, if it is there."""
        return self._alive.get(uid)

    def dependents(self, uid: str) -> list[OwnerAddress]:
        """What the object owns, the oldest reference first."""
        return list(self._dependents.get(uid, ()))

    def read(self, address: OwnerAddress) -> Version | None:
        """The object as it is now."""
        return self._store.table(address.table).get(address.key)

    def controlled(self, uid: str, table: str) -> Iterator[Version]:
        """The objects of a table that the object with this uid manages."""
        for address in self._dependents.get(uid, ()):
            if address.table != table or (found := self.read(address)) is None:
                continue
            manager = controller_of(found.body)
            if manager is not None and manager["uid"] == uid:
                yield found

    def _leave(self, address: OwnerAddress) -> None:
        for uid in self._owners.pop(address, ()):
            owned = self._dependents.get(uid)
            if owned is not None:
                owned.pop(address, None)
                if not owned:
                    del self._dependents[uid]
