"""Faults of an API server, injected by tests.

```python
server.faults.fail("POST", r"/binding$", times=3, status=429, headers={"Retry-After": "1"})
server.faults.fail("POST", r"/binding$", status=504, processed=True)  # done, but not so answered
server.faults.drop("POST", r"/binding$")              # done, but the answer is lost
server.faults.pretend("POST", r"/binding$")           # answered as if it were done
with server.faults.hold("POST", r"/binding$") as held:  # the answer waits for the test
    await held.reached()
server.faults.cut_watches()                           # connections reset
server.faults.silence_watches()                       # open, but nothing comes any more
server.faults.compact()                               # older resourceVersions are gone: 410
server.faults.expire_watches()                        # open ones are told so
server.faults.delay_watches("/pods$", 5.0)            # events come late, many at a time
server.faults.repeat_events("/pods$")                 # each comes twice
server.faults.lose_bookmarks()
```

Methods and paths are regular expressions: the method must match fully, the path (without query)
anywhere. The first matching rule of each kind applies and is used up by one.
"""

import asyncio
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal

from aiohttp import web

from sandbox.errors import ApiFailure, expired


@dataclass(slots=True)
class Rule:
    """Which requests a fault is about, and how many more of them."""

    method: re.Pattern[str]
    path: re.Pattern[str]
    times: int

    def take(self, method: str, path: str) -> bool:
        if not self.times or not self.method.fullmatch(method) or not self.path.search(path):
            return False
        self.times -= 1
        return True

    def end(self) -> None:
        """Apply no more."""
        self.times = 0


@dataclass(slots=True)
class Hold:
    """Requests that have arrived and wait; see `Faults.hold`."""

    rule: Rule
    released: asyncio.Event = field(default_factory=asyncio.Event)
    _arrived: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(0))

    async def reached(self) -> None:
        """Wait until one more request has arrived at the hold."""
        await self._arrived.acquire()

    def release(self) -> None:
        """Let all waiting requests go on, and all later ones pass."""
        self.rule.times = 0
        self.released.set()

    async def wait(self) -> None:
        """Be held: called by the server."""
        self._arrived.release()
        await self.released.wait()


@dataclass(frozen=True, slots=True, eq=False)
class _OpenWatch:
    request: web.BaseRequest
    end: Callable[[ApiFailure | None], None]


_REASONS = {
    403: "Forbidden",
    409: "Conflict",
    410: "Expired",
    429: "TooManyRequests",
    500: "InternalError",
    503: "ServiceUnavailable",
    504: "Timeout",
}
WITHOUT_END = 1 << 31
"""More times than any rule is applied."""


