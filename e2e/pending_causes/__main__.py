"""``make causes``: have both schedulers judge every cause, and write the table into the docs."""

import asyncio
import tempfile
from pathlib import Path

from e2e.harness.client import api_client
from e2e.harness.cluster import ControlPlane
from e2e.harness.election import NO_ELECTION
from e2e.harness.kube_scheduler import kube_scheduler
from e2e.harness.scheduler import SchedulerProcess, service_account_kubeconfig
from e2e.pending_causes.collecting import (
    Told,
    configuration,
    told_by_equipoise,
    told_by_kube_scheduler,
)
from e2e.pending_causes.page import PAGE, with_table
from e2e.pending_causes.scene import scene


async def both(directory: Path) -> tuple[dict[str, Told], dict[str, Told]]:
    """What kube-scheduler says, and what Equipoise says, on a control plane of their own."""
    with ControlPlane(directory) as plane:
        async with api_client(plane.url, plane.admin_context) as api, scene(api):
            with kube_scheduler(plane):
                theirs = await told_by_kube_scheduler(api)
            kubeconfig = await service_account_kubeconfig(plane, api)
            arguments = (*NO_ELECTION, configuration(directory))
            with SchedulerProcess(kubeconfig, directory / "log", *arguments) as scheduler:
                return theirs, await told_by_equipoise(api, scheduler.url)


def main() -> None:
    """Write the page."""
    with tempfile.TemporaryDirectory(prefix="equipoise-causes-") as directory:
        theirs, ours = asyncio.run(both(Path(directory)))
    PAGE.write_text(with_table(PAGE.read_text(), theirs, ours))


if __name__ == "__main__":
    main()
