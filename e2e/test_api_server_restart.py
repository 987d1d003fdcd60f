"""The API server crashes and restarts in the middle of the work."""

import asyncio
from collections import Counter
from pathlib import Path

import yaml

from e2e.conftest import Launch
from e2e.harness.cluster import ControlPlane
from e2e.harness.election import NO_ELECTION
from e2e.harness.objects import deployment, is_bound
from e2e.harness.workspace import Workspace


def paced(directory: Path) -> str:
    """A configuration with which 500 pods take a while, as an argument of the program."""
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"qps": 50, "burst": 50},
    }
    file = directory / "paced.yaml"
    file.write_text(yaml.safe_dump(document))
    return f"--config={file}"


async def test_all_500_pods_are_bound_after_the_api_server_crashed(
    control_plane: ControlPlane, space: Workspace, launch: Launch, tmp_path: Path
) -> None:
    nodes = await space.add_nodes(50, cpu="4")
    scheduler = launch(*NO_ELECTION, paced(tmp_path))
    await space.api.create(space.deployments, deployment("web", replicas=500, cpu="400m"))
    before = await space.api.wait_until(
        space.pods, lambda pods: sum(map(is_bound, pods["items"])) >= 50, resourceVersion="0"
    )

    await asyncio.to_thread(control_plane.restart_apiserver)

    pods = await space.wait_for_pods(500)
    assert sum(map(is_bound, before["items"])) < 450, "the crash came too late to prove anything"
    assert scheduler.process.exit_code is None
    # Ten pods of 400m fill a node of 4 CPUs: none may have been forgotten, none counted twice.
    assert Counter(each["spec"]["nodeName"] for each in pods) == dict.fromkeys(nodes, 10)