class Faults:
    """The faults of one server. Methods take effect at once; one event loop."""

    def __init__(self, compact: Callable[[], None]) -> None:
        self.compact = compact
        """Make every resourceVersion before now too old."""
        self.speaking = asyncio.Event()
        self.speaking.set()
        self.bookmarks = True
        """Whether watches get any."""
        self._failures: list[tuple[Rule, ApiFailure]] = []
        self._late_failures: list[tuple[Rule, ApiFailure]] = []
        self._late: list[tuple[Rule, float]] = []
        self._repeats: list[Rule] = []
        self._drops: list[tuple[Rule, bool]] = []
        self._pretences: list[Rule] = []
        self._holds: list[Hold] = []
        self._delays: list[tuple[Rule, float]] = []
        self._watches: dict[_OpenWatch, None] = {}

    # For tests

    def fail(
        self,
        method: str,
        path: str,
        *,
        times: int = 1,
        status: int = 500,
        headers: Mapping[str, str] | None = None,
        processed: bool = False,
    ) -> Rule:
        """Answer the next matching requests with this status, without or after processing them."""
        reason = _REASONS.get(status, "Unknown")
        error = ApiFailure(status, reason, f"injected fault: {reason}", headers=headers)
        failures = self._late_failures if processed else self._failures
        rule = _rule(method, path, times)
        failures.append((rule, error))
        return rule

    def drop(self, method: str, path: str, *, times: int = 1, processed: bool = True) -> None:
        """Reset the connection of the next matching requests, after or before processing them."""
        self._drops.append((_rule(method, path, times), processed))

    def pretend(self, method: str, path: str, *, times: int = WITHOUT_END) -> None:
        """Answer the next matching requests with 201, without processing them."""
        self._pretences.append(_rule(method, path, times))

    def delay(self, method: str, path: str, seconds: float, *, times: int = WITHOUT_END) -> None:
        """Let matching requests wait this long before they are processed."""
        self._delays.append((_rule(method, path, times), seconds))

    @contextmanager
    def hold(self, method: str, path: str, *, times: int = WITHOUT_END) -> Iterator[Hold]:
        """Hold matching requests, before they are processed, until released or the block ends."""
        hold = Hold(_rule(method, path, times))
        self._holds.append(hold)
        try:
            yield hold
        finally:
            hold.release()
            self._holds.remove(hold)

    def cut_watches(self, path: str = "") -> int:
        """Reset the connections of all watches whose path matches; answers how many."""
        found = self._matching(path)
        for watch in found:
            reset(watch.request)
        return len(found)

    def end_watches(self, path: str = "") -> int:
        """End all matching watches as a server does at their timeout; answers how many."""
        found = self._matching(path)
        for watch in found:
            watch.end(None)
        return len(found)

    def expire_watches(self, path: str = "") -> int:
        """End all matching watches with the word that their version is too old; how many."""
        found = self._matching(path)
        for watch in found:
            watch.end(expired("injected fault: too old resource version"))
        return len(found)

    def delay_watches(self, path: str, seconds: float, *, times: int = WITHOUT_END) -> Rule:
        """Let matching watches wait so long before they look for changes, so often in all."""
        rule = _rule("GET", path, times)
        self._late.append((rule, seconds))
        return rule

    def repeat_events(self, path: str, *, times: int = WITHOUT_END) -> None:
        """Send what matching watches send twice, so many times in all."""
        self._repeats.append(_rule("GET", path, times))

    def lose_bookmarks(self) -> None:
        """Send no bookmarks but those that end the initial state."""
        self.bookmarks = False

    def silence_watches(self) -> None:
        """Send nothing on any watch, bookmarks included, and keep the connections open."""
        self.speaking.clear()

    def resume_watches(self) -> None:
        """End the silence; what happened meanwhile is sent."""
        self.speaking.set()

    def clear(self) -> None:
        """Forget all rules and end the silence."""
        self._failures.clear()
        self._late_failures.clear()
        self._late.clear()
        self._repeats.clear()
        self.bookmarks = True
        self._drops.clear()
        self._pretences.clear()
        self._delays.clear()
        for hold in self._holds:
            hold.release()
        self.resume_watches()

    @property
    def watches(self) -> int:
        """How many watches are open."""
        return len(self._watches)

    # For the server

    async def before(self, request: web.BaseRequest) -> None:
        """Apply what happens before processing: delays, holds, failures."""
        method, path = request.method, request.path
        for rule, seconds in self._delays:
            if rule.take(method, path):
                await asyncio.sleep(seconds)
                break
        for hold in self._holds:
            if hold.rule.take(method, path):
                await hold.wait()
                break
        for rule, error in self._failures:
            if rule.take(method, path):
                raise error

    def dropping(self, request: web.BaseRequest) -> Literal["before", "after"] | None:
        """Whether the request's connection is reset, before or after it is processed."""
        for rule, processed in self._drops:
            if rule.take(request.method, request.path):
                return "after" if processed else "before"
        return None

    def after(self, request: web.BaseRequest) -> None:
        """Apply what happens to the answer of a request that was processed."""
        for rule, error in self._late_failures:
            if rule.take(request.method, request.path):
                raise error

    def lateness(self, path: str) -> float:
        """How long a watch waits now before it looks for changes."""
        for rule, seconds in self._late:
            if rule.take("GET", path):
                return seconds
        return 0.0

    def repeating(self, path: str) -> bool:
        """Whether a watch sends what it sends now twice."""
        return any(rule.take("GET", path) for rule in self._repeats)

    def pretending(self, request: web.BaseRequest) -> bool:
        """Whether this request is only answered."""
        return any(rule.take(request.method, request.path) for rule in self._pretences)

    @property
    def armed(self) -> bool:
        """Whether any rule exists at all: the server's fast path asks only this."""
        return bool(
            self._failures
            or self._late_failures
            or self._drops
            or self._pretences
            or self._holds
            or self._delays
        )

    @contextmanager
    def watching(
        self, request: web.BaseRequest, end: Callable[[ApiFailure | None], None]
    ) -> Iterator[None]:
        """Make a watch known, so that it can be cut or ended."""
        watch = _OpenWatch(request, end)
        self._watches[watch] = None
        try:
            yield
        finally:
            del self._watches[watch]

    def _matching(self, path: str) -> list[_OpenWatch]:
        return [watch for watch in self._watches if re.search(path, watch.request.path)]


def _rule(method: str, path: str, times: int) -> Rule:
    return Rule(re.compile(method), re.compile(path), times)


def reset(request: web.BaseRequest) -> None:
    """Break the request's connection without a word."""
    if request.transport is not None:
        request.transport.abort()
