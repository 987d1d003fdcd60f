"""Who is compared: the programs, started alike and with the same configuration."""

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
from e2e.harness.processes import Process, free_ports

# Far more than anybody reaches, so that nobody is measured waiting for his own rate limit.
QPS = 10_000
# Requests of both fall into the same priority level, that of service accounts.
GROUP = "system:serviceaccounts"


@dataclass(frozen=True)
class Contestant:
    """A scheduler that takes kube-scheduler's flags and configuration; its name is its profile."""

    name: str
    version: str
    program: Callable[[], list[str | Path]]
    scored: Callable[[int], int]
    """Of so many feasible nodes, how many it scores for a pod."""


@dataclass(frozen=True)
class Running:
    """A contestant's process, perhaps not ready yet, and where it says whether it is."""

    process: Process
    readyz: str


class Launcher:
    """Starts contestants against one control plane, each with a user and a certificate."""

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane
        self._serving = plane.certificates.server("contestant")

    @contextmanager
    def start(self, contestant: Contestant) -> Iterator[Running]:
        """Run the contestant during the block; it starts to schedule as soon as it can."""
        (port,) = free_ports(1)
        command = [
            *contestant.program(),
            f"--config={self._configuration(contestant)}",
            "--bind-address=127.0.0.1",
            f"--secure-port={port}",
            f"--tls-cert-file={self._serving.certificate}",
            f"--tls-private-key-file={self._serving.key}",
        ]
        process = Process(command, self._plane.directory / f"{contestant.name}.log")
        try:
            yield Running(process, f"https://127.0.0.1:{port}/readyz")
        finally:
            process.stop()

    def _configuration(self, contestant: Contestant) -> Path:
        path = self._plane.directory / f"{contestant.name}.yaml"
        path.write_text(json.dumps(self._document(contestant)))
        return path

    def _document(self, contestant: Contestant) -> dict[str, object]:
        user = certificate_user(self._plane.certificates.client(contestant.name, GROUP))
        kubeconfig = self._plane.kubeconfig(contestant.name, user)
        return {
            "apiVersion": "kubescheduler.config.k8s.io/v1",
            "kind": "KubeSchedulerConfiguration",
            "clientConnection": {"kubeconfig": str(kubeconfig), "qps": QPS, "burst": QPS},
            "leaderElection": {"leaderElect": False},
            "profiles": [{"schedulerName": contestant.name}],
        }


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
CONTESTANTS = (KUBE_SCHEDULER, EQUIPOISE)
