"""The pods of one turn: what is asked of a contestant, how it fares, and what it left behind."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from bench.cluster.checks import Placement
from bench.cluster.devices import Devices
from bench.cluster.templates import CHURN, INIT, MEASURED, UNFIT
from bench.cluster.workloads import Size, Workload
from e2e.harness.client import ApiClient
from e2e.harness.devices import ledger
from e2e.harness.objects import Json, condition, is_bound

POLL_SECONDS = 0.1
LIST_SECONDS = 1.0
QUIET_SECONDS = 3.0
CHURN_SECONDS = 0.2
PREEMPTED = "Preempted"
EXTENDED_REQUEST = "container-0-request-1"
"""What schedulers name the request of a claim for the second resource of the first container."""

Clock = Callable[[], float]


def pods_path(namespace: str) -> str:
    """Where pods of a namespace are."""
    return f"/api/v1/namespaces/{namespace}/pods"


def events_path(namespace: str) -> str:
    """Where events about objects of a namespace are."""
    return f"/apis/events.k8s.io/v1/namespaces/{namespace}/events"


@dataclass(frozen=True)
class Outcome:
    """What a turn left behind."""

    placements: list[Placement]
    evicted: int
    events: dict[str, int]
    """By reason, about the pods that waited before the start."""
    other_events: dict[str, int]
    """By reason, about pods that came meanwhile or had to go."""
    conditions: dict[str, int]
    """Values of PodScheduled, of the pods that waited before the start."""


@dataclass(frozen=True)
class Run:
    """One turn of one workload, for the scheduler of that name."""

    api: ApiClient
    workload: Workload
    size: Size
    scheduler: str

    @property
    def waiting(self) -> int:
        """How many pods wait before the start."""
        return self.size.measured + self.size.unfit

    async def resource_version(self) -> str:
        """The point in history from which a watch sees all that happens next."""
        answer = await self.api.get(pods_path(MEASURED), limit="1")
        return str(answer["metadata"]["resourceVersion"])

    async def orders(self) -> Json:
        """For a client that does not think: which pods to bind where, and which to refuse."""
        nodes, total = self.workload.assignments(self.size), self.size.nodes
        measured = await self._pods(MEASURED)
        bind = [{"pod": each, "node": nodes[each["metadata"]["name"]]} for each in measured]
        if self.workload.devices is not None:
            _add_claims(bind, self.workload.devices)
        return {
            "bind": bind,
            "refuse": await self._pods(UNFIT),
            "message": f"0/{total} nodes are available: {total} Insufficient cpu.",
        }

    async def follow(self, since: str, on_binding: Callable[[], None]) -> None:
        """Call ``on_binding`` whenever a timed pod gets a node; return when all have had one.

        The API server filters: an unbound pod does not exist for this watch, a bound one is added
        to it. So the measurement costs one small message per pod.
        """
        bound: set[str] = set()
        while len(bound) < self.size.measured:  # the server ends a watch that cannot keep up
            async with self.api.watch(
                pods_path(MEASURED), resourceVersion=since, fieldSelector="spec.nodeName!="
            ) as events:
                async for event in events:
                    if event["type"] == "ERROR":
                        raise RuntimeError(f"the watch of pods broke: {event['object']}")
                    metadata = event["object"]["metadata"]
                    since = metadata["resourceVersion"]
                    if metadata["name"] not in bound:
                        bound.add(metadata["name"])
                        on_binding()
                    if len(bound) == self.size.measured:
                        return

    async def churn(self) -> None:
        """Create the pods that keep coming, at upstream's pace, until cancelled.

        At most one for each node: more could not be placed whatever happened. The first waited with
        the others.
        """
        if self.workload.churn is None:
            return
        for number in range(1, self.size.nodes):
            await asyncio.sleep(CHURN_SECONDS)
            body = self.workload.churn.pod(CHURN, f"pod-{number}", self.scheduler)
            await self.api.create(pods_path(CHURN), body)

    async def settled(self, clock: Clock) -> float:
        """Return when all was written that has to be, or nothing more has come for a while.

        The answer is when the last event was first seen.
        """
        last_event = await self._grown(self._count_events, self.waiting, POLL_SECONDS, clock)
        if self.size.unfit:
            await self._grown(self._count_verdicts, self.size.unfit, LIST_SECONDS, clock)
        if self.workload.churn is not None:
            await self._grown(self._count_evicted, 1, POLL_SECONDS, clock)
        return last_event

    async def outcome(self) -> Outcome:
        """Look at everything once; to be called when the contestant has been stopped."""
        ours = [*await self._pods(MEASURED), *await self._pods(UNFIT)]
        init = [*self.workload.init_pods(self.size)]
        # Only pods of a churn may preempt others, so only then a look is needed.
        stayed = await self._pods(INIT) if self.workload.churn else init
        pods = [*ours, *stayed, *await self._pods(CHURN)]
        events, other = await self._reasons(MEASURED, UNFIT), await self._reasons(INIT, CHURN)
        # Who is pushed out says little of the scheduler: it depends on who came meanwhile.
        other[PREEMPTED] += events.pop(PREEMPTED, 0)
        return Outcome(
            placements=[self._placement(each) for each in pods if is_bound(each)],
            evicted=len(init) - len(stayed),
            events=dict(events),
            other_events=dict(+other),
            conditions=dict(Counter(map(_scheduled, ours))),
        )

    async def device_fault(self) -> str | None:
        """What no scheduler may do with devices but this one did; asked before all is deleted."""
        if self.workload.devices is None:
            return None
        wrong = await ledger(self.api, MEASURED)
        return None if not any(wrong) else str(wrong)[:500]

    async def bound(self) -> int:
        """How many timed pods have a node now."""
        return sum(map(is_bound, await self._pods(MEASURED)))

    async def _pods(self, namespace: str) -> list[Json]:
        return await self.api.items(pods_path(namespace))

    async def _grown(
        self, count: Callable[[], Awaitable[int]], goal: int, every: float, clock: Clock
    ) -> float:
        """When a count last grew, once it has reached the goal or stood still for a while."""
        seen, grown_at = 0, clock()
        while True:
            now = await count()
            if now > seen:
                seen, grown_at = now, clock()
            if seen >= goal or clock() - grown_at > QUIET_SECONDS:
                return grown_at
            await asyncio.sleep(every)

    async def _count_events(self) -> int:
        """How many events there are about the pods that waited; cheap, whatever their number."""
        paths = map(events_path, (MEASURED, UNFIT))
        return sum([await self._count(path) for path in paths])

    async def _count_evicted(self) -> int:
        """How many of the pods that were there before are gone."""
        there = self.size.init * len(self.workload.init)
        return there - await self._count(pods_path(INIT))

    async def _count(self, path: str) -> int:
        answer = await self.api.get(path, limit="1")
        rest: int = answer["metadata"].get("remainingItemCount", 0)
        return len(answer["items"]) + rest

    async def _count_verdicts(self) -> int:
        """How many of the pods that fit nowhere say so."""
        pods = await self.api.items(pods_path(UNFIT), resourceVersion="0")
        return sum(bool(condition(each, "PodScheduled")) for each in pods)

    async def _reasons(self, *namespaces: str) -> Counter[str]:
        counts: Counter[str] = Counter()
        for namespace in namespaces:
            events = await self.api.items(events_path(namespace))
            counts.update(each["reason"] for each in events)
        return counts

    def _placement(self, pod: Json) -> Placement:
        metadata, spec = pod["metadata"], pod["spec"]
        zones, node = self.workload.zones, spec["nodeName"]
        return Placement(
            namespace=metadata["namespace"],
            name=metadata["name"],
            node=node,
            zone=zones[int(node.rpartition("-")[2]) % len(zones)] if zones else "",
            colour=metadata.get("labels", {}).get("color", ""),
            milli_cpu=_milli(spec["containers"][0]["resources"]["requests"]["cpu"]),
        )


def _add_claims(orders: list[Json], devices: Devices) -> None:
    """Say in orders which devices the claim of each pod gets."""
    seen: Counter[str] = Counter()
    for order in orders:
        node = order["node"]
        request = EXTENDED_REQUEST if devices.extended else "gpu"
        order["allocation"] = devices.allocation(node, seen[node], request)
        if devices.extended:
            order["make"] = devices.spec(request)
        seen[node] += 1


def _scheduled(pod: Json) -> str:
    """The condition PodScheduled in a word or two."""
    said = condition(pod, "PodScheduled")
    return " ".join(filter(None, (said.get("status"), said.get("reason")))) or "none"


def _milli(cpu: str) -> int:
    """Thousandths of a CPU, of the two forms in which the API server returns ours."""
    return int(cpu[:-1]) if cpu.endswith("m") else int(cpu) * 1_000
