"""Plans: the same from the same seed, and the same after a round through JSON."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from sandbox.registry import Registry
from tests.sim import objects
from tests.sim.drawing import draw
from tests.sim.plan import AddPod, AnyAction, FaultAction, Plan, PodPlan, decode, encode, load

SEEDS = range(200)


def test_a_seed_gives_one_plan() -> None:
    assert all(draw(seed) == draw(seed) for seed in SEEDS)
    assert len({encode(draw(seed)) for seed in SEEDS}) == len(SEEDS)


def test_plans_are_plain_data(tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    for seed in SEEDS:
        file.write_bytes(encode(draw(seed)))
        assert load(file) == draw(seed)


def test_a_plan_with_a_wrong_field_is_refused_by_name() -> None:
    with pytest.raises(msgspec.ValidationError, match="bytes_per_minute"):
        decode(
            b'{"seed":1,"seconds":1,"quiet":1,"actions":[{"seconds":1,"action":'
            b'{"do":"ThrottleNetwork","replica":"a","bytes_per_minute":1}}]}'
        )


def test_every_kind_of_action_is_drawn() -> None:
    drawn = {type(each.action) for seed in range(500) for each in draw(seed).actions}
    assert drawn == set(AnyAction.__args__)


def test_faults_come_singly_together_and_not_at_all() -> None:
    def kinds(plan: Plan) -> int:
        return len(
            {type(each.action) for each in plan.actions if isinstance(each.action, FaultAction)}
        )

    assert {kinds(draw(seed)) for seed in SEEDS} >= {0, 1, 2, 3, 4}


def test_the_api_server_takes_what_plans_make() -> None:
    registry = Registry()
    pods = registry.builtin("pods")
    for made in objects.priority_classes():
        registry.create(registry.builtin("priorityclasses", "scheduling.k8s.io"), "", made)
    for seed in range(30):
        plan = draw(seed)
        for node in plan.nodes:
            body = objects.node(node)
            body["metadata"]["name"] += f"-{seed}"
            registry.create(registry.builtin("nodes"), "", body)
        for each in plan.actions:
            if isinstance(each.action, AddPod) and not each.action.pod.absurd:
                pod = msgspec.structs.replace(
                    each.action.pod, name=f"{each.action.pod.name}-{seed}", namespace="default"
                )
                registry.create(pods, "default", objects.pod(pod))


def test_absurd_pods_are_what_they_are_called() -> None:
    for name in objects.ABSURDITIES:
        assert objects.pod(PodPlan("x", absurd=name)) != objects.pod(PodPlan("x"))
