"""Commands find the leader by the user's kubeconfig and reach its pod through the API server."""

import asyncio
import json
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from e2e.conftest import Launch
from e2e.harness.client import ApiClient
from e2e.harness.cluster import ControlPlane
from e2e.harness.election import PATIENT_ELECTION, wait_for_leader
from e2e.harness.kubeconfig import token_user
from e2e.harness.objects import Json, is_rejected, is_running, pod
from e2e.harness.scheduler import NAMESPACE, SchedulerProcess
from e2e.harness.workspace import Workspace
from e2e.test_serving import binding
from scheduler import __version__

LEADER = "equipoise-leader"


def own_address() -> str:
    """An address of this machine that is not loopback: the API server proxies to no other."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        probe.connect(("198.51.100.1", 9))  # sends nothing: it chooses a route
        return str(probe.getsockname()[0])


def pod_of(port: int) -> Json:
    """A pod that stands for the process; no kubelet and no scheduler cares for it."""
    container = {"name": "scheduler", "image": "none", "ports": [{"containerPort": port}]}
    labels = {"app.kubernetes.io/name": "equipoise"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": LEADER, "labels": labels},
        "spec": {"containers": [container], "schedulerName": "nobody"},
    }


@asynccontextmanager
async def in_a_pod(api: ApiClient, scheduler: SchedulerProcess) -> AsyncIterator[None]:
    """Have a pod point at the process."""
    port = urlsplit(scheduler.url).port
    assert port is not None
    pods = f"/api/v1/namespaces/{NAMESPACE}/pods"
    await api.create(pods, pod_of(port))
    address = own_address()
    status = {"phase": "Running", "podIP": address, "podIPs": [{"ip": address}]}
    await api.patch(f"{pods}/{LEADER}/status", {"status": status})
    try:
        yield
    finally:
        await api.delete(f"{pods}/{LEADER}", gracePeriodSeconds="0")


async def typed(kubeconfig: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """``equipoise`` as a user types it, with nothing but a kubeconfig."""
    environment = {key: value for key, value in os.environ.items() if "EQUIPOISE" not in key}
    command = [sys.executable, "-m", "scheduler", *arguments]
    return await asyncio.to_thread(
        subprocess.run,
        command,
        env={**environment, "KUBECONFIG": str(kubeconfig)},
        capture_output=True,
        text=True,
        check=False,
    )


def role_binding(account: str, namespace: str) -> Json:
    """The chart's role to find and reach the leader, for one account."""
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "RoleBinding",
        "metadata": {"name": f"{namespace}-viewer", "namespace": NAMESPACE},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "Role",
            "name": "equipoise-viewer",
        },
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": namespace}],
    }


def deployment(name: str, replicas: int, cpu: str) -> Json:
    """A workload whose pods ask for so much."""
    made = pod(name, cpu=cpu)
    template = {"metadata": {"labels": {"app": name}}, "spec": made["spec"]}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": template,
        },
    }


async def viewer(api: ApiClient, space: Workspace, plane: ControlPlane) -> Path:
    """The kubeconfig of an account with the rights of the chart's viewers, and no others."""
    accounts = f"/api/v1/namespaces/{space.name}/serviceaccounts"
    await api.create(accounts, {"metadata": {"name": "reader"}})
    rights = binding("equipoise-viewer", "reader", space.name)
    rights["metadata"]["name"] = f"{space.name}-viewer"
    await space.apply(rights, role_binding("reader", space.name))
    answer = await api.create(f"{accounts}/reader/token", {"spec": {"expirationSeconds": 600}})
    return plane.kubeconfig(f"{space.name}-reader", token_user(answer["status"]["token"]))


