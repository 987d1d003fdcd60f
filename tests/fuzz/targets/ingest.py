"""Watch events of all kinds to a whole scheduler: nothing raises, and nothing stays behind."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from random import Random
from typing import Any, cast

from scheduler.kube.client import KubeClient
from scheduler.kube.errors import UNREADABLE, Garbled
from scheduler.kube.watch import Reflector, WatchedResource
from scheduler.model.objects import KINDS
from scheduler.state.checker import differences
from tests.fuzz.mutating import as_text, mutate_object
from tests.fuzz.scenes import FITTING, draw_any, draw_fitting
from tests.fuzz.scheduler_under_test import Objects, Reference, SchedulerUnderTest
from tests.fuzz.target import Input, as_bytes
from tests.fuzz.tweaking import tweak

SET, DELETE, ATTEMPT, ANSWER, JUDGE = "set", "delete", "attempt", "answer", "judge"
FRESH_AFTER = 150
"""After so many inputs a new scheduler is used, so that none grows old by its bounded caches."""


class Ingest:
    """Feeds a scheduler by its own reflectors."""

    name = "ingest"
    what = "adds, updates and deletions of all kinds, and attempts between them: state = truth"
    share = 40

    def __init__(self) -> None:
        self._runner = asyncio.Runner()
        self._world: SchedulerUnderTest | None = None
        self._reference = Reference()
        self._inputs = 0

    def draw(self, rng: Random) -> Input:
        """Versions of a few objects, in some order, with attempts to place pods between them."""
        first = ["Node"] * rng.choice((0, 1, 2, 3)) + ["Pod"] * rng.choice((0, 1, 2))
        known: list[tuple[str, Any]] = [(name, draw_fitting(rng, name)[1]) for name in first]
        steps = [[SET, kind, as_text(body)] for kind, body in known]
        steps += [_step(rng, known) for _ in range(rng.randint(2, 18))]
        return steps + _late_changes(rng, known)

    def check(self, given: Input) -> list[str]:
        """Apply all; compare with the truth; delete all; compare with an empty scheduler."""
        return self._runner.run(self._checked(given))

    async def _checked(self, given: Input) -> list[str]:
        self._inputs += 1
        world = self._world
        if world is None or self._inputs % FRESH_AFTER == 0:
            if world is not None:
                await world.close()
            world = self._world = SchedulerUnderTest()
        wrong: list[str] = []
        try:
            reflectors = _Reflectors(world)
            for step in given:
                wrong += await _apply(world, reflectors, step)
            await world.answer_all(ok=False)
            wrong += list(_untrue(world, reflectors))
            wrong += list(self._reference.unlike(world, reflectors.objects()))
            wrong += await _nothing_stays(world, reflectors)
        except BaseException:
            self._world = None
            raise
        if wrong:
            self._world = None
        return wrong

    def close(self) -> None:
        """End the loop."""
        if self._world is not None:
            self._runner.run(self._world.close())
        self._runner.close()


def _step(rng: Random, known: list[tuple[str, Any]]) -> list[Any]:
    chance = rng.random()
    if known and chance < 0.08:
        kind, body = known.pop(rng.randrange(len(known)))
        return [DELETE, kind, as_text(body)]
    if chance < 0.18:
        return [ATTEMPT, rng.randint(1, 3)]
    if chance < 0.22:
        return [ANSWER, rng.random() < 0.5]
    if chance < 0.32:
        return [JUDGE]
    if known and chance < 0.44:  # an update: another version, perhaps under another uid
        kind, body = rng.choice(known)
        body = _mutated(rng, body)
    elif tweaked := _tweaked(rng, known) if chance < 0.72 else None:
        kind, body = tweaked
    else:
        entry, body = draw_any(rng)
        kind = entry.name
        if rng.random() < 0.15:
            body = _mutated(rng, body)
    known.append((kind, body))
    return [SET, kind, as_text(body)]


def _late_changes(rng: Random, known: list[tuple[str, Any]]) -> list[list[Any]]:
    """Pods are judged, and then single things change: what is kept and now wrong is seen."""
    nodes = [each for each in known if each[0] == "Node"]
    changes = [
        _tweaked(rng, nodes if rng.random() < 0.6 else known) for _ in range(rng.randint(0, 3))
    ]
    return [[JUDGE], *([SET, kind, as_text(body)] for kind, body in filter(None, changes))]


def _tweaked(rng: Random, known: list[tuple[str, Any]]) -> tuple[str, Any] | None:
    """The latest version of an object with one thing changed."""
    latest = {(kind, _name(body)): (kind, body) for kind, body in known if kind in FITTING}
    if not latest:
        return None
    kind, body = rng.choice(list(latest.values()))
    changed = tweak(rng, kind, body)
    return (kind, changed) if changed is not None else None


def _name(body: Any) -> str:
    metadata = body.get("metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    return f"{metadata.get('namespace')}/{metadata.get('name')}"


def _mutated(rng: Random, body: Any) -> Any:
    """Another version of an object; it may be another object, but no two have one uid."""
    mutated = mutate_object(rng, body)
    metadata, known = mutated.get("metadata"), body.get("metadata")
    if isinstance(metadata, dict) and isinstance(known, dict):
        for field in ("name", "namespace", "uid"):
            metadata.pop(field, None)
            if field in known:
                metadata[field] = known[field]
        if rng.random() < 0.1:
            metadata["uid"] = f"{known.get('uid')}-{rng.randrange(10**6)}"
        metadata["resourceVersion"] = str(rng.randrange(10**6))
    return mutated


async def _apply(world: SchedulerUnderTest, reflectors: _Reflectors, step: list[Any]) -> list[str]:
    match step:
        case [str(verb), str(kind), str(text)]:
            type_ = "DELETED" if verb == DELETE else "MODIFIED"
            return await reflectors.take(type_, kind, as_bytes(text))
        case ["attempt", int(count)]:
            for _ in range(count):
                await world.attempt()
        case ["answer", bool(ok)]:
            await world.answer_all(ok=ok)
        case ["judge"]:
            world.judged(reflectors.objects())
    return []


class _Reflectors:
    """A reflector of each kind, whose lines are given by hand."""

    def __init__(self, world: SchedulerUnderTest) -> None:
        self._world = world
        self._all: dict[str, Reflector[Any]] = {}

    def of(self, kind: str) -> Reflector[Any]:
        """The reflector of a kind."""
        found = self._all.get(kind)
        if found is None:
            entry = KINDS[kind]
            resource: WatchedResource[Any] = WatchedResource(kind, entry.path, entry.type)
            nobody = cast("KubeClient", None)  # it neither lists nor watches here
            found = self._all[kind] = Reflector(
                nobody, resource, self._world.core.event_handlers.handler(kind), self._world.metrics
            )
        return found

    def store(self, kind: str) -> dict[str, Any]:
        """The objects of a kind; of one that had no line, none."""
        found = self._all.get(kind)
        return found.store if found is not None else {}

    def objects(self) -> Objects:
        """All objects by kind."""
        return {kind: list(self.store(kind).values()) for kind in KINDS}

    async def take(self, type_: str, kind: str, text: bytes) -> list[str]:
        """A line of a watch."""
        line = b'{"type":"%s","object":%s}' % (type_.encode(), text)
        try:
            await self.of(kind)._take_lines([line])
        except (Garbled, *UNREADABLE):
            return []  # a line that is no JSON ends the stream, and a list follows
        return []

    async def lose_all(self) -> None:
        """All objects go."""
        for kind in list(self._all):
            reflector = self._all[kind]
            await reflector._deliver([reflector._forget(key) for key in list(reflector.store)])


def _untrue(world: SchedulerUnderTest, reflectors: _Reflectors) -> Iterator[str]:
    """What the state has wrong about the objects that the reflectors hold."""
    state = world.core.state
    nodes, pods = reflectors.store("Node").values(), reflectors.store("Pod").values()
    uids = [pod.metadata.uid for pod in pods]
    if len(set(uids)) == len(uids) and all(uids):  # an API server gives each pod one of its own
        yield from differences(state, nodes, pods)
    for kind, entry in KINDS.items():
        if kind in {"Node", "Pod"}:
            continue
        store = reflectors.store(kind)
        have = state.objects.all(entry.type).keys()
        if have != store.keys():
            yield f"{kind}: {sorted(have ^ store.keys())} are only in the watch or in the state"


async def _nothing_stays(world: SchedulerUnderTest, reflectors: _Reflectors) -> list[str]:
    """What is left when all objects are gone and all that was under way has ended."""
    await reflectors.lose_all()
    await world.settle()
    return world.left_behind()
