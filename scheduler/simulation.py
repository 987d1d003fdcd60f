"""A scheduler over a list of objects: no API server, no clock, no side effects.

The same core as the daemon's, fed with Kubernetes objects (dicts as ``kubectl get -o json`` gives
them). ``explain`` judges one pod, ``place`` schedules all that wait, in queue order.
"""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, TypeVar

import msgspec
from msgspec import structs

from scheduler.assembly import Core, assemble, configure
from scheduler.config.durations import Duration
from scheduler.config.loading import Configuration
from scheduler.config.plugin_args import NodeResourceTopologyMatchArgs
from scheduler.config.schema import KUBE_API_VERSION, KUBE_KIND, PluginConfig
from scheduler.dra.binding import BINDING_CONDITIONS_PENDING
from scheduler.dra.offline import after as claim_after
from scheduler.dra.offline import made_ready
from scheduler.dra.pod_claims import claim_keys
from scheduler.explaining import findings, pod_progress
from scheduler.explaining.pod_progress import SETTLED, PodProgress
from scheduler.explaining.remedies.held import holding
from scheduler.explaining.remedies.scene import WrittenObjects
from scheduler.explaining.remedies.search import find as find_remedies
from scheduler.explaining.replicas import by_sums
from scheduler.flow.problem import Solution
from scheduler.framework.runtime import Framework
from scheduler.gangs.plugin import NAME as COSCHEDULING
from scheduler.gangs.status import describe_group
from scheduler.garbage import without_collections
from scheduler.model.devices import ResourceClaim
from scheduler.model.meta import AnnotatedMeta
from scheduler.model.nodes import (
    Node,
    NodeResourceTopology,
    NodeSelector,
    NodeSelectorRequirement,
    NodeSelectorTerm,
)
from scheduler.model.objects import KINDS, Change, PodGroup, from_dict
from scheduler.model.podinfo import PodInfo
from scheduler.model.pods import Pod, PodStatus, named_node
from scheduler.model.status import SUCCESS, Status
from scheduler.model.storage import (
    ObjectReference,
    PersistentVolume,
    PersistentVolumeClaim,
    PersistentVolumeSpec,
    VolumeNodeAffinity,
    VolumePhase,
)
from scheduler.model.volumes import (
    BIND_COMPLETED,
    SELECTED_NODE,
    class_of,
    fully_bound,
    promised_to,
)
from scheduler.model.workloads import pod_group_of
from scheduler.numa.plugin import NAME as NODE_RESOURCE_TOPOLOGY
from scheduler.observe.metrics import Metrics
from scheduler.pipeline.attempt import Attempt
from scheduler.pipeline.batch.problem import BatchProblem
from scheduler.plugin_api.groups import IN_PASS
from scheduler.plugin_api.outlet import ObjectRequest, StaleReason, Verb, never_stale
from scheduler.queueing.queued_pod import Tier
from scheduler.state.cache import ClusterState
from scheduler.state.scratch import scratch
from scheduler.webhooks.answers import RemoteAnswers
from scheduler.webhooks.suspension import answered

T = TypeVar("T")
Object = Mapping[str, Any]
Config = Mapping[str, Any] | Sequence[Mapping[str, Any]] | Configuration | None


HOSTNAME = "kubernetes.io/hostname"

PREEMPTED = "Preempted by pod "
"""How the message of a pod begins that was evicted."""

PATIENCE = Duration(3600.0)
"""How long the solver may take in a simulation: what comes of a backlog is not for the machine to
decide."""

MOST_BY_SUMS = 10_000_000
"""More pods are not counted, even where counting costs nothing."""
MOST_PLACED = 10_000
"""So many pods are placed to see how many fit, where only that tells."""
_FIRST_PORTION = 256

Look = Callable[[Core, list[PodInfo], list["Placed"]], T]
"""Called when all is placed, with the core, the pods that waited, and their outcome."""


class InputError(ValueError):
    """An object that cannot be read; the message names it and the field."""


class Placed(NamedTuple):
    """Where a pod went, or why it waits."""

    pod: str
    node: str | None
    message: str


class Eviction(NamedTuple):
    """A pod that had to go, for whom, and from where."""

    pod: str
    by: str
    node: str


def eviction_of(placed: Placed) -> Eviction | None:
    """What the message of a pod says about its eviction; None if it was not evicted."""
    if placed.node is not None or not placed.message.startswith(PREEMPTED):
        return None
    by, _, node = placed.message.removeprefix(PREEMPTED).partition(" on node ")
    return Eviction(placed.pod, by, node.partition(" ")[0])


