"""The contestants: two schedulers, started alike with one configuration, and the limit."""

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import scheduler
from e2e.controlplane.binaries import KUBERNETES, locate
from e2e.harness.cluster import ControlPlane
from e2e.harness.kubeconfig import certificate_user
from e2e.harness.objects import Json
from e2e.harness.ports import free_ports
from e2e.harness.processes import Process

# Far more than any contestant reaches, so that none waits for its own rate limit.
QPS = 10_000
# Requests of all fall into the same priority level, that of service accounts.
GROUP = "system:serviceaccounts"
OWN_KIND = {"apiVersion": "equipoise.dev/v1alpha1", "kind": "EquipoiseConfiguration"}


@dataclass(frozen=True)
class Contestant:
    """A program; its name is that of the scheduler in the pods it has to place.

    A scheduler takes kube-scheduler's flags and configuration. A contestant that does not
    decide (``scored`` is None) gets orders instead.
    """

    name: str
    version: str
    program: Callable[[], list[str | Path]]
    scored: Callable[[int], int] | None
    """Of so many feasible nodes, how many it scores for a pod."""


@dataclass(frozen=True)
class Running:
    """A contestant's process, perhaps not ready yet, and where it says whether it is."""

    process: Process
    readyz: str | None


class Launcher:
    """Starts contestants against one control plane, each with a user and a certificate."""

    def __init__(self, plane: ControlPlane, own: Json | None = None) -> None:
        self._plane = plane
        self._own = own
        """Fields of Equipoise's own configuration, if they are not to have their defaults."""
        self._serving = plane.certificates.server("contestant")

    @contextmanager
    def start(self, contestant: Contestant, orders: Json | None) -> Iterator[Running]:
        """Run the contestant during the block; it begins to work as soon as it can."""
        (port,) = free_ports(1)
        if contestant.scored is None:
            arguments = self._orders(contestant, orders or {})
            readyz = None
        else:
            arguments = self._flags(contestant, port)
            readyz = f"https://127.0.0.1:{port}/readyz"
        command = [*contestant.program(), *arguments]
        process = Process(command, self._plane.directory / f"{contestant.name}.log")
        try:
            yield Running(process, readyz)
        finally:
            process.stop()

    def _orders(self, contestant: Contestant, orders: Json) -> list[str]:
        path = self._plane.directory / "orders.json"
        path.write_text(json.dumps(orders))
        return [f"--kubeconfig={self._kubeconfig(contestant)}", f"--orders={path}"]

    def _flags(self, contestant: Contestant, port: int) -> list[str]:
        path = self._plane.directory / f"{contestant.name}.yaml"
        documents = [self._configuration(contestant)]
        if self._own is not None and contestant.name == EQUIPOISE.name:
            documents.append({**OWN_KIND, **self._own})
        path.write_text("\n---\n".join(map(json.dumps, documents)))
        return [
            f"--config={path}",
            "--bind-address=127.0.0.1",
            f"--secure-port={port}",
            f"--tls-cert-file={self._serving.certificate}",
            f"--tls-private-key-file={self._serving.key}",
        ]

    def _configuration(self, contestant: Contestant) -> Json:
        connection = {"kubeconfig": self._kubeconfig(contestant), "qps": QPS, "burst": QPS}
        return {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "clientConnection": connection,
            "leaderElection": {"leaderElect": False},
            "profiles": [{"schedulerName": contestant.name}],
        }

    def _kubeconfig(self, contestant: Contestant) -> str:
        user = certificate_user(self._plane.certificates.client(contestant.name, GROUP))
        return str(self._plane.kubeconfig(contestant.name, user))


def adaptive_sample(nodes: int) -> int:
    """How many feasible nodes kube-scheduler looks for when percentageOfNodesToScore is unset."""
    percentage = max(5, 50 - nodes // 125)
    return min(nodes, max(100, nodes * percentage // 100))


KUBE_SCHEDULER = Contestant(
    "kube-scheduler",
    KUBERNETES.version.removeprefix("v"),
    lambda: [locate("kube-scheduler")],
    adaptive_sample,
)
EQUIPOISE = Contestant(
    "equipoise",
    scheduler.__version__,
    lambda: [sys.executable, "-m", "scheduler", "run"],
    lambda nodes: nodes,
)
LIMIT = Contestant(
    "limit",
    scheduler.__version__,
    lambda: [sys.executable, "-m", "bench.cluster.limit"],
    None,
)
CONTESTANTS = (KUBE_SCHEDULER, EQUIPOISE, LIMIT)
