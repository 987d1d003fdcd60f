"""What kwok does not do: run pods. Each pod of a release becomes a process of this machine."""

import asyncio
import os
import re
import shutil
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

import aiohttp

from e2e.harness.certificates import KeyPair
from e2e.harness.client import ApiClient, ApiError, api_client
from e2e.harness.cluster import ControlPlane
from e2e.harness.objects import Json
from e2e.harness.patience import PATIENCE
from e2e.harness.ports import free_ports
from e2e.harness.processes import Process, answers_ok
from e2e.harness.volumes import mount

SYNC_SECONDS = 0.2
_PASSING = (ApiError, aiohttp.ClientError, TimeoutError)
"""What may be otherwise at the next look."""


@dataclass(frozen=True)
class Replica:
    """A pod and its process."""

    pod: Json
    process: Process
    url: str

    @property
    def name(self) -> str:
        """Of the pod."""
        return str(self.pod["metadata"]["name"])


class LocalKubelet:
    """Follows the pods of one namespace and selector; a context manager that ends what it started.

    A process has the arguments, environment, configuration and token that the pod's spec says. It
    begins when kwok calls the pod running, is asked to stop when the pod is being deleted, and is
    started again if it ends before. Only where it serves is changed, since all pods share the
    loopback address here.
    """

    def __init__(
        self, plane: ControlPlane, namespace: str, selector: str, serving: KeyPair
    ) -> None:
        self._plane = plane
        self._pods = f"/api/v1/namespaces/{namespace}/pods"
        self._selector = selector
        self._serving = serving
        self._running: dict[str, Replica] = {}
        self._stopping: dict[str, Replica] = {}
        self.exits: dict[str, int] = {}
        """Exit codes by the name of the pod."""
        self._suspended = threading.Event()
        self._idle = threading.Event()
        self._done = threading.Event()
        self._fault: BaseException | None = None
        self._thread = threading.Thread(target=self._work, name="local kubelet")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._done.set()
        self._thread.join()
        for replica in [*self._running.values(), *self._stopping.values()]:
            replica.process.stop()
        if self._fault is not None:
            raise self._fault

    @property
    def replicas(self) -> list[Replica]:
        """Those that run now."""
        if self._fault is not None:
            raise RuntimeError("the kubelet has ended") from self._fault
        return list(self._running.values())

    def is_idle(self) -> bool:
        """Whether nothing runs, and nothing that was asked to stop has yet to end."""
        return not self.replicas and not self._stopping

    def ready(self) -> list[Replica]:
        """Those that run now and say that they are ready."""
        trust = self._plane.certificates.trust()
        return [each for each in self.replicas if answers_ok(f"{each.url}/readyz", trust)]

    def tails(self) -> str:
        """The ends of all logs, for messages about what went wrong."""
        return "\n".join(each.process.tail() for each in self.replicas)

    @contextmanager
    def suspended(self) -> Iterator[None]:
        """During the block, nothing runs."""
        self._idle.clear()
        self._suspended.set()
        try:
            if not self._idle.wait(PATIENCE):
                raise TimeoutError(f"replicas still run after {PATIENCE:g} s")
            yield
        finally:
            self._suspended.clear()

    def _work(self) -> None:
        try:
            asyncio.run(self._follow())
        except BaseException as fault:  # raised again where the result is awaited
            self._fault = fault

    async def _follow(self) -> None:
        async with api_client(self._plane.url, self._plane.admin_context) as api:
            while not self._done.is_set():
                with suppress(*_PASSING):
                    await self._sync(api)
                await asyncio.sleep(SYNC_SECONDS)

    async def _sync(self, api: ApiClient) -> None:
        pods = await api.items(self._pods, labelSelector=self._selector, resourceVersion="0")
        wanted = {each["metadata"]["uid"]: each for each in pods if _should_run(each)}
        if self._suspended.is_set():
            wanted = {}
        for uid, replica in list(self._running.items()):
            if uid in wanted and replica.process.exit_code is None:
                continue
            del self._running[uid]
            replica.process.send(signal.SIGTERM)
            self._stopping[uid] = replica
        for uid, replica in list(self._stopping.items()):
            if (code := replica.process.exit_code) is not None:
                self.exits[replica.name] = code
                del self._stopping[uid]
        for pod in wanted.values():
            await self._say_ready(api, pod)
        for uid in wanted.keys() - self._running.keys() - self._stopping.keys():
            # What a pod mounts may have gone with its release.
            with suppress(*_PASSING):
                self._running[uid] = await self._start(api, wanted[uid])
        if self._suspended.is_set() and not self._stopping:
            self._idle.set()

    async def _say_ready(self, api: ApiClient, pod: Json) -> None:
        """Call a pod ready again, as kubelets do at their next look, and kwok does not.

        The controller manager calls pods not ready whose node it does not know to be ready yet.
        """
        states = {each["type"]: each["status"] for each in pod["status"]["conditions"]}
        if states.get("Ready") == "False" and states.get("ContainersReady") == "True":
            ready = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
            path = f"{self._pods}/{pod['metadata']['name']}/status"
            await api.patch(path, ready, "strategic-merge-patch")

    async def _start(self, api: ApiClient, pod: Json) -> Replica:
        name = pod["metadata"]["name"]
        root = self._plane.directory / "pods" / name
        shutil.rmtree(root, ignore_errors=True)
        (container,) = pod["spec"]["containers"]
        await mount(api, pod, root, lambda text: _relocated(text, container, root))
        (port,) = free_ports(1)
        command = [
            *(sys.executable, "-m", "e2e.harness.in_pod", root),
            *(_relocated(argument, container, root) for argument in container["args"]),
            *("--bind-address=127.0.0.1", f"--secure-port={port}"),
            f"--tls-cert-file={self._serving.certificate}",
            f"--tls-private-key-file={self._serving.key}",
        ]
        log = self._plane.directory / f"{name}.log"
        process = Process(command, log, {**_environment(pod, container), **self._node(root)})
        url = f"https://127.0.0.1:{port}"
        self.url_file(name).write_text(url)
        return Replica(pod, process, url)

    def url_file(self, pod: str) -> Path:
        """Where the address of a pod's process stands, for programs that know its name."""
        return self._plane.directory / "pods" / pod / "url"

    def _node(self, root: Path) -> dict[str, str]:
        """What every container finds in its environment, and no kubeconfig of the user's."""
        address, _, port = self._plane.url.removeprefix("https://").partition(":")
        return {
            "KUBERNETES_SERVICE_HOST": address,
            "KUBERNETES_SERVICE_PORT": port,
            "HOME": str(root),
            "KUBECONFIG": "",
            "PYTHONPATH": os.getcwd(),
        }


def _should_run(pod: Json) -> bool:
    return pod["status"]["phase"] == "Running" and "deletionTimestamp" not in pod["metadata"]


def _environment(pod: Json, container: Json) -> dict[str, str]:
    """The container's variables, with fields of the pod where it refers to them."""
    result = {}
    for each in container["env"]:
        value = each.get("value", "")
        if "valueFrom" in each:
            path = each["valueFrom"]["fieldRef"]["fieldPath"].split(".")
            value = pod
            for part in path:
                value = value[part]
        result[each["name"]] = str(value)
    return result


def _relocated(text: str, container: Json, root: Path) -> str:
    """An argument, or a configuration, with mounted paths as they are on this machine."""
    mounts = "|".join(re.escape(each["mountPath"]) for each in container["volumeMounts"])
    path = rf"(^|[=\s\"'])(?=(?:{mounts})(?:[/\s\"']|$))"
    return re.sub(path, lambda found: f"{found[1]}{root}", text)
