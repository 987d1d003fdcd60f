"""Lease, probes and metrics go on whatever the scheduling thread does; a stuck one is the end."""

from __future__ import annotations

import asyncio
import json
import signal
import threading
import time
import urllib.error
import urllib.request
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn

import pytest
import yaml

from e2e.harness.ports import free_port
from sandbox.apiserver import ApiServer
from scheduler import machine
from scheduler.config.schema import KUBE_API_VERSION, KUBE_KIND, OWN_API_VERSION, OWN_KIND
from scheduler.heartbeat import Heartbeat
from scheduler.kube.client import KubeClient
from scheduler.kube.errors import WritesStopped
from scheduler.kube.fencing import Fence
from scheduler.kube.process_deadline import EXIT_CODE
from scheduler.observe.metrics import Metrics
from scheduler.observe.watchdog import Watchdog
from scheduler.process import LoopThread, SideLoop, ThisProcess, Work
from tests.builders import make_pod, make_worker
from tests.daemon.support import (
    BINDING,
    Cluster,
    Replica,
    configuration,
    eventually,
    expect_bound,
    running_daemon,
    starting_daemon,
)
from tests.demo.support import environment, finished, ready, started
from tests.patience import PATIENCE

RENEW_SECONDS = 6.0
ELECTION = {
    "leaderElect": True,
    "leaseDuration": "8s",
    "renewDeadline": f"{RENEW_SECONDS:g}s",
    "retryPeriod": "100ms",
    "resourceNamespace": "kube-system",
}
# Outlasts whatever else the machine does.
LONG_ELECTION = {**ELECTION, "leaseDuration": "50s", "renewDeadline": "40s"}
LEASE = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/equipoise"


def leads(replica: Replica) -> bool:
    return replica.sample("leader_election_master_status", name="equipoise") == 1


def get(url: str) -> tuple[int, str]:
    """A GET that needs no event loop."""
    try:
        with urllib.request.urlopen(url, timeout=PATIENCE) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as refusal:
        with refusal:
            return refusal.code, refusal.read().decode()


@asynccontextmanager
async def api_server_elsewhere() -> AsyncIterator[ApiServer]:
    """An API server in a thread of its own: it answers while this loop is held, as in life."""
    thread, server = LoopThread("API server"), ApiServer()
    await thread.call(server.start())
    try:
        yield server
    finally:
        await thread.call(server.stop())
        await thread.stop()


class Onlooker:
    """Looks from a thread at a daemon whose scheduling thread is held until it has seen enough."""

    def __init__(self, api: str, daemon: str) -> None:
        self._api, self._daemon = api, daemon
        self.answers: dict[str, tuple[int, str]] = {}
        self.fault: Exception | None = None
        self.done = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def join(self) -> None:
        self._thread.join()
        if self.fault is not None:
            raise self.fault

    def _run(self) -> None:
        try:
            self._look()
        except Exception as fault:
            self.fault = fault
        finally:
            self.done.set()

    def _look(self) -> None:
        began = self._renewed()
        while (self._renewed() - began).total_seconds() < 1.2 * RENEW_SECONDS:
            for path in ("/livez", "/readyz", "/healthz", "/metrics", "/version", "/configz"):
                self.answers[path] = get(self._daemon + path)
            time.sleep(0.1)  # the pace of a prober, not a wait
        self.answers["queue"] = get(self._daemon + "/api/v1/queue")

    def _renewed(self) -> datetime:
        status, text = get(self._api + LEASE)
        assert status == 200
        return datetime.fromisoformat(json.loads(text)["spec"]["renewTime"])


