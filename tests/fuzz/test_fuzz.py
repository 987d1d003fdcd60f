"""The fixed part of fuzzing: some inputs of every target, all kept ones, and planted faults."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from random import Random
from typing import Any

import msgspec
import pytest

from scheduler.kube import http1
from scheduler.kube.decoding import ObjectDecoder
from scheduler.model.objects import KINDS
from scheduler.observe.metrics import Metrics
from scheduler.state.aspects import Aspect, ChangeLog
from tests.fuzz import scheduler_under_test
from tests.fuzz.drawing import draw_object
from tests.fuzz.mutating import MOST_BYTES, encoded, mutate_object
from tests.fuzz.running import drawn, replayed, run_batch
from tests.fuzz.scheduler_under_test import Objects, SchedulerUnderTest
from tests.fuzz.shrinking import shrunk
from tests.fuzz.targets import TARGETS

CORPUS = sorted((Path(__file__).parent / "corpus").glob("*.json"))
SEED = 19
INPUTS = {
    "decode": 2000,
    "ingest": 200,
    "watch": 80,
    "answers": 1500,
    "pool": 80,
    "requests": 80,
    "manifests": 15,
    "config": 25,
    "kubeconfig": 25,
    "webhooks": 600,
    "recordings": 120,
    "expressions": 120,
    "quantities": 2000,
}
"""How many inputs of each target are checked here: about a second of CPU for each."""


@pytest.mark.parametrize("name", TARGETS)
def test_a_fixed_part_of_each_target(name: str) -> None:
    report = run_batch(name, SEED, range(INPUTS[name]), shrink=False)
    assert [f"{each.number}: {each.found}" for each in report.findings] == []


@pytest.mark.parametrize("path", CORPUS, ids=lambda path: path.stem)
def test_what_was_once_handled_wrongly(path: Path) -> None:
    kept = json.loads(path.read_text())
    assert replayed(kept["target"], kept["input"]) == [], kept["found"]


@pytest.mark.parametrize("name", TARGETS)
def test_an_input_follows_from_its_seed_and_number(name: str) -> None:
    target = TARGETS[name]()
    try:
        first = [json.dumps(drawn(target, 1, number)) for number in range(5)]
        assert first == [json.dumps(drawn(target, 1, number)) for number in range(5)]
        assert first != [json.dumps(drawn(target, 2, number)) for number in range(5)]
    finally:
        target.close()


@pytest.mark.parametrize("name", TARGETS)
def test_an_input_does_not_depend_on_those_drawn_before(name: str) -> None:
    """A value that is shared by inputs and changed in one of them grows without bound."""
    target = TARGETS[name]()
    numbers = range(300)
    try:
        forwards = [json.dumps(drawn(target, SEED, number)) for number in numbers]
        backwards = [json.dumps(drawn(target, SEED, number)) for number in reversed(numbers)]
        assert forwards == backwards[::-1]
    finally:
        target.close()


def test_drawn_objects_decode() -> None:
    """What is not mutated is valid: faults are found behind the decoder, not only in it."""
    rng, metrics = Random(SEED), Metrics()
    for kind in KINDS.values():
        decoder: ObjectDecoder[Any] = ObjectDecoder(kind.name, kind.type, metrics)
        for _ in range(10):
            raw = msgspec.Raw(json.dumps(draw_object(rng, kind)).encode())
            assert isinstance(decoder.decode(raw), kind.type)


def test_a_planted_fault_of_the_decoder_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def without_fallback(self: ObjectDecoder[Any], raw: bytes) -> object:
        return self._decoder.decode(raw)

    monkeypatch.setattr(ObjectDecoder, "decode", without_fallback)
    assert run_batch("decode", SEED, range(50), shrink=False).findings


def test_a_planted_fault_of_the_reader_of_answers_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def forget(self: http1._Chunked, rest: bytes) -> None:
        self._rest = b""

    monkeypatch.setattr(http1._Chunked, "_keep", forget)
    assert run_batch("answers", SEED, range(200), shrink=False).findings


@pytest.mark.parametrize(
    ("forgotten", "inputs"),
    [
        pytest.param(Aspect.NODE, range(12), id="nodes"),
        pytest.param(Aspect.LABELS, range(12), id="labels"),
        pytest.param(Aspect.TAINTS, range(30, 50), id="taints"),
        pytest.param(Aspect.UNSCHEDULABLE, range(75, 95), id="cordons"),
        pytest.param(Aspect.REQUESTED, range(12), id="requests"),
    ],
)
def test_a_planted_fault_of_the_caches_is_found(
    forgotten: Aspect, inputs: range, monkeypatch: pytest.MonkeyPatch
) -> None:
    touch = ChangeLog.touch

    def forget(self: ChangeLog, row: int, aspects: Iterable[Aspect]) -> None:
        touch(self, row, [aspect for aspect in aspects if aspect is not forgotten])

    monkeypatch.setattr(ChangeLog, "touch", forget)
    report = run_batch("ingest", 7, inputs, shrink=False)
    assert any("judged otherwise" in each.found for each in report.findings)


def test_a_scheduler_without_caches_that_keeps_something_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def keep_all(scheduler: SchedulerUnderTest, objects: Objects) -> None:
        """As if deletions had no effect."""

    monkeypatch.setattr(scheduler_under_test, "_lose", keep_all)
    report = run_batch("ingest", 7, range(12), shrink=False)
    assert any(each.found.startswith("in a scheduler without") for each in report.findings)


def test_no_object_grows_beyond_what_is_stored() -> None:
    rng = Random(SEED)
    body: Any = draw_object(rng, KINDS["Pod"])
    for _ in range(300):
        body = mutate_object(rng, body)
        assert len(encoded(body)) <= MOST_BYTES


def test_findings_are_made_smaller() -> None:
    class Picky:
        name = "picky"
        what = "nothing"
        share = 1

        def draw(self, rng: Random) -> object:
            return None

        def check(self, given: object) -> list[str]:
            return ["it has an x"] if "x" in json.dumps(given) else []

        def close(self) -> None: ...

    large = {"a": [1, 2, {"b": "yyyxyyy"}], "c": ["z"] * 30, "d": json.dumps({"e": [1, 2]})}
    assert json.dumps(shrunk(Picky(), large, "it has an x")).count("x") == 1
    assert len(json.dumps(shrunk(Picky(), large, "it has an x"))) < 25
