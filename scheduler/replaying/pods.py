"""Objects of a recording as they come and go, and the versions of pods that steps name."""

from __future__ import annotations

from typing import Any

from scheduler.model.limits import PodLimits
from scheduler.model.objects import KINDS, Change
from scheduler.model.podinfo import PodInfo
from scheduler.model.pods import Pod
from scheduler.recording.reader import as_object

_KEPT_VERSIONS = 8
"""Of a pod that waits: an attempt looks at the version that was newest when it began."""


class RecordedObjects:
    """All objects, as the scheduler knew them at the current step."""

    def __init__(self, limits: PodLimits) -> None:
        self._limits = limits
        self._stores: dict[str, dict[str, Any]] = {}
        self._infos: dict[str, dict[str, PodInfo]] = {}
        """Versions of pods that wait, by uid and resourceVersion, the newest last."""
        self.unknown: set[str] = set()
        """Kinds that this version does not know."""

    def change(self, kind: str, key: str, value: Any) -> Change[Any] | None:
        """Take a change over; None if there is nothing to apply."""
        if kind not in KINDS:
            self.unknown.add(kind)
            return None
        store = self._stores.setdefault(kind, {})
        new = None if value is None else as_object(value, kind, key, KINDS[kind].type)
        old = store.pop(key, None) if new is None else store.get(key)
        if new is not None:
            store[key] = new
        if kind == Pod.__name__:
            self._keep_version(old, new)
        return None if old is None and new is None else Change(old, new)

    def pod(self, key: str) -> Pod | None:
        """The newest version of a pod."""
        found: Pod | None = self._stores.get(Pod.__name__, {}).get(key)
        return found

    def info(self, uid: str, version: str = "") -> PodInfo | None:
        """A version of a pod that waits, or the newest; None if it is not known."""
        versions = self._infos.get(uid)
        if not versions:
            return None
        return versions.get(version) if version else next(reversed(versions.values()))

    def _keep_version(self, old: Pod | None, new: Pod | None) -> None:
        if new is None:
            if old is not None:
                self._infos.pop(old.metadata.uid, None)
            return
        metadata = new.metadata
        versions = self._infos.setdefault(metadata.uid, {})
        versions[metadata.resource_version] = PodInfo(new, self._limits)
        while len(versions) > (1 if new.spec.node_name else _KEPT_VERSIONS):
            del versions[next(iter(versions))]
