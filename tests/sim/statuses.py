"""Tells a replica what the status of PodGroups says, as kopf does, without kopf's thread."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from scheduler.kube.client import KubeClient
from scheduler.kube.errors import KubeError
from scheduler.model.objects import KINDS
from scheduler.operators.podgroups import Seen

RETRY_SECONDS = 1.0
SILENCE_SECONDS = 300.0


class ReflectedStatuses:
    """Lists and watches PodGroups; after any trouble it lists again."""

    def __init__(self, client: KubeClient) -> None:
        self._client = client
        self._path = KINDS["PodGroup"].path
        self._known: dict[str, None] = {}

    async def run(self, seen: Seen) -> str:
        """Tell until cancelled."""
        while True:
            try:
                await self._follow(seen, await self._list(seen))
            except KubeError:
                await asyncio.sleep(RETRY_SECONDS)

    async def _list(self, seen: Seen) -> str:
        answer = msgspec.json.decode(await self._client.request("GET", self._path))
        gone = dict(self._known)
        for item in answer["items"]:
            gone.pop(self._tell(seen, item), None)
        for key in gone:
            del self._known[key]
            seen(key, None)
        return str(answer["metadata"]["resourceVersion"])

    async def _follow(self, seen: Seen, version: str) -> None:
        params = {"watch": "true", "resourceVersion": version}
        async with self._client.stream(self._path, params) as stream:
            rest = b""
            while data := await stream.read(SILENCE_SECONDS):
                *lines, rest = (rest + data).split(b"\n")
                for line in lines:
                    event = msgspec.json.decode(line)
                    if event["type"] == "ERROR":
                        return
                    if event["type"] == "DELETED":
                        seen(_key(event["object"]), None)
                        self._known.pop(_key(event["object"]), None)
                    elif event["type"] != "BOOKMARK":
                        self._tell(seen, event["object"])

    def _tell(self, seen: Seen, group: dict[str, Any]) -> str:
        key = _key(group)
        self._known[key] = None
        seen(key, dict(group.get("status") or {}))
        return key


def _key(group: dict[str, Any]) -> str:
    return f"{group['metadata']['namespace']}/{group['metadata']['name']}"
