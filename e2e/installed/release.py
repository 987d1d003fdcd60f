"""The release under test: helm's commands on it, as the admin of the cluster."""

import json
from collections.abc import Iterable
from pathlib import Path

from e2e.harness.client import ApiClient
from e2e.harness.cluster import ControlPlane
from e2e.harness.election import holder
from e2e.harness.kubelet import LocalKubelet
from e2e.harness.objects import Json
from shipping.helm import CHART, NAMESPACE, RELEASE, helm

SELECTOR = f"app.kubernetes.io/name=equipoise,app.kubernetes.io/instance={RELEASE}"
DEPLOYMENT = f"/apis/apps/v1/namespaces/{NAMESPACE}/deployments/{RELEASE}"
LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/{RELEASE}"

CONTROL_LABEL = {"pool": "control"}
CONTROL_TAINT = {"key": "control", "effect": "NoSchedule"}


class Release:
    """Runs helm with the admin's kubeconfig; raises ``HelmError`` with what helm said."""

    def __init__(self, plane: ControlPlane) -> None:
        self._kubeconfig: Path = plane.admin_kubeconfig
        self._surroundings = plane.directory / "values.json"
        tolerations = [{**CONTROL_TAINT, "operator": "Exists"}]
        values = {
            "nodeSelector": CONTROL_LABEL,
            "tolerations": tolerations,
            # Processes serve on loopback, and are to protect themselves as in a pod.
            "equipoiseConfig": {"server": {"protection": "always"}},
        }
        self._surroundings.write_text(json.dumps(values))
        self.notes = ""

    def install(self, *settings: str, values: Path | None = None) -> None:
        """As the README says, with its own pods on the nodes that outlive every test."""
        self.notes = self.helm(
            *("install", RELEASE, CHART, "--namespace", NAMESPACE, "--create-namespace"),
            *(("--values", values) if values else ()),
            *("--values", self._surroundings),
            *flags(settings),
        )

    def upgrade(self, *settings: str) -> None:
        """Have these values, and otherwise the defaults."""
        self.helm(
            *("upgrade", RELEASE, CHART, "--namespace", NAMESPACE),
            *("--reset-values", "--values", self._surroundings),
            *flags(settings),
        )

    def test(self, timeout: str) -> None:
        """``helm test``."""
        self.helm("test", RELEASE, "--namespace", NAMESPACE, "--timeout", timeout)

    def helm(self, *arguments: str | Path) -> str:
        """Any command."""
        return helm(*arguments, environment={"KUBECONFIG": str(self._kubeconfig)})


def flags(settings: Iterable[str]) -> list[str]:
    """The arguments of helm for these values."""
    return [part for setting in settings for part in ("--set", setting)]


def is_rolled_out(deployment: Json) -> bool:
    """Whether all replicas are those of the newest template, and no other is left."""
    wanted, status = deployment["spec"]["replicas"], deployment.get("status", {})
    return bool(
        status.get("observedGeneration") == deployment["metadata"]["generation"]
        and status.get("updatedReplicas") == wanted
        and status.get("replicas") == wanted
        and status.get("availableReplicas") == wanted
    )


async def wait_until_leading(api: ApiClient, kubelet: LocalKubelet, count: int = 2) -> str:
    """Wait until the rollout is over, as many replicas are ready, and one of them leads."""
    await api.wait_until(DEPLOYMENT, is_rolled_out)

    def leads(lease: Json) -> bool:
        return bool(holder(lease)) and len(kubelet.ready()) == count

    return holder(await api.wait_until(LEASE, leads))
