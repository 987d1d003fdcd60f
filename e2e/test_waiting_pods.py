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

APPROVAL = """
from scheduler.model.status import Code, Status

class Approval:
    name = "Approval"
    def __init__(self, args, handle): ...
    def permit(self, cycle, node):
        return Status(Code.WAIT), 600.0
"""


def config(directory: Path) -> str:
    """Every pod waits for ten minutes, and callers are known."""
    plugins = directory / "plugins"
    plugins.mkdir()
    (plugins / "approval.py").write_text(APPROVAL)
    profile = {
        "schedulerName": "equipoise",
        "plugins": {"multiPoint": {"enabled": [{"name": "Approval"}]}},
    }
    documents = (
        {"apiVersion": KUBE_API_VERSION, "kind": KUBE_KIND, "profiles": [profile]},
        {
            "apiVersion": OWN_API_VERSION,
            "kind": OWN_KIND,
            "plugins": {"directory": str(plugins)},
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


def approver(space: Workspace, account: str) -> tuple[Json, Json]:
    """A role of the namespace that lets an account approve, and its binding."""
    group, name = "rbac.authorization.k8s.io", "approver"
    metadata = {"name": name, "namespace": space.name}
    rule = {"apiGroups": ["equipoise.dev"], "resources": ["waitingpods"], "verbs": ["approve"]}
    return (
        {"apiVersion": f"{group}/v1", "kind": "Role", "metadata": metadata, "rules": [rule]},
        {
            "apiVersion": f"{group}/v1",
            "kind": "RoleBinding",
            "metadata": metadata,
            "roleRef": {"apiGroup": group, "kind": "Role", "name": name},
            "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": space.name}],
        },
    )


def waits(pod: Json) -> bool:
    conditions = pod["status"].get("conditions", [])
    return any(each.get("reason") == "WaitingOnPermit" for each in conditions)


async def test_a_role_lets_an_account_approve(
    api: ApiClient, space: Workspace, launch: Launch, tmp_path: Path
) -> None:
    (node,) = await space.add_nodes(1)
    await space.apply(*approver(space, "boss"))
    boss = await token_of(api, space.name, "boss")
    clerk = await token_of(api, space.name, "clerk")
    scheduler = launch(config(tmp_path), *NO_ELECTION, tls=True)
    await space.create_pods([pod("p")])
    waiting = await space.wait_for_pod("p", waits)
    assert waiting["status"]["nominatedNodeName"] == node
    (condition,) = waiting["status"]["conditions"]
    assert condition["status"] == "False"
    assert f"waiting on permit for node {node} since " in condition["message"]
    path = f"{space.name}/p"
    assert await decide(scheduler, f"{path}/approve", clerk) == 403
    assert await decide(scheduler, f"{path}/reject", boss) == 403
    assert await decide(scheduler, f"{path}/approve", boss) == 200
    bound = await space.wait_for_pod("p", is_running)
    assert bound["spec"]["nodeName"] == node
