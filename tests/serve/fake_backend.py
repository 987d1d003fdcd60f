"""A scheduler behind the endpoints, of which a test gives the methods that it needs."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from prometheus_client import CollectorRegistry

from scheduler.explaining.queries import DecisionsQuery, ExplainQuery, NodesQuery, QueueQuery
from scheduler.pipeline.permits import PermitDecision
from scheduler.serve.answers import Replica
from scheduler.serve.health import PING, Check
from scheduler.serve.recent import RecentAnswers
from scheduler.views.updates import Updates


async def empty(*query: Any) -> dict[str, Any]:
    return {}


async def no_updates(seq: int | None, taken: int) -> Updates:
    return Updates(0, [], 0, 0, None, 0.0)


@dataclass
class FakeBackend:
    """See `scheduler.serve.endpoints.Backend`; what is not given answers with an empty object."""

    registry: CollectorRegistry = field(default_factory=CollectorRegistry)
    version: str = ""
    live: Sequence[Check] = (PING,)
    ready: Sequence[Check] = (PING,)
    recent: RecentAnswers = field(default_factory=RecentAnswers)
    config: Callable[[], Any] = dict
    replica: Callable[[], Replica] = Replica
    queue: Callable[[QueueQuery], Awaitable[Any]] = empty
    nodes: Callable[[NodesQuery], Awaitable[Any]] = empty
    node: Callable[[str], Awaitable[Any]] = empty
    pod: Callable[[str], Awaitable[Any]] = empty
    overview: Callable[[], Awaitable[Any]] = empty
    classes: Callable[[], Awaitable[Any]] = empty
    groups: Callable[[int], Awaitable[Any]] = empty
    updates: Callable[[int | None, int], Awaitable[Updates]] = no_updates
    decisions: Callable[[DecisionsQuery], Awaitable[Any]] = empty
    waiting: Callable[[int], Awaitable[Any]] = empty
    decide: Callable[[PermitDecision], Awaitable[Any]] = empty
    explain: Callable[[ExplainQuery], Awaitable[Any]] = empty
    equivalence: Callable[[int | None, str | None, int], Awaitable[Any]] = empty
