"""``python -m bench.core.turns``: how long turns of the daemon's event loop take, and of what.

The daemon runs in this process, on a server in another one that knows only what a burst of pods
needs and answers at once. A turn is the CPU time of this thread from one round of the event loop to
the next; it is divided by the tasks that ran in it, and what is left over is the network. Slices
are measured in CPU time too, so that company on the machine does not make turns shorter. With
``--behind``, each turn waits a little, without CPU time: everything that can be ready then is.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import ssl
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Coroutine, Generator, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import msgspec
import uvloop

from bench.core.worlds import a_node
from bench.core.writes import ANSWER, answering
from scheduler import machine
from scheduler.app import Daemon
from scheduler.assembly import available
from scheduler.config.loading import Configuration, from_dicts
from scheduler.config.schema import KUBE_API_VERSION, KUBE_KIND, OWN_API_VERSION, OWN_KIND
from scheduler.kube.client import KubeClient
from scheduler.machine import ThisMachine
from scheduler.observe.metrics import Metrics
from scheduler.plugins.table import IN_TREE
from scheduler.process import ThisProcess
from tests.builders import Json, make_pod

AT_ONCE = 50
STREAM_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
SHOWN = 9
SHORT_SECONDS = 0.0001
Parts = defaultdict[str, float]
BANDS = (5.0, 10.0, 15.0, 20.0, 30.0, float("inf"))


# The server


class Burst:
    """Nodes that are there, and pods that come when they are asked for."""

    def __init__(self, nodes: int, pods: int) -> None:
        self._version = nodes
        self.nodes = [_encoded(a_node(i).obj(), i + 1) for i in range(nodes)]
        self.pods = {
            f"burst-{i}": make_pod(f"burst-{i}").cpu("50m").memory("8Mi").label(app="burst").obj()
            for i in range(pods)
        }
        self.watcher: asyncio.Transport | None = None
        self._bound = 0
        self.all_bound = asyncio.Event()

    async def come(self) -> None:
        """Tell of all pods."""
        for number, pod in enumerate(self.pods.values()):
            self.tell("ADDED", pod)
            if number % AT_ONCE == 0:
                await asyncio.sleep(0)

    def bind(self, name: str, node: str) -> None:
        """A binding has come."""
        pod = self.pods[name]
        pod["spec"]["nodeName"] = node
        self._bound += 1
        if self._bound == len(self.pods):
            self.all_bound.set()
        self.tell("MODIFIED", pod)

    def tell(self, kind: str, pod: Json) -> None:
        """Tell the watch."""
        self._version += 1
        line = b'{"type":"%s","object":%s}\n' % (kind.encode(), _encoded(pod, self._version))
        assert self.watcher is not None, "pods are watched"
        self.watcher.write(b"%x\r\n%s\r\n" % (len(line), line))

    def page(self, path: str, query: dict[str, list[str]]) -> bytes:
        """A page of a list; there are only nodes."""
        items = self.nodes if path == "/api/v1/nodes" else []
        first, limit = int(query.get("continue", ["0"])[0]), int(query["limit"][0])
        last = first + limit
        token = str(last) if last < len(items) else ""
        head = {"resourceVersion": str(len(self.nodes)), "continue": token}
        joined = b",".join(items[first:last])
        return b'{"kind":"List","metadata":%s,"items":[%s]}' % (msgspec.json.encode(head), joined)


def _encoded(body: Json, version: int) -> bytes:
    metadata = {"uid": f"uid-{body['metadata']['name']}", **body["metadata"]}
    metadata["resourceVersion"] = str(version)
    return msgspec.json.encode({**body, "metadata": metadata})


class Answering(asyncio.Protocol):
    """Answers every whole request at once."""

    def __init__(self, burst: Burst) -> None:
        self._burst = burst
        self._seen = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: Any = transport

    def data_received(self, data: bytes) -> None:
        self._seen += data
        head, end, rest = self._seen.partition(b"\r\n\r\n")
        size = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0] or b"0")
        if not end or len(rest) < size:
            return
        self._seen = b""
        method, target, _ = head.split(b" ", 2)
        if method == b"GET":
            self._read(target.decode())
        else:
            self._written(target.decode(), rest)

    def _read(self, target: str) -> None:
        parts = urlsplit(target)
        query = parse_qs(parts.query)
        if "watch" in query:
            self._transport.write(STREAM_HEAD + b"Transfer-Encoding: chunked\r\n\r\n")
            if parts.path == "/api/v1/pods":
                self._burst.watcher = self._transport
        else:
            self._answer(self._burst.page(parts.path, query) if "limit" in query else b"{}")

    def _written(self, path: str, body: bytes) -> None:
        if path.endswith("/binding"):
            node = msgspec.json.decode(body)["target"]["name"]
            self._burst.bind(path.split("/")[-2], node)
            body = b'{"kind":"Status","status":"Success","code":201}'
        self._answer(body)

    def _answer(self, body: bytes) -> None:
        self._transport.write(ANSWER + b"Content-Length: %d\r\n\r\n%s" % (len(body), body))


def serve(tls: tuple[str, str], told: Connection, nodes: int, pods: int) -> None:
    """Answer until the process is ended; pods come once anything is received."""

    async def run() -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*tls)
        loop = asyncio.get_running_loop()
        burst = Burst(nodes, pods)
        gc.freeze()
        server = await loop.create_server(lambda: Answering(burst), "127.0.0.1", 0, ssl=context)
        told.send(server.sockets[0].getsockname()[1])
        await asyncio.to_thread(told.recv)
        await burst.come()
        await burst.all_bound.wait()
        told.send("all bound")
        await server.serve_forever()

    uvloop.run(run())


# The measurement


class CpuClock(ThisMachine):
    """A machine on which slices end by the CPU time of the thread."""

    perf_counter = staticmethod(time.thread_time)


class Turn(msgspec.Struct):
    """One round of the event loop."""

    seconds: float
    parts: Parts
    steps: Counter[str]


class Turns:
    """The turns of this thread's loop."""

    def __init__(self, behind: float) -> None:
        self.all: list[Turn] = []
        self._behind = behind
        self._loop = asyncio.get_running_loop()
        self._last = time.thread_time()
        self._thread = threading.get_ident()
        self._told = False
        self._parts: Parts = defaultdict(float)
        self._steps: Counter[str] = Counter()
        self._collecting = 0.0
        self._loop.set_task_factory(self._task)  # type: ignore[arg-type]  # typeshed wants generics
        gc.callbacks.append(self._collection)

    def begin(self) -> None:
        """Forget what was before."""
        self.all.clear()

    def add(self, kind: str, seconds: float) -> None:
        """A task has made a step."""
        self._parts[kind] += seconds
        self._steps[kind] += 1
        if not self._told:
            # Runs in the next round, so that idle loops stay idle.
            self._told = True
            self._loop.call_soon(self._end)

    def _end(self) -> None:
        now = time.thread_time()
        if now - self._last > SHORT_SECONDS:
            self.all.append(Turn(now - self._last, self._parts, self._steps))
        self._parts, self._steps = defaultdict(float), Counter()
        self._told = False
        if self._behind:
            time.sleep(self._behind)
        self._last = time.thread_time()

    def _task(
        self, loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, Any], **options: Any
    ) -> asyncio.Task[Any]:
        return asyncio.Task(_Timed(work, self), loop=loop, **options)

    def _collection(self, phase: str, info: dict[str, int]) -> None:
        if threading.get_ident() != self._thread:
            return
        if phase == "start":
            self._collecting = time.thread_time()
        else:
            self._parts["(collections)"] += time.thread_time() - self._collecting
            self._steps["(collections)"] += 1


