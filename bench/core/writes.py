"""``python -m bench.core.writes``: what the binding and the event of one pod cost.

A binding and an event for each pod go over TLS through the daemon's own outlet to a server that
answers as kube-apiserver does, at once, in a process of its own. Only the CPU time of this side is
counted, and of several rounds the quickest, since company makes CPU time longer, never shorter. A
fixed amount of Python stands beside it, so that machines can be compared.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import multiprocessing
import pstats
import ssl
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path

import trustme
import uvloop

from scheduler.kube.client import KubeClient
from scheduler.kube.events import EventRecorder
from scheduler.kube.writes import ApiWriter
from scheduler.model.podinfo import PodInfo
from scheduler.observe.metrics import Metrics
from scheduler.observe.runtime import freeze_after_sync
from scheduler.reporting import ClusterOutlet
from tests.builders import make_pod
from tests.kube.support import Kubeconfig

CALIBRATION_STEPS = 200_000
ANSWER = (
    b"HTTP/1.1 201 Created\r\n"
    b"Audit-Id: 6d2b3f0a-52b1-4c0e-9d6f-1c1f7a0c8a55\r\n"
    b"Cache-Control: no-cache, private\r\n"
    b"Content-Type: application/json\r\n"
    b"X-Kubernetes-Pf-Flowschema-Uid: 0c8c8b5e-6a7c-4d30-a5e1-6c0b0e6a2f11\r\n"
    b"X-Kubernetes-Pf-Prioritylevel-Uid: 4a5f7c9e-33e5-4d57-8f5c-9a2b0c1d7e42\r\n"
    b"Date: Mon, 05 Jan 2026 12:00:00 GMT\r\n"
)


class Answering(asyncio.Protocol):
    """Takes every whole request and answers it: a binding briefly, an event with the event."""

    def __init__(self) -> None:
        self._seen = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._seen += data
        head, end, rest = self._seen.partition(b"\r\n\r\n")
        if not end:
            return
        size = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0] or b"0")
        if len(rest) < size:
            return
        self._seen = b""
        body = rest if b"/events" in head else b'{"kind":"Status","status":"Success","code":201}'
        answer = ANSWER + b"Content-Length: %d\r\n\r\n%s" % (len(body), body)
        self._transport.write(answer)  # type: ignore[attr-defined]  # it is one that writes


def serve(tls: tuple[str, str], ready: Connection) -> None:
    """Answer until the process is ended."""

    async def run() -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*tls)
        loop = asyncio.get_running_loop()
        server = await loop.create_server(Answering, "127.0.0.1", 0, ssl=context)
        ready.send(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    uvloop.run(run())


async def tell(outlet: ClusterOutlet, recorder: EventRecorder, pods: list[PodInfo]) -> float:
    """CPU seconds for binding all pods and writing their events."""
    began = time.process_time()
    async with asyncio.TaskGroup() as tasks:
        for pod in pods:
            tasks.create_task(_bind(outlet, pod))
    await recorder.flush(60.0)
    return time.process_time() - began


async def _bind(outlet: ClusterOutlet, pod: PodInfo) -> None:
    status = await outlet.bind(pod, "node-00001")
    assert status.ok, status
    note = f"Successfully assigned {pod.key} to node-00001"
    outlet.record_event(pod, "Normal", "Scheduled", "Binding", note)


async def measure(config: str, pods: int, rounds: int) -> list[float]:
    """CPU milliseconds per pod, for each round."""
    metrics = Metrics()
    client = await KubeClient.connect(metrics=metrics, kubeconfig=config)
    writer = ApiWriter(client)
    recorder = EventRecorder(writer, metrics, "equipoise", "bench", capacity=pods)
    outlet = ClusterOutlet(writer, {"default-scheduler": recorder})
    sending = asyncio.create_task(outlet.run())
    freeze_after_sync()  # as the daemon does
    results = []
    for number in range(rounds + 1):
        batch = [make_pod(f"pod-{number}-{each}").info() for each in range(pods)]
        results.append(await tell(outlet, recorder, batch) * 1000 / pods)
    sending.cancel()
    await asyncio.gather(sending, return_exceptions=True)
    await client.close()
    return results[1:]  # the first also opened the connections


def calibrate() -> float:
    """CPU milliseconds of a fixed amount of Python."""
    began = time.process_time()
    counts: dict[int, int] = {}
    for step in range(CALIBRATION_STEPS):
        counts[step % 97] = counts.get(step % 97, 0) + 1
    return (time.process_time() - began) * 1000


@contextmanager
def answering(
    directory: Path, work: Callable[..., None] = serve, *args: object
) -> Iterator[tuple[str, Connection]]:
    """A server in a process of its own; the kubeconfig that leads to it, and a line to it."""
    authority = trustme.CA()
    authority.cert_pem.write_to_path(directory / "ca.crt")
    certificate = authority.issue_cert("127.0.0.1")
    certificate.private_key_pem.write_to_path(directory / "tls.key")
    certificate.cert_chain_pems[0].write_to_path(directory / "tls.crt")
    ours, theirs = multiprocessing.Pipe()
    files = str(directory / "tls.crt"), str(directory / "tls.key")
    server = multiprocessing.Process(target=work, args=(files, theirs, *args))
    server.start()
    try:
        address = f"https://127.0.0.1:{ours.recv()}"
        cluster = {"server": address, "certificate-authority": str(directory / "ca.crt")}
        yield Kubeconfig(directory, cluster).write(), ours
    finally:
        server.terminate()
        server.join()


def main() -> None:
    """Print the quickest and the median round."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--pods", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--profile", action="store_true", help="show where the time goes")
    options = parser.parse_args()
    profile = cProfile.Profile(time.process_time)
    with tempfile.TemporaryDirectory() as name, answering(Path(name)) as (config, _):
        if options.profile:
            profile.enable()
        results = sorted(uvloop.run(measure(config, options.pods, options.rounds)))
        profile.disable()
    if options.profile:
        pstats.Stats(profile).sort_stats("tottime").print_stats(40)
    median = results[len(results) // 2]
    print(f"bind and event: {results[0]:.3f} ms of CPU per pod, median {median:.3f}")
    print(f"calibration: {min(calibrate() for _ in range(5)):.1f} ms")


if __name__ == "__main__":
    main()
