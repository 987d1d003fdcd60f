"""Installed as the README says, the release schedules, and ``helm test`` checks it."""

import asyncio

import pytest

from e2e.harness.objects import deployment, is_running
from e2e.harness.patience import PATIENCE
from e2e.harness.workspace import Workspace
from e2e.installed.conftest import Installed
from e2e.installed.release import wait_until_leading
from shipping.helm import HelmError


async def test_five_hundred_pods_run(installed: Installed, space: Workspace) -> None:
    nodes = await space.add_nodes(25)
    await wait_until_leading(space.api, installed.kubelet)

    await space.apply(deployment("web", 500, cpu="50m"))

    pods = await space.wait_for_pods(500, is_running)
    assert {pod["spec"]["nodeName"] for pod in pods} <= set(nodes)


async def test_the_notes_name_a_pod_to_try_and_warn_of_nothing(installed: Installed) -> None:
    assert "schedulerName: equipoise" in installed.release.notes
    assert "WARNING" not in installed.release.notes


async def test_helm_test_passes(installed: Installed, space: Workspace) -> None:
    await space.add_nodes(2)
    await wait_until_leading(space.api, installed.kubelet)
    await asyncio.to_thread(installed.release.test, f"{PATIENCE:g}s")


async def test_helm_test_fails_without_the_scheduler(
    installed: Installed, space: Workspace
) -> None:
    await space.add_nodes(2)
    await wait_until_leading(space.api, installed.kubelet)
    with (
        installed.kubelet.suspended(),
        pytest.raises(HelmError, match=r"timed out|deadline exceeded"),
    ):
        await asyncio.to_thread(installed.release.test, "10s")
    await wait_until_leading(space.api, installed.kubelet)
    await asyncio.to_thread(installed.release.test, f"{PATIENCE:g}s")
