"""A pod that waits for permission on a real API server: what it says, and who may decide."""

from pathlib import Path

import aiohttp
import yaml

from e2e.conftest import Launch
from e2e.harness.client import ApiClient
from e2e.harness.election import NO_ELECTION
from e2e.harness.objects import Json, is_running, pod
from e2e.harness.scheduler import SchedulerProcess
from e2e.harness.workspace import Workspace
from e2e.test_serving import token_of
from scheduler.config.schema import KUBE_API_VERSION, KUBE_KIND, OWN_API_VERSION, OWN_KIND

EXAMPLE = Path(__file__).parents[1] / "deploy" / "examples" / "approval"
REQUIRED = {"approval.example.com/required": "yes"}


def config(directory: Path) -> str:
    """The example's plugin, and callers that are known."""
    profile = {
        "schedulerName": "equipoise",
        "plugins": {"multiPoint": {"enabled": [{"name": "Approval"}]}},
    }
    documents = (
        {"apiVersion": KUBE_API_VERSION, "kind": KUBE_KIND, "profiles": [profile]},
        {
            "apiVersion": OWN_API_VERSION,
            "kind": OWN_KIND,
            "plugins": {"directory": str(EXAMPLE)},
            "server": {"protection": "always"},
        },
    )
    file = directory / "scheduler.yaml"
    file.write_text(yaml.safe_dump_all(documents))
    return f"--config={file}"


async def decide(scheduler: SchedulerProcess, path: str, token: str) -> int:
    headers = {"Authorization": f"Bearer {token}"}
    async with (
        aiohttp.ClientSession() as session,
        session.post(
            f"{scheduler.url}/api/v1/waiting/{path}", headers=headers, ssl=False
        ) as answer,
    ):
        await answer.read()
        return answer.status


def approvers(space: Workspace, account: str) -> list[Json]:
    """The example's role and its binding, for an account of the test's namespace."""
    role, binding = yaml.safe_load_all((EXAMPLE / "approvers.yaml").read_text())
    for each in (role, binding):
        each["metadata"]["namespace"] = space.name
    binding["subjects"] = [{"kind": "ServiceAccount", "name": account, "namespace": space.name}]
    return [role, binding]


def waits(pod: Json) -> bool:
    conditions = pod["status"].get("conditions", [])
    return any(each.get("reason") == "WaitingOnPermit" for each in conditions)


async def test_a_role_lets_an_account_approve(
    api: ApiClient, space: Workspace, launch: Launch, tmp_path: Path
) -> None:
    (node,) = await space.add_nodes(1)
    await space.apply(*approvers(space, "boss"))
    boss = await token_of(api, space.name, "boss")
    clerk = await token_of(api, space.name, "clerk")
    scheduler = launch(config(tmp_path), *NO_ELECTION, tls=True)
    await space.create_pods([pod("p", labels=REQUIRED), pod("free")])
    await space.wait_for_pod("free", is_running)
    waiting = await space.wait_for_pod("p", waits)
    assert waiting["status"]["nominatedNodeName"] == node
    (condition,) = waiting["status"]["conditions"]
    assert condition["status"] == "False"
    assert f"waiting on permit for node {node} since " in condition["message"]
    path = f"{space.name}/p"
    assert await decide(scheduler, f"{path}/approve", clerk) == 403
    assert await decide(scheduler, f"{path}/reject", clerk) == 403
    assert await decide(scheduler, f"{path}/approve", boss) == 200
    bound = await space.wait_for_pod("p", is_running)
    assert bound["spec"]["nodeName"] == node