async def test_a_kubeconfig_is_enough(
    api: ApiClient,
    space: Workspace,
    launch: Launch,
    control_plane: ControlPlane,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    await space.add_nodes(1, cpu="2")
    monkeypatch.setenv("POD_NAME", LEADER)
    scheduler = launch(*PATIENT_ELECTION, "--bind-address=0.0.0.0", tls=True)
    assert (await wait_for_leader(api)).startswith(f"{LEADER}_")
    await space.create_pods([pod("small", cpu="1"), pod("huge", cpu="64")])
    await space.wait_for_pod("small", is_running)
    await space.wait_for_pod("huge", is_rejected)

    async with in_a_pod(api, scheduler):
        reader = await viewer(api, space, control_plane)
        admin = control_plane.admin_kubeconfig  # a certificate, which does not pass through
        for kubeconfig in (reader, admin):
            placed = await typed(kubeconfig, "explain", f"{space.name}/small", "-o", "json")
            assert placed.returncode == 0, placed.stderr
            said = json.loads(placed.stdout)
            assert said["standing"]["state"] == "bound"
            assert said["replica"]["leading"] is True
            waiting = await typed(kubeconfig, "explain", f"{space.name}/huge")
            assert waiting.returncode == 3, waiting.stderr
            assert "Insufficient cpu" in waiting.stdout
            for command in ("queue", "nodes", "decisions"):
                listed = await typed(kubeconfig, command)
                assert listed.returncode == 0, listed.stderr
                assert not listed.stderr
        unknown = await typed(reader, "explain", f"{space.name}/absent")
        assert (unknown.returncode, unknown.stdout) == (1, "")
        assert unknown.stderr == f"equipoise: unknown pod: {space.name}/absent\n"

        # A token that the scheduler does not know is refused, whoever asked the API server.
        stranger = await typed(reader, "queue", "--token", "made-up")
        assert stranger.returncode == 1
        assert "not, or no longer, valid" in stranger.stderr

        told = await typed(reader, "version")
        assert told.stdout == f"equipoise {__version__}\nequipoise {__version__} (server)\n"

    lost = await typed(reader, "queue")
    assert lost.returncode == 4
    assert f"the leader {LEADER}" in lost.stderr
    elsewhere = await typed(admin, "queue", "--lease", f"{space.name}/absent")
    assert "--lease" in elsewhere.stderr


async def test_workloads_are_explained_by_their_pods(
    api: ApiClient,
    space: Workspace,
    launch: Launch,
    control_plane: ControlPlane,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """A deployment that fits in part, one that makes no pods, and one that does not exist."""
    await space.add_nodes(1, cpu="4")
    monkeypatch.setenv("POD_NAME", LEADER)
    scheduler = launch(*PATIENT_ELECTION, "--bind-address=0.0.0.0", tls=True)
    await wait_for_leader(api)
    apps = f"/apis/apps/v1/namespaces/{space.name}/deployments"
    await api.create(apps, deployment("web", 5, cpu="1500m"))
    await api.create(apps, deployment("idle", 0, cpu="64"))
    two_placed = f"{apps}/web"
    await api.wait_until(two_placed, lambda web: web.get("status", {}).get("readyReplicas") == 2)

    admin = control_plane.admin_kubeconfig
    async with in_a_pod(api, scheduler):
        where = ("-n", space.name)
        web = await typed(admin, "explain", "deployment/web", *where)
        assert web.returncode == 3, web.stderr
        lines = web.stdout.splitlines()
        assert lines[0] == f"deployment {space.name}/web: 2 of 5 pods have nodes"
        assert lines[1].startswith(f"{space.name}/web-")
        assert "What would help" in lines

        listed = await typed(admin, "queue", *where, "-l", "app=web")
        assert "and 2 more" in listed.stdout, listed.stdout + listed.stderr
        assert listed.stdout.splitlines()[-1].startswith("3 waiting: ")

        idle = await typed(admin, "explain", "deploy/idle", *where, "-o", "json")
        assert idle.returncode == 3, idle.stderr
        assert "Insufficient cpu" in json.loads(idle.stdout)["message"]

        manifest = tmp_path / "new.yaml"
        manifest.write_text(json.dumps(deployment("new", 3, cpu="500m")))
        new = await typed(admin, "explain", "--what-if", str(manifest), *where, "-o", "json")
        assert new.returncode == 3, new.stderr
        said = json.loads(new.stdout)
        assert (said["replicas"]["asked"], said["replicas"]["fit"]) == (3, 2)
