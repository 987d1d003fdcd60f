"""A control plane on loopback: etcd, kube-apiserver, kube-controller-manager and kwok's nodes."""

import ssl
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from e2e.controlplane.binaries import kwok_stages, locate
from e2e.harness.certificates import Certificates, KeyPair
from e2e.harness.kubeconfig import certificate_user, write_kubeconfig
from e2e.harness.processes import (
    START_ATTEMPTS,
    Process,
    StartError,
    answers_ok,
    start_on_free_ports,
)


class ControlPlane:
    """The running processes; a context manager that leaves nothing behind but its log files.

    Starting takes 5 to 15 seconds. The API server speaks TLS with a certificate of our own
    authority and authorises by RBAC; ``admin`` is a member of ``system:masters``. A ``bare`` one is
    only etcd and the API server: nodes and pods stay as they were made.
    """

    def __init__(
        self, directory: Path, *, bare: bool = False, apiserver_flags: Sequence[str] = ()
    ) -> None:
        self.directory = directory
        self._bare = bare
        self._apiserver_flags = apiserver_flags
        self.certificates = Certificates(directory)
        self.admin: KeyPair = self.certificates.client("admin", "system:masters")
        self._serving = self.certificates.server("kube-apiserver")
        self._signing_key = self.certificates.signing_key("service-accounts")
        self._running: dict[str, Process] = {}
        self._etcd_url = ""
        self._etcd_ports = (0, 0)
        self.url = ""
        self.restarts = 0
        """How often the API server was started again."""

    def __enter__(self) -> Self:
        try:
            self._running["etcd"] = start_on_free_ports(2, self._start_etcd)
            self._running["kube-apiserver"] = start_on_free_ports(1, self._start_apiserver)
            if not self._bare:
                self._running["kube-controller-manager"] = self._start_controller_manager()
                self._running["kwok"] = self._start_kwok()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop()

    @property
    def admin_context(self) -> ssl.SSLContext:
        """A fresh TLS context that authenticates as the admin."""
        return self.certificates.trust(self.admin)

    @property
    def admin_kubeconfig(self) -> Path:
        """A kubeconfig file of the admin."""
        return self.kubeconfig("admin", certificate_user(self.admin))

    def kubeconfig(self, name: str, user: dict[str, str]) -> Path:
        """Write a kubeconfig for ``user`` of this API server."""
        path = self.directory / f"{name}.kubeconfig"
        return write_kubeconfig(path, self.url, self.certificates.authority, user)

    @property
    def pids(self) -> list[int]:
        """The processes it consists of."""
        return [process.pid for process in self._running.values()]

    def process(self, name: str) -> Process:
        """One of them, by the name of its program."""
        return self._running[name]

    def check(self) -> None:
        """Raise StartError, with the end of its log, if one of them has ended by itself."""
        for name, process in self._running.items():
            if process.exit_code is not None:
                raise StartError(f"{name} ended with {process.exit_code}\n{process.tail()}")

    def restart_apiserver(self) -> None:
        """Kill the API server, cutting every connection, and start it again at its address.

        Blocks until it is ready, which takes some seconds.
        """
        self.restarts += 1
        self._running["kube-apiserver"].kill()
        port = int(self.url.rpartition(":")[2])
        self._running["kube-apiserver"] = self._start_apiserver(port)

    def restart_etcd(self) -> None:
        """Kill etcd and start it again at its address, with its data. Blocks until it is ready."""
        self._running["etcd"].kill()
        self._running["etcd"] = self._start_etcd(*self._etcd_ports)

    def restart_kwok(self) -> None:
        """Start kwok anew, so that it forgets the pods that it has seen being deleted.

        It deletes such pods by their name alone, and on a busy machine late: a pod that has got the
        name meanwhile would go with them.
        """
        self._running["kwok"].kill()
        self._running["kwok"] = self._start_kwok()

    def _stop(self) -> None:
        # Last started, first stopped: what depends on the API server stops before it.
        for process in reversed(self._running.values()):
            process.stop()
        self._running.clear()

    def _start_etcd(self, client_port: int, peer_port: int) -> Process:
        self._etcd_ports = (client_port, peer_port)
        self._etcd_url = f"http://127.0.0.1:{client_port}"
        peer_url = f"http://127.0.0.1:{peer_port}"
        process = self._start(
            "etcd",
            f"--data-dir={self.directory / f'etcd-{client_port}'}",
            "--unsafe-no-fsync",
            f"--listen-client-urls={self._etcd_url}",
            f"--advertise-client-urls={self._etcd_url}",
            f"--listen-peer-urls={peer_url}",
            f"--initial-advertise-peer-urls={peer_url}",
            f"--initial-cluster=default={peer_url}",
        )
        process.wait_ready(lambda: answers_ok(f"{self._etcd_url}/health"))
        return process

    def _start_apiserver(self, port: int) -> Process:
        self.url = f"https://127.0.0.1:{port}"
        process = self._start(
            "kube-apiserver",
            f"--etcd-servers={self._etcd_url}",
            "--bind-address=127.0.0.1",
            "--advertise-address=127.0.0.1",
            f"--secure-port={port}",
            f"--tls-cert-file={self._serving.certificate}",
            f"--tls-private-key-file={self._serving.key}",
            f"--client-ca-file={self.certificates.authority}",
            "--authorization-mode=RBAC",
            f"--service-account-issuer={self.url}",
            f"--service-account-key-file={self._signing_key}",
            f"--service-account-signing-key-file={self._signing_key}",
            "--service-cluster-ip-range=10.0.0.0/16",
            # A loopback address is no valid endpoint of the `kubernetes` service.
            "--endpoint-reconciler-type=none",
            *self._apiserver_flags,
        )
        trust = self.admin_context
        process.wait_ready(lambda: answers_ok(f"{self.url}/readyz", trust))
        return process

    def _start_controller_manager(self) -> Process:
        process = self._start(
            "kube-controller-manager",
            f"--kubeconfig={self.admin_kubeconfig}",
            "--leader-elect=false",
            "--secure-port=0",
            "--use-service-account-credentials=false",
            f"--service-account-private-key-file={self._signing_key}",
            f"--root-ca-file={self.certificates.authority}",
            "--kube-api-qps=500",
            "--kube-api-burst=1000",
            # A test may bind pods to nodes that are not there; after 40 s they would be removed.
            "--controllers=*,-pod-garbage-collector-controller",
            # Late heartbeats on a busy machine must not evict pods in the middle of a test.
            "--node-monitor-grace-period=10m",
        )
        trust = self.admin_context
        account = f"{self.url}/api/v1/namespaces/default/serviceaccounts/default"
        process.wait_ready(lambda: answers_ok(account, trust))
        return process

    def _start_kwok(self) -> Process:
        """Start kwok, and again if it gives up: it does so when the first lists take too long."""
        for _ in range(START_ATTEMPTS - 1):
            with suppress(StartError):
                return start_on_free_ports(1, self._start_kwok_at)
        return start_on_free_ports(1, self._start_kwok_at)

    def _start_kwok_at(self, port: int) -> Process:
        address = f"127.0.0.1:{port}"
        process = self._start(
            "kwok",
            f"--kubeconfig={self.admin_kubeconfig}",
            "--manage-all-nodes=true",
            f"--server-address={address}",
            *(f"--config={stage}" for stage in sorted(kwok_stages().glob("*.yaml"))),
        )
        process.wait_ready(lambda: answers_ok(f"http://{address}/healthz"))
        return process

    def _start(self, name: str, *arguments: str) -> Process:
        return Process([locate(name), *arguments], self.directory / f"{name}.log")
