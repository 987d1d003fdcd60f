"""A lease that lives in memory, and a candidate that runs for it on a manual clock."""

import asyncio
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec

from scheduler.kube.client import JSON
from scheduler.kube.errors import Ambiguous, Conflict, NotFound
from scheduler.kube.fencing import Fence
from scheduler.kube.lease import LeaderElector
from scheduler.observe.metrics import Metrics
from tests.patience import PATIENCE

from .support import ManualClock, ScriptedClient, sample

PATH = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases"


def moment(clock: float) -> datetime:
    """The wall clock's time when the monotonic clock shows this."""
    return datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=clock)


class LeaseServer(ScriptedClient):
    """Keeps one lease with optimistic locking; `broken` makes every request fail."""

    def __init__(self, clock: ManualClock, **spec: object) -> None:
        super().__init__()
        self.clock = clock
        self.lease: dict[str, Any] | None = None
        self.version = 0
        self.broken: Exception | None = None
        self.lose_answers = False
        self.requests: list[str] = []
        if spec:
            self.put({"metadata": {"name": "equipoise", "labels": {"keep": "me"}}, "spec": spec})

    def put(self, lease: dict[str, Any]) -> dict[str, Any]:
        self.version += 1
        metadata = {**lease["metadata"], "resourceVersion": str(self.version)}
        self.lease = {**lease, "metadata": metadata}
        return self.lease

    def renew_by_other(self) -> None:
        """The holder renews."""
        assert self.lease is not None
        self.put({**self.lease, "spec": {**self.lease["spec"], "renewTime": str(self.version)}})

    def seize(self, holder: str) -> None:
        """Another client writes another holder into the lease."""
        assert self.lease is not None
        self.put({**self.lease, "spec": {**self.lease["spec"], "holderIdentity": holder}})

    @property
    def spec(self) -> dict[str, Any]:
        assert self.lease is not None
        spec: dict[str, Any] = self.lease["spec"]
        return spec

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: object = None,
        content_type: str = JSON,
        timeout: float = 0.0,
        limit: int = 0,
        check: Callable[[], None] | None = None,
    ) -> bytes:
        self.requests.append(method)
        assert 0 < timeout <= 5.0, "each call has a deadline"
        assert path == (PATH if method == "POST" else f"{PATH}/equipoise")
        await asyncio.sleep(0)
        if self.broken is not None:
            if isinstance(self.broken, Ambiguous):
                self.clock.now += timeout
            raise self.broken
        answer = self._answer(method, msgspec.json.decode(msgspec.json.encode(body)))
        if self.lose_answers and method == "PUT":
            raise Ambiguous("reset")
        return msgspec.json.encode(answer)

    def _answer(self, method: str, body: Any) -> dict[str, Any]:
        if method == "POST":
            if self.lease is not None:
                raise Conflict(409, "AlreadyExists")
            return self.put(body)
        if self.lease is None:
            raise NotFound(404)
        if method == "PUT":
            if body["metadata"]["resourceVersion"] != str(self.version):
                raise Conflict(409, "Conflict")
            return self.put(body)
        return self.lease


class Candidate:
    """An elector under test and the task that runs it."""

    def __init__(self, server: LeaseServer, clock: ManualClock, identity: str = "me") -> None:
        self.metrics = Metrics()
        self.clock = clock
        self.lost = 0
        self.paused = asyncio.Event()
        self.paused.set()
        self.fence = Fence(10.0, clock=clock)
        self.elector = LeaderElector(
            server,
            self.metrics,
            namespace="kube-system",
            name="equipoise",
            identity=identity,
            on_lost=self._lose,
            fence=self.fence,
            clock=clock,
            wall=lambda: moment(clock.now),
            rng=lambda: 0.5,
            sleep=self._sleep,
        )
        self.task: asyncio.Task[None] | None = None

    def _lose(self) -> None:
        assert not self.elector.leading.is_set()
        self.lost += 1

    async def _sleep(self, seconds: float) -> None:
        await self.paused.wait()
        await self.clock.sleep(seconds)

    def start(self) -> asyncio.Task[None]:
        self.task = asyncio.create_task(self.elector.run())
        return self.task

    async def lead(self) -> asyncio.Task[None]:
        """Start, and stop the clock as soon as we lead."""
        self.paused.clear()
        task = self.start()
        await asyncio.wait_for(self.elector.leading.wait(), PATIENCE)
        return task

    @property
    def status(self) -> float:
        return sample(self.metrics, "leader_election_master_status", name="equipoise")