async def test_work_that_holds_the_loop_costs_neither_the_lease_nor_a_probe(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("scheduler.backend.READ_SECONDS", 0.1)
    config = configuration(kube={"leaderElection": ELECTION}, own={"server": {"port": free_port()}})
    async with (
        api_server_elsewhere() as server,
        starting_daemon(Cluster(server), config) as replica,
    ):
        await eventually(lambda: leads(replica))
        assert replica.daemon.server is not None
        onlooker = Onlooker(server.url, replica.daemon.server.url)
        assert onlooker.done.wait(PATIENCE), "the lease is renewed although this loop is held"
        onlooker.join()
        busy = onlooker.answers.pop("queue")
        assert {status for status, _ in onlooker.answers.values()} == {200}
        assert busy[0] == 503
        assert "the scheduling loop is busy" in busy[1]
        assert leads(replica)
        assert not replica.task.done()


async def test_an_answer_that_is_not_waited_for_any_longer_is_dropped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A look that was given up does not pile up on the loop."""
    monkeypatch.setattr("scheduler.backend.READ_SECONDS", 0.05)
    looks: list[int] = []
    monkeypatch.setattr("scheduler.inspection.queue", lambda core, limit: looks.append(limit))
    config = configuration(own={"server": {"port": free_port()}})
    async with api_server_elsewhere() as server, running_daemon(Cluster(server), config) as replica:
        assert replica.daemon.server is not None
        url = f"{replica.daemon.server.url}/api/v1/queue"
        answers: list[int] = []
        thread = threading.Thread(target=lambda: answers.extend(get(url)[0] for _ in range(3)))
        thread.start()
        thread.join()  # holds the loop
        assert answers == [503] * 3
        await asyncio.sleep(0)
        assert looks == []


# A process of its own: suspended, stuck, asked to stop in the middle


@asynccontextmanager
async def process(
    cluster: Cluster, home: Path, *, kube: Any = None, own: Any = None
) -> AsyncIterator[tuple[Process, int]]:
    """The program on this cluster, ready to schedule; also the port that it serves on."""
    port = free_port()
    documents = [
        {
            "apiVersion": KUBE_API_VERSION,
            "kind": KUBE_KIND,
            "leaderElection": ELECTION,
            **(kube or {}),
        },
        {"apiVersion": OWN_API_VERSION, "kind": OWN_KIND, "server": {"port": port}, **(own or {})},
    ]
    file = home / "config.yaml"
    file.write_text(yaml.safe_dump_all(documents))
    arguments = ("run", "--config", str(file), "--master", cluster.server.url)
    async with started(*arguments, "--log-format", "json", env=environment(home)) as running:
        await ready(port)
        await eventually(lambda: _led(cluster), "it leads")
        yield running, port


def _led(cluster: Cluster) -> bool:
    leases = cluster.server.registry.builtin("leases", "coordination.k8s.io")
    if cluster.server.registry.table(leases).get(("kube-system", "equipoise")) is None:
        return False
    return bool(cluster.lease()["holderIdentity"])


def _is_stopped(process: Process) -> bool:
    """Whether a signal has stopped it, all of its threads."""
    states = (path.read_text() for path in Path(f"/proc/{process.pid}/task").glob("*/stat"))
    return all(text.rpartition(")")[2].split()[0] == "T" for text in states)


@pytest.mark.parametrize(
    ("duration", "expected_code", "expected_log"),
    [
        pytest.param("50s", 1, "Leadership lost", id="the fence is closed"),
        pytest.param("8s", EXIT_CODE, "most recent call first", id="the deadline has passed"),
    ],
)
async def test_a_leader_that_was_suspended_beyond_its_lease_writes_nothing_more(
    cluster: Cluster, tmp_path: Path, duration: str, expected_code: int, expected_log: str
) -> None:
    cluster.add(make_worker("n"))
    kube = {"leaderElection": {**ELECTION, "leaseDuration": duration}}
    # One at a time: when the answer to the first binding arrives, the next is ready to go out.
    own = {"binding": {"concurrency": 1}}
    async with process(cluster, tmp_path, kube=kube, own=own) as (daemon, _):
        with cluster.faults.hold("POST", BINDING) as held:
            cluster.submit_many(20, make_pod, "p")
            await held.reached()
            daemon.send_signal(signal.SIGSTOP)
            await eventually(lambda: _is_stopped(daemon), "it is suspended")
            suspended = datetime.now(UTC)
        await eventually(lambda: len(cluster.bound()) == 1, "the first is bound")
        # Another replica waits for the lease to expire. What was on its way has then arrived.
        await asyncio.sleep(1.5 * RENEW_SECONDS)
        # A renewal may have been on its way, too.
        assert datetime.fromisoformat(cluster.lease()["renewTime"]) <= suspended
        cluster.steal_lease("the-next-leader")
        revision = cluster.revision
        daemon.send_signal(signal.SIGCONT)
        code, _, log = await finished(daemon)
        assert code == expected_code
        assert expected_log in log
        assert cluster.revision == revision, "nothing was written after the suspension"
        assert len(cluster.bound()) == 1


STUCK = """
from scheduler.model.status import SUCCESS


class Sticky:
    name = "Sticky"

    def __init__(self, args, handle):
        pass

    def filter_node(self, cycle, node):
        while cycle.pod.pod.metadata.name == "poison":
            pass
        return SUCCESS
"""


async def test_a_loop_that_is_stuck_ends_the_process_and_says_where(
    cluster: Cluster, tmp_path: Path
) -> None:
    cluster.add(make_worker("n"))
    plugins = tmp_path / "plugins"
    plugins.mkdir()
    (plugins / "sticky.py").write_text(STUCK)
    kube = {
        "profiles": [{"plugins": {"multiPoint": {"enabled": [{"name": "Sticky"}]}}}],
        # The thread that renews shares the interpreter with one that gives nothing away.
        "leaderElection": LONG_ELECTION,
    }
    own = {"plugins": {"directory": str(plugins)}, "watchdog": {"stallSeconds": 15}}
    async with process(cluster, tmp_path, kube=kube, own=own) as (daemon, port):
        cluster.submit(make_pod("fine"))
        await expect_bound(cluster, "fine")
        holder = cluster.lease()["holderIdentity"]

        async def stalls() -> float:
            status, metrics = await asyncio.to_thread(get, f"http://127.0.0.1:{port}/metrics")
            assert status == 200
            lines = dict(line.split()[:2] for line in metrics.splitlines() if line[0] != "#")
            return float(lines["equipoise_loop_stalls_total"])

        before = await stalls()  # a slow disk may have held it at its start
        cluster.submit(make_pod("poison"))
        async with asyncio.timeout(PATIENCE):
            while await stalls() == before:
                pass
        assert (await asyncio.to_thread(get, f"http://127.0.0.1:{port}/livez"))[0] == 200
        renewed = cluster.lease()["renewTime"]
        await eventually(lambda: cluster.lease()["renewTime"] != renewed, "it leads meanwhile")
        code, _, log = await finished(daemon)
    assert code == 1
    lines = [json.loads(line) for line in log.splitlines() if line.startswith("{")]
    said = {line["msg"]: line for line in lines}
    for message in ("Scheduling loop makes no progress", "Scheduling loop is stuck"):
        assert said[message]["working_on"] == "Pod default/poison"
        assert any("sticky.py" in line and "filter_node" in line for line in said[message]["stack"])
    assert cluster.lease()["holderIdentity"] == holder, "the lease is left to expire"


# The end


def stopping(seconds: float) -> Any:
    return configuration(
        kube={"leaderElection": LONG_ELECTION}, own={"binding": {"stopSeconds": seconds}}
    )


async def test_a_stop_waits_for_bindings_of_unknown_outcome_and_then_releases_the_lease(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scheduler.app.STOP_SECONDS", 0.05)
    cluster.add(make_worker("n"))
    async with starting_daemon(cluster, stopping(60.0)) as replica:
        await eventually(lambda: leads(replica))
        with cluster.faults.hold("POST", BINDING) as held:
            cluster.submit(make_pod("p"))
            await held.reached()
            replica.daemon.stop()
            renewed = cluster.lease()["renewTime"]
            await eventually(lambda: cluster.lease()["renewTime"] > renewed, "it still leads")
            assert not replica.task.done()
        assert await replica.task == 0
    assert cluster.node_of("p") == "n"
    assert cluster.lease()["holderIdentity"] == ""


async def test_after_a_stop_in_doubt_the_lease_is_left_to_expire(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("scheduler.app.STOP_SECONDS", 0.05)
    cluster.add(make_worker("n"))
    async with starting_daemon(cluster, stopping(0.1)) as replica:
        await eventually(lambda: leads(replica))
        holder = cluster.lease()["holderIdentity"]
        with cluster.faults.hold("POST", BINDING) as held:
            cluster.submit(make_pod("p"))
            await held.reached()
            replica.daemon.stop()
            assert await replica.task == 0
    assert cluster.lease()["holderIdentity"] == holder
    assert cluster.lease()["leaseDurationSeconds"] == 60
    assert not leads(replica)


async def test_a_fault_of_our_own_with_bindings_open_does_not_release_the_lease(
    cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.add(make_worker("n"))
    async with starting_daemon(cluster, stopping(60.0)) as replica:
        await eventually(lambda: leads(replica))
        holder = cluster.lease()["holderIdentity"]
        with cluster.faults.hold("POST", BINDING) as held:
            cluster.submit(make_pod("p"))
            await held.reached()

            def fail() -> None:
                raise RuntimeError("a fault of our own")

            monkeypatch.setattr(replica.daemon.core.scheduler, "run_slice", fail)
            cluster.submit(make_pod("q"))
            with pytest.raises(ExceptionGroup):
                await asyncio.shield(replica.task)
        assert cluster.lease()["holderIdentity"] == holder
        replica.task = asyncio.create_task(asyncio.sleep(0, 1))


class _HereLoop:
    """Runs what a side loop would run in this loop."""

    async def call(self, work: Work[Any]) -> Any:
        return await work

    async def stop(self) -> None:
        pass


class _NoClient:
    """Nothing is asked of it."""

    def twin(self) -> _NoClient:
        return self

    async def close(self) -> None:
        pass


class _HereProcess(ThisProcess):
    """Remembers that it was to end."""

    look_seconds = 0.0

    def __init__(self) -> None:
        super().__init__()
        self.exits: list[int] = []

    def side_loop(self, name: str) -> SideLoop:
        return _HereLoop()

    def exit(self, code: int) -> NoReturn:
        self.exits.append(code)
        raise asyncio.CancelledError


async def test_a_watchdog_that_fails_is_logged_and_ends_the_process_at_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def no_server(client: KubeClient) -> None:
        return None

    watchdog, fence, process = Watchdog(Metrics(), 60.0), Fence(1e9), _HereProcess()
    fence.renewed(machine.boottime())
    monkeypatch.setattr(watchdog, "look", lambda: 1 / 0)
    nobody: Any = _NoClient()
    heartbeat = Heartbeat(
        nobody,
        watchdog,
        fence,
        process,
        make_elector=lambda client: None,
        make_server=no_server,
    )
    await heartbeat.start()
    await eventually(lambda: process.exits == [1])
    await heartbeat.stop(release=False)
    messages = [record.message for record in caplog.records if record.levelname == "ERROR"]
    assert messages == ["Watchdog failed", "Ending the process, the lease will expire"]
    with pytest.raises(WritesStopped):
        fence.check()
