"""Claims a device from a pool outside the cluster before a pod is bound, and gives it back if not.

A pod asks for one by a label, ``devices.example.com/pool: fast``. The pool is an HTTP service::

    PUT    <url>/claims/<id>  {"pool": …, "node": …, "pod": …}   200, 201: yours   409: none is free
    DELETE <url>/claims/<id>                                     200, 204, 404: free again

Each attempt claims under an id of its own, so what one gives back late never takes from the next.
What the scheduler cannot know is for the service: to free devices of pods that have ended, and
claims of a scheduler that stopped between claim and binding.
"""

import asyncio
import secrets

import aiohttp

from scheduler.plugin_api import (
    ASSIGNED_POD,
    SKIP,
    SUCCESS,
    Action,
    Cycle,
    Handle,
    HintRegistration,
    Slot,
    Status,
    error,
    get_logger,
    unschedulable,
)

POOL = "devices.example.com/pool"
RETRY_SECONDS = (0, 1, 5, 30)

log = get_logger("device_claims")


class DeviceClaims:
    """Pre-bind claims, unreserve gives back."""

    name = "DeviceClaims"
    _claim = Slot[str]("device claim", lasting=True)

    def __init__(self, args: dict[str, str] | None, handle: Handle) -> None:
        if not args or "url" not in args:
            raise ValueError("args.url is required: where the pool is")
        self._url = args["url"].rstrip("/")
        self._timeout = aiohttp.ClientTimeout(total=float(args.get("timeoutSeconds", 5)))
        self._handle = handle

    async def pre_bind(self, cycle: Cycle, node: str) -> Status:
        """Claim a device for the pod; a pod that asks for none goes on."""
        pool = cycle.pod.pod.metadata.labels.get(POOL)
        if pool is None:
            return SKIP
        claim = f"{cycle.pod.uid}-{secrets.token_hex(4)}"
        # Noted before the call: an answer that is lost may have been a yes.
        cycle.put(self._claim, claim)
        body = {"pool": pool, "node": node, "pod": cycle.pod.key}
        try:
            async with (
                self._session() as session,
                session.put(self._of(claim), json=body) as answer,
            ):
                status = answer.status
        except (aiohttp.ClientError, TimeoutError) as fault:
            return error(f"the device pool cannot be asked: {type(fault).__name__}: {fault}")
        if status in (200, 201):
            return SUCCESS
        if status == 409:
            return unschedulable(f'no device of pool "{pool}" is free')
        return error(f"the device pool answered {status}")

    def unreserve(self, cycle: Cycle, node: str) -> None:
        """Give back what was claimed; the cycle must not wait for it."""
        claim = cycle.find(self._claim)
        if claim is not None:
            self._handle.run.spawn(self._give_back(claim))

    async def _give_back(self, claim: str) -> None:
        for seconds in RETRY_SECONDS:
            await asyncio.sleep(seconds)
            try:
                async with self._session() as session:
                    answer = await session.delete(self._of(claim))
                    if answer.status in (200, 204, 404):
                        return
                    log.warning("The device pool refused", claim=claim, status=answer.status)
            except (aiohttp.ClientError, TimeoutError) as fault:
                log.warning("The device pool cannot be told", claim=claim, error=str(fault))
        log.error("A device is claimed for nobody", claim=claim)

    def hints(self) -> list[HintRegistration]:
        """A pod that ends may leave its device to another."""
        return [HintRegistration(ASSIGNED_POD, Action.DELETE)]

    def _session(self) -> aiohttp.ClientSession:
        return aiohttp.ClientSession(timeout=self._timeout)

    def _of(self, claim: str) -> str:
        return f"{self._url}/claims/{claim}"
