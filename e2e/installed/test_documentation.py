"""Every command of README and docs, typed in the order of the page on a fresh installation."""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import yaml

from e2e.controlplane.binaries import locate
from e2e.harness import typed
from e2e.harness.client import ApiClient, api_client
from e2e.harness.cluster import ControlPlane
from e2e.harness.kubelet import LocalKubelet
from e2e.harness.objects import is_bound, node, pod
from e2e.installed.conftest import cluster
from e2e.installed.release import DEPLOYMENT, wait_until_leading
from scheduler.config.loading import from_dicts
from shipping.documents import Page, pages
from shipping.helm import CHART, NAMESPACE, PROJECT, RELEASE, HelmError, helm

SECONDS = 120
NODES = 3
DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

NOT_TYPED = {
    "docker": "there is no engine here; the image's steps are run by the tests of the image",
    "make": "its targets are what runs these tests; that they exist is tested elsewhere",
    "promtool": "the tests of the alerts run it",
    "python": "generators, which have tests of their own",
}
INSTALLS = ("helm install", "kubectl apply -k deploy")
TYPED = sorted(
    (
        page
        for page in pages()
        if any(command.split()[0] not in NOT_TYPED for command in page.commands())
    ),
    # What helm has installed it can remove, so the page without helm comes last.
    key=lambda page: page.name == "deploy/README.md",
)


@pytest.fixture(scope="module")
def documented(
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[tuple[ControlPlane, LocalKubelet]]:
    """A cluster with nodes and nothing else."""
    with cluster(tmp_path_factory.mktemp("documented")) as (plane, kubelet):
        asyncio.run(add_nodes(plane))
        yield plane, kubelet


async def add_nodes(plane: ControlPlane) -> None:
    async with api_client(plane.url, plane.admin_context) as api:
        await api.create_all("/api/v1/nodes", (node(f"worker-{n}") for n in range(NODES)))


@pytest.fixture
async def api(documented: tuple[ControlPlane, LocalKubelet]) -> AsyncIterator[ApiClient]:
    """A client of the API server with all rights; afterwards the cluster is empty again."""
    plane, kubelet = documented
    async with api_client(plane.url, plane.admin_context) as client:
        yield client
        print(kubelet.tails())
        await remove_everything(plane, client)


async def remove_everything(plane: ControlPlane, api: ApiClient) -> None:
    kubeconfig = {"KUBECONFIG": str(plane.admin_kubeconfig)}
    try:
        await asyncio.to_thread(
            helm, "uninstall", RELEASE, "--namespace", NAMESPACE, environment=kubeconfig
        )
    except HelmError as error:
        if "not found" not in str(error):
            raise
    for path in (
        f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/viewer",
        "/apis/apps/v1/namespaces/default/deployments/web",
        f"{DEFINITIONS}/noderesourcetopologies.topology.node.k8s.io",
    ):
        await api.delete(path)
    await api.delete("/api/v1/namespaces/default/pods", gracePeriodSeconds="0")


@pytest.mark.parametrize("page", TYPED, ids=lambda page: page.name)
async def test_every_command_succeeds(
    page: Page,
    documented: tuple[ControlPlane, LocalKubelet],
    api: ApiClient,
    tmp_path: Path,
) -> None:
    plane, kubelet = documented
    environment = surroundings(page, plane, tmp_path)
    commands = page.commands()
    if not any(command.startswith(INSTALLS) for command in commands):
        await install(plane, kubelet, api, environment)
    await api.create("/api/v1/namespaces/default/pods", pod("web-1"))

    script = "\n".join(["set -eu", *(line for each in commands for line in traced(each))])
    try:
        done = await asyncio.to_thread(run, script, environment, tmp_path)
        # Whoever a page has started schedules.
        await api.wait_until("/api/v1/namespaces/default/pods/web-1", is_bound)
    finally:
        typed.stop(tmp_path / "typed.json")
    assert done.returncode == 0, f"{done.stdout[-4000:]}\n{done.stderr[-4000:]}"


def traced(command: str) -> list[str]:
    """The command, after itself, so that one that fails can be found in the output."""
    if command.split(maxsplit=1)[0] in NOT_TYPED:
        return []
    return [f"printf '$ %s\\n' {quoted(command)}", command]


def quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def run(
    script: str, environment: dict[str, str], directory: Path
) -> subprocess.CompletedProcess[str]:
    """Type it all into one shell."""
    return subprocess.run(
        ["sh"],
        input=script,
        env=environment,
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )


def surroundings(page: Page, plane: ControlPlane, directory: Path) -> dict[str, str]:
    """A directory like the checkout, with the files that the page speaks of, and the programs."""
    for each in PROJECT.iterdir():
        (directory / each.name).symlink_to(each)
    scheduler = from_dicts([], None, {}).to_yaml()
    objects = [node("n"), pod("p")]
    files = {"scheduler.yaml": scheduler, "cluster.yaml": yaml.safe_dump_all(objects)}
    for name, text in {**files, **page.files()}.items():
        (directory / name).parent.mkdir(exist_ok=True)
        (directory / name).write_text(text)
    home = directory / "home"
    (home / ".kube").mkdir(parents=True)
    (home / ".kube" / "config").write_text(plane.admin_kubeconfig.read_text())
    programs = directory / "bin"
    programs.mkdir()
    write_program(programs / "helm", f'exec {locate("helm")} "$@"')
    # Replicas are processes of this machine: their ports need no forwarding.
    forwarding = 'case " $* " in *" port-forward "*) exit 0 ;; esac'
    write_program(programs / "kubectl", f'{forwarding}\nexec {locate("kubectl")} "$@"')
    write_program(programs / "equipoise", f'exec {sys.executable} -m e2e.harness.typed "$@"')
    inherited = {key: value for key, value in os.environ.items() if "EQUIPOISE" not in key}
    return {
        **inherited,
        "HOME": str(home),
        "PATH": f"{programs}:{os.environ['PATH']}",
        "PYTHONPATH": str(PROJECT),
        "TYPED": str(directory / "typed.json"),
        "REPLICA": "",
    }


def write_program(path: Path, script: str) -> None:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


async def install(
    plane: ControlPlane, kubelet: LocalKubelet, api: ApiClient, environment: dict[str, str]
) -> None:
    """What a page takes for granted: a release that works, and somebody who may look."""
    viewer = {"kind": "ServiceAccount", "name": "viewer", "namespace": NAMESPACE}
    settings = ",".join(f"rbac.viewers[0].{key}={value}" for key, value in viewer.items())
    await asyncio.to_thread(
        helm,
        *("install", RELEASE, CHART, "--namespace", NAMESPACE, "--create-namespace"),
        *("--set", settings),
        environment={"KUBECONFIG": str(plane.admin_kubeconfig)},
    )
    await api.create(
        f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts", {"metadata": {"name": "viewer"}}
    )
    await api.wait_until(DEPLOYMENT, lambda _: True)
    await wait_until_leading(api, kubelet)
    environment["REPLICA"] = kubelet.ready()[0].url.removeprefix("https://")
