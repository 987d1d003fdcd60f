"""What becomes of the pods of a recording if a configuration decides for itself, all along.

Decisions feed back: a pod that is placed elsewhere occupies that node, and the next pod sees it.
The recording gives all that the scheduler does not decide: nodes, other schedulers' pods, the
creation and the end of pods, claims and volumes, all at their recorded times. Pods of ours that the
recording shows on nodes are on the nodes of this simulation instead, or wait, and their claims have
the devices that they got here (`claims`). Bindings succeed at once, and victims of preemption are
gone at once.

The simulated scheduler makes an attempt whenever the recorded one did. When that had nothing to do
for a while, it makes all that are due, so a backlog that the recorded one did not have is worked
off as well.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import numpy as np
from msgspec import structs

from scheduler.assembly import Core, assemble
from scheduler.config.loading import Configuration
from scheduler.dra.ledger import DeviceLedger
from scheduler.dra.offline import after as claim_after
from scheduler.framework.registry import Registry
from scheduler.model.devices import ResourceClaim
from scheduler.model.objects import KINDS, Change
from scheduler.model.podinfo import PodInfo
from scheduler.model.pods import Pod
from scheduler.model.resources import CPU, MEMORY
from scheduler.model.status import SUCCESS, Status
from scheduler.observe.metrics import Metrics
from scheduler.plugin_api.outlet import ObjectRequest, StaleReason, Verb, never_stale
from scheduler.recording import entries
from scheduler.recording.reader import RecordingSegment, as_object, segments
from scheduler.replaying import virtual_time
from scheduler.replaying.claims import PlayedClaims
from scheduler.replaying.virtual_time import VirtualTime, settled
from scheduler.webhooks.recorded import RecordedAnswers

IDLE_SECONDS = 0.02
"""A gap in the recording in which the recorded scheduler had nothing to do."""
_CLAIM = ResourceClaim.__name__
_MOST_IN_A_ROW = 100_000
"""How many attempts one gap is good for: no configuration may hang a replay."""


class PodFate(msgspec.Struct):
    """What became of one pod of ours."""

    pod: str
    seen: float
    """When it was first seen waiting; monotonic, as in the recording."""
    node: str = ""
    """The last node it got; empty if it got none."""
    waited: float | None = None
    """Seconds until it first got a node."""
    message: str = ""
    """Why it waits, or waited when it was deleted."""
    evicted: bool = False


class NodeUse(NamedTuple):
    """How much of a node is requested at the end, as shares of what it has."""

    cpu: float
    memory: float


class RecordingOutcome(NamedTuple):
    """What became of all of them."""

    fates: dict[str, PodFate]
    """By uid, in the order in which they were seen."""
    attempts: int
    nodes: dict[str, NodeUse]
    kinds: frozenset[str] = frozenset()
    """What a scheduler with this configuration watches."""

    @property
    def placed(self) -> int:
        """How many pods got a node."""
        return sum(bool(fate.node) for fate in self.fates.values())

    @property
    def spread(self) -> float:
        """The standard deviation of the mean utilisation of nodes at the end."""
        means = [(use.cpu + use.memory) / 2 for use in self.nodes.values()]
        return float(np.std(means)) if means else 0.0

    def waits(self) -> list[float]:
        """How long pods waited that got nodes, sorted."""
        return sorted(fate.waited for fate in self.fates.values() if fate.waited is not None)


def simulate(
    directory: Path,
    config: Configuration,
    end: float = float("inf"),
    registry: Registry | None = None,
) -> RecordingOutcome:
    """Play a recording with a configuration, until a time in seconds since 1970.

    Raises `UnreadableRecording`, ``ConfigError``.
    """
    found = segments(directory)
    loop = VirtualTime()
    play = _SimulatedRun(config, loop, registry)
    return virtual_time.run(play.run(found, end), loop)


class _SimulatedCluster:
    """The outlet: binds and evicts at once, and tells the scheduler as a watch would."""

    def __init__(self, run: _SimulatedRun) -> None:
        self._run = run
        self.bound: list[tuple[str, str]] = []
        """Uids and nodes that the watch has not told yet."""
        self.evicted: list[str] = []
        self.messages: dict[str, str] = {}

    async def bind(self, pod: PodInfo, node: str, stale: StaleReason = never_stale) -> Status:
        self.bound.append((pod.uid, node))
        return SUCCESS

    async def patch(self, kind: str, key: str, patch: Mapping[str, Any]) -> None:
        """The recording shows what became of volumes."""

    async def send(self, request: ObjectRequest) -> Any:
        """Answered at once if it is about a claim, and else never: the recording shows the rest."""
        if request.kind == ResourceClaim.__name__:
            return self._run.write_claim(request)
        return await asyncio.get_running_loop().create_future()

    async def evict(self, pod: PodInfo, condition: Mapping[str, Any]) -> None:
        self.evicted.append(pod.uid)

    def record_event(self, pod: PodInfo, type_: str, reason: str, action: str, note: str) -> None:
        """Nobody reads events here."""

    def set_condition(self, pod: PodInfo, reason: str, message: str) -> None:
        self.messages[pod.uid] = message

    def nominate(self, pod: PodInfo, node: str) -> None:
        """The scheduler knows its own nominations."""


class _SimulatedRun:
    """One simulation, for all runs of a recording: the simulated scheduler is not restarted."""

    def __init__(self, config: Configuration, loop: VirtualTime, registry: Registry | None) -> None:
        self._config = config
        self._loop = loop
        self._fates: dict[str, PodFate] = {}
        self._attempts = 0
        self._cluster = _SimulatedCluster(self)
        self._claims = PlayedClaims()
        self._requests = 0
        """How many there were about claims."""
        self._answers = RecordedAnswers()
        self._core: Core = assemble(
            self._config,
            self._cluster,
            Metrics(),
            registry=registry,
            # Volumes are bound as the recording shows it, claims when the pod is bound, and nobody
            # prepares nodes.
            without=("preBind",),
            dry=True,
            clock=self._loop.time,
            recorded=self._answers,
        )
        self._stores: dict[str, dict[str, Any]] = {}
        self._placed: dict[str, str] = {}
        """Where pods of ours are, by uid."""
        self._given: set[str] = set()
        """Pods that were on nodes before the recording began: they are where they are."""
        self._gone: set[str] = set()
        """Pods that this simulation has evicted."""
        self._keys: dict[str, str] = {}
        self._doubtful: dict[tuple[str, str], None] = {}
        """Kinds and keys of objects that may be gone, because steps are missing."""

    async def run(self, found: list[RecordingSegment], end: float) -> RecordingOutcome:
        before: RecordingSegment | None = None
        ahead, first = 0.0, found[0].header
        self._loop.now = first.time
        self._core.scheduler.begin()
        for segment in found:
            header = segment.header
            if header.wall > end:
                break
            if before is not None and header.run != before.header.run:
                # Another process, perhaps on another machine, has another clock.
                ahead = (header.wall - header.time) - (first.wall - first.time)
            await self._segment(segment, ahead, end, continues=segment.continues(before))
            before = segment
        await self._drain(self._loop.now)
        for uid, message in self._cluster.messages.items():
            if uid in self._fates:
                self._fates[uid].message = message
        kinds = frozenset(self._core.kinds())
        outcome = RecordingOutcome(self._fates, self._attempts, dict(self._uses()), kinds)
        await self._core.stop()
        return outcome

    async def _segment(
        self, segment: RecordingSegment, ahead: float, end: float, *, continues: bool
    ) -> None:
        header, steps = segment.header, segment.entries()
        if not continues:
            await self._pass_time(header.time + ahead)
            self._doubt()
        for each in steps:
            if isinstance(each, entries.Complete):
                if header.leading:
                    self._end_doubt()
                break
            if isinstance(each, entries.Known) and not continues:
                self._change(each.kind, each.key, each.object)
        last = end - (header.wall - header.time)
        for each in steps:
            if isinstance(each, entries.Changed):
                if each.time > last:
                    return
                await self._pass_time(each.time + ahead)
                self._change(each.kind, each.key, each.object)
            elif isinstance(each, entries.Answered):
                where = (each.plugin, each.path, each.pod)
                self._answers.record(*where, each.answer, each.fault)
            elif isinstance(each, entries.Began):
                self._end_doubt()
            elif isinstance(each, entries.NodeSearched):
                if each.time > last:
                    return
                await self._pass_time(each.time + ahead)
                await self._attempt()

    def _doubt(self) -> None:
        """Steps are missing, as while a scheduler is restarted: objects may be gone meanwhile."""
        self._doubtful = {
            (kind, key): None
            for kind, store in self._stores.items()
            for key, each in store.items()
            if not self._claims.is_made(each)
        }

    def _end_doubt(self) -> None:
        """The recording has shown all that there is: what it has not shown is gone."""
        for kind, key in list(self._doubtful):
            self._change(kind, key, None)
        self._doubtful = {}

    # Time

    async def _pass_time(self, until: float) -> None:
        if until - self._loop.now >= IDLE_SECONDS:
            await self._drain(until)
        self._loop.now = max(until, self._loop.now)

    async def _drain(self, until: float) -> None:
        """Make all attempts that are due before a time."""
        for _ in range(_MOST_IN_A_ROW):
            while await self._attempt():
                pass
            deadline = self._core.queue.next_deadline()
            if deadline is None or deadline >= until or deadline <= self._loop.now:
                return
            self._loop.now = deadline

    async def _attempt(self) -> bool:
        self._core.queue.flush()
        tried = self._core.scheduler.schedule_one()
        if tried is None:
            await asyncio.sleep(0)
            return False
        self._attempts += 1
        await settled()
        self._tell()
        return True

    def _tell(self) -> None:
        """Deliver what was bound and evicted, as a watch would."""
        cluster = self._cluster
        bound, cluster.bound = cluster.bound, []
        for uid, node in bound:
            self._placed[uid] = node
            pod = self._pod(uid)
            if pod is not None:
                self._give_devices(pod)
                self._deliver("Pod", pod.metadata.key, _on(pod, node))
            if (fate := self._fates.get(uid)) is not None:
                fate.node = node
                cluster.messages.pop(uid, None)
                fate.message = ""
                if fate.waited is None:
                    fate.waited = self._loop.now - fate.seen
        evicted, cluster.evicted = cluster.evicted, []
        for uid in evicted:
            self._evict(uid)

    def _evict(self, uid: str) -> None:
        pod = self._pod(uid)
        self._gone.add(uid)
        self._placed.pop(uid, None)
        if uid in self._fates:
            self._fates[uid].evicted = True
        if pod is not None:
            self._deliver("Pod", pod.metadata.key, None)
            self._take_devices(uid)

    # Claims

    def write_claim(self, request: ObjectRequest) -> ResourceClaim | None:
        """Do with a claim what an API server does; raises WriteError."""
        self._requests += 1
        known = self._stores.get(_CLAIM, {}).get(request.key)
        new = claim_after(known, request, self._requests)
        if request.verb is not Verb.GET:
            self._deliver(_CLAIM, new.metadata.key if new else request.key, new)
        return new

    def _give_devices(self, pod: Pod) -> None:
        """Write what was reserved for a pod that is bound."""
        ledger = self._core.state.shared.get(DeviceLedger)
        if ledger is None:
            return
        info = PodInfo(pod, self._config.equipoise.limits)
        for uid, key, claim in list(self._claims.bound(info, ledger)):
            self._deliver(_CLAIM, claim.metadata.key, claim)
            ledger.written(uid, key, claim)

    def _take_devices(self, uid: str) -> None:
        """Free what a pod used that is gone or has ended."""
        store = self._stores.get(_CLAIM, {})
        for key in sorted(self._claims.ended(uid) & store.keys()):
            self._deliver(_CLAIM, key, self._claims.without(store[key], uid))

    # Objects

    def _pod(self, uid: str) -> Pod | None:
        found: Pod | None = self._stores.get("Pod", {}).get(self._keys.get(uid, ""))
        return found if found is not None and found.metadata.uid == uid else None

    def _change(self, kind: str, key: str, value: Any) -> None:
        if kind not in KINDS:
            return
        self._doubtful.pop((kind, key), None)
        new = None if value is None else as_object(value, kind, key, KINDS[kind].type)
        known = self._stores.get(kind, {}).get(key)
        if isinstance(known, Pod) and new is not None and known.metadata.uid != new.metadata.uid:
            self._change(kind, key, None)  # another pod has its name now
            known = None
        if kind == "Pod":
            new = self._as_simulated(key, new)
            if isinstance(new, _Ignored):
                return
        if isinstance(new, ResourceClaim):
            new = self._claims.in_play(new, known, self._fates.keys())
        self._deliver(kind, key, new)
        if isinstance(known, Pod) and (new is None or (isinstance(new, Pod) and new.finished)):
            self._take_devices(known.metadata.uid)

    def _as_simulated(self, key: str, new: Pod | None) -> Pod | _Ignored | None:
        """A pod as this simulation has it, when the recording shows a new version of it."""
        if new is None:
            known = self._stores.get("Pod", {}).get(key)
            if known is None:
                return _IGNORED
            self._end(known.metadata.uid)
            return None
        uid = new.metadata.uid
        if uid in self._gone:
            return _IGNORED
        self._keys[uid] = key
        if not self._core.event_handlers.responsible(new) or uid in self._given:
            return new
        if uid not in self._fates:
            if new.spec.node_name:
                self._given.add(uid)
                return new
            self._fates[uid] = PodFate(key, self._loop.now)
        return _on(new, self._placed.get(uid, ""))

    def _end(self, uid: str) -> None:
        """A pod is deleted."""
        self._given.discard(uid)
        self._placed.pop(uid, None)
        self._keys.pop(uid, None)
        message = self._cluster.messages.pop(uid, "")
        if uid in self._fates:
            self._fates[uid].message = message

    def _deliver(self, kind: str, key: str, new: Any) -> None:
        store = self._stores.setdefault(kind, {})
        old = store.pop(key, None) if new is None else store.get(key)
        if new is not None:
            store[key] = new
        if old is None and new is None:
            return
        self._core.event_handlers.handler(kind)([Change(old, new)])

    def _uses(self) -> Iterator[tuple[str, NodeUse]]:
        state = self._core.state
        for name in sorted(state.names()):
            described = state.describe(name)
            there, taken = described["allocatable"], described["requested"]
            shares = (
                taken.get(resource, 0) / there[resource] if there.get(resource) else 0.0
                for resource in (CPU, MEMORY)
            )
            yield name, NodeUse(*shares)


class _Ignored:
    """A change that this simulation does not take over."""


_IGNORED = _Ignored()


def _on(pod: Pod, node: str) -> Pod:
    return structs.replace(pod, spec=structs.replace(pod.spec, node_name=node))
