"""Another scheduler binds pods to the node that we have chosen: what the API server shows then.

The tests are the other scheduler. Pods come through one watch in the order of their writes: once a
later pod of ours is bound, the scheduler has seen what was bound before that pod was created.
"""

from pathlib import Path

import yaml

from e2e.conftest import Launch
from e2e.harness.client import ApiClient
from e2e.harness.election import NO_ELECTION
from e2e.harness.objects import Json, condition, is_bound, is_running, node_of, pod
from e2e.harness.workspace import Workspace
from e2e.test_serving import token_of
from e2e.test_waiting_pods import REQUIRED, approvers, decide, waits
from e2e.test_waiting_pods import config as approval
from scheduler.config.schema import OWN_API_VERSION, OWN_KIND

OTHER = "another-scheduler"


def headroom(directory: Path, seconds: float) -> str:
    own = {
        "apiVersion": OWN_API_VERSION,
        "kind": OWN_KIND,
        "binding": {"headroomSeconds": seconds},
    }
    file = directory / "scheduler.yaml"
    file.write_text(yaml.safe_dump(own))
    return f"--config={file}"


async def bind_by_another(space: Workspace, name: str, cpu: str, node: str) -> None:
    """Create a pod of another scheduler and bind it, as that would."""
    await space.create_pods([pod(name, cpu, schedulerName=OTHER)])
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    binding = {"metadata": {"name": name}, "target": target}
    await space.api.create(f"{space.pods}/{name}/binding", binding)


async def wait_until_seen(space: Workspace, number: int, size: str = "small") -> None:
    """Return when the scheduler has seen all that was written to pods so far, and tried ours."""
    name = f"seen-{number}"
    await space.create_pods([pod(name, "10m", nodeSelector={"size": size})])
    await space.wait_for_pod(name)


async def milli_cpu_on(space: Workspace, node: str) -> int:
    bound = filter(is_bound, await space.api.items(space.pods))
    pods = [each for each in bound if node_of(each) == node]
    return sum(_milli(each["spec"]["containers"][0]["resources"]) for each in pods)


def _milli(resources: Json) -> int:
    cpu = str(resources["requests"]["cpu"])
    return int(cpu[:-1]) if cpu.endswith("m") else int(cpu) * 1000


async def test_a_binding_whose_room_was_taken_meanwhile_is_not_sent(
    api: ApiClient, space: Workspace, launch: Launch, tmp_path: Path
) -> None:
    (large,) = await space.add_nodes(1, cpu="4")
    (small,) = await space.add_nodes(1, cpu="3", size="small")
    await space.apply(*approvers(space, "boss"))
    boss = await token_of(api, space.name, "boss")
    scheduler = launch(approval(tmp_path), *NO_ELECTION, tls=True)
    await space.create_pods([pod("p", "2", labels=REQUIRED)])
    waiting = await space.wait_for_pod("p", waits)
    assert waiting["status"]["nominatedNodeName"] == large

    await bind_by_another(space, "theirs", "3", large)
    await wait_until_seen(space, 1)
    assert await decide(scheduler, f"{space.name}/p/approve", boss) == 200
    # It is tried again at once, finds the other node, and asks for permission anew.
    await space.wait_for_pod("p", lambda p: p["status"].get("nominatedNodeName") == small)
    assert await decide(scheduler, f"{space.name}/p/approve", boss) == 200

    assert node_of(await space.wait_for_pod("p")) == small
    assert await milli_cpu_on(space, large) == 3000
    assert not await space.events_with_reason("FailedScheduling")


async def test_room_is_left_to_a_scheduler_that_is_at_work_on_a_node(
    space: Workspace, launch: Launch, tmp_path: Path
) -> None:
    (contested,) = await space.add_nodes(1, cpu="4")
    await space.add_nodes(1, cpu="1", size="small")
    launch(headroom(tmp_path, seconds=3600), *NO_ELECTION)
    await wait_until_seen(space, 0)

    await bind_by_another(space, "theirs-1", "2", contested)
    await space.create_pods([pod("p", "2")])
    await wait_until_seen(space, 1)
    await bind_by_another(space, "theirs-2", "2", contested)
    pending = await space.wait_for_pod("p", lambda p: condition(p, "PodScheduled"))
    assert not is_bound(pending)
    assert "Insufficient cpu" in condition(pending, "PodScheduled")["message"]
    assert await milli_cpu_on(space, contested) == 4000

    (another,) = await space.add_nodes(1, cpu="4")
    assert node_of(await space.wait_for_pod("p")) == another


async def test_room_is_left_for_a_while_only(
    space: Workspace, launch: Launch, tmp_path: Path
) -> None:
    (contested,) = await space.add_nodes(1, cpu="4", size="only")
    launch(headroom(tmp_path, seconds=0.5), *NO_ELECTION)
    await wait_until_seen(space, 0, "only")
    await bind_by_another(space, "theirs", "2", contested)
    await space.create_pods([pod("p", "1900m")])
    assert node_of(await space.wait_for_pod("p")) == contested


async def test_the_room_of_a_refused_pod_is_free_again(space: Workspace, launch: Launch) -> None:
    (node,) = await space.add_nodes(1, cpu="4")
    launch(*NO_ELECTION)
    await space.create_pods([pod("refused", "4")])
    await space.wait_for_pod("refused", is_running)  # kwok writes its status no more after that
    status = {"phase": "Failed", "reason": "OutOfcpu"}
    await space.api.patch(f"{space.pods}/refused/status", {"status": status})
    await space.create_pods([pod("next", "4")])
    assert node_of(await space.wait_for_pod("next")) == node
