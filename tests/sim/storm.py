"""A storm: pods arrive while every fault of the machine happens, singly and together; then calm.

The cluster is plain: equal nodes, pods that request CPUs, kubelets that only start what is bound.
What is hard is everything below: replicas are killed, paused and cut off, the API server answers
wrongly, late or not at all, watches break. In the calm afterwards every pod must be on a node, no
pod may have been bound twice, no node may be overfull, no replica may have sent a binding without
the lease, and what the leader knows must be what the API server says.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable

from scheduler.config.loading import Configuration
from tests.builders import make_pod, make_worker
from tests.daemon.support import Cluster, configuration
from tests.sim.history import Entry, Write
from tests.sim.network import Direction
from tests.sim.replica import Connections, Replica
from tests.sim.simulation import API_SERVER, Simulation

NODES = 30
CPUS = 4
PODS = 90
STORM_SECONDS = 90.0
CALM_SECONDS = 240.0
"""A silent watch is noticed after 130 s; then come a pause of at most 30 s, a list, and a lease."""
REPLICAS = ("a", "b")
BINDING = b"/binding HTTP/1.1"


class Broken(Exception):
    """Something happened that must never happen."""


def replicated() -> Configuration:
    """Leader election with kube-scheduler's defaults."""
    kube = {"leaderElection": {"leaderElect": True}}
    return configuration(kube=kube, own={"binding": {"timeoutSeconds": 30}})


