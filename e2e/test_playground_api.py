"""What the playground's API server knows of Kubernetes is what the real one says."""

import gzip
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from e2e.controlplane.binaries import KUBERNETES, cache_dir, locate
from e2e.controlplane.toolchain import find_go, go_environment
from e2e.harness.cluster import ControlPlane
from sandbox import discovery
from sandbox.resources import BUILT_IN, Catalog
from shipping import kubernetes_messages, kubernetes_schemas

COMPARED = ("singularName", "namespaced", "kind", "verbs", "shortNames", "categories")
GROUP_VERSIONS = sorted({(each.group, each.version) for each in BUILT_IN})


class RealServer:
    """Reads paths of the real API server."""

    def __init__(self, kubeconfig: Path) -> None:
        self._command = [str(locate("kubectl")), f"--kubeconfig={kubeconfig}", "get", "--raw"]

    def read(self, path: str) -> bytes:
        return subprocess.run([*self._command, path], check=True, capture_output=True).stdout


@pytest.fixture(scope="module")
def real_server(control_plane: ControlPlane) -> RealServer:
    return RealServer(control_plane.admin_kubeconfig)


def by_name(document: Any) -> dict[str, Any]:
    return {each["name"]: each for each in document["resources"]}


@pytest.mark.parametrize(("group", "version"), GROUP_VERSIONS)
def test_resources_are_called_as_on_the_real_server(
    real_server: RealServer, group: str, version: str
) -> None:
    parts = ["apis", group, version] if group else ["api", version]
    ours = by_name(discovery.document(Catalog(), parts))
    theirs = by_name(json.loads(real_server.read("/" + "/".join(parts))))
    assert ours.keys() <= theirs.keys()
    for name, entry in ours.items():
        expected = {field: theirs[name].get(field) for field in COMPARED}
        assert {field: entry.get(field) for field in COMPARED} == expected, name


def test_the_schemas_are_the_real_servers(real_server: RealServer) -> None:
    written = json.loads(gzip.decompress(kubernetes_schemas.TARGET.read_bytes()))
    found = kubernetes_schemas.collected(real_server.read)
    assert found == written, "run shipping.kubernetes_schemas"


def test_the_messages_are_those_of_the_go_types() -> None:
    go = str(find_go(cache_dir()))

    def source(module: str) -> Path:
        command = [go, "list", "-m", "-f", "{{.Dir}}", module]
        listed = subprocess.run(
            command,
            cwd=KUBERNETES.path,
            env=go_environment(),
            check=True,
            capture_output=True,
            text=True,
        )
        return Path(listed.stdout.strip())

    found = kubernetes_messages.collected(source("k8s.io/api"), source("k8s.io/apimachinery"))
    written = json.loads(gzip.decompress(kubernetes_messages.TARGET.read_bytes()))
    assert found == written, "run shipping.kubernetes_messages"
