"""Faults of the API server, of replicas and of the network between them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import singledispatchmethod

from sandbox.faults import WITHOUT_END
from tests.sim.hooks import Switch, Webhook
from tests.sim.plan import (
    LEADER,
    Compact,
    CutConnection,
    CutWatches,
    DelayRequests,
    DelayWatches,
    DriftClock,
    DropAnswers,
    EndWatches,
    ExpireWatches,
    FailRequests,
    FaultAction,
    HalfOpen,
    KillReplica,
    LoseBookmarks,
    Partition,
    PauseReplica,
    RefuseConnections,
    RepeatEvents,
    SetPlugin,
    SetSolver,
    SetWebhook,
    SilenceWatches,
    SlowNetwork,
    StallThread,
    StepClock,
    StopEtcd,
    StopReplica,
    StopServer,
    ThrottleNetwork,
)
from tests.sim.replica import Replica
from tests.sim.simulation import API_SERVER, Simulation
from tests.sim.solver import Solver


class Trouble:
    """Performs faults, and takes them all back at the end."""

    def __init__(
        self, simulation: Simulation, webhook: Webhook, switch: Switch, solver: Solver
    ) -> None:
        self._simulation = simulation
        self._network = simulation.network
        self._faults = simulation.server.faults
        self._webhook = webhook
        self._switch = switch
        self._solver = solver
        self._tasks: set[asyncio.Task[None]] = set()
        self._server = asyncio.Lock()

    @singledispatchmethod
    def do(self, action: FaultAction) -> None:
        raise NotImplementedError(type(action).__name__)

    async def end(self) -> None:
        """Everything works again from now on."""
        self._switch.point, self._webhook.mode, self._solver.mode = "", "well", "well"
        self._faults.clear()
        self._network.heal()
        async with self._server:
            pass  # it has been started again
        for replica in self._simulation.replicas.values():
            if replica.host is not None and replica.host.stop_at > replica.host.callbacks:
                replica.host.stop_at = 0
            replica.resume()
            replica.go_on()
            replica.drift(1.0)
            if not replica.alive:
                replica.start()

    # What users plug in

    @do.register
    def _(self, action: SetWebhook) -> None:
        self._webhook.mode = action.mode

    @do.register
    def _(self, action: SetPlugin) -> None:
        self._switch.point = action.point

    @do.register
    def _(self, action: SetSolver) -> None:
        self._solver.mode = action.mode

    # The API server

    @do.register
    def _(self, action: FailRequests) -> None:
        headers = {"Retry-After": str(action.retry_after)} if action.retry_after else None
        self._faults.fail(
            action.method,
            action.path,
            times=action.times,
            status=action.status,
            headers=headers,
            processed=action.processed,
        )

    @do.register
    def _(self, action: DropAnswers) -> None:
        times, processed = action.times, action.processed
        self._faults.drop(action.method, action.path, times=times, processed=processed)

    @do.register
    def _(self, action: DelayRequests) -> None:
        self._faults.delay(action.method, action.path, action.seconds, times=action.times)

    @do.register
    def _(self, action: CutWatches) -> None:
        self._faults.cut_watches(action.path)

    @do.register
    def _(self, action: EndWatches) -> None:
        self._faults.end_watches(action.path)

    @do.register
    def _(self, action: SilenceWatches) -> None:
        self._faults.silence_watches()
        self._later(action.seconds, self._faults.resume_watches)

    @do.register
    def _(self, action: ExpireWatches) -> None:
        self._faults.expire_watches(action.path)

    @do.register
    def _(self, action: DelayWatches) -> None:
        rule = self._faults.delay_watches(action.path, action.late)
        self._later(action.seconds, rule.end)

    @do.register
    def _(self, action: RepeatEvents) -> None:
        self._faults.repeat_events(action.path, times=action.times)

    @do.register
    def _(self, action: LoseBookmarks) -> None:
        self._faults.lose_bookmarks()

    @do.register
    def _(self, action: StopEtcd) -> None:
        rule = self._faults.fail(".*", "", times=WITHOUT_END, status=action.status)
        self._faults.silence_watches()
        self._later(action.seconds, rule.end)
        self._later(action.seconds, self._faults.resume_watches)

    @do.register
    def _(self, action: Compact) -> None:
        self._faults.compact()
        self._faults.cut_watches()

    @do.register
    def _(self, action: StopServer) -> None:
        self._keep(self._restart_server(action.seconds))

    async def _restart_server(self, seconds: float) -> None:
        async with self._server:
            self._simulation.kill_server()
            await asyncio.sleep(seconds)
            await self._simulation.start_server()

    # Replicas

    def _replica(self, name: str) -> Replica:
        """The replica of that name; the first if nobody leads."""
        replicas = self._simulation.replicas
        if name != LEADER:
            return replicas[name]
        leading = [each for each in replicas.values() if each.leading]
        return (leading or list(replicas.values()))[0]

    @do.register
    def _(self, action: KillReplica) -> None:
        replica = self._replica(action.replica)
        connections = "black-holed" if action.silent else "closed"
        if action.callbacks:
            replica.kill_after(action.callbacks, connections)  # type: ignore[arg-type]  # a literal
        else:
            replica.kill(connections)  # type: ignore[arg-type]  # a literal
        self._later(action.seconds, lambda: self._start(replica))

    @do.register
    def _(self, action: StopReplica) -> None:
        replica = self._replica(action.replica)
        if replica.alive:
            replica.stop()
        self._later(action.seconds, lambda: self._start(replica))

    def _start(self, replica: Replica) -> None:
        if not replica.alive:
            replica.start()

    @do.register
    def _(self, action: PauseReplica) -> None:
        replica = self._replica(action.replica)
        replica.pause()
        self._later(action.seconds, replica.resume)

    @do.register
    def _(self, action: StallThread) -> None:
        self._later(action.seconds, self._replica(action.replica).stall(action.thread))

    @do.register
    def _(self, action: StepClock) -> None:
        self._replica(action.replica).step(action.seconds)

    @do.register
    def _(self, action: DriftClock) -> None:
        self._replica(action.replica).drift(action.rate)

    # The network

    @do.register
    def _(self, action: Partition) -> None:
        replica = self._replica(action.replica).name
        self._network.partition(replica, API_SERVER, one_way=action.one_way)
        self._heal_later(action.seconds, replica)

    @do.register
    def _(self, action: CutConnection) -> None:
        self._network.cut(
            self._replica(action.replica).name,
            API_SERVER,
            after=action.after,
            direction=action.direction,
            times=action.times,
        )

    @do.register
    def _(self, action: SlowNetwork) -> None:
        replica = self._replica(action.replica).name
        self._network.delay(replica, API_SERVER, action.delay)
        self._heal_later(action.seconds, replica)

    @do.register
    def _(self, action: ThrottleNetwork) -> None:
        replica = self._replica(action.replica).name
        self._network.throttle(replica, API_SERVER, action.bytes_per_second)
        self._heal_later(action.seconds, replica)

    @do.register
    def _(self, action: RefuseConnections) -> None:
        replica = self._replica(action.replica).name
        self._network.refuse(replica, API_SERVER)
        self._heal_later(action.seconds, replica)

    @do.register
    def _(self, action: HalfOpen) -> None:
        self._network.half_open(self._replica(action.replica).name, API_SERVER)

    # Later

    def _heal_later(self, seconds: float, replica: str) -> None:
        self._later(seconds, lambda: self._network.heal(replica, API_SERVER))

    def _later(self, seconds: float, act: Callable[[], None]) -> None:
        async def wait() -> None:
            await asyncio.sleep(seconds)
            act()

        self._keep(wait())

    def _keep(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