class Storm:
    """One storm."""

    def __init__(self, simulation: Simulation) -> None:
        self._simulation = simulation
        self._rng = simulation.fork("storm")
        self._faults: tuple[Callable[[], None], ...] = (
            self._kill,
            self._kill_soon,
            self._stop,
            self._pause,
            self._partition,
            self._cut,
            self._cut_all,
            self._half_open,
            self._slow,
            self._refuse,
            self._fail,
            self._fail_after,
            self._drop,
            self._late_requests,
            self._cut_watches,
            self._expire_watches,
            self._compact,
            self._silence,
            self._late_watches,
            self._repeat,
            self._restart_server,
            self._clock,
        )
        self._bound: dict[tuple[str, str, str], str] = {}
        self._used: Counter[str] = Counter()

    async def rage(self) -> None:
        """From the first node to the last check."""
        simulation = self._simulation
        await simulation.start(bookmark_seconds=20.0)
        cluster = Cluster(simulation.server)
        simulation.history.listen(self._judge)
        simulation.network.witness(self._judge_sender)
        cluster.add(*(make_worker(f"node-{n:02d}").cpu(CPUS) for n in range(NODES)))
        for name in REPLICAS:
            simulation.replica(name, replicated(), supervised=True).start()
        await self._blow(cluster)
        await self._calm_down(cluster)

    async def _blow(self, cluster: Cluster) -> None:
        simulation, rng = self._simulation, self._rng
        pods = sorted(rng.uniform(0, STORM_SECONDS) for _ in range(PODS))
        kinds = rng.sample(self._faults, rng.randint(1, 6))
        faults = sorted(rng.uniform(0, STORM_SECONDS) for _ in range(rng.randint(1, 12)))
        dated = [(at, n, "pod") for n, at in enumerate(pods)]
        dated += [(at, n, "fault") for n, at in enumerate(faults)]
        for at, number, what in sorted(dated):
            await asyncio.sleep(max(0.0, at - simulation.now))
            if what == "pod":
                cluster.submit(make_pod(f"pod-{number:03d}").cpu("1"))
            else:
                fault = rng.choice(kinds)
                simulation.history.note("storm", fault.__name__.strip("_"))
                fault()

    async def _calm_down(self, cluster: Cluster) -> None:
        simulation = self._simulation
        simulation.history.note("storm", "is over")
        simulation.network.heal()
        simulation.server.faults.clear()
        deadline = simulation.now + CALM_SECONDS
        while len(cluster.bound()) < PODS:
            if simulation.now > deadline:
                missing = sorted(
                    f"pod-{n:03d}" for n in range(PODS) if f"pod-{n:03d}" not in cluster.bound()
                )
                raise Broken(f"not bound {CALM_SECONDS:g} s after the storm: {missing}")
            await asyncio.sleep(0.5)
        await self._check_leader(deadline)

    async def _check_leader(self, deadline: float) -> None:
        simulation = self._simulation
        while True:
            # One that is paused does not know yet that it has lost the lease.
            leaders = [each for each in simulation.replicas.values() if each.leading and each.runs]
            if leaders and not _busy(leaders[0]):
                break
            if simulation.now > deadline:
                raise Broken(f"no leader at rest: {[each.name for each in leaders]}")
            await asyncio.sleep(0.5)
        if len(leaders) != 1:
            raise Broken(f"{len(leaders)} leaders")
        daemon, host = leaders[0].daemon, leaders[0].host
        assert daemon is not None, "it leads"
        assert host is not None, "it leads"
        differences = await host.task(daemon.cache_check.check())
        if differences:
            raise Broken(f"the columns differ from the API: {differences}")

    # What must never happen

    def _judge(self, entry: Entry) -> None:
        if not isinstance(entry, Write) or entry.table != "pods" or entry.after is None:
            return
        node = entry.after.body["spec"].get("nodeName")
        if not node:
            return
        uid = entry.after.body["metadata"]["uid"]
        first = self._bound.setdefault((*entry.key, uid), node)
        if first != node:
            raise Broken(f"{entry.key[1]} was on {first} and is on {node}")
        if entry.before is not None and not entry.before.body["spec"].get("nodeName"):
            self._used[node] += 1
            if self._used[node] > CPUS:
                raise Broken(f"{node} has {self._used[node]} pods of one CPU, and {CPUS} CPUs")

    def _judge_sender(self, client: str, server: str, data: bytes) -> None:
        if server != API_SERVER or BINDING not in data[:400]:
            return
        leases = self._simulation.registry.builtin("leases", "coordination.k8s.io")
        lease = self._simulation.registry.table(leases).get(("kube-system", "equipoise"))
        holder = lease.body["spec"].get("holderIdentity", "") if lease is not None else ""
        if not holder.startswith(f"{client}_"):
            self._simulation.fault(client, Broken(f"sends a binding; {holder!r} has the lease"))

    # Faults

    def _some(self) -> Replica:
        """A replica, mostly the leader."""
        replicas = list(self._simulation.replicas.values())
        leaders = [each for each in replicas if each.leading]
        return leaders[0] if leaders and self._rng.random() < 0.7 else self._rng.choice(replicas)

    def _later(self, seconds: float, action: Callable[[], None]) -> None:
        self._simulation.later(seconds, action)

    def _seconds(self) -> float:
        """Mostly short, sometimes longer than the lease."""
        rng = self._rng
        return rng.uniform(0, 5) if rng.random() < 0.6 else rng.uniform(5, 40)

    def _kill(self) -> None:
        ways: tuple[Connections, ...] = ("closed", "black-holed")
        self._some().kill(self._rng.choice(ways))

    def _kill_soon(self) -> None:
        self._some().kill_after(self._rng.randint(1, 400))

    def _stop(self) -> None:
        self._some().stop()

    def _pause(self) -> None:
        replica = self._some()
        replica.pause()
        self._later(self._seconds(), replica.resume)

    def _partition(self) -> None:
        replica, network = self._some(), self._simulation.network
        one_way = self._rng.random() < 0.3
        ends = [replica.name, API_SERVER]
        self._rng.shuffle(ends)
        network.partition(*ends, one_way=one_way)
        self._later(self._seconds(), lambda: network.heal(replica.name, API_SERVER))

    def _cut(self) -> None:
        directions: tuple[Direction, ...] = ("to", "from", "both")
        direction = self._rng.choice(directions)
        self._simulation.network.cut(
            self._some().name,
            API_SERVER,
            after=self._rng.randint(0, 2000),
            direction=direction,
            times=self._rng.randint(1, 10),
        )

    def _cut_all(self) -> None:
        self._simulation.network.cut_all(self._some().name, API_SERVER)

    def _half_open(self) -> None:
        self._simulation.network.half_open(self._some().name, API_SERVER)

    def _slow(self) -> None:
        replica, network = self._some(), self._simulation.network
        if self._rng.random() < 0.5:
            network.delay(replica.name, API_SERVER, self._rng.uniform(0.01, 3.0))
        else:
            network.throttle(replica.name, API_SERVER, self._rng.uniform(500, 20_000))
        self._later(self._seconds(), lambda: network.heal(replica.name, API_SERVER))

    def _refuse(self) -> None:
        replica, network = self._some(), self._simulation.network
        network.refuse(replica.name, API_SERVER)
        network.cut_all(replica.name, API_SERVER)
        self._later(self._seconds(), lambda: network.heal(replica.name, API_SERVER))

    def _rule(self) -> tuple[str, str]:
        return self._rng.choice(
            (
                ("POST", "/binding$"),
                ("PATCH", "/status$"),
                ("POST", "/events$"),
                ("PUT", "/leases/"),
                ("GET", "/pods$"),
                ("GET", ""),
                (".*", ""),
            )
        )

    def _fail(self) -> None:
        status = self._rng.choice((409, 410, 429, 500, 503, 504))
        headers = {"Retry-After": "2"} if status == 429 else None
        faults, times = self._simulation.server.faults, self._rng.randint(1, 40)
        faults.fail(*self._rule(), status=status, headers=headers, times=times)

    def _fail_after(self) -> None:
        status = self._rng.choice((409, 429, 500, 503, 504))
        faults, times = self._simulation.server.faults, self._rng.randint(1, 20)
        faults.fail(*self._rule(), status=status, times=times, processed=True)

    def _drop(self) -> None:
        processed = self._rng.random() < 0.5
        faults, times = self._simulation.server.faults, self._rng.randint(1, 20)
        faults.drop(*self._rule(), times=times, processed=processed)

    def _late_requests(self) -> None:
        faults, times = self._simulation.server.faults, self._rng.randint(1, 20)
        faults.delay(*self._rule(), self._seconds(), times=times)

    def _cut_watches(self) -> None:
        self._simulation.server.faults.cut_watches()

    def _expire_watches(self) -> None:
        self._simulation.server.faults.expire_watches()

    def _compact(self) -> None:
        faults = self._simulation.server.faults
        faults.compact()
        faults.cut_watches()

    def _silence(self) -> None:
        faults = self._simulation.server.faults
        faults.silence_watches()
        self._later(self._seconds(), faults.resume_watches)

    def _late_watches(self) -> None:
        path = self._rng.choice(("/pods$", "/nodes$", ""))
        self._simulation.server.faults.delay_watches(
            path, self._seconds(), times=self._rng.randint(1, 50)
        )

    def _repeat(self) -> None:
        self._simulation.server.faults.repeat_events("", times=self._rng.randint(1, 50))

    def _restart_server(self) -> None:
        simulation = self._simulation
        if not simulation.serving:
            return
        simulation.kill_server()
        self._later(self._seconds(), simulation.start_server_soon)

    def _clock(self) -> None:
        replica = self._some()
        if self._rng.random() < 0.5:
            replica.step(self._rng.choice((-3600.0, -5.0, 5.0, 3600.0)))
        else:
            replica.drift(self._rng.uniform(0.9, 1.1))


def _busy(replica: Replica) -> bool:
    """Whether the leader still has something to do."""
    assert replica.daemon is not None, "it leads"
    core = replica.daemon.core
    return bool(len(core.bindings) or core.state.assumed_count or core.queue.active)


async def storm(simulation: Simulation) -> None:
    """The scenario."""
    await Storm(simulation).rage()
