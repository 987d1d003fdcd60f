"""Writes of the scheduling path: bindings and pod status, bounded, retried, and stoppable at once.

A write whose answer is lost may have happened. For a binding that matters: before a pod is said to
be unbound, the pod itself is read, and what it says is the outcome.

A write holds a slot only while a request of its own is under way. Between two tries it holds none,
and each try waits for a slot again; namespaces take turns.
"""

import asyncio
import enum
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

import msgspec

from scheduler import machine
from scheduler.kube.client import JSON, STRATEGIC_MERGE_PATCH, KubeClient
from scheduler.kube.errors import (
    UNREADABLE,
    Ambiguous,
    ApiError,
    Conflict,
    KubeError,
    NotFound,
    Outdated,
    ServerError,
    WritesStopped,
)
from scheduler.kube.pacing import RetryDelays
from scheduler.kube.scopes import EndableScope
from scheduler.kube.slots import Slots
from scheduler.observe.logs import get_logger

log = get_logger(__name__)

WRITE_TIMEOUT_SECONDS = 10.0
# How often a pod is read whose binding may or may not have happened.
SETTLE_SECONDS = 10.0
# How many patient writes go on beside any number of bindings, and when there are none.
PATIENT_LEAST = 4
PATIENT_MOST = 16


class Binding(enum.Enum):
    """How an attempt to bind a pod ended."""

    BOUND = "bound"
    ELSEWHERE = "bound to another node"
    GONE = "deleted, or replaced by a pod of the same name"
    REFUSED = "refused by the API server"
    FAILED = "not bound"
    STALE = "not sent, because the decision no longer held"
    UNKNOWN = "unknown: the API server stopped answering"


@dataclass(frozen=True, slots=True)
class BindOutcome:
    """The end of one binding. `message` is for people, `node` is where the pod is bound if it is.

    After UNKNOWN the pod may be bound: keep its reservation until a watch event shows the outcome.
    """

    result: Binding
    message: str = ""
    node: str = ""

    @property
    def bound(self) -> bool:
        """Whether the pod is bound to the requested node."""
        return self.result is Binding.BOUND


class _PodMeta(msgspec.Struct, gc=False, rename="camel"):
    uid: str = ""
    resource_version: str = ""
    deletion_timestamp: str | None = None


class _BoundPodSpec(msgspec.Struct, gc=False, rename="camel"):
    node_name: str = ""


class _BoundPod(msgspec.Struct, gc=False):
    metadata: _PodMeta
    spec: _BoundPodSpec


def _holds() -> str:
    return ""


