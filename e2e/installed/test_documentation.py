"""Every command of README and docs, typed in the order of the page on a fresh installation."""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
import yaml

from e2e.controlplane.binaries import locate
from e2e.harness import typed
from e2e.harness.client import ApiClient, api_client
from e2e.harness.cluster import ControlPlane
from e2e.harness.definitions import undefine
from e2e.harness.kubelet import LocalKubelet
from e2e.harness.manifests import CLUSTER_WIDE, path_of
from e2e.harness.objects import is_bound, node, pod
from e2e.harness.shell import Shell
from e2e.installed.conftest import cluster
from e2e.installed.release import wait_until_leading
from scheduler.config.loading import from_dicts
from shipping.helm import CHART, NAMESPACE, PROJECT, RELEASE, HelmError, helm, objects
from tests.documents import Page, pages

NODES = 3

NOT_TYPED = {
    "docker": "there is no engine here; the image's steps are run by the tests of the image",
    **dict.fromkeys(
        ("ctr", "k3d", "kind", "minikube"),
        "there is no engine here; the archive is read by the tests of the image",
    ),
    "make": "its targets are what runs these tests; that they exist is tested elsewhere",
    "promtool": "the tests of the alerts run it",
    "python": "generators, which have tests of their own",
}
STARTS = ("helm install", "helm upgrade --install", "kubectl apply -k deploy", "equipoise run")
"""A page with one of these brings a scheduler of its own; others take a release for granted."""
KEPT = ("noderesourcetopologies.topology.node.k8s.io", "podgroups.scheduling.x-k8s.io")
"""Definitions that outlive the release that brings them."""
PLAYED = ("docs/tutorial.md",)
"""Typed into a playground, by tests of its own."""
TYPED = [
    page
    for page in pages()
    if page.name not in PLAYED
    and any(command.split()[0] not in NOT_TYPED for command in page.commands())
]


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
    """A client of the API server with all rights; afterwards the cluster is as it was before."""
    plane, kubelet = documented
    async with api_client(plane.url, plane.admin_context) as client:
        yield client
        print(f"logs: {plane.directory}\n{kubelet.tails()}")
        await remove_everything(plane, kubelet, client)


async def remove_everything(plane: ControlPlane, kubelet: LocalKubelet, api: ApiClient) -> None:
    """Remove whatever a page may have left; returns when it is gone, for any page may be next."""
    kubeconfig = {"KUBECONFIG": str(plane.admin_kubeconfig)}
    try:
        await asyncio.to_thread(
            helm, "uninstall", RELEASE, "--namespace", NAMESPACE, environment=kubeconfig
        )
    except HelmError as error:
        if "not found" not in str(error):
            raise
    await api.delete(f"/api/v1/namespaces/{NAMESPACE}")
    # What has come without helm has the same names.
    for obj in await asyncio.to_thread(objects):
        if obj["kind"] in CLUSTER_WIDE:
            await api.delete(path_of(obj))
    await api.delete("/apis/apps/v1/namespaces/default/deployments/web")
    await api.wait_until_gone(f"/api/v1/namespaces/{NAMESPACE}")
    for name in KEPT:
        await undefine(api, name)
    pods = "/api/v1/namespaces/default/pods"
    await api.delete(pods, gracePeriodSeconds="0")
    await api.wait_until(pods, lambda found: not found["items"] and kubelet.is_idle())
    plane.restart_kwok()  # the next page has pods of the same names


@pytest.mark.parametrize("page", TYPED, ids=lambda page: page.name)
async def test_every_command_succeeds(
    page: Page,
    documented: tuple[ControlPlane, LocalKubelet],
    api: ApiClient,
    tmp_path: Path,
) -> None:
    plane, kubelet = documented
    environment = surroundings(page, plane, kubelet, tmp_path)
    commands = page.commands()
    if not any(command.startswith(STARTS) for command in commands):
        await install(plane, kubelet, api)
    await api.create("/api/v1/namespaces/default/pods", pod("web-1"))
    daemon = Path(environment["TYPED"])
    try:
        await asyncio.to_thread(type_all, commands, environment, tmp_path)
        # The scheduler that the page has started binds the pod.
        await api.wait_until("/api/v1/namespaces/default/pods/web-1", is_bound)
    finally:
        if typed.log_file(daemon).exists():
            print(f"--- equipoise run\n{typed.log_file(daemon).read_text()[-8000:]}")
        await asyncio.to_thread(typed.stop, daemon)


def type_all(commands: list[str], environment: dict[str, str], directory: Path) -> None:
    """Type it all into one shell; a command that fails or hangs raises what there is to know."""
    with Shell(directory, environment) as shell:
        for command in commands:
            if command.split(maxsplit=1)[0] not in NOT_TYPED:
                print(f"$ {command}\n{shell.type(command)}")


def surroundings(
    page: Page, plane: ControlPlane, kubelet: LocalKubelet, directory: Path
) -> dict[str, str]:
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
    # Replicas are processes of this machine: of a port that is forwarded, the address is enough.
    forwarded, replica = directory / "forwarded", kubelet.url_file("$pod")
    forwarding = f'''all="$*"
case "$all" in *" port-forward pod/"*)
  pod=${{all#* port-forward pod/}} pod=${{pod%% *}}
  cp "{replica}" "{forwarded}.new" && exec mv "{forwarded}.new" "{forwarded}" ;;
esac'''
    write_program(programs / "kubectl", f'{forwarding}\nexec {locate("kubectl")} "$@"')
    write_program(programs / "equipoise", f'exec {sys.executable} -m e2e.harness.typed "$@"')
    inherited = {key: value for key, value in os.environ.items() if "EQUIPOISE" not in key}
    return {
        **inherited,
        "HOME": str(home),
        "PATH": f"{programs}:{os.environ['PATH']}",
        "PYTHONPATH": str(PROJECT),
        "TYPED": str(directory / "typed.json"),
        "FORWARDED": str(forwarded),
    }


def write_program(path: Path, script: str) -> None:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


async def install(plane: ControlPlane, kubelet: LocalKubelet, api: ApiClient) -> None:
    """What a page assumes: a release that works, and a user with the rights to read."""
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
    await wait_until_leading(api, kubelet)