class _Timed(Coroutine[Any, Any, Any]):
    """A coroutine whose steps are measured."""

    def __init__(self, work: Coroutine[Any, Any, Any], turns: Turns) -> None:
        self._work = work
        self._turns = turns
        self._kind = str(getattr(work, "__qualname__", work))

    def send(self, value: Any) -> Any:
        began = time.thread_time()
        try:
            return self._work.send(value)
        finally:
            self._turns.add(self._kind, time.thread_time() - began)

    def throw(self, *fault: Any) -> Any:
        return self._work.throw(*fault)

    def close(self) -> None:
        self._work.close()

    def __await__(self) -> Generator[Any, Any, Any]:
        return self._work.__await__()


def show(turns: Sequence[Turn]) -> None:
    """Print how long turns were, and what the long ones consist of."""
    times = sorted(1000 * turn.seconds for turn in turns)
    at = {share: times[int(share * (len(times) - 1))] for share in (0.5, 0.9, 0.99, 1.0)}
    over = ", ".join(f"{sum(each > ms for each in times)} above {ms} ms" for ms in (10, 15, 20, 30))
    print(
        f"{len(times)} turns: p50 {at[0.5]:.1f}, p90 {at[0.9]:.1f}, p99 {at[0.99]:.1f}, "
        f"longest {at[1.0]:.1f} ms of CPU; {over}"
    )
    below = 0.0
    for limit in BANDS:
        some = [turn for turn in turns if below <= 1000 * turn.seconds < limit]
        below = limit
        if some:
            print(f"  below {limit:g} ms, {len(some)} turns: {_means(some)}")


