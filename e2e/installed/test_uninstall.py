"""A release that goes leaves nothing but definitions, for objects of others depend on those."""

import asyncio
import json
import time
from pathlib import Path

from e2e.harness.client import ApiClient
from e2e.harness.definitions import undefine
from e2e.harness.election import holder
from e2e.harness.kubelet import LocalKubelet
from e2e.harness.patience import PATIENCE
from e2e.harness.workspace import Workspace
from e2e.installed.conftest import Installed
from shipping.helm import CHART

Found = tuple[str, str, str]
"""Kind, namespace and name."""

VALUES = {
    "schedulerName": "second",
    "plugins": {"enabled": [{"name": "NodeResourceTopologyMatch"}, {"name": "Coscheduling"}]},
    "service": {"enabled": True},
    "networkPolicy": {"enabled": True},
    "flowSchema": {"enabled": True},
    "metrics": {"dashboards": {"enabled": True}},
    "crds": {"nodeResourceTopology": {"create": True}, "podGroup": {"create": True}},
    "rbac": {"viewers": [{"kind": "User", "name": "x", "apiGroup": "rbac.authorization.k8s.io"}]},
}
DEFINITIONS = ("noderesourcetopologies.topology.node.k8s.io", "podgroups.scheduling.x-k8s.io")
BY_THEMSELVES = ("APIService", "Event", "Node", "CSINode")
"""Kinds that other parts of the cluster make and remove."""


async def everything(api: ApiClient, namespace: str) -> set[Found]:
    """All objects of the namespace, and those of the cluster that last."""
    paths = ["/api/v1", *(f"/apis/{each}" for each in await group_versions(api))]
    found: set[Found] = set()
    for path in paths:
        for resource in (await api.get(path))["resources"]:
            if "list" not in resource["verbs"] or resource["kind"] in BY_THEMSELVES:
                continue
            where = f"/namespaces/{namespace}" if resource["namespaced"] else ""
            for each in await api.items(f"{path}{where}/{resource['name']}"):
                metadata = each["metadata"]
                found.add((resource["kind"], metadata.get("namespace", ""), metadata["name"]))
    return found


async def group_versions(api: ApiClient) -> list[str]:
    groups = (await api.get("/apis"))["groups"]
    return [each["preferredVersion"]["groupVersion"] for each in groups]


async def test_nothing_but_definitions_is_left(
    installed: Installed, space: Workspace, tmp_path: Path
) -> None:
    await space.add_nodes(2)
    before = await everything(space.api, space.name)
    values = tmp_path / "values.json"
    values.write_text(json.dumps(VALUES))
    selector = "app.kubernetes.io/instance=second"
    serving = installed.plane.certificates.server("second")
    lease = f"/apis/coordination.k8s.io/v1/namespaces/{space.name}/leases/second-equipoise"

    with LocalKubelet(installed.plane, space.name, selector, serving):
        await asyncio.to_thread(
            installed.release.helm,
            *("install", "second", CHART, "--namespace", space.name, "--values", values),
        )
        await space.api.wait_until(lease, holder)
        assert len(await everything(space.api, space.name) - before) > 15
        await asyncio.to_thread(
            installed.release.helm, "uninstall", "second", "--namespace", space.name
        )
        left = {("CustomResourceDefinition", "", name) for name in DEFINITIONS}
        await wait_until_left(space, before, left)

    for name in DEFINITIONS:
        await undefine(space.api, name)


async def wait_until_left(space: Workspace, before: set[Found], wanted: set[Found]) -> None:
    """Wait until what came since ``before`` is what is wanted: the rest is removed in a while."""
    deadline = time.monotonic() + PATIENCE
    while (left := await everything(space.api, space.name) - before) != wanted:
        assert time.monotonic() < deadline, f"left behind: {sorted(left - wanted)}"
