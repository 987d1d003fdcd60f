"""The page on a real API server, read at a standby and at the leader, where a pod is cured."""

import asyncio
import shlex
import subprocess
from functools import partial

import aiohttp
from playwright.async_api import expect

from e2e.conftest import Launch
from e2e.controlplane.binaries import locate
from e2e.harness.client import ApiClient
from e2e.harness.cluster import ControlPlane
from e2e.harness.election import PATIENT_ELECTION, wait_for_leader
from e2e.harness.objects import is_bound, is_rejected, node_of, pod
from e2e.harness.patience import PATIENCE
from e2e.harness.scheduler import SchedulerProcess
from e2e.harness.workspace import Workspace
from tests.page.browser import PATIENCE_MS, chromium, reading
from tests.page.playground import needs_page
from tests.page.story import read_follow_and_see_it_bound

pytestmark = needs_page
TAINT = {"key": "example.com/reserved", "effect": "NoSchedule"}


async def leads(scheduler: SchedulerProcess) -> bool:
    """Whether a replica says that it schedules."""
    url = f"{scheduler.url}/api/v1/overview"
    async with aiohttp.ClientSession() as session, session.get(url) as answer:
        said = await answer.json()
    return bool(said["leader"])


async def typed(control_plane: ControlPlane, command: str) -> None:
    """Run the command that the page shows, with the real kubectl."""
    words = [str(locate("kubectl")), f"--kubeconfig={control_plane.admin_kubeconfig}"]
    words += shlex.split(command)[1:]
    done = await asyncio.to_thread(
        subprocess.run, words, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


async def test_a_pod_is_explained_cured_and_bound_through_the_leader(
    control_plane: ControlPlane, api: ApiClient, space: Workspace, launch: Launch
) -> None:
    expect.set_options(timeout=PATIENCE_MS)
    (node,) = await space.add_nodes(1)
    await api.patch(f"/api/v1/nodes/{node}", {"spec": {"taints": [TAINT]}})
    replicas = [launch(*PATIENT_ELECTION) for _ in range(2)]
    await wait_for_leader(api)
    async with asyncio.timeout(PATIENCE):
        while not any(leading := [await leads(each) for each in replicas]):  # noqa: ASYNC110  a glance
            await asyncio.sleep(0.1)
    leader, standby = replicas[leading.index(True)], replicas[leading.index(False)]
    selector = {"kubernetes.io/hostname": node}
    await space.create_pods([pod("wants-that-node", nodeSelector=selector)])
    await space.wait_for_pod("wants-that-node", is_rejected)
    async with chromium() as browser:
        async with reading(browser, standby.url) as (page, _):
            await expect(page.get_by_role("status").first).to_contain_text("is a standby")
        async with reading(browser, leader.url) as (page, _):
            follow = partial(typed, control_plane)
            await read_follow_and_see_it_bound(page, f"{space.name}/wants-that-node", follow)
            await page.goto(f"{leader.url}/ui/#/nodes/{node}")
            await expect(page.locator("main")).to_contain_text(f"{space.name}/wants-that-node")
    bound = await space.wait_for_pod("wants-that-node", is_bound)
    assert node_of(bound) == node
