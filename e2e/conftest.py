"""One control plane for the whole run; a namespace, nodes and schedulers for each test."""

import re
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from e2e.harness.client import ApiClient, api_client
from e2e.harness.cluster import ControlPlane
from e2e.harness.rights import denials
from e2e.harness.scheduler import LEASE, SchedulerProcess, service_account_kubeconfig
from e2e.harness.workspace import Workspace, workspace

Launch = Callable[..., SchedulerProcess]

HANG_SECONDS = 3600
"""Several waits of `PATIENCE`, so that the one that hangs says itself what it waits for."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give tests the time of a control plane on a machine that has much else to do."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.timeout(HANG_SECONDS))


@pytest.fixture(scope="session")
def control_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """The running control plane, shared by all tests."""
    with ControlPlane(tmp_path_factory.mktemp("control-plane")) as running:
        yield running


@pytest.fixture
async def api(control_plane: ControlPlane) -> AsyncIterator[ApiClient]:
    """A client of the API server with all rights."""
    control_plane.check()
    async with api_client(control_plane.url, control_plane.admin_context) as client:
        yield client
    print(f"control plane logs: {control_plane.directory}")


@pytest.fixture
async def space(api: ApiClient, request: pytest.FixtureRequest) -> AsyncIterator[Workspace]:
    """The namespace and nodes of this test, gone from the cluster when it ends."""
    name = re.sub("[^a-z0-9]+", "-", request.node.name.removeprefix("test_"))[:40].strip("-")
    async with workspace(api, name) as fresh:
        yield fresh


@pytest.fixture
async def kubeconfig(control_plane: ControlPlane, api: ApiClient) -> AsyncIterator[Path]:
    """The kubeconfig of the scheduler's own service account; no replica holds the lease.

    No other client here has limited rights, so at the end no request may have been denied.
    """
    path = await service_account_kubeconfig(control_plane, api)
    await api.delete(LEASE)
    before, restarts = await denials(api), control_plane.restarts
    yield path
    # An API server that has just started denies everything until it has read the roles.
    if control_plane.restarts == restarts:
        assert await denials(api) == before, "the scheduler tried what it has no right to"


@pytest.fixture
def launch(kubeconfig: Path, space: Workspace, tmp_path: Path) -> Iterator[Launch]:
    """Start a replica of the scheduler with the given arguments; it is stopped after the test.

    The workspace is asked for so that it outlives the scheduler: at its end no replica is left to
    bind pods that are being removed.
    """
    with ExitStack() as stack:
        started = 0

        def start(*arguments: str, tls: bool = False) -> SchedulerProcess:
            nonlocal started
            started += 1
            log = tmp_path / f"scheduler-{started}.log"
            return stack.enter_context(SchedulerProcess(kubeconfig, log, *arguments, tls=tls))

        yield start
