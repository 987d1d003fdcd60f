"""The real kube-scheduler, beside the scheduler under test."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from e2e.controlplane.binaries import locate
from e2e.harness.cluster import ControlPlane
from e2e.harness.processes import Process


@contextmanager
def kube_scheduler(control_plane: ControlPlane) -> Iterator[None]:
    """It schedules during the block, with its defaults."""
    command: list[str | Path] = [
        locate("kube-scheduler"),
        f"--kubeconfig={control_plane.admin_kubeconfig}",
        "--leader-elect=false",
        "--secure-port=0",
    ]
    process = Process(command, control_plane.directory / "kube-scheduler.log")
    try:
        yield
    finally:
        process.stop()
