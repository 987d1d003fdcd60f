"""The figures and the user story of the published flow design, with `costModel: CpuMemory`.

Every scene is played twice: without batches the profile places its pods otherwise, so nothing but
the model can have placed them as the design says; and every decision names the model.
"""

import asyncio
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import aiohttp
import pytest
import yaml

from e2e.conftest import Launch
from e2e.harness.client import POLL_SECONDS
from e2e.harness.election import NO_ELECTION
from e2e.harness.objects import Json, deployment, is_bound, is_rejected, node_of
from e2e.harness.patience import PATIENCE
from e2e.harness.scheduler import SchedulerProcess
from e2e.harness.workspace import Workspace

EXAMPLES = Path(__file__).parents[1] / "deploy" / "examples"
INSTANCE, REGION = "node.kubernetes.io/instance-type", "topology.kubernetes.io/region"
BALANCER = "example.com/load-balancer"

UNSPREAD: Json = {"score": {"disabled": [{"name": "PodTopologySpread"}]}}
"""Pods of one Deployment are not spread over nodes for its sake alone."""


def configured(**more: object) -> Json:
    own = {"schedulerName": "equipoise", "plugins": UNSPREAD, **more}
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [own],
    }


STRATEGY: Json = {"type": "MostAllocated", "resources": [{"name": "cpu", "weight": 1}]}
PACKING = configured(
    pluginConfig=[{"name": "NodeResourcesFit", "args": {"scoringStrategy": STRATEGY}}]
)
"""A profile that fills one node after the other, as the model never would."""


class Machine(NamedTuple):
    """A node with a GiB for each CPU."""

    name: str
    cpu: int
    labels: dict[str, str]


class Scene(NamedTuple):
    """Deployments that wait, where the design has their pods, and where the profile has them."""

    machines: list[Machine]
    deployments: list[Json]
    by_model: dict[str, dict[str, int]]
    """How many pods of each Deployment go to which machine."""
    one_by_one: dict[str, list[int]]
    """How many pods of a Deployment go to each machine that gets some; the most first."""
    profile: Json = configured()

    @property
    def pods(self) -> int:
        return sum(each["spec"]["replicas"] for each in self.deployments)


def expression(key: str, *values: str) -> Json:
    return {"key": key, "operator": "In", "values": list(values)}


def affinity(required: list[Json], preferred: list[tuple[int, Json]] | None = None) -> Json:
    """Node affinity to nodes where all expressions hold, rather to those of some weight."""
    rules: Json = {
        "requiredDuringSchedulingIgnoredDuringExecution": {
            "nodeSelectorTerms": [{"matchExpressions": required}]
        }
    }
    if preferred:
        rules["preferredDuringSchedulingIgnoredDuringExecution"] = [
            {"weight": weight, "preference": {"matchExpressions": [each]}}
            for weight, each in preferred
        ]
    return {"nodeAffinity": rules}


FIGURE_1 = Scene(
    [Machine(f"m{i}", 2, {}) for i in range(3)],
    [deployment("task", 3, "1", "1Gi")],
    by_model={"task": {"m0": 1, "m1": 1, "m2": 1}},
    one_by_one={"task": [2, 1]},
    profile=PACKING,
)
"""Three machines with room for two tasks each: each gets a task before one gets two."""

FIGURE_2 = Scene(
    [
        Machine("m0", 10, {"disk": "ssd"}),
        Machine("m1", 10, {"disk": "ssd"}),
        Machine("m2", 10, {"disk": "hdd"}),
    ],
    [
        deployment("small", 4, "1", "1Gi", nodeSelector={"disk": "ssd"}),
        deployment("large", 2, "2", "2Gi", nodeSelector={"disk": "hdd"}),
    ],
    by_model={"small": {"m0": 2, "m1": 2}, "large": {"m2": 2}},
    one_by_one={"small": [4], "large": [2]},
    profile=PACKING,
)
"""Tasks have arcs only to machines that their nodeSelector names, and spread over these."""

FIGURE_3 = Scene(
    [
        Machine("m0", 20, {"pool": "a", "web": "yes"}),
        Machine("m1", 20, {"pool": "a"}),
        Machine("m2", 20, {"pool": "b", "web": "yes"}),
    ],
    [
        deployment(
            "task",
            5,
            "1",
            "1Gi",
            affinity=affinity([expression("pool", "a")], [(80, expression("web", "yes"))]),
        )
    ],
    by_model={"task": {"m0": 3, "m1": 2}},
    one_by_one={"task": [5]},
)
"""M0 and M1 meet the requirement; M0 is preferred by 80 of 1000 points, and a task costs 50."""

