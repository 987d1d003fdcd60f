"""The page on moving from kube-scheduler: its policy moves pods, and it has all flags."""

import asyncio
import re
import subprocess

import yaml

from e2e.controlplane.binaries import locate
from e2e.harness.client import POLL_SECONDS
from e2e.harness.objects import Json, pod
from e2e.harness.patience import PATIENCE
from e2e.harness.workspace import Workspace
from shipping.helm import PROJECT

PAGE = PROJECT / "docs" / "migration" / "kube-scheduler.md"


def test_every_flag_of_kube_scheduler_is_listed() -> None:
    done = subprocess.run(
        [locate("kube-scheduler"), "--help"],
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    flags = set(re.findall(r"^ +(?:-\w, )?(--[\w-]+)", done.stdout, re.M))
    assert len(flags) > 50
    assert set(re.findall(r"^\| `(--[\w-]+)`", PAGE.read_text(), re.M)) == flags


async def test_the_policy_moves_new_pods_of_labelled_namespaces(space: Workspace) -> None:
    block = re.search(
        r"^```yaml\n(# move-namespaces.yaml\n.*?)^```$", PAGE.read_text(), re.M | re.S
    )
    assert block is not None
    policy, binding = yaml.safe_load_all(block[1])
    labels = policy["spec"]["matchConstraints"]["namespaceSelector"]["matchLabels"]
    api, group = space.api, "/apis/admissionregistration.k8s.io/v1"
    paths = {f"{group}/mutatingadmissionpolicies": policy}
    paths[f"{group}/mutatingadmissionpolicybindings"] = binding
    for path, obj in paths.items():
        await api.create(path, obj)
    try:
        await api.patch(f"/api/v1/namespaces/{space.name}", {"metadata": {"labels": labels}})
        await until_new_pods_are_for(space, "equipoise")
        assert await scheduler_of_a_new_pod(space, "another") == "another"
        await api.patch(
            f"/api/v1/namespaces/{space.name}", {"metadata": {"labels": dict.fromkeys(labels)}}
        )
        await until_new_pods_are_for(space, "default-scheduler")
    finally:
        for path, obj in paths.items():
            await api.delete(f"{path}/{obj['metadata']['name']}")


async def until_new_pods_are_for(space: Workspace, scheduler: str) -> None:
    """Wait until the API server has read what changed of policies and labels."""
    async with asyncio.timeout(PATIENCE):
        while (  # noqa: ASYNC110  because policies have no event that says that they are in force
            await scheduler_of_a_new_pod(space, "default-scheduler") != scheduler
        ):
            await asyncio.sleep(POLL_SECONDS)


async def scheduler_of_a_new_pod(space: Workspace, named: str) -> str:
    """What the API server makes of a pod that names a scheduler; it is not stored."""
    path = f"{space.pods}?dryRun=All"
    created: Json = await space.api.create(path, pod("new", schedulerName=named))
    return str(created["spec"]["schedulerName"])
