"""Leader election by a Lease: of all replicas, one writes.

                 held by another, not yet expired
                   ┌───────┐                                  ┌─────────┐  renewed
                   ▼       │                                  ▼         │
                ┌──────────┴─┐  absent, released, expired   ┌───────────┴┐
    run() ────► │  STANDBY   ├─────────────────────────────►│  LEADING   │
                └──────┬─────┘        or ours already       └──┬───────┬─┘
                       │ cancelled                   cancelled │       │ not renewed for
                       ▼                                       ▼       │ renew_deadline, or
                    (ended)                      RELEASED: holder "",  │ another holder seen
                                                 others may lead now   ▼
                                                                     LOST: on_lost(), run returns

Replicas do not compare wall clocks. A foreign lease expires when it has not changed, as seen from
here, for its duration on our monotonic clock, which counts the time of suspension. We stop leading
`renew_deadline` after the start of the last successful renewal, before another replica can see it
as expired (`lease_duration`). `Fence.check` enforces that for every write,
also while this code waits.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any

import msgspec

from scheduler import machine
from scheduler.kube.client import KubeClient
from scheduler.kube.errors import UNREADABLE, Ambiguous, Conflict, KubeError, NotFound
from scheduler.kube.fencing import Fence
from scheduler.kube.timestamps import micro_time
from scheduler.model.objects import Lease, from_dict
from scheduler.observe.logs import get_logger
from scheduler.observe.metrics import Metrics

log = get_logger(__name__)

# Standbys spread their tries over retry_period times one to this much more.
JITTER = 1.2


# How long the API server may work on a request (its --request-timeout).
DOUBT_SECONDS = 60.0


class LeaderElector:
    """One candidate. `identity` must be unique among replicas and across restarts.

    `on_lost` is called synchronously, at the moment leadership is lost and before anything else
    runs: it must stop all writes. It is not called when `run` is cancelled: the caller
    stops the writes then. `fence` is open while this candidate leads.
    """

    def __init__(
        self,
        client: KubeClient,
        metrics: Metrics,
        *,
        namespace: str,
        name: str,
        identity: str,
        on_lost: Callable[[], None],
        fence: Fence | None = None,
        lease_duration: float = 15.0,
        renew_deadline: float = 10.0,
        retry_period: float = 2.0,
        clock: Callable[[], float] = machine.boottime,
        wall: Callable[[], datetime] = machine.utc_now,
        rng: Callable[[], float] = machine.random,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        if not lease_duration > renew_deadline > retry_period * JITTER > 0:
            raise ValueError(
                "leader election needs leaseDuration > renewDeadline > 1.2 x retryPeriod > 0, "
                f"not {lease_duration:g} s, {renew_deadline:g} s and {retry_period:g} s"
            )
        self.leading = asyncio.Event()
        self.identity = identity
        self.release_when_cancelled = True
        """False: keep the lease for `DOUBT_SECONDS`, as writes may still arrive at the server."""
        self._fence = fence or Fence(renew_deadline, clock=clock)
        self._client = client
        self._status = metrics.leader_status.labels(name)
        self._collection = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
        self._namespace = namespace
        self._name = name
        self._on_lost = on_lost
        self._lease_duration = lease_duration
        self._renew_deadline = renew_deadline
        self._retry_period = retry_period
        self._clock = clock
        self._wall = wall
        self._rng = rng
        self._sleep = sleep
        # The lease as last seen, whole, so that writing it back keeps fields we do not know.
        self._document: dict[str, Any] = {}
        self._seen = Lease()
        self._seen_at = 0.0
        self._renewed_at = 0.0
        self._status.set(0)

    @property
    def holder(self) -> str:
        """The holder at the last look; empty if there was none."""
        return self._seen.spec.holder_identity or ""

    @property
    def took_over(self) -> bool:
        """Whether the lease had a holder before: its last writes may be unknown here."""
        return bool(self._seen.spec.lease_transitions)

    def overdue(self) -> float:
        """Seconds for which others may see our lease as expired while we lead; 0 if all is well."""
        if not self.leading.is_set():
            return 0.0
        return max(0.0, self._clock() - self._renewed_at - self._lease_duration)

    async def run(self) -> None:
        """Stand by, lead, and return when leadership is lost; release the lease if cancelled."""
        await self._acquire()
        try:
            await self._keep()
        except asyncio.CancelledError:
            self._step_down()
            await (self._release() if self.release_when_cancelled else self._hold())
            raise
        self._step_down()
        self._on_lost()

    async def _acquire(self) -> None:
        while not await self._attempt(self._clock() + self._renew_deadline):
            await self._sleep(self._retry_period * (1 + JITTER * self._rng()))
        self._fence.renewed(self._renewed_at)
        self.leading.set()
        self._status.set(1)
        log.info("Became leader", lease=self._name, identity=self.identity)

    async def _keep(self) -> None:
        """Renew until that has failed for too long, or another replica holds the lease."""
        while True:
            deadline = self._renewed_at + self._renew_deadline
            await self._sleep(min(self._retry_period, max(0.0, deadline - self._clock())))
            if self._clock() >= deadline:
                log.error("Lease lost, not renewed in time", lease=self._name)
                return
            if await self._attempt(deadline):
                self._fence.renewed(self._renewed_at)
            elif self.holder not in ("", self.identity):
                log.error("Lease lost to another holder", lease=self._name, holder=self.holder)
                return

    async def _attempt(self, deadline: float) -> bool:
        """Take or renew the lease; False when another holds it or the server does not help."""
        try:
            if self.leading.is_set():
                try:
                    await self._write(self._claim(), deadline)
                    return True
                except (Conflict, NotFound):
                    pass  # the lease is not as we left it: look
            return await self._look_and_take(deadline)
        except Conflict as error:
            log.debug("Another candidate was faster", lease=self._name, error=str(error))
        except KubeError as error:
            log.warning("Lease cannot be read or written", lease=self._name, error=str(error))
        return False

    async def _look_and_take(self, deadline: float) -> bool:
        try:
            self._observe(await self._request("GET", f"{self._collection}/{self._name}", deadline))
        except NotFound:
            self._document, self._seen = {}, Lease()
        if self.holder not in ("", self.identity) and not self._may_take():
            return False
        await self._write(self._claim(), deadline)
        return True

    def _may_take(self) -> bool:
        """Whether a lease held by another has expired. While we lead, another holder is the end."""
        duration = self._seen.spec.lease_duration_seconds or self._lease_duration
        return not self.leading.is_set() and self._clock() >= self._seen_at + duration

    def _claim(self) -> dict[str, object]:
        now = micro_time(self._wall())
        spec = self._seen.spec
        mine = self.holder == self.identity
        transitions = spec.lease_transitions or 0
        return {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": math.ceil(self._lease_duration),
            "acquireTime": spec.acquire_time if mine and spec.acquire_time else now,
            "renewTime": now,
            "leaseTransitions": transitions if mine or not self._document else transitions + 1,
        }

    async def _release(self) -> None:
        """Let others lead at once: no holder, and a lease that is over in a second."""
        now = micro_time(self._wall())
        given_up = {
            "holderIdentity": "",
            "leaseDurationSeconds": 1,
            "acquireTime": now,
            "renewTime": now,
            "leaseTransitions": self._seen.spec.lease_transitions or 0,
        }
        if trouble := await self._write_last(given_up):
            log.warning("Lease not released, it will expire", lease=self._name, error=trouble)
        else:
            log.info("Lease released", lease=self._name)

    async def _write_last(self, spec: dict[str, object]) -> str:
        """Write our lease a last time; what went wrong, if anything."""
        deadline = self._clock() + self._renew_deadline
        try:
            # A renewal that was cut short may have moved the version, so look first.
            self._observe(await self._request("GET", f"{self._collection}/{self._name}", deadline))
            if self.holder != self.identity:
                return f"it is held by {self.holder}"
            await self._write(spec, deadline)
        except KubeError as error:
            return str(error)
        return ""

    async def _hold(self) -> None:
        """Extend the lease until every request of ours has taken effect or never will."""
        seconds = math.ceil(max(DOUBT_SECONDS, self._lease_duration))
        trouble = await self._write_last({**self._claim(), "leaseDurationSeconds": seconds})
        said = {"error": trouble} if trouble else {"seconds": str(seconds)}
        log.warning("Lease not released, it will expire", None, lease=self._name, **said)

    async def _write(self, spec: dict[str, object], deadline: float) -> None:
        """Create or replace the lease; the version we saw guards against other writers."""
        began = self._clock()
        if self._document:
            body = {**self._document, "spec": {**self._document.get("spec", {}), **spec}}
            path = f"{self._collection}/{self._name}"
            self._observe(await self._request("PUT", path, deadline, body))
        else:
            body = {
                "apiVersion": "coordination.k8s.io/v1",
                "kind": "Lease",
                "metadata": {"name": self._name, "namespace": self._namespace},
                "spec": spec,
            }
            self._observe(await self._request("POST", self._collection, deadline, body))
        self._renewed_at = began

    async def _request(
        self, method: str, path: str, deadline: float, body: object = None
    ) -> dict[str, Any]:
        # Half the deadline for one call leaves time for another try after a lost one.
        timeout = min(self._renew_deadline / 2, max(0.001, deadline - self._clock()))
        answer = await self._client.request(method, path, body=body, timeout=timeout)
        try:
            return msgspec.json.decode(answer, type=dict[str, Any])
        except UNREADABLE as error:
            raise Ambiguous(f"{method} {path}: the answer is no lease: {error}") from error

    def _observe(self, document: dict[str, Any]) -> None:
        try:
            lease = from_dict(document, Lease)
        except msgspec.ValidationError as error:
            raise Ambiguous(f"the lease cannot be read: {error}") from error
        if lease.spec != self._seen.spec:
            self._seen_at = self._clock()
        self._document, self._seen = document, lease

    def _step_down(self) -> None:
        self._fence.close()
        self.leading.clear()
        self._status.set(0)