STORY = Scene(
    [
        Machine("medium", 4, {INSTANCE: "m3.medium", REGION: "us-east-1"}),
        Machine("medium-y", 2, {INSTANCE: "m3.medium", REGION: "us-east-1", "y-web": "yes"}),
        Machine("large-y", 4, {INSTANCE: "m3.large", REGION: "us-west-2", "y-web": "yes"}),
        Machine("west", 4, {REGION: "us-west-2", BALANCER: "true"}),
        Machine("west-x", 4, {REGION: "us-west-2", BALANCER: "true", "x-web": "yes"}),
        Machine("east-x", 4, {REGION: "us-east-1", BALANCER: "true", "x-web": "yes"}),
    ],
    list(yaml.safe_load_all((EXAMPLES / "cost-model.yaml").read_text())),
    by_model={"nginx": {"medium-y": 2}, "httpd": {"west-x": 2, "west": 1}},
    one_by_one={"nginx": [2], "httpd": [3]},
)
"""nginx must be on an m3.medium with y-web, or fail; httpd in us-west-2 behind a load balancer,
rather on x-web, which is worth 50 points where a pod costs 250."""


def configuration(directory: Path, scene: Scene, *, batch: bool) -> str:
    """A configuration file with the model on or off, as an argument of the program."""
    own = {
        "apiVersion": "equipoise.dev/v1alpha1",
        "kind": "EquipoiseConfiguration",
        "batch": {
            "enabled": batch,
            "costModel": "CpuMemory",
            "minPending": scene.pods,
            "solverTimeout": "120s",
        },
    }
    file = directory / f"model-{batch}.yaml"
    file.write_text(yaml.safe_dump_all([scene.profile, own]))
    return f"--config={file}"


async def models(scheduler: SchedulerProcess, pods: int) -> Counter[str]:
    """How many pods each cost model has placed, by the scheduler's own decisions.

    A decision is recorded when the binding is answered, which may be after the pod is seen bound.
    """
    found: Counter[str] = Counter()
    async with aiohttp.ClientSession() as session, asyncio.timeout(PATIENCE):
        while found.total() < pods:
            async with session.get(f"{scheduler.url}/api/v1/decisions?limit=100") as answer:
                decisions: list[Json] = (await answer.json())["decisions"]
            found = Counter(each["model"] for each in decisions if each["result"] == "scheduled")
            await asyncio.sleep(POLL_SECONDS)
    return found


async def play(space: Workspace, scene: Scene) -> dict[str, Counter[str]]:
    """How many pods of each Deployment are on which node when all are settled."""

    def is_settled(each: Json) -> bool:
        return is_bound(each) or is_rejected(each)

    found: dict[str, Counter[str]] = {}
    for each in await space.wait_for_pods(scene.pods, is_settled):
        if is_bound(each):
            nodes = found.setdefault(each["metadata"]["labels"]["app"], Counter())
            nodes[node_of(each)] += 1
    return found


@pytest.mark.parametrize("batch", [True, False], ids=["by-model", "one-by-one"])
@pytest.mark.parametrize(
    "scene",
    [FIGURE_1, FIGURE_2, FIGURE_3, STORY],
    ids=["figure-1", "figure-2", "figure-3", "story"],
)
async def test_the_published_design(
    space: Workspace, launch: Launch, tmp_path: Path, scene: Scene, batch: bool
) -> None:
    names = {}
    for machine in scene.machines:
        memory = f"{machine.cpu}Gi"
        (added,) = await space.add_nodes(1, str(machine.cpu), memory, **machine.labels)
        names[machine.name] = added
    await space.apply(*scene.deployments)
    await space.wait_for_pods(scene.pods, lambda _: True)

    # Started now, it finds the whole backlog.
    scheduler = launch(*NO_ELECTION, configuration(tmp_path, scene, batch=batch))
    found = await play(space, scene)

    placed = sum(each.total() for each in found.values())
    if batch:
        assert found == {
            app: {names[name]: pods for name, pods in nodes.items()}
            for app, nodes in scene.by_model.items()
        }
        assert await models(scheduler, placed) == {"CpuMemory": placed}
    else:
        counts = {app: sorted(each.values(), reverse=True) for app, each in found.items()}
        assert counts == scene.one_by_one
        assert await models(scheduler, placed) == {"": placed}
