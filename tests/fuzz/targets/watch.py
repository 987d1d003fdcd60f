"""Bytes of a hostile watch to a reflector: it follows, recovers, and reports every change once."""

from __future__ import annotations

import asyncio
import itertools
import json
from random import Random
from typing import Any

from scheduler.kube.watch import Reflector, WatchedResource
from scheduler.model.objects import KINDS, Change
from scheduler.observe.metrics import Metrics
from tests.fuzz.drawing import draw_object, kinds
from tests.fuzz.mutating import as_text, encoded, mutate_bytes, mutate_object
from tests.fuzz.target import Input, as_bytes
from tests.fuzz.targets.decode import any_number, deep_recursion, refuse
from tests.kube.support import ManualClock
from tests.kube.watch_support import ScriptedServer, page

TYPES = ("ADDED", "MODIFIED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR", "added", "", "GARBAGE")
EXPIRED = b'{"type":"ERROR","object":{"kind":"Status","code":410,"reason":"Expired"}}\n'
TURNS = 4000
PATIENT_TURNS = 1000
"""So many turns more take a hundredth of a second each: what is nested deeply is read in a thread,
which a busy machine may run late."""


class Watch:
    """A reflector, lists and watches by script."""

    name = "watch"
    what = "lists and watches of a hostile server: the store follows, and recovers by a list"
    share = 30

    def __init__(self) -> None:
        self._runner = asyncio.Runner()

    def draw(self, rng: Random) -> Input:
        """A kind, the objects of the lists, and the chunks of the watches."""
        kind = rng.choice(kinds())
        first = [as_text(_object(rng, kind)) for _ in range(rng.randint(0, 3))]
        last = [as_text(_object(rng, kind)) for _ in range(rng.randint(0, 3))]
        watches = [_watch(rng, kind) for _ in range(rng.randint(1, 3))]
        return {"kind": kind.name, "first": first, "watches": watches, "last": last}

    def check(self, given: Input) -> list[str]:
        """It never ends, and after a last list its store is that list."""
        return self._runner.run(self._checked(given))

    async def _checked(self, given: Input) -> list[str]:
        entry = KINDS[given["kind"]]
        lists = [_page(given["first"], 10**7), *[_page(given["last"], 10**7 + 1)] * 40]
        watches: list[Any] = [
            [as_bytes(chunk) for chunk in chunks] or [b""] for chunks in given["watches"]
        ]
        server = ScriptedServer(lists, [*watches, [EXPIRED]])
        reported: dict[str, Any] = {}
        wrong: list[str] = []

        def take(changes: list[Change[Any]]) -> None:
            for change in changes:
                one = change.new or change.old
                assert one is not None, "a change has an object"
                key = one.metadata.key
                if reported.get(key) is not change.old:
                    wrong.append("a change is reported whose old version was not the last one")
                if change.new is None:
                    reported.pop(key, None)
                else:
                    reported[key] = change.new

        clock = ManualClock()
        resource: WatchedResource[Any] = WatchedResource(entry.name, entry.path, entry.type)
        reflector: Reflector[Any] = Reflector(
            server, resource, take, Metrics(), clock=clock, rng=lambda: 0.5, sleep=clock.sleep
        )
        task = asyncio.create_task(_run(reflector))
        for turn in range(TURNS + PATIENT_TURNS):
            await asyncio.sleep(0 if turn < TURNS else 0.01)
            if task.done() or (server.idle.is_set() and not server.watches):
                break
        await asyncio.sleep(0)
        if task.done():
            fault = task.exception()
            assert fault is not None, "a reflector never returns"
            raise fault
        task.cancel()
        if not server.idle.is_set():
            wrong.append("the watch does not get to its end")
        if reported != reflector.store:
            wrong.append("the store is not what was reported")
        known = reflector.store
        if sum(each.metadata.json_bytes for each in known.values()) != reflector.json_bytes:
            wrong.append("the bytes of the store are not those of its objects")
        return wrong + _unlike(given["last"], known, entry.type)

    def close(self) -> None:
        """End the loop."""
        self._runner.close()


async def _run(reflector: Reflector[Any]) -> None:
    await reflector.run()


def _unlike(last: list[str], store: dict[str, Any], type_: Any) -> list[str]:
    """What the store has that the last list has not; earlier versions of bad objects may stay."""
    named = set(last)
    if len(store) > len(named):
        return [f"the store has {len(store)} objects, the last list {len(named)}"]
    return []


def _object(rng: Random, kind: Any) -> Any:
    body = draw_object(rng, kind)
    return mutate_object(rng, body) if rng.random() < 0.3 else body


def _page(texts: list[str], version: int) -> bytes:
    start, end = page(version=version).split(b"[]")
    items = [body for body in map(as_bytes, texts) if _is_json(body)]
    return start + b"[" + b",".join(items) + b"]" + end


def _is_json(body: bytes) -> bool:
    """Whether an API server may have it in a list: it is JSON to Go, odd strings included."""
    try:
        with deep_recursion():
            json.loads(body.decode(errors="replace"), parse_constant=refuse, parse_int=any_number)
    except (ValueError, RecursionError):
        return False
    return True


def _watch(rng: Random, kind: Any) -> list[str]:
    lines = []
    for _ in range(rng.randint(0, 5)):
        line = b'{"type":"%s","object":%s}\n' % (
            rng.choice(TYPES[:5] if rng.random() < 0.9 else TYPES).encode(),
            encoded(_object(rng, kind)),
        )
        lines.append(mutate_bytes(rng, line) if rng.random() < 0.08 else line)
    data = b"".join(lines)
    cuts = sorted(
        {0, len(data), *(rng.randint(0, len(data)) for _ in range(rng.choice((0, 1, 4))))}
    )
    return [data[a:b].decode("latin-1") for a, b in itertools.pairwise(cuts)]
