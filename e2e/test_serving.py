"""Metrics and looks are served over TLS to those whom the cluster's own roles let in."""

import asyncio
from pathlib import Path

import aiohttp

from e2e.conftest import Launch
from e2e.harness.client import ApiClient
from e2e.harness.election import NO_ELECTION
from e2e.harness.objects import Json
from e2e.harness.patience import PATIENCE
from e2e.harness.scheduler import SchedulerProcess
from e2e.harness.workspace import Workspace

PROTECTED = """\
apiVersion: equipoise.dev/v1alpha1
kind: EquipoiseConfiguration
server:
  protection: always
"""


async def status(scheduler: SchedulerProcess, path: str, token: str = "") -> int:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    async with (
        aiohttp.ClientSession() as session,
        session.get(scheduler.url + path, headers=headers, ssl=False) as answer,
    ):
        await answer.read()
        return answer.status


def binding(name: str, account: str, namespace: str) -> Json:
    """The cluster role of this name, for one account."""
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {
            "apiGroup": "rbac.authorization.k8s.io",
            "kind": "ClusterRole",
            "name": name,
        },
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": namespace}],
    }


async def token_of(api: ApiClient, namespace: str, account: str) -> str:
    accounts = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    await api.create(accounts, {"metadata": {"name": account}})
    answer = await api.create(f"{accounts}/{account}/token", {"spec": {"expirationSeconds": 600}})
    return str(answer["status"]["token"])


def protected_config(directory: Path) -> Path:
    """A configuration with which the loopback address is treated like any other."""
    config = directory / "protected.yaml"
    config.write_text(PROTECTED)
    return config


async def grant_metrics(space: Workspace, account: str) -> None:
    """Let an account of the test's namespace read metrics."""
    name = f"{space.name}-metrics"
    role = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": name},
        "rules": [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}],
    }
    await space.apply(role, binding(name, account, space.name))


async def test_roles_decide_who_reads(
    api: ApiClient, space: Workspace, launch: Launch, tmp_path: Path
) -> None:
    await grant_metrics(space, "scraper")
    scraper = await token_of(api, space.name, "scraper")
    stranger = await token_of(api, space.name, "stranger")

    scheduler = launch("--config", str(protected_config(tmp_path)), *NO_ELECTION, tls=True)

    assert await status(scheduler, "/livez") == 200
    assert await status(scheduler, "/metrics") == 403
    assert await status(scheduler, "/metrics", "made-up") == 401
    assert await status(scheduler, "/metrics", stranger) == 403
    assert await status(scheduler, "/metrics", scraper) == 200
    assert await status(scheduler, "/configz", scraper) == 403

    await api.delete(f"/api/v1/namespaces/{space.name}/serviceaccounts/scraper")
    async with asyncio.timeout(PATIENCE):
        while await status(scheduler, "/metrics", scraper) != 401:  # noqa: ASYNC110  nobody tells
            await asyncio.sleep(0.5)