def _means(turns: Sequence[Turn]) -> str:
    parts: Parts = defaultdict(float)
    steps: Counter[str] = Counter()
    for turn in turns:
        steps += turn.steps
        for kind, seconds in turn.parts.items():
            parts[kind] += seconds
    total = sum(turn.seconds for turn in turns)
    parts["(network)"] = total - sum(
        seconds for kind, seconds in parts.items() if not kind.startswith("(")
    )
    said = [
        f"{kind} {1000 * seconds / len(turns):.2f} ({steps[kind] / len(turns):.1f})"
        for kind, seconds in sorted(parts.items(), key=lambda part: -part[1])[:SHOWN]
    ]
    return f"{1000 * total / len(turns):.1f} ms each, " + ", ".join(said)


async def measure(config: str, told: Connection, pods: int, behind: float) -> None:
    """Run a daemon until all pods are bound."""
    turns = Turns(behind)
    metrics = Metrics()
    client = await KubeClient.connect(metrics=metrics, kubeconfig=config)
    daemon = Daemon(_configuration(), client, metrics, process=ThisProcess())
    daemon.core.scheduler.clock = machine.perf_counter  # its slices end by it
    running = asyncio.create_task(daemon.run())
    while not daemon.leading:  # noqa: ASYNC110  the daemon has no event for it
        await asyncio.sleep(0.01)
    start = turns.all[:]
    turns.begin()
    began = time.thread_time()
    told.send("go")
    await asyncio.to_thread(told.recv)
    await daemon.core.bindings.idle()
    cpu = time.thread_time() - began
    print(f"start: {1000 * max(turn.seconds for turn in start):.1f} ms at most")
    show(turns.all)
    print(f"{1000 * cpu / pods:.3f} ms of CPU for each pod")
    daemon.stop()
    await running
    await client.close()


def _configuration() -> Configuration:
    documents = [
        {
            "apiVersion": KUBE_API_VERSION,
            "kind": KUBE_KIND,
            "leaderElection": {"leaderElect": False},
        },
        {"apiVersion": OWN_API_VERSION, "kind": OWN_KIND, "server": {"port": 0}},
    ]
    return from_dicts(documents, available(IN_TREE))


def main() -> None:
    """Print a line for turns of each length."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0] if __doc__ else None)
    parser.add_argument("--nodes", type=int, default=5_000)
    parser.add_argument("--pods", type=int, default=20_000)
    parser.add_argument("--behind", type=float, default=0.0, help="seconds that each turn waits")
    options = parser.parse_args()
    sizes = options.nodes, options.pods
    with (
        tempfile.TemporaryDirectory() as name,
        answering(Path(name), serve, *sizes) as (config, told),
        machine.use(CpuClock()),
    ):
        uvloop.run(measure(config, told, options.pods, options.behind))


if __name__ == "__main__":
    main()
