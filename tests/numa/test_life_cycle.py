"""The life cycle of a ledger: every transition of the tables happens, and the docs show the tables.

Each case below plays a history up to one transition with the whole plugin.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from enum import Enum
from pathlib import Path
from typing import Any

import pytest

from scheduler.numa import ledger as ledger_module
from scheduler.numa import node_pods
from scheduler.numa.ledger import Ledger
from scheduler.numa.life_cycle import (
    OBJECT_TABLE,
    POD_TABLE,
    NodePodEvent,
    NodePodState,
    ObjectEffect,
    ObjectEvent,
    ObjectState,
)
from tests.numa.support import Numa, TopologyBuilder, make_topology, pinned

DOCUMENT = Path(__file__).parents[2] / "docs" / "design" / "numa-ledger.md"
GRACE = 300


class Recorded(dict[Any, Any]):
    """A table that remembers which of its entries were looked up."""

    def __init__(self, table: Mapping[Any, Any]) -> None:
        super().__init__(table)
        self.used: set[Any] = set()

    def __getitem__(self, key: Any) -> Any:
        self.used.add(key)
        return super().__getitem__(key)


@pytest.fixture
def objects(monkeypatch: pytest.MonkeyPatch) -> Recorded:
    table = Recorded(OBJECT_TABLE)
    monkeypatch.setattr(ledger_module, "OBJECT_TABLE", table)
    return table


@pytest.fixture
def pods(monkeypatch: pytest.MonkeyPatch) -> Recorded:
    table = Recorded(POD_TABLE)
    monkeypatch.setattr(node_pods, "POD_TABLE", table)
    return table


class World(Numa):
    """A node whose objects and pods are played by hand, with versions that grow."""

    def __init__(self, **args: Any) -> None:
        super().__init__(**args)
        self.nodes("n1")
        self._number = 1

    def object(self, *known: str, of: int = 16, policy: str = "single-numa-node") -> None:
        self._number += 1
        self.publish(cells(of, policy).knows(*known).version(self._number))

    def expire(self) -> None:
        self.unpublish("n1")
        self.stage.clock.advance(GRACE + 1)
        self.cache.forget_withdrawn()


def cells(of: int = 16, policy: str = "single-numa-node") -> TopologyBuilder:
    return make_topology(policy=policy).cell(10, of=of).cell(10, of=of)


# The object


def unknown(world: World) -> None:
    pass


def not_enforced(world: World) -> None:
    world.object(policy="none")


def unconfirmed(world: World) -> None:
    world.object("stranger")


def confirmed(world: World) -> None:
    world.object()


REACHED: Mapping[ObjectState, Callable[[World], None]] = {
    ObjectState.UNKNOWN: unknown,
    ObjectState.NOT_ENFORCED: not_enforced,
    ObjectState.UNCONFIRMED: unconfirmed,
    ObjectState.CONFIRMED: confirmed,
}


def match_later(world: World) -> None:
    """The newest object's fingerprint matches once the watch reports its pod."""
    world.object("late", of=24)
    world.runs(pinned("late"))
    world.fits(pinned("p", 99))


HAPPENS: Mapping[ObjectEvent, Callable[[World], None]] = {
    ObjectEvent.PUBLISHED_NOT_ENFORCED: lambda world: world.object(policy="best-effort"),
    ObjectEvent.PUBLISHED_OTHER_MACHINE: lambda world: world.object("stranger", of=24),
    ObjectEvent.PUBLISHED_OTHER_MACHINE_LATER: lambda world: world.object("stranger", of=24),
    ObjectEvent.PUBLISHED_SAME_MACHINE: lambda world: world.object("another stranger"),
    ObjectEvent.MATCHED: lambda world: world.object(of=24),
    ObjectEvent.DELETED: lambda world: world.unpublish("n1"),
    ObjectEvent.EXPIRED: World.expire,
}


@pytest.mark.parametrize(
    ("state", "event"), OBJECT_TABLE, ids=lambda each: each.value if each else ""
)
def test_every_transition_of_an_object(
    state: ObjectState, event: ObjectEvent, objects: Recorded
) -> None:
    if (state, event) == (ObjectState.UNKNOWN, ObjectEvent.DELETED):
        ledger = Ledger("n1")  # the store reports no deletion of what it has not reported before
        ledger.object_deleted()
        assert ledger.state is ObjectState.UNKNOWN
        return
    later = event in (ObjectEvent.PUBLISHED_OTHER_MACHINE_LATER, ObjectEvent.MATCHED)
    world = World(cache={"resyncScope": "OnlyResources"} if later else {})
    REACHED[state](world)
    ledger = world.cache.ledger("n1") or Ledger("n1")
    assert ledger.state is state
    objects.used.clear()
    HAPPENS[event](world)
    assert (state, event) in objects.used
    assert ledger.state is OBJECT_TABLE[state, event].state or world.ledger() is not ledger


def test_the_object_in_use_follows_the_table() -> None:
    world = World()
    world.object("stranger")
    first = world.ledger().in_use
    world.object("another stranger")
    assert world.ledger().in_use is not first
    world.object()
    matched = world.ledger().in_use
    world.object("stranger")
    assert world.ledger().in_use is matched
    world.unpublish("n1")
    assert world.ledger().in_use is matched
    assert world.ledger().newest is None


# Pods


def charged(world: World) -> None:
    world.object()
    world.runs(pinned("a", 6))


def confirmed_pod(world: World) -> None:
    charged(world)
    world.object("a")


def vacated(world: World) -> None:
    confirmed_pod(world)
    world.see(pinned("a", 6).on("n1").phase("Running").deleting())
    world.object()