class More(NamedTuple):
    """How many more pods fit."""

    fit: int
    complete: bool
    """Whether no more do; otherwise no more were tried."""
    nodes: dict[str, int]
    """How many go to each node, in one way of placing them."""


class _Clock:
    """Does not advance while pods are attempted, so that equal input has one outcome."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class _Recorder:
    """An outlet that binds at once, records, and does the work of a cluster's controllers.

    Volumes are bound and provisioned at once, devices are ready at once, and evicted pods are
    deleted at once.
    """

    def __init__(self) -> None:
        self.core: Core | None = None
        """The scheduler that gets changes, as from a watch."""
        self.progress = 0
        """Grows with every pod that is bound or evicted."""
        self.evicted: dict[str, None] = {}
        self.bound: dict[str, str] = {}
        self.unseen: list[tuple[Pod, str]] = []
        """Pods that were bound, and their nodes, of which the watch has not told yet."""
        self.messages: dict[str, str] = {}
        self.names: dict[str, str] = {}
        """Of pods that wait, by uid."""
        self.tried: dict[str, None] = {}
        self._claims = 0
        """How many requests there were about claims."""

    async def bind(self, pod: PodInfo, node: str, stale: StaleReason = never_stale) -> Status:
        self.bound[pod.key] = node
        self.unseen.append((pod.pod, node))
        self.tried[pod.key] = None
        self.progress += 1
        return SUCCESS

    def record_event(self, pod: PodInfo, type_: str, reason: str, action: str, note: str) -> None:
        """Keep the message of victims, with the preemptor's name; make devices ready.

        Other events have no effect.
        """
        if reason == BINDING_CONDITIONS_PENDING:
            self._make_ready(pod)
        if pod.key in self.evicted and note.startswith(PREEMPTED):
            uid, _, where = note.removeprefix(PREEMPTED).partition(" ")
            self.messages[pod.key] = f"{PREEMPTED}{self.names.get(uid, uid)} {where}"

    async def patch(self, kind: str, key: str, patch: Mapping[str, Any]) -> None:
        """Do what the volume controllers would do; other patches have no effect."""
        objects = self._cluster.state.objects
        if kind == PersistentVolume.__name__:
            reference = patch["spec"]["claimRef"]
            volume = objects.confirmed(PersistentVolume, key)
            claim = objects.get(
                PersistentVolumeClaim, f"{reference['namespace']}/{reference['name']}"
            )
            if volume is not None and claim is not None:
                self._give(volume, claim)
        elif kind == PersistentVolumeClaim.__name__:
            claim = objects.confirmed(PersistentVolumeClaim, key)
            annotations = patch["metadata"].get("annotations", {})
            if claim is not None and SELECTED_NODE in annotations:
                self._give(self._made(claim, annotations[SELECTED_NODE]), claim, annotations)

    def _make_ready(self, pod: PodInfo) -> None:
        """Do what drivers would do with the devices that a pod waits for."""
        for key in claim_keys(pod):
            claim = self._cluster.state.objects.get(ResourceClaim, key)
            if claim is not None:
                change: Change[Any] = Change(claim, made_ready(claim))
                self._cluster.event_handlers.handler(ResourceClaim.__name__)([change])

    async def send(self, request: ObjectRequest) -> Any:
        """Do with a claim what an API server does; other objects stay as they are."""
        if request.kind != ResourceClaim.__name__:
            return None
        self._claims += 1
        known = self._cluster.state.objects.get(ResourceClaim, request.key)
        new = claim_after(known, request, self._claims)
        if request.verb is not Verb.GET:
            change: Change[Any] = Change(known, new)
            self._cluster.event_handlers.handler(request.kind)([change])
        return new

    def _give(
        self,
        volume: PersistentVolume,
        claim: PersistentVolumeClaim,
        annotations: Mapping[str, str] = {},
    ) -> None:
        """Bind a volume and a claim to each other."""
        wanted = claim.metadata
        reference = ObjectReference(
            "PersistentVolumeClaim", wanted.namespace, wanted.name, wanted.uid
        )
        self._tell(
            structs.replace(
                volume,
                metadata=_newer(volume.metadata),
                spec=structs.replace(volume.spec, claim_ref=reference),
                status=VolumePhase("Bound"),
            )
        )
        said = {**wanted.annotations, **annotations, BIND_COMPLETED: "yes"}
        self._tell(
            structs.replace(
                claim,
                metadata=structs.replace(_newer(wanted), annotations=said),
                spec=structs.replace(claim.spec, volume_name=volume.metadata.name),
                status=VolumePhase("Bound"),
            )
        )

    def _made(self, claim: PersistentVolumeClaim, node: str) -> PersistentVolume:
        """A new volume for a claim, on the node that was chosen for its pod."""
        spec, found = claim.spec, self._cluster.state.node(node)
        host = found.metadata.labels.get(HOSTNAME) if found is not None else None
        expression = NodeSelectorRequirement(HOSTNAME, "In", (host,)) if host else None
        term = NodeSelectorTerm((expression,)) if expression else None
        return PersistentVolume(
            metadata=AnnotatedMeta(name=f"pvc-{claim.metadata.uid}"),
            spec=PersistentVolumeSpec(
                capacity=dict(spec.resources.requests),
                access_modes=spec.access_modes,
                storage_class_name=class_of(claim),
                volume_mode=spec.volume_mode,
                node_affinity=VolumeNodeAffinity(NodeSelector((term,))) if term else None,
            ),
        )

    def _tell(self, new: PersistentVolume | PersistentVolumeClaim) -> None:
        kind, key = type(new).__name__, new.metadata.key
        old = self._cluster.state.objects.confirmed(type(new), key)
        self._cluster.event_handlers.handler(kind)([Change(old, new)])

    @property
    def _cluster(self) -> Core:
        assert self.core is not None, "it belongs to a scheduler"
        return self.core

    async def evict(self, pod: PodInfo, condition: Mapping[str, Any]) -> None:
        """The pod is gone at once."""
        placed = self._cluster.state.pod(pod.uid)
        self.evicted[pod.key] = None
        self.bound.pop(pod.key, None)
        self.progress += 1
        if placed is not None:
            self._cluster.event_handlers.handler("Pod")([Change(placed.pod, None)])

    def nominate(self, pod: PodInfo, node: str) -> None:
        """Write nothing; but bind the volumes that the pod waits for."""
        objects = self._cluster.state.objects
        for use in pod.volumes.claims if node else ():
            claim = objects.confirmed(PersistentVolumeClaim, use.key)
            if claim is None or fully_bound(claim):
                continue
            if claim.metadata.annotations.get(SELECTED_NODE) == node:
                self._give(self._made(claim, node), claim)
                continue
            for key in objects.all(PersistentVolume):
                volume = objects.confirmed(PersistentVolume, key)
                if volume is not None and promised_to(volume, claim):
                    self._give(volume, claim)
                    break

    def set_condition(self, pod: PodInfo, reason: str, message: str) -> None:
        self.messages[pod.key] = message
        self.tried[pod.key] = None


def judge(objects: Iterable[Object], pod: Object, config: Config = None) -> dict[str, Any]:
    """The verdict of every node for one pod in the current state, and scores of those that fit.

    No other pod of the objects is placed, gates and pod groups are not looked at, and plugins
    outside are not asked. Returns ``fit`` (names), ``nodes`` (per node: fit, plugin, code,
    reasons, and ``all`` rejections with their facts), ``facts`` (of the whole cluster), ``scores``
    (per feasible node: total and each plugin's weighted part) and ``message``
    (the filter part of the FailedScheduling text, empty if a node fits). Of a pod with claims or
    with resources that come as devices also ``allocations`` (per feasible node: what each claim
    would get), ``preenqueue`` (why the pod is not queued) and ``postfilter`` (what is taken back).
    """
    objects = list(objects)
    core = _core(config, objects, _Recorder(), _Clock())
    _load(core, objects)
    info = PodInfo(_own(core, _decode(pod, Pod, "Pod")), core.config.equipoise.limits)
    return findings.explain(_framework(core, info.pod), core.state, info, core.seed)


def explain(
    objects: Iterable[Object], pod: Object, config: Config = None, *, count: int | None = None
) -> dict[str, Any]:
    """What `place` does with one pod, and why: the verdict of every node when it is popped.

    The pod takes the place of the object of its name, or comes last. Besides what `judge` returns:
    ``node``, the node that it gets; ``wouldGoTo``, where it would go if nothing held it;
    ``standing``, how far it is; ``preemption``, the victims if it fits nowhere; ``remedies``, the
    smallest changes that would let it run, each with how many of ``count`` pods like it then fit;
    ``batch``, whether the cost model of a backlog chose the node, if that is configured; and
    ``group``, if it is in one: how that stands before it is tried. Webhooks and extenders are
    really asked. A pod that is not tried is judged as if nothing held it: one that is gated when
    all others are placed, one that is on a node, has ended or is left to others before.
    Without a configuration it is the default profile, with NUMA alignment if some node's cells are
    among the objects, and with gangs if PodGroups are.
    """
    return asyncio.run(_Explained(list(objects), pod, config, count).run())


class _Explained:
    """A play that explains one pod when it is popped."""

    def __init__(
        self, objects: list[Object], pod: Object, config: Config, count: int | None = None
    ) -> None:
        self._count = count
        self._objects = _with_pod([o for raw in objects for o in _flatten(raw)], pod)
        self._recorder = _Recorder()
        self._clock = _Clock()
        self._config = config
        self._core = core = _core(config, self._objects, self._recorder, self._clock)
        self._given: Core | None = None
        """Another one with the objects as they were given, where no pod has been placed."""
        self._others_wait = False
        self._pod = _own(core, _decode(pod, Pod, "Pod"))
        spec = structs.replace(self._pod.spec, node_name="")
        waiting = structs.replace(self._pod, spec=spec)
        self._info = PodInfo(waiting, core.config.equipoise.limits)
        self._originals = WrittenObjects(pod, {_identity(each): each for each in self._objects})
        self._findings: findings.Findings | None = None
        self._remedies: list[dict[str, Any]] | None = None
        self._attempt: Attempt | None = None

    async def run(self) -> dict[str, Any]:
        core = self._core
        waiting = _load(core, self._objects)
        self._others_wait = any(info.uid != self._info.uid for info in waiting)
        group = describe_group(core.state, self._pod)
        progress = pod_progress.beyond_scheduling(self._pod)
        if progress is None and self._pod.spec.scheduler_name not in core.frameworks:
            progress = pod_progress.elsewhere(self._pod, core.frameworks)
        try:
            if progress is not None:
                answer = self._concluded(await self._judged_now(), progress, group)
                remedies = self._sought(progress)
                return {**answer, "batch": self._batched(), "remedies": remedies}
            core.scheduler.on_attempt = self._on_attempt
            outcomes = await _placed(core, self._recorder, waiting, self._clock)
            placed = {each.pod: each for each in outcomes}
            progress, outcome = self._progress(), placed[self._info.key]
            found = self._findings and findings.described(self._findings)
            answer = self._concluded(found or await self._judged_now(), progress, group)
            held = outcome.node is None
            return {
                **answer,
                "node": outcome.node,
                "wouldGoTo": answer["node"] or answer["wouldGoTo"] if held else None,
                "message": answer["message"] if progress.held else outcome.message,
                "batch": self._batched(),
                "remedies": self._sought(progress) if held else [],
            }
        finally:
            await core.stop()
            if self._given is not None:
                await self._given.stop()

    def _concluded(
        self, answer: dict[str, Any], progress: PodProgress, group: Any
    ) -> dict[str, Any]:
        books = _framework(self._core, self._pod).own_books
        return pod_progress.concluded(answer, progress, books, group)

    def _on_attempt(self, attempt: Attempt) -> None:
        """See an attempt at the explained pod: what is found now is what the attempt finds."""
        if attempt.queued.info.uid != self._info.uid:
            return
        core = self._core
        self._attempt = attempt
        answers = attempt.answers if attempt.framework.remote.enabled else None
        alone = attempt.cycle.find(IN_PASS) is None
        self._findings = findings.judge_all(
            attempt.framework, core.state, self._info, core.seed, answers, room=alone
        )

        if not self._findings.fits:
            self._remedies = self._found_remedies()

    def _sought(self, progress: PodProgress) -> list[dict[str, Any]]:
        """What would let the pod run: when it was tried, or now if it was not."""
        if self._remedies is not None and not progress.held:
            return self._remedies
        if progress.state in SETTLED:
            return []
        return self._found_remedies()

    def _found_remedies(self) -> list[dict[str, Any]]:
        core = self._core
        framework = _framework(core, self._pod)
        steps = holding(self._pod, core.frameworks)
        given = self._as_given if self._others_wait else None
        return find_remedies(
            framework,
            core.state,
            self._info,
            self._originals,
            steps,
            core.seed,
            given,
            self._count,
        )

    def _as_given(self) -> tuple[Framework, ClusterState]:
        """The cluster before any pod is placed: what somebody has who applies the changes."""
        if self._given is None:
            self._given = _core(self._config, self._objects, _Recorder(), _Clock())
            _load(self._given, self._objects)
        return _framework(self._given, self._pod), self._given.state

    def _batched(self) -> dict[str, Any] | None:
        placement = self._attempt and self._attempt.placement
        settings = self._core.config.equipoise.batch
        return pod_progress.batched(settings, placement.model if placement else "")

    def _progress(self) -> PodProgress:
        """How far the pod is after its attempt."""
        core, info = self._core, self._info
        entry = core.queue.view.entry(info.key, info.uid)
        if info.key in self._recorder.bound or entry is None:
            return PodProgress("active")
        groups = _framework(core, self._pod).groups
        group = None if groups is None else groups.group_of(info)
        progress = pod_progress.waiting(entry, group)
        return progress if progress.held else PodProgress("active")

    async def _judged_now(self) -> dict[str, Any]:
        """The verdicts in the current state, without the pod itself."""
        core, info = self._core, self._info

        def judged(answers: RemoteAnswers) -> findings.Findings:
            with scratch(core.state) as changes:
                if (placed := core.state.pod(info.uid)) is not None:
                    changes.remove(placed)
                framework = _framework(core, self._pod)
                return findings.judge_all(framework, core.state, info, core.seed, answers)

        return findings.described(await answered(judged))


def _with_pod(objects: list[Object], pod: Object) -> list[Object]:
    """The objects with a pod in the place of the one of its name, or at the end."""
    named = {"kind": "Pod", **pod}
    key = _identity(named)
    same = [i for i, each in enumerate(objects) if _identity(each) == key]
    if not same:
        return [*objects, named]
    return [named if i == same[0] else each for i, each in enumerate(objects)]


def _identity(raw: Object) -> tuple[Any, ...]:
    metadata = raw.get("metadata")
    metadata = metadata if isinstance(metadata, Mapping) else {}
    kind = raw.get("kind")
    namespaced = kind not in KINDS or KINDS[kind].namespaced
    namespace = (metadata.get("namespace") or "default") if namespaced else ""
    return kind, namespace, metadata.get("name")


def _framework(core: Core, pod: Pod) -> Framework:
    """The profile that a pod names, or the first."""
    return core.frameworks.get(pod.spec.scheduler_name) or next(iter(core.frameworks.values()))


def place(
    objects: Iterable[Object],
    config: Config = None,
    *,
    evict: bool = False,
    prepare: bool = False,
) -> list[tuple[str, str | None, str]]:
    """Schedule every pending pod that names one of our schedulers (or none), in queue order.

    A pod that fits nowhere, also after all others are placed, comes with its message. Volumes are
    bound, or made on the node of their pod, as soon as it has one. Evicts no pod, unless ``evict``
    says so: post-filters run then, and victims are gone and come last, with who took their place.
    With ``prepare``, plugins from outside the tree prepare nodes (pre-bind) too; what they do
    elsewhere they do for real.
    """
    return list(asyncio.run(_place(objects, config, evict, prepare)))


def played(
    objects: Iterable[Object],
    config: Config,
    look: Look[T],
    *,
    batch: bool | None,
    begin: Callable[[Core], None] | None = None,
    watch: Callable[[BatchProblem, Solution], None] | None = None,
    evict: bool = False,
) -> T:
    """Schedule as ``place`` does, and pass the result to ``look``.

    At once, one by one, or with ``batch=None`` as the configuration says. ``begin`` sees the
    cluster before.
    """
    return asyncio.run(_played(objects, config, look, batch, begin, watch, evict))


def how_many_more(
    objects: Iterable[Object], pod: Object, config: Config = None, most: int = MOST_PLACED
) -> More:
    """How many more pods like this one fit together, when all that wait are placed.

    The pod itself, if it is among the objects, is placed like any other and not counted. Where
    filters read nothing of other pods but what they request, the number follows from sums of
    columns. Otherwise pods are placed until one fits nowhere, ``most`` at most.
    """
    return asyncio.run(_how_many_more(list(objects), pod, config, most))


async def _how_many_more(objects: list[Object], pod: Object, config: Config, most: int) -> More:
    recorder, clock = _Recorder(), _Clock()
    core = _core(_batching(config, objects, False), objects, recorder, clock)
    try:
        await _placed(core, recorder, _load(core, objects), clock)
        own = _own(core, _decode(pod, Pod, "Pod"))
        framework = _framework(core, own)
        info = PodInfo(_another(own, 0), core.config.equipoise.limits)
        sums = _counted_by_sums(core, framework, info)
        if sums is None:
            return await _placed_until_full(core, recorder, clock, own, most)
        nodes = {name: number for name, number in sorted(sums.items()) if number}
        return More(sum(nodes.values()), True, nodes)
    finally:
        await core.stop()


def _counted_by_sums(core: Core, framework: Framework, info: PodInfo) -> dict[str, int] | None:
    """How many pods each node takes; None if others than filters, or more than sums, decide."""
    if framework.remote.enabled and framework.remote.concerns(info):
        return None
    if framework.groups is not None and framework.groups.group_of(info) is not None:
        return None
    return by_sums(framework, core.state, info, MOST_BY_SUMS)


async def _placed_until_full(
    core: Core, recorder: _Recorder, clock: _Clock, pod: Pod, most: int
) -> More:
    """Place pods like one, ever more at a time, until some fit nowhere."""
    nodes: Counter[str] = Counter()
    made, complete = 0, False
    while made < most and not complete:
        number = min(max(made, _FIRST_PORTION), most - made)
        copies = [_another(pod, made + i) for i in range(number)]
        core.event_handlers.handler("Pod")([Change(None, copy) for copy in copies])
        await _settled(core, recorder, clock)
        found = [recorder.bound[each.key] for each in copies if each.key in recorder.bound]
        nodes.update(found)
        made, complete = made + number, len(found) < number
    return More(nodes.total(), complete, dict(sorted(nodes.items())))


def profile_names(config: Configuration | None) -> frozenset[str]:
    """The names that pods call our schedulers by; a pod without any is the first one's."""
    profiles = _configuration(config, ()).scheduler.profiles
    return frozenset({"", *(profile.scheduler_name for profile in profiles)})


def _another(pod: Pod, number: int) -> Pod:
    """A pod like this one that waits: nothing has befallen it yet."""
    name = f"{pod.metadata.name}-more-{number}"
    metadata = structs.replace(pod.metadata, name=name, uid="", deletion_timestamp=None)
    spec = structs.replace(pod.spec, node_name="", scheduling_gates=())
    named: Pod = _with_uid(structs.replace(pod, metadata=metadata, spec=spec, status=PodStatus()))
    return named


async def _played(
    objects: Iterable[Object],
    config: Config,
    look: Look[T],
    batch: bool | None,
    begin: Callable[[Core], None] | None,
    watch: Callable[[BatchProblem, Solution], None] | None,
    evict: bool,
) -> T:
    recorder = _Recorder()
    objects = list(objects)
    clock = _Clock()
    if batch is not None:
        config = _batching(config, objects, batch)
    core = _core(config, objects, recorder, clock, evict=evict)
    if core.scheduler.batches is not None:
        core.scheduler.batches.watch = watch
        core.scheduler.batches.reports = deque()  # all of them, however many
    waiting = _load(core, objects)
    if begin is not None:
        begin(core)
    try:
        return look(core, waiting, await _placed(core, recorder, waiting, clock))
    finally:
        await core.stop()


def _batching(config: Config, objects: Iterable[Object], enabled: bool) -> Configuration:
    """The configuration with backlogs placed at once, or one by one whatever it says."""
    loaded = _configuration(config, objects)
    settings = structs.replace(
        loaded.equipoise.batch,
        enabled=enabled,
        window=Duration(0.0),
        min_pending=1,
    )
    return replace(loaded, equipoise=structs.replace(loaded.equipoise, batch=settings))


async def _place(
    objects: Iterable[Object], config: Config, evict: bool, prepare: bool
) -> list[Placed]:
    recorder = _Recorder()
    objects = list(objects)
    clock = _Clock()
    core = _core(config, objects, recorder, clock, evict=evict, prepare=prepare)
    try:
        return await _placed(core, recorder, _load(core, objects), clock)
    finally:
        await core.stop()


async def _settled(core: Core, recorder: _Recorder, clock: _Clock) -> None:
    """Attempt pods until no attempt would change anything, as in a cluster at rest.

    Pods that were placed or evicted may have cured others, which back off: time passes for them,
    as long as some pod was since it last did.
    """
    pause, before = 2.0 * core.config.scheduler.pod_max_backoff_seconds, -1
    while recorder.progress > before:
        before = recorder.progress
        while core.scheduler.schedule_one() is not None:
            await _bound(core, recorder)
        clock.now += pause
        core.queue.flush()


async def _place_daemons(core: Core, recorder: _Recorder, waiting: Iterable[PodInfo]) -> None:
    """Attempt pods of DaemonSets before all others, as on nodes that have just joined.

    Those of pod groups wait for their groups.
    """
    daemons = [
        info.key
        for info in waiting
        if _of_daemon_set(info.pod) and pod_group_of(info.pod.metadata) is None
    ]
    for profile in core.frameworks:
        for queued in core.queue.pop_together(daemons, profile):
            core.scheduler.schedule_popped(queued)
            await _bound(core, recorder)


async def _bound(core: Core, recorder: _Recorder) -> None:
    """Let attempts and bindings end, and the watch deliver them."""
    await core.scheduler.finish_suspended()
    await core.bindings.idle()
    await core.background.idle()
    told = [
        Change(pod, structs.replace(pod, spec=structs.replace(pod.spec, node_name=node)))
        for pod, node in recorder.unseen
    ]
    recorder.unseen.clear()
    core.event_handlers.handler("Pod")(told)


def _of_daemon_set(pod: Pod) -> bool:
    owner = pod.metadata.controller
    return owner is not None and owner.kind == "DaemonSet"


async def _placed(
    core: Core, recorder: _Recorder, waiting: list[PodInfo], clock: _Clock
) -> list[Placed]:
    recorder.names = {info.uid: info.key for info in waiting}
    core.scheduler.begin()
    await core.background.idle()
    await _place_daemons(core, recorder, waiting)
    at_once: dict[str, None] = {}
    if core.scheduler.batches is not None and core.scheduler.batches.due:
        ready = Tier.ACTIVE.value
        at_once = dict.fromkeys(e.pod for e in core.queue.view.snapshot() if e.tier == ready)
        while (head := core.queue.peek()) is not None and not head.attempts:
            if not await core.scheduler.run_batch():
                break
            await _bound(core, recorder)
    await _settled(core, recorder, clock)
    # In the order of their first attempt; those that are never tried (gated) come last.
    order = at_once | recorder.tried | dict.fromkeys(info.key for info in waiting)
    order = {key: None for key in order if key not in recorder.evicted} | recorder.evicted
    for entry in core.queue.view.snapshot():
        recorder.messages.setdefault(entry.pod, entry.message)
    for info in waiting:
        if info.pod.deleting:
            recorder.messages.setdefault(info.key, "the pod is being deleted")
    return [Placed(key, recorder.bound.get(key), _message(recorder, key)) for key in order]


def _message(recorder: _Recorder, key: str) -> str:
    return "" if key in recorder.bound else recorder.messages.get(key, "")


def _core(
    config: Config,
    objects: Iterable[Object],
    recorder: _Recorder,
    clock: Callable[[], float],
    *,
    evict: bool = False,
    prepare: bool = False,
) -> Core:
    # What those outside do, to bind a pod for one, would be for real.
    core = assemble(
        _reserving(_patient(_configuration(config, objects))),
        recorder,
        Metrics(),
        without=() if evict else ("postFilter",),
        only_in_tree=() if prepare else ("preBind",),
        dry=True,
        clock=clock,
    )
    recorder.core = core
    return core


def _newer(metadata: AnnotatedMeta) -> AnnotatedMeta:
    """The metadata of an object after a write."""
    return structs.replace(metadata, resource_version=f"{metadata.resource_version}+")


def _patient(config: Configuration) -> Configuration:
    """The same with a solver that may take its time."""
    batch = structs.replace(config.equipoise.batch, solver_timeout=PATIENCE)
    return replace(config, equipoise=structs.replace(config.equipoise, batch=batch))


def _reserving(config: Configuration) -> Configuration:
    """The same with the reserve cache of NUMA cells.

    No kubelet publishes what the simulation has placed, so without it cells would be given out
    twice.
    """

    def reserve(each: PluginConfig) -> PluginConfig:
        if not isinstance(each.args, NodeResourceTopologyMatchArgs):
            return each
        cache = each.args.cache and structs.replace(each.args.cache, mode="")
        args = structs.replace(
            each.args,
            cache_resync_period_seconds=each.args.cache_resync_period_seconds or 1,
            discard_reserved_nodes=False,
            cache=cache,
        )
        return structs.replace(each, args=args)

    profiles = tuple(
        structs.replace(profile, plugin_config=tuple(map(reserve, profile.plugin_config)))
        for profile in config.scheduler.profiles
    )
    scheduler = structs.replace(config.scheduler, profiles=profiles)
    return replace(config, scheduler=scheduler)


def _configuration(config: Config, objects: Iterable[Object]) -> Configuration:
    if isinstance(config, Configuration):
        return config
    documents = [config] if isinstance(config, Mapping) else list(config or ())
    if config is None:
        kinds = {item.get("kind") for raw in objects for item in _flatten(raw)}
        documents = [_default({name for kind, name in _MEANT.items() if kind in kinds})]
    return configure(documents, environ={})


_MEANT = {NodeResourceTopology.__name__: NODE_RESOURCE_TOPOLOGY, PodGroup.__name__: COSCHEDULING}
"""Plugins that are added to the default profile if objects of a kind are listed."""


def _default(more: Collection[str]) -> Object:
    enabled = [{"name": name} for name in sorted(more)]
    profile = {"plugins": {"multiPoint": {"enabled": enabled}}}
    return {"apiVersion": KUBE_API_VERSION, "kind": KUBE_KIND, "profiles": [profile]}


@without_collections()
def _load(core: Core, objects: Iterable[Object]) -> list[PodInfo]:
    """Feed all objects to the core, nodes before pods; returns the pods that wait for us."""
    by_kind: dict[str, list[Any]] = {}
    for raw in objects:
        for item in _flatten(raw):
            kind = str(item.get("kind", ""))
            if kind in KINDS:
                decoded = _decode(item, KINDS[kind].type, kind)
                if kind == Node.__name__ and not decoded.metadata.name:
                    raise InputError("Node ?: metadata.name is missing")
                if KINDS[kind].namespaced:
                    decoded = _in_some_namespace(decoded)
                if kind in _KNOWN_BY_UID:
                    decoded = _with_uid(decoded)
                by_kind.setdefault(kind, []).append(decoded)
                _keep(core, kind, _own(core, decoded) if kind == "Pod" else decoded, item)
    pods = [_counted(core, _own(core, pod)) for pod in by_kind.pop("Pod", [])]
    for kind, items in by_kind.items():
        core.event_handlers.handler(kind)([Change(None, item) for item in items])
    core.event_handlers.handler("Pod")([Change(None, pod) for pod in pods])
    limits = core.config.equipoise.limits
    return [PodInfo(p, limits) for p in pods if core.event_handlers.responsible(p) and _waits(p)]


_KNOWN_BY_UID = (PersistentVolumeClaim.__name__, ResourceClaim.__name__)
"""Kinds, besides pods, of which objects are told apart by uid."""


def _keep(core: Core, kind: str, decoded: Any, raw: Object) -> None:
    """Keep an object as it was given, if webhooks or extenders get whole objects."""
    originals = core.remotes.originals
    if originals is not None and (keep := originals.keeper(kind)) is not None:
        keep(decoded.metadata.key, decoded, msgspec.json.encode(raw))


def _counted(core: Core, pod: Pod) -> Pod:
    """The pod, on its node if it is a DaemonSet's and another scheduler binds it there."""
    if not _waits(pod) or core.event_handlers.responsible(pod) or not _of_daemon_set(pod):
        return pod
    node = named_node(pod)
    return structs.replace(pod, spec=structs.replace(pod.spec, node_name=node))


def _waits(pod: Pod) -> bool:
    return not pod.spec.node_name and not pod.finished


def _flatten(raw: Object) -> Iterable[Object]:
    """The objects of a List, or the object itself."""
    if not isinstance(raw, Mapping):
        raise InputError(f"expected an object, not {str(raw)[:40]!r}")
    if str(raw.get("kind", "")).endswith("List") and isinstance(raw.get("items"), Sequence):
        for item in raw["items"]:
            yield from _flatten(item)
    else:
        yield raw


def _in_some_namespace(item: Any) -> Any:
    """An object where kubectl would put it: in the default namespace, unless it says otherwise."""
    namespace = item.metadata.namespace or "default"
    metadata = structs.replace(item.metadata, namespace=namespace)
    return structs.replace(item, metadata=metadata)


def _own(core: Core, pod: Pod) -> Pod:
    """A pod with what the API server would have filled in."""
    pod = _with_uid(_in_some_namespace(pod))
    name = pod.spec.scheduler_name or next(iter(core.frameworks))
    return structs.replace(pod, spec=structs.replace(pod.spec, scheduler_name=name))


def _with_uid(item: Any) -> Any:
    metadata = item.metadata
    uid = metadata.uid or metadata.key
    return structs.replace(item, metadata=structs.replace(metadata, uid=uid))


def _decode(raw: Object, type_: Any, kind: str) -> Any:
    try:
        return from_dict(raw, type_)
    except (msgspec.ValidationError, UnicodeError) as fault:
        metadata = raw.get("metadata")
        name = metadata.get("name", "?") if isinstance(metadata, Mapping) else "?"
        raise InputError(f"{kind} {name}: {fault}") from None