class ApiWriter:
    """All writes of one scheduler. At most `concurrency` of one namespace are in flight.

    With those of other namespaces it may be a third more. Each write gets at most `attempts`
    requests within `deadline` seconds. Cancelling a call leaves its effect undecided, as a lost
    answer does.
    """

    def __init__(
        self,
        client: KubeClient,
        *,
        concurrency: int = 64,
        attempts: int = 6,
        deadline: float = 30.0,
        timeout: float = WRITE_TIMEOUT_SECONDS,
        clock: Callable[[], float] = machine.monotonic,
        rng: Callable[[], float] = machine.random,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._client = client
        self._slots = Slots(concurrency, least=PATIENT_LEAST, most=PATIENT_MOST)
        self._attempts = attempts
        self._deadline = deadline
        self._timeout = timeout
        self._clock = clock
        self._rng = rng
        self._sleep = sleep
        self._stopped = False
        self._loop = asyncio.get_running_loop()
        self._in_flight: dict[EndableScope, None] = {}

    def stop(self) -> None:
        """Stop writing: calls in flight are cancelled, they and all later ones raise."""
        if self._stopped:
            return
        self._stopped = True
        for scope in self._in_flight:
            scope.end(WritesStopped("writes were stopped in the middle of one"))

    async def bind(
        self,
        namespace: str,
        name: str,
        uid: str,
        node: str,
        stale: Callable[[], str] = _holds,
    ) -> BindOutcome:
        """Bind the pod with this uid to `node`; raises nothing but WritesStopped.

        `stale` says why that is no longer right, if it is not. It is asked when it is the turn of
        the binding, before each request.
        """
        request = _BindRequest(namespace, name, uid, node)
        budget = self._budget()
        with self._permitted():
            while True:
                await self._slots.take(namespace)
                try:
                    outcome = await self._try_to_bind(request, stale)
                finally:
                    self._slots.release(namespace)
                if isinstance(outcome, BindOutcome):
                    return outcome
                if not await budget.allows_retry(outcome):
                    result = Binding.UNKNOWN if request.in_doubt else Binding.FAILED
                    return BindOutcome(result, str(outcome))

    async def settle(self, namespace: str, name: str, uid: str, node: str) -> BindOutcome:
        """Read the pod until it says how its binding ended; raises nothing but WritesStopped.

        At most every few seconds, and when it is the turn of the namespace.
        """
        backoff = RetryDelays(SETTLE_SECONDS / 4, SETTLE_SECONDS, rng=self._rng)
        with self._permitted():
            while True:
                await self._sleep(backoff.next())
                await self._slots.take(namespace)
                try:
                    outcome = await self._read_back(pod_path(namespace, name), uid, node)
                    return outcome or BindOutcome(Binding.FAILED, "the pod has no node")
                except KubeError as error:
                    log.debug("Outcome of a binding is still unknown", pod=name, error=str(error))
                finally:
                    self._slots.release(namespace)

    async def get(self, path: str, namespace: str) -> bytes:
        """Read an object, when it is the turn of the namespace; raises KubeError."""
        with self._permitted():
            await self._slots.take(namespace)
            try:
                return await self._request("GET", path)
            finally:
                self._slots.release(namespace)

    async def patch_pod_status(
        self,
        namespace: str,
        name: str,
        patch: Mapping[str, object],
        uid: str = "",
        waiting_at: str = "",
    ) -> None:
        """Merge `patch` (``{"status": …}``) into the pod; Invalid if it has another `uid` by now.

        With `waiting_at`, the resourceVersion at which the pod had no node, the patch cannot
        overtake a binding: a pod that has changed since is read, and left alone once it has a
        node. The same patch twice does no harm, so lost answers are simply retried. Raises
        KubeError.
        """
        request = _PatchRequest(pod_path(namespace, name), patch, uid, waiting_at)
        budget = self._budget()
        with self._permitted():
            while True:
                await self._slots.take(namespace)
                try:
                    trouble = await self._try_to_patch(request)
                finally:
                    self._slots.release(namespace)
                if trouble is None:
                    return
                changed = isinstance(trouble, Conflict) and bool(waiting_at)
                again = budget.spend() if changed else await budget.allows_retry(trouble)
                try:
                    if not again:
                        raise trouble
                finally:
                    del trouble  # its traceback has this frame: only the collector would free both

    async def send(
        self,
        method: str,
        path: str,
        body: object,
        content_type: str = JSON,
        *,
        namespace: str = "",
        patient: bool = False,
    ) -> None:
        """One request, tried once, that needs no slot; raises KubeError.

        A `patient` one waits for a slot that bindings leave free, and for its namespace's turn.
        """
        with self._permitted():
            if not patient:
                await self._request(method, path, body, content_type)
                return
            await self._slots.take(namespace, patient=True)
            try:
                await self._request(method, path, body, content_type)
            finally:
                self._slots.release(namespace, patient=True)

    async def exchange(
        self,
        method: str,
        path: str,
        body: object = None,
        content_type: str = JSON,
        *,
        namespace: str = "",
        once: bool = False,
    ) -> bytes:
        """A request that takes its namespace's turn, and its answer; raises KubeError.

        Tried again after lost answers and overload, unless it may be sent only ``once``.
        """
        budget = self._budget()
        with self._permitted():
            while True:
                await self._slots.take(namespace)
                try:
                    return await self._request(method, path, body, content_type)
                except KubeError as error:
                    trouble = error.with_traceback(None)
                finally:
                    self._slots.release(namespace)
                try:
                    if once or not await budget.allows_retry(trouble):
                        raise trouble
                finally:
                    del trouble

    async def _try_to_patch(self, request: "_PatchRequest") -> KubeError | None:
        """Send a patch; what went wrong, if something did."""
        try:
            path = f"{request.path}/status"
            await self._request("PATCH", path, request.body(), STRATEGIC_MERGE_PATCH)
            return None
        except KubeError as error:
            trouble = error.with_traceback(None)
        if isinstance(trouble, Conflict) and request.waiting_at:
            pod = await self._read(request.path)
            if pod.spec.node_name:
                return None
            request.waiting_at = pod.metadata.resource_version
        return trouble

    async def _try_to_bind(
        self, request: "_BindRequest", stale: Callable[[], str]
    ) -> BindOutcome | KubeError:
        """Send a binding, if it is still right; how that ended, or what went wrong."""

        def check() -> None:
            if reason := stale():
                raise Outdated(reason)

        try:
            await self._request("POST", f"{request.path}/binding", request.body(), check=check)
            return BindOutcome(Binding.BOUND, node=request.node)
        except Outdated as error:
            outdated = BindOutcome(Binding.STALE, str(error))
            # An earlier try may have bound the pod: then it is not ours to give the node back.
            return await self._settled(request, outdated) if request.in_doubt else outdated
        except NotFound as error:
            return BindOutcome(Binding.GONE, str(error))
        except KubeError as error:
            trouble = error.with_traceback(None)
        if isinstance(trouble, Ambiguous | Conflict | ServerError):
            # This try may have bound the pod, or an earlier one, or another scheduler. Should a
            # lost request still arrive later, it binds to the node that we retry with; if we
            # give up instead, the watch shows the outcome.
            return await self._settled(request, trouble)
        if not trouble.retriable:
            return BindOutcome(Binding.REFUSED, str(trouble))
        return trouble

    async def _settled(
        self, request: "_BindRequest", unbound: BindOutcome | KubeError
    ) -> BindOutcome | KubeError:
        """What the pod itself says of its binding; `unbound` if it says that it has no node."""
        try:
            outcome = await self._read_back(request.path, request.uid, request.node)
        except KubeError as error:
            request.in_doubt = True
            return error.with_traceback(None)
        request.in_doubt = False
        return outcome or unbound

    async def _read_back(self, path: str, uid: str, node: str) -> BindOutcome | None:
        """How the pod itself says its binding ended, None if it is there and unbound."""
        try:
            pod = await self._read(path)
        except NotFound as error:
            return BindOutcome(Binding.GONE, str(error))
        if pod.metadata.uid != uid:
            return BindOutcome(Binding.GONE, "the pod was replaced by one of the same name")
        if pod.spec.node_name == node:
            return BindOutcome(Binding.BOUND, node=node)
        if pod.spec.node_name:
            message = f"the pod is already bound to node {pod.spec.node_name}"
            return BindOutcome(Binding.ELSEWHERE, message, pod.spec.node_name)
        if pod.metadata.deletion_timestamp:
            return BindOutcome(Binding.GONE, "the pod is being deleted")
        return None

    async def _read(self, path: str) -> _BoundPod:
        try:
            return msgspec.json.decode(await self._request("GET", path), type=_BoundPod)
        except UNREADABLE as error:
            raise Ambiguous(f"the pod cannot be read: {error}") from error

    async def _request(
        self,
        method: str,
        path: str,
        body: object = None,
        content_type: str = JSON,
        check: Callable[[], None] | None = None,
    ) -> bytes:
        try:
            return await self._client.request(
                method,
                path,
                body=body,
                content_type=content_type,
                timeout=self._timeout,
                check=check,
            )
        except WritesStopped:  # by the fence: nothing else may be written either
            self.stop()
            await asyncio.sleep(0)  # `stop` ends this call here, as it ends all others
            raise

    def _budget(self) -> "_RetryBudget":
        return _RetryBudget(
            self._attempts,
            self._clock() + self._deadline,
            RetryDelays(0.1, 5.0, rng=self._rng),
            self._clock,
            self._sleep,
        )

    def _permitted(self) -> EndableScope:
        """A block that runs until `stop`, which ends it wherever it waits."""
        if self._stopped:
            raise WritesStopped("writes have been stopped")
        return EndableScope(self._in_flight, self._loop)


@dataclass(slots=True)
class _BindRequest:
    """One pod that is to be bound."""

    namespace: str
    name: str
    uid: str
    node: str
    in_doubt: bool = False
    """Whether an earlier try may have bound the pod, for all that is known."""

    @property
    def path(self) -> str:
        """Where the API server keeps the pod."""
        return pod_path(self.namespace, self.name)

    def body(self) -> object:
        """The Binding."""
        return {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"namespace": self.namespace, "name": self.name, "uid": self.uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": self.node},
        }


@dataclass(slots=True)
class _PatchRequest:
    """A patch of a pod's status, for one version of the pod if `waiting_at` names it."""

    path: str
    patch: Mapping[str, object]
    uid: str
    waiting_at: str

    def body(self) -> Mapping[str, object]:
        """The patch, with what the pod must be for it to apply."""
        guards = {"uid": self.uid, "resourceVersion": self.waiting_at}
        metadata = {field: value for field, value in guards.items() if value}
        return {**self.patch, "metadata": metadata} if metadata else self.patch


@dataclass(slots=True)
class _RetryBudget:
    """How often and how long one write may still be tried."""

    attempts: int
    deadline: float
    backoff: RetryDelays
    clock: Callable[[], float]
    sleep: Callable[[float], Awaitable[None]]

    def spend(self) -> bool:
        """Use up one try; False if that was the last."""
        self.attempts -= 1
        return self.attempts > 0

    async def allows_retry(self, error: KubeError) -> bool:
        """Wait for the next try, at least as long as the server asked; False: give up."""
        asked = error.retry_after if isinstance(error, ApiError) else None
        delay = max(self.backoff.next(), asked or 0.0)
        if not self.spend() or not error.retriable or self.clock() + delay >= self.deadline:
            return False
        await self.sleep(delay)
        return True


def pod_path(namespace: str, name: str) -> str:
    """Where the API server keeps a pod."""
    return f"/api/v1/namespaces/{namespace}/pods/{name}"
