"""The scheduler under test as a process, and the service account it runs under."""

import asyncio
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

from e2e.harness.client import ApiClient
from e2e.harness.cluster import ControlPlane
from e2e.harness.kubeconfig import token_user
from e2e.harness.manifests import path_of
from e2e.harness.processes import Process, answers_ok, start_on_free_ports, unverified
from e2e.harness.rights import account_and_roles

NAMESPACE = "equipoise-system"
SERVICE_ACCOUNT = "equipoise"
LEASE = f"/apis/coordination.k8s.io/v1/namespaces/{NAMESPACE}/leases/equipoise"
TOKEN_SECONDS = 4 * 3600


async def service_account_kubeconfig(
    control_plane: ControlPlane,
    api: ApiClient,
    name: str = SERVICE_ACCOUNT,
    namespace: str = NAMESPACE,
) -> Path:
    """Apply the chart's roles and write a kubeconfig with a token of the service account."""
    for obj in await asyncio.to_thread(account_and_roles):
        await api.apply(path_of(obj), obj)
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
    answer = await api.create(path, {"spec": {"expirationSeconds": TOKEN_SECONDS}})
    return control_plane.kubeconfig(name, token_user(answer["status"]["token"]))


class SchedulerProcess:
    """One replica of ``equipoise run``; a context manager that is ready when the block begins.

    Its log goes to one file and, at the end, the tail of it to standard output, which pytest shows
    for a test that failed. With `tls`, its configuration has it serve over TLS.
    """

    def __init__(self, kubeconfig: Path, log: Path, *arguments: str, tls: bool = False) -> None:
        self._kubeconfig = kubeconfig
        self._log = log
        self._tls = tls
        self._arguments = arguments
        self._process: Process | None = None
        self.url = ""

    def __enter__(self) -> Self:
        self._process = start_on_free_ports(1, self._start)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.process.stop()
        print(self.process.tail())

    @property
    def process(self) -> Process:
        """The running process; an error outside the block."""
        if self._process is None:
            raise RuntimeError("the scheduler has not been started")
        return self._process

    def _start(self, port: int) -> Process:
        self.url = f"{'https' if self._tls else 'http'}://127.0.0.1:{port}"
        process = Process(self._command(port), self._log)
        anybody = unverified() if self._tls else None
        process.wait_ready(lambda: answers_ok(f"{self.url}/readyz", anybody))
        return process

    def _command(self, port: int) -> list[str | Path]:
        return [
            *(sys.executable, "-m", "scheduler", "run"),
            *("--kubeconfig", self._kubeconfig),
            *("--bind-address", "127.0.0.1", "--secure-port", str(port)),
            *("--log-format", "console"),
            *self._arguments,
        ]