def released(world: World) -> None:
    confirmed_pod(world)
    world.lose(pinned("a", 6).on("n1"))


def stop(world: World) -> None:
    world.see(pinned("a", 6).on("n1").phase("Running").deleting())
    world.object()
    world.object()


def not_deleting(world: World) -> None:
    """The API server never takes a deletion back, but a watch could report it."""
    world.runs(pinned("a", 6), pinned("b", 1))
    world.object("b")


def another_pod(world: World) -> None:
    world.runs(pinned("b", 1))
    world.object("b")


def listed_before(world: World) -> None:
    world.lose(pinned("a", 6).on("n1"))
    world.see(pinned("a", 6).uid("uid-again").on("n1"))
    world.object("a")


def unlisted_unless_admitted(world: World) -> None:
    world.see(pinned("b", 1).on("n1"))
    world.object("a")


def uncounted(world: World) -> None:
    """An object that lists a pod and counts nothing for it."""
    world.object()
    world.see(pinned("b", 1).on("n1"))
    world.publish(make_topology().cell(16).cell(16).knows("b").version(99))


def unlisted_when_not_admitted(world: World) -> None:
    """A pod that was confirmed before its kubelet reported it, and then is not listed."""
    world.object()
    world.see(pinned("b", 6, 0).on("n1"))
    world.object("b")
    assert world.ledger().pods()[0] == [("default", "b")]
    world.object()


def resize(world: World) -> None:
    world.see(pinned("a", 5).on("n1").phase("Running"))


POD_HISTORIES: Mapping[tuple[NodePodState, NodePodEvent], tuple[Callable[[World], object], ...]] = {
    (NodePodState.CHARGED, NodePodEvent.LISTED): (confirmed_pod,),
    (NodePodState.CHARGED, NodePodEvent.LISTED_BEFORE): (confirmed_pod, listed_before),
    (NodePodState.CHARGED, NodePodEvent.UNLISTED): (confirmed_pod, unlisted_unless_admitted),
    (NodePodState.CHARGED, NodePodEvent.STOPPED): (charged, lambda w: w.object("x"), stop),
    (NodePodState.CHARGED, NodePodEvent.RESIZED): (charged, resize),
    (NodePodState.CHARGED, NodePodEvent.REMOVED): (charged, lambda w: w.lose(_a())),
    (NodePodState.CHARGED, NodePodEvent.RESET): (charged, lambda w: w.object("x", of=24)),
    (NodePodState.CONFIRMED, NodePodEvent.UNLISTED): (unlisted_when_not_admitted,),
    (NodePodState.CONFIRMED, NodePodEvent.STOPPED): (confirmed_pod, stop),
    (NodePodState.CONFIRMED, NodePodEvent.UNCOUNTED): (uncounted,),
    (NodePodState.CONFIRMED, NodePodEvent.RESIZED): (confirmed_pod, resize),
    (NodePodState.CONFIRMED, NodePodEvent.REMOVED): (released,),
    (NodePodState.CONFIRMED, NodePodEvent.RESET): (confirmed_pod, lambda w: w.object("x", of=24)),
    (NodePodState.VACATED, NodePodEvent.UNLISTED): (vacated, not_deleting),
    (NodePodState.VACATED, NodePodEvent.STOPPED): (vacated, another_pod),
    (NodePodState.VACATED, NodePodEvent.RESIZED): (vacated, resize),
    (NodePodState.VACATED, NodePodEvent.REMOVED): (vacated, lambda w: w.lose(_a())),
    (NodePodState.VACATED, NodePodEvent.RESET): (vacated, lambda w: w.object("x", of=24)),
    (NodePodState.RELEASED, NodePodEvent.LISTED): (released, lambda w: w.object("a")),
    (NodePodState.RELEASED, NodePodEvent.UNLISTED): (released, lambda w: w.object()),
    (NodePodState.RELEASED, NodePodEvent.RESET): (released, World.expire),
}


def _a() -> Any:
    return pinned("a", 6).on("n1")


@pytest.mark.parametrize(("state", "event"), POD_TABLE, ids=lambda each: each.value if each else "")
def test_every_transition_of_a_pod(
    state: NodePodState, event: NodePodEvent, pods: Recorded
) -> None:
    world = World()
    for play in POD_HISTORIES[state, event]:
        play(world)
    assert (state, event) in pods.used


# The document


def table_after(heading: str) -> dict[tuple[str, str], str]:
    """The first table after a heading, by column and row; "-" stands for nothing."""
    text = DOCUMENT.read_text().split(heading, 1)[1]
    found = re.search(r"(?:^\|.*\n)+", text, re.M)
    assert found
    rows = [
        [cell.strip().replace("`", "") for cell in line.strip("|").split("|")]
        for line in found.group().splitlines()
    ]
    return {
        (state, event): cell
        for event, *cells in rows[2:]
        for state, cell in zip(rows[0][1:], cells, strict=True)
        if cell != "-"
    }


def test_the_document_shows_the_table_of_objects() -> None:
    assert table_after("### The object") == {
        (state.value, event.value): ": ".join(
            filter(None, (after.value, ", ".join(effect.value for effect in effects)))
        )
        for (state, event), (after, effects) in OBJECT_TABLE.items()
    }


def test_the_document_shows_the_table_of_pods() -> None:
    assert table_after("### Pods") == {
        (state.value, event.value): after.value for (state, event), after in POD_TABLE.items()
    }


@pytest.mark.parametrize(
    "words", [ObjectState, ObjectEvent, ObjectEffect, NodePodState, NodePodEvent]
)
def test_the_document_explains_every_word(words: type[Enum]) -> None:
    text = DOCUMENT.read_text()
    assert [each.value for each in words if f"- `{each.value}`: " not in text] == []
