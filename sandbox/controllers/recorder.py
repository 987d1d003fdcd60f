"""Events of the controllers, as `kubectl describe` shows them; equal ones are counted."""

from __future__ import annotations

import contextlib

from sandbox.errors import ApiFailure
from sandbox.patching import MERGE
from sandbox.registry import Registry, timestamp
from sandbox.store import Body, Key

_REMEMBERED = 1024
_LONGEST = 1024


class ControllerEvents:
    """Writes Events for one component."""

    def __init__(self, registry: Registry, component: str) -> None:
        self._registry = registry
        self._component = component
        self._recent: dict[tuple[str, str, str], Key] = {}

    def normal(self, about: Body, reason: str, message: str) -> None:
        """Something was done."""
        self._record(about, "Normal", reason, message)

    def warn(self, about: Body, reason: str, message: str) -> None:
        """Something cannot be done."""
        self._record(about, "Warning", reason, message)

    def _record(self, about: Body, kind: str, reason: str, message: str) -> None:
        metadata, message = about["metadata"], message[:_LONGEST]
        same = (metadata["uid"], reason, message)
        # An Event that cannot be written, in a namespace that is being deleted, is left out.
        with contextlib.suppress(ApiFailure):
            if not self._count_again(same):
                self._remember(same, self._create(about, kind, reason, message))

    def _count_again(self, same: tuple[str, str, str]) -> bool:
        key = self._recent.get(same)
        resource = self._registry.builtin("events")
        found = self._registry.table(resource).get(key) if key is not None else None
        if key is None or found is None:
            return False
        counted = int(found.body.get("deprecatedCount") or 1) + 1
        patch = {"count": counted, "lastTimestamp": timestamp(self._registry.clock())}
        self._registry.patch(resource, key, MERGE, patch)
        return True

    def _remember(self, same: tuple[str, str, str], key: Key) -> None:
        self._recent[same] = key
        if len(self._recent) > _REMEMBERED:
            del self._recent[next(iter(self._recent))]

    def _create(self, about: Body, kind: str, reason: str, message: str) -> Key:
        metadata, now = about["metadata"], timestamp(self._registry.clock())
        namespace = metadata.get("namespace", "default")
        created = self._registry.create(
            self._registry.builtin("events"),
            namespace,
            {
                "metadata": {"generateName": f"{metadata['name']}.", "namespace": namespace},
                "involvedObject": {
                    "apiVersion": about["apiVersion"],
                    "kind": about["kind"],
                    "name": metadata["name"],
                    "namespace": namespace,
                    "uid": metadata["uid"],
                },
                "type": kind,
                "reason": reason,
                "message": message,
                "source": {"component": self._component},
                "reportingComponent": self._component,
                "count": 1,
                "firstTimestamp": now,
                "lastTimestamp": now,
            },
        )
        return created.key
