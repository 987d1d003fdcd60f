"""No step takes long for pods at all limits that are members of a gang, victims, or explained.

The pods and the measure are those of `test_combinations`.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from scheduler import inspection
from scheduler.inspection import explain
from scheduler.model.workloads import POD_GROUP_LABEL
from tests.builders import Json, make_pod
from tests.cost.counting import Cost
from tests.cost.long_pods import EVERYTHING, claims_of, pod_with
from tests.cost.test_combinations import BUDGET, Written, arena
from tests.gangs.support import configured, make_group
from tests.pipeline.evicting import Arena

EXPLAINING = 900_000
"""Operations of one step of an explanation, about 12 ms: all plugins say of all nodes in one
moment what they reject and why."""
ON_TRIAL = 475_000
"""Operations of one step, about 6 ms, where filters look at more than sums: a victim is taken off
its node, judged and put back, and nothing may come between."""
LISTS = EVERYTHING[1]
PORTS_OF_EACH = 4000


def long_pod(scene: Arena, tag: str, **spec: Any) -> Json:
    """A pod at all limits; its volumes are there."""
    volumes, claims = claims_of(tag)
    scene.see(*map(Written, volumes), *map(Written, claims))
    return pod_with(LISTS, tag, **spec)


def member(scene: Arena, tag: str, **spec: Any) -> Written:
    """One of a gang, with ports of its own: both fit on one node."""
    raw = long_pod(scene, tag, **spec)
    raw["metadata"]["labels"][POD_GROUP_LABEL] = "g"
    for container in raw["spec"]["containers"]:
        for port in container["ports"]:
            port["hostPort"] += PORTS_OF_EACH * (tag == "u")
    return Written(raw)


@pytest.mark.parametrize("fits", [True, False])
async def test_no_step_exceeds_its_budget_for_a_gang(
    fits: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene, taken = arena(monkeypatch, configured()), Cost()
    scene.see(make_group("g", 2))
    for tag in ("t", "u"):
        spec = {} if fits else {"overhead": {"cpu": "1000"}}
        taken.of(partial(scene.see, member(scene, tag, **spec)))
    taken.of(scene.attempt)
    assert scene.core.state.assumed_count == (2 if fits else 0)
    assert taken.longest <= BUDGET


@pytest.mark.parametrize("apart", [False, True], ids=["in sums", "booked"])
async def test_no_step_exceeds_its_budget_for_victims(
    apart: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene, taken = arena(monkeypatch), Cost()
    for number in range(2):
        on = {"nodeName": f"node-{number}", "overhead": {"cpu": "3"}}
        scene.see(Written(long_pod(scene, f"v{number}", **on)))
        scene.see(make_pod(f"full-{number}").cpu(4).priority(100).on(f"node-{number + 2}"))
    vip = make_pod("vip").cpu(2).priority(50)
    if apart:
        term = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": "none"}}}
        rules = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
        vip.spec(affinity={"podAntiAffinity": rules})
    scene.see(vip)
    taken.of(scene.attempt)
    assert scene.outlet.nominations
    assert taken.longest <= (ON_TRIAL if apart else BUDGET)


async def test_no_step_of_an_explanation_exceeds_its_budget(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scene, taken = arena(monkeypatch), Cost()
    asked = Written(long_pod(scene, "t", priority=10, overhead={"cpu": "1000"}))
    scene.see(asked)
    scene.attempt()

    async def counted(work: Any, *args: Any) -> Any:
        answers: list[Any] = []
        taken.of(lambda: answers.append(work(*args)))
        return answers[0]

    monkeypatch.setattr(inspection, "in_slices", counted)
    answer = await explain(scene.core, {"default/t": asked.struct()}, "default/t")
    assert answer is not None
    assert taken.operations > EXPLAINING, "there is a lot to say"
    assert taken.longest <= EXPLAINING
