"""No step takes long for a pod at all limits at once, whatever becomes of it.

A step is what runs between two checkpoints. A pod has every list that its author may lengthen as
long as the limits allow, all at once. Node for node, arrays do the work, which count as one
operation: `make bench-steps` shows what steps take on thousands of nodes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import pytest

from scheduler.model.objects import KINDS, from_dict
from tests.builders import Json, make_pod, make_worker
from tests.cost.counting import Cost
from tests.cost.long_pods import (
    EVERYTHING,
    HOST,
    NEAR_LABELS,
    PAIRS,
    ZONE,
    claims_of,
    node_labels,
    pod_with,
)
from tests.pipeline.evicting import Arena
from tests.plugins.storage import a_class

BUDGET = 275_000
"""Operations of one step: about 4 ms. The longest one finds a node for a pod with 128 claims,
assumes it there and reserves its volumes, in 254,000."""
NODES = 4


class Written:
    """An object as JSON, for a stage; its struct is made once."""

    def __init__(self, raw: Json) -> None:
        self._raw = raw
        self._struct: Any = from_dict(raw, KINDS[raw["kind"]].type)

    def obj(self) -> Json:
        return {"kind": self._raw["kind"]}

    def struct(self) -> Any:
        return self._struct


async def _accept(kind: str, key: str, patch: Mapping[str, Any]) -> None:
    """Claims that wait for their pod are patched before it is bound."""


def arena(monkeypatch: pytest.MonkeyPatch, *config: Json) -> Arena:
    scene = Arena(config=config)
    monkeypatch.setattr(scene.outlet, "patch", _accept)
    for number in range(NODES):
        own = {HOST: f"node-{number}", ZONE: f"zone-{number % 3}"}
        scene.see(make_worker(f"node-{number}").label(**own, **node_labels(number)))
        scene.see(make_pod(f"near-{number}").label(**NEAR_LABELS).on(f"node-{number}"))
    scene.see(Written(a_class("late")))
    return scene


def life(monkeypatch: pytest.MonkeyPatch, lists: tuple[str, ...], **spec: Any) -> Cost:
    """What a pod costs that comes, is attempted (or others are), changes and goes."""
    scene, taken = arena(monkeypatch), Cost()
    volumes, claims = claims_of("t") if "volumes" in lists else ([], [])
    scene.see(*map(Written, volumes), *map(Written, claims))
    raw = pod_with(lists, "t", **spec)
    changed = {**raw["metadata"], "labels": {"changed": "yes"}}
    first, second = Written(raw), Written({**raw, "metadata": changed})
    taken.of(partial(scene.see, first))
    scene.see(make_pod("beside").label(**raw["metadata"]["labels"]))
    taken.of(scene.attempt)
    taken.of(scene.attempt)
    taken.of(partial(scene.see, second))
    taken.of(scene.attempt)
    taken.of(partial(scene.lose, second))
    return taken


ROLES = {
    "waiting": {},
    "in vain": {"priority": 10, "overhead": {"cpu": "1000"}},
    "of another scheduler": {"nodeName": "node-1", "schedulerName": "another"},
}
ROLE = pytest.mark.parametrize("spec", ROLES.values(), ids=ROLES)


@pytest.fixture(autouse=True)
def everything_went_well(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """An event that cannot be applied costs nothing, and a pod beyond the limits little."""
    yield
    assert [record.message for record in caplog.records if record.levelname != "DEBUG"] == []


@ROLE
@pytest.mark.parametrize("lists", EVERYTHING, ids="+".join)
async def test_no_step_exceeds_its_budget_at_all_limits(
    lists: tuple[str, ...], spec: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert life(monkeypatch, lists, **spec).longest <= BUDGET


@pytest.mark.slow
@ROLE
@pytest.mark.parametrize("lists", PAIRS, ids="+".join)
async def test_no_step_exceeds_its_budget_at_two_limits(
    lists: tuple[str, ...], spec: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert life(monkeypatch, lists, **spec).longest <= BUDGET
