"""What the chart renders is what the API server takes, to the last field."""

import asyncio
import re
import subprocess
from pathlib import Path

import pytest
import yaml

from e2e.controlplane.binaries import definitions, locate
from e2e.harness.client import ApiClient
from e2e.harness.objects import Json
from e2e.harness.patience import PATIENCE
from e2e.harness.workspace import Workspace
from e2e.installed.conftest import Installed
from shipping.helm import CHART, NAMESPACE, objects, render

VALUES = [None, *sorted((CHART / "ci").glob("*.yaml"))]


def kubectl(installed: Installed, *arguments: str | Path, manifests: str = "") -> str:
    """Run kubectl as the admin; it must succeed, and must not warn."""
    done = subprocess.run(
        [locate("kubectl"), "--kubeconfig", installed.plane.admin_kubeconfig, *arguments],
        input=manifests,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    # Beside warnings of the API server it says when it paces its own requests.
    assert (done.returncode, re.findall("^(?:Warning|error).*", done.stderr, re.M)) == (0, [])
    output: str = done.stdout
    return output


@pytest.fixture
async def monitored(installed: Installed, api: ApiClient) -> None:
    """The API server serves the kinds of the Prometheus operator and of the autoscaler."""
    files = [f"--filename={file}" for file in sorted(definitions().glob("*.yaml"))]
    await asyncio.to_thread(kubectl, installed, "apply", "--server-side", *files)
    await asyncio.to_thread(
        kubectl,
        installed,
        "wait",
        "--for=condition=Established",
        f"--timeout={PATIENCE:g}s",
        *files,
    )


@pytest.mark.usefixtures("monitored")
@pytest.mark.parametrize("values", VALUES, ids=lambda values: values.stem if values else "defaults")
async def test_server_side_dry_run(installed: Installed, values: Path | None) -> None:
    chosen: Json = yaml.safe_load(values.read_text()) if values else {}  # noqa: ASYNC240  a small local file
    manifests = await asyncio.to_thread(render, chosen, release="checked")

    answer = await asyncio.to_thread(
        kubectl,
        installed,
        *("apply", "--dry-run=server", "--validate=strict", "--filename=-"),
        manifests=manifests,
    )

    assert len(answer.splitlines()) == len(list(filter(None, yaml.safe_load_all(manifests))))


async def test_pods_pass_the_restricted_standard(space: Workspace) -> None:
    labels = {"pod-security.kubernetes.io/enforce": "restricted"}
    await space.api.patch(f"/api/v1/namespaces/{space.name}", {"metadata": {"labels": labels}})
    rendered = await asyncio.to_thread(objects)
    templates = [
        each["spec"]["template"] for each in rendered if "template" in each.get("spec", {})
    ]
    assert len(templates) == 2

    for number, template in enumerate(templates):
        spec = {**template["spec"], "serviceAccountName": "default"}
        body = {"metadata": {"name": f"p-{number}"}, "spec": spec}
        await space.api.create(f"{space.pods}?dryRun=All", body)


async def test_a_configuration_of_ones_own_is_noticed_when_it_changes(
    installed: Installed, api: ApiClient
) -> None:
    path = f"/api/v1/namespaces/{NAMESPACE}/configmaps"
    metadata = {"name": "mine"}

    async def checksum() -> str:
        text = await asyncio.to_thread(
            installed.release.helm,
            *("template", "checked", CHART, "--namespace", NAMESPACE, "--dry-run=server"),
            *("--set", "existingConfigMap=mine", "--show-only", "templates/deployment.yaml"),
        )
        template = yaml.safe_load(text)["spec"]["template"]
        return str(template["metadata"]["annotations"]["checksum/config"])

    await api.create(path, {"metadata": metadata, "data": {"config.yaml": "a: 1"}})
    first, again = await checksum(), await checksum()
    await api.patch(f"{path}/mine", {"data": {"config.yaml": "a: 2"}})
    changed = await checksum()
    await api.delete(f"{path}/mine")

    assert first == again != changed
