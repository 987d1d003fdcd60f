"""A control plane of its own with kube-scheduler, an audit log, and the release installed."""

import asyncio
import json
import re
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import pytest

from e2e.controlplane.binaries import locate
from e2e.harness.audit import AuditLog
from e2e.harness.client import ApiClient, api_client
from e2e.harness.cluster import ControlPlane
from e2e.harness.kubelet import LocalKubelet, Replica
from e2e.harness.objects import node
from e2e.harness.processes import Process, answers_ok, start_on_free_ports
from e2e.harness.workspace import Workspace, workspace
from e2e.installed.release import CONTROL_LABEL, CONTROL_TAINT, SELECTOR, Release
from shipping.helm import NAMESPACE, RELEASE


@dataclass(frozen=True)
class Installed:
    """The control plane, the release in it, and its replicas."""

    plane: ControlPlane
    audit: AuditLog
    release: Release
    kubelet: LocalKubelet

    async def token(self, api: ApiClient, space: Workspace) -> str:
        """A token of a service account without any rights, the default one of the namespace."""
        account = f"/api/v1/namespaces/{space.name}/serviceaccounts/default/token"
        return str((await api.create(account, {}))["status"]["token"])

    async def ask(self, replica: Replica, path: str, token: str = "") -> tuple[int, str]:
        """What a replica answers to the holder of the token: status and body."""
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        connector = aiohttp.TCPConnector(ssl=self.plane.certificates.trust())
        async with (
            aiohttp.ClientSession(connector=connector) as session,
            session.get(f"{replica.url}{path}", headers=headers) as response,
        ):
            return response.status, await response.text()


@pytest.fixture(scope="package")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Installed]:
    """The release as the README installs it."""
    with installation(tmp_path_factory.mktemp("installed")) as ours:
        yield ours


@contextmanager
def installation(directory: Path, *settings: str) -> Iterator[Installed]:
    """The release on a cluster with its own scheduler, on nodes where nothing else may run."""
    audit = AuditLog(directory, NAMESPACE)
    with cluster(directory, audit.flags()) as (plane, kubelet):
        asyncio.run(add_control_nodes(plane))
        release = Release(plane)
        release.install(*settings)
        yield Installed(plane, audit, release, kubelet)


@contextmanager
def cluster(
    directory: Path, apiserver_flags: Sequence[str] = ()
) -> Iterator[tuple[ControlPlane, LocalKubelet]]:
    """A control plane with kube-scheduler, and processes for the pods of a release to come."""
    with (
        ControlPlane(directory, apiserver_flags=apiserver_flags) as plane,
        kube_scheduler(plane),
        LocalKubelet(plane, NAMESPACE, SELECTOR, plane.certificates.server("replica")) as kubelet,
    ):
        yield plane, kubelet


async def add_control_nodes(plane: ControlPlane) -> None:
    """Two nodes for the release's own pods, which outlive every test."""
    async with api_client(plane.url, plane.admin_context) as api:
        for number in range(2):
            control = node(f"control-{number}")
            control["metadata"]["labels"] |= CONTROL_LABEL
            control["spec"] = {"taints": [CONTROL_TAINT]}
            await api.create("/api/v1/nodes", control)


@contextmanager
def kube_scheduler(plane: ControlPlane) -> Iterator[None]:
    """The cluster's default scheduler, for the release's own pods and for competition."""
    serving = plane.certificates.server("kube-scheduler")
    config = plane.directory / "kube-scheduler.yaml"
    config.write_text(
        json.dumps(
            {
                "apiVersion": "kubescheduler.config.k8s.io/v1",
                "kind": "KubeSchedulerConfiguration",
                "clientConnection": {"kubeconfig": str(plane.admin_kubeconfig)},
                "leaderElection": {"leaderElect": False},
            }
        )
    )

    def start(port: int) -> Process:
        process = Process(
            [
                *(locate("kube-scheduler"), f"--config={config}"),
                *("--bind-address=127.0.0.1", f"--secure-port={port}"),
                f"--tls-cert-file={serving.certificate}",
                f"--tls-private-key-file={serving.key}",
            ],
            plane.directory / "kube-scheduler.log",
        )
        trust = plane.certificates.trust()
        url = f"https://127.0.0.1:{port}/readyz"
        process.wait_ready(lambda: answers_ok(url, trust))
        return process

    process = start_on_free_ports(1, start)
    try:
        yield
    finally:
        process.stop()


@pytest.fixture
async def api(installed: Installed) -> AsyncIterator[ApiClient]:
    """A client of the API server with all rights; no test may see our account denied anything."""
    async with api_client(installed.plane.url, installed.plane.admin_context) as client:
        yield client
    print(f"logs: {installed.plane.directory}\n{installed.kubelet.tails()}")
    assert installed.audit.denied(RELEASE) == []


@pytest.fixture
async def space(api: ApiClient, request: pytest.FixtureRequest) -> AsyncIterator[Workspace]:
    """The namespace and nodes of this test, gone from the cluster when it ends."""
    name = re.sub("[^a-z0-9]+", "-", request.node.name.removeprefix("test_"))[:40].strip("-")
    async with workspace(api, name) as fresh:
        yield fresh
