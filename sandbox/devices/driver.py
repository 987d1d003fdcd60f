"""A small driver: publishes the boards of nodes that have some, and sets nothing else.

A board may be taken whole, by halves or by quarters: all of them consume the counters of the board,
so what is taken of it in one way is not there in another.
"""

from __future__ import annotations

import asyncio
from typing import Any, Self

from sandbox.devices.names import SLICES
from sandbox.errors import ApiFailure
from sandbox.registry import Registry
from sandbox.store import Body, Key
from sandbox.tasks import cancelled

DRIVER = "boards.example.com"
BOARDS = "example.com/boards"
"""The label of a node that says how many boards it has."""
PROFILES = {"whole": (1, 8), "half": (2, 4), "quarter": (4, 2)}
"""How many devices of a profile a board has, and how many eighths of the board each of them is."""
_MOST = 8
"""Boards of one node: as many as one slice has sets of counters."""


class BoardDriver:
    """The driver of all nodes of a registry; `async with BoardDriver(registry):` runs it."""

    def __init__(self, registry: Registry) -> None:
        self._registry = registry
        self._nodes = registry.table(registry.builtin("nodes"))
        self._slices = registry.builtin("resourceslices", "resource.k8s.io")
        self._published: dict[Key, int] = {}
        self._woken = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._run(), name="board-driver")
        return self

    async def __aexit__(self, *fault: object) -> None:
        await cancelled(self._task)

    async def _run(self) -> None:
        self._nodes.wakers[self._woken] = None
        try:
            position = -1
            while True:
                self._woken.clear()
                position = self._follow(position)
                await self._woken.wait()
        finally:
            self._nodes.wakers.pop(self._woken, None)

    def _follow(self, position: int) -> int:
        changes = self._nodes.changes(position) if position >= 0 else None
        if changes is None:
            for version in list(self._nodes.current.values()):
                self._publish(version.key, boards_of(version.body))
            return self._nodes.end
        for change in changes:
            after = change.after
            self._publish(change.key, boards_of(after.body) if after is not None else 0)
        return self._nodes.end

    def _publish(self, node: Key, boards: int) -> None:
        """Make the slices of a node be those of so many boards."""
        if self._published.get(node, 0) == boards:
            return
        for name in (f"{node[1]}-boards-counters", f"{node[1]}-boards"):
            if self._registry.store.table(SLICES).get(("", name)) is not None:
                self._registry.delete(self._slices, ("", name))
        for body in slices(node[1], boards):
            try:
                self._registry.create(self._slices, "", body)
            except ApiFailure:
                # Somebody else has made one of that name: it is theirs.
                continue
        self._published[node] = boards


def boards_of(node: Body) -> int:
    """How many boards a node says that it has."""
    text = str((node["metadata"].get("labels") or {}).get(BOARDS, "0"))
    return min(int(text), _MOST) if text.isdecimal() else 0


def slices(node: str, boards: int) -> list[dict[str, Any]]:
    """What a driver publishes for a node: the counters of its boards, and the ways to take them."""
    if not boards:
        return []
    pool = {"name": node, "generation": 1, "resourceSliceCount": 2}
    head = {"driver": DRIVER, "nodeName": node, "pool": pool}
    counters = [
        {"name": f"board-{number}", "counters": {"eighths": {"value": "8"}}}
        for number in range(boards)
    ]
    devices = [
        _device(number, profile, part)
        for number in range(boards)
        for profile, (parts, _) in PROFILES.items()
        for part in range(parts)
    ]
    return [
        {
            "metadata": {"name": f"{node}-boards-counters"},
            "spec": {**head, "sharedCounters": counters},
        },
        {"metadata": {"name": f"{node}-boards"}, "spec": {**head, "devices": devices}},
    ]


def _device(board: int, profile: str, part: int) -> dict[str, Any]:
    eighths = PROFILES[profile][1]
    used = {"counterSet": f"board-{board}", "counters": {"eighths": {"value": str(eighths)}}}
    return {
        "name": f"board-{board}-{profile}-{part}",
        "attributes": {
            "profile": {"string": profile},
            "board": {"int": board},
            "firmware": {"version": "1.4.2"},
        },
        "capacity": {"memory": {"value": f"{10 * eighths}Gi"}},
        "consumesCounters": [used],
    }
