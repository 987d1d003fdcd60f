"""Scenes: the cluster and the pod with some changes, judged by the real filters.

A scene is a list of steps from what is there. To judge it, nodes are changed and pods removed for
the length of a block that no checkpoint interrupts, and the changed pod is evaluated as the cycle
would evaluate it. Between two blocks other tasks may run: a scene refers to names, never to rows.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cached_property
from typing import Any, TypeVar, cast

import msgspec
import numpy as np
from numpy.typing import NDArray

from scheduler.dra.ledger import DeviceLedger
from scheduler.explaining.remedies.patches import Object, at, merge_patch
from scheduler.framework.faults import PluginFault
from scheduler.framework.runtime import Framework
from scheduler.model.nodes import Node
from scheduler.model.objects import KINDS, from_dict, without_nulls
from scheduler.model.podinfo import PodInfo
from scheduler.model.pods import Pod
from scheduler.model.storage import PersistentVolumeClaim
from scheduler.pipeline.evaluation import (
    CycleError,
    Evaluation,
    evaluate,
    filter_with_nominated_pods,
)
from scheduler.plugin_api.cycle import Cycle
from scheduler.slices import unbroken, whole_slice
from scheduler.state.cache import ClusterState
from scheduler.state.columns import Codes, Rows, Scores
from scheduler.state.interning import distinct_codes
from scheduler.state.nodes_on_trial import as_if_nodes, as_if_objects
from scheduler.state.scratch import scratch

MAX_TRIALS = 240
"""How many scenes are judged for one pod; the search ends there with what it has."""

TRIAL_WORK = 4_000
"""What a search for devices on one node may do in a trial: some milliseconds. What it does not find
is not proposed."""

_BITS = 62

Edit = Callable[[Object], Object | None]
"""Makes a changed copy of a pod; None if it cannot."""


SUPPOSED = "supposed"
"""The kind of a step without an action: what is created with a pod that does not exist."""

Given = Callable[[], tuple[Framework, ClusterState]]
"""Makes the cluster without simulated placements."""


class Exhausted(Exception):
    """As many scenes were judged as may be."""


class Step(msgspec.Struct, frozen=True, eq=False):
    """One change."""

    kind: str
    """Changes of one kind are compared with each other: the larger ones are left out."""
    summary: str
    """What to do, for people."""
    cost: float
    """How much it asks; see docs/remedies.md."""
    edit: Edit | None = None
    """Makes the pod another."""
    nodes: tuple[Object, ...] = ()
    """Nodes as they would be, and new ones."""
    gone: tuple[PodInfo, ...] = ()
    """Pods that would be deleted."""
    come: tuple[tuple[PodInfo, str], ...] = ()
    """Pods that others would make, and their nodes."""
    objects: tuple[Object, ...] = ()
    """New objects of other kinds."""
    changed: tuple[Object, ...] = ()
    """Objects of other kinds as they would be."""
    removed: tuple[Object, ...] = ()
    """Objects of other kinds that would be deleted."""
    others: tuple[dict[str, Any], ...] = ()
    """Changes of objects that no filter reads."""
    affects: tuple[str, ...] = ()
    """The other pods and objects that it affects."""
    parts: frozenset[Any] = frozenset()
    """What it consists of: a step that has all parts of another is larger."""
    smaller: Callable[[], Iterator[Step]] | None = None
    """Steps that have one part less, if it has several."""


P = TypeVar("P")


def one_less(
    parts: Sequence[P], make: Callable[[Sequence[P]], Step]
) -> Callable[[], Iterator[Step]] | None:
    """Makes the steps that have one part less."""
    if len(parts) < 2:
        return None
    return lambda: (make([*parts[:i], *parts[i + 1 :]]) for i in range(len(parts)))


class WrittenObjects:
    """The objects as they were given, or as far as the scheduler decodes them."""

    def __init__(
        self,
        pod: Object | None = None,
        objects: Mapping[tuple[str, str, str], Object] | None = None,
    ) -> None:
        self._pod = pod
        self._objects = objects or {}

    @property
    def whole(self) -> bool:
        """Whether the pod is all of what its author wrote."""
        return self._pod is not None

    def pod(self, pod: Pod) -> Object:
        """The pod."""
        if self._pod is not None:
            return self._pod
        plain: Object = msgspec.to_builtins(pod)
        return plain

    def waits(self, pod: Pod) -> bool:
        """Whether a pod was given as one that waits: where it is now, only the simulation says."""
        found = self._objects.get(("Pod", pod.metadata.namespace, pod.metadata.name))
        return found is not None and not at(found, "spec", "nodeName")

    def node(self, node: Node) -> Object:
        """A node."""
        found = self._objects.get(("Node", "", node.name))
        if found is not None:
            return cast("Object", without_nulls(found))
        plain: dict[str, Any] = msgspec.to_builtins(node)
        return {"apiVersion": "v1", "kind": "Node", **plain}

    def has(self, kind: str, name: str) -> bool:
        """Whether an object of a kind without namespaces is there as it was given."""
        return (kind, "", name) in self._objects

    def other(self, kind: str, known: Any) -> Object:
        """An object of another kind."""
        metadata = known.metadata
        namespace = metadata.namespace if KINDS[kind].namespaced else ""
        found = self._objects.get((kind, namespace, metadata.name))
        if found is not None:
            return cast("Object", without_nulls(found))
        plain: dict[str, Any] = msgspec.to_builtins(known)
        return {"kind": kind, **plain}


class World:
    """What all scenes of one search share."""

    def __init__(
        self,
        framework: Framework,
        state: ClusterState,
        info: PodInfo,
        originals: WrittenObjects,
        given: Given | None = None,
    ) -> None:
        self.framework = framework
        self.state = state
        self.info = info
        self.originals = originals
        self._given = given
        self.raw = cast("Object", without_nulls(originals.pod(info.pod)))
        self.trials = 0

    @cached_property
    def given(self) -> World | None:
        """The cluster as it was given, if this one is not; the same steps can be judged there."""
        if self._given is None:
            return None
        framework, state = self._given()
        return World(framework, state, PodInfo(self.info.pod, self.info.limits), self.originals)

    def spend(self) -> None:
        """Count a trial."""
        self.trials += 1
        if self.trials > MAX_TRIALS:
            raise Exhausted

    def rebuilt(self, raw: Object) -> PodInfo:
        """The pod after a change: who it is stays."""
        known = self.info.pod
        pod = from_dict(raw, Pod)
        spec = msgspec.structs.replace(
            pod.spec,
            node_name="",
            scheduler_name=pod.spec.scheduler_name or known.spec.scheduler_name,
        )
        changed = msgspec.structs.replace(pod, metadata=known.metadata, spec=spec)
        return PodInfo(changed, self.info.limits)


class Blockers:
    """Which filters reject which nodes, each filter asked about every node."""

    def __init__(
        self, names: Sequence[str], plugins: Sequence[str], reasons: Sequence[Scores], whole: str
    ) -> None:
        """``reasons`` is how many each of the plugins has against each of the nodes."""
        self.names = names
        self.plugins = plugins
        self.whole = whole
        """The plugin that rejects the pod as a whole; "" if none does."""
        self._reasons = np.array(reasons, np.int64).reshape(len(plugins), len(names))
        self._table = self._reasons > 0

    def __bool__(self) -> bool:
        return bool(self.whole) or bool(self._table.any())

    def near(self, plugins: frozenset[str], and_all_of: frozenset[str] = frozenset()) -> list[str]:
        """The nodes that none but these plugins reject, and some do (or all of some)."""
        among = np.array([plugin in plugins for plugin in self.plugins], np.bool_)
        others = self._table[~among].any(axis=0)
        here = self._table[among].any(axis=0) & ~others
        for plugin in and_all_of:
            here &= self._table[self.plugins.index(plugin)]
        return [self.names[place] for place in np.flatnonzero(here).tolist()]

    def nearest(self, names: Collection[str]) -> tuple[int, frozenset[str], list[str]]:
        """The fewest reasons against one of these nodes, whose they are, and such nodes."""
        names = frozenset(names)  # else there is a look at each for each
        chosen = np.array([name in names for name in self.names], np.bool_)
        if not self.plugins or not chosen.any():
            return 0, frozenset(), [name for name in self.names if name in names]
        counts = np.where(chosen, self._reasons.sum(axis=0), np.iinfo(np.int64).max)
        fewest = int(counts.min())
        way = self._table[:, int(counts.argmin())]
        alike = (counts == fewest) & (self._table == way[:, np.newaxis]).all(axis=0)
        plugins = frozenset(p for p, hit in zip(self.plugins, way.tolist(), strict=True) if hit)
        return fewest, plugins, [self.names[place] for place in np.flatnonzero(alike).tolist()]

    def sets(self) -> dict[frozenset[str], int]:
        """The different sets of plugins that reject a node, and how many nodes each has."""
        if not self.plugins or not self.names:
            return {}
        different, which = ways(self._table)
        return {
            frozenset(p for p, hit in zip(self.plugins, way, strict=True) if hit): count
            for way, count in zip(different.T.tolist(), np.bincount(which).tolist(), strict=True)
        }


class Scene:
    """The cluster and the pod after some steps."""

    def __init__(self, world: World, steps: tuple[Step, ...] = ()) -> None:
        self.world = world
        self.steps = steps

    def then(self, *steps: Step) -> Scene:
        """The same after further steps."""
        return Scene(self.world, (*self.steps, *steps))

    @cached_property
    def raw(self) -> Object | None:
        """The pod as it would be; None if a step cannot change it."""
        raw: Object | None = self.world.raw
        for step in self.steps:
            if step.edit is not None and raw is not None:
                raw = step.edit(raw)
        return raw

    @cached_property
    def info(self) -> PodInfo:
        """The pod as it would be."""
        raw = self.raw
        if raw is None or raw is self.world.raw:
            return self.world.info
        return self.world.rebuilt(raw)

    def least(self) -> Scene:
        """The scene with as few parts of its steps as open one of the nodes that it opens.

        A step is as small as can be when it is proposed; one after it may make parts needless.
        """
        scene, opens = self, frozenset(self.opened())
        for place in range(len(self.steps)):
            while (fewer := scene._smaller(place, opens)) is not None:
                scene = fewer
        return scene

    def _smaller(self, place: int, opens: frozenset[str]) -> Scene | None:
        step = self.steps[place]
        for less in step.smaller() if step.smaller is not None else ():
            scene = Scene(self.world, (*self.steps[:place], less, *self.steps[place + 1 :]))
            if not opens.isdisjoint(scene.opened()):
                return scene
        return None

    @property
    def state(self) -> ClusterState:
        """The state; it shows the changes within `acted` only."""
        return self.world.state

    def node(self, name: str) -> Object | None:
        """A node as it would be; None if there is none."""
        for step in reversed(self.steps):
            for raw in step.nodes:
                if raw["metadata"]["name"] == name:
                    return raw
        node = self.state.node(name)
        return None if node is None else self.world.originals.node(node)

    def other(self, kind: str, key: str) -> Object | None:
        """An object of another kind as it would be; None if there is none."""
        for step in reversed(self.steps):
            for raw in step.removed:
                if (raw["kind"], other_key(raw)) == (kind, key):
                    return None
            for raw in (*step.changed, *step.objects):
                if (raw["kind"], other_key(raw)) == (kind, key):
                    return raw
        known = self._known(kind, key)
        return None if known is None else self.world.originals.other(kind, known)

    def claim(self, key: str) -> PersistentVolumeClaim | None:
        """A PersistentVolumeClaim as it would be."""
        kind = PersistentVolumeClaim.__name__
        for step in reversed(self.steps):
            for raw in (*step.changed, *step.objects):
                if (raw["kind"], other_key(raw)) == (kind, key):
                    return from_dict(raw, PersistentVolumeClaim)
        return self.state.objects.get(PersistentVolumeClaim, key)

    def _known(self, kind: str, key: str) -> Any:
        return self.state.objects.get(KINDS[kind].type, key)

    def _as_known(self, raw: Object) -> Any:
        """A changed object, decoded; who it is stays."""
        known = self._known(raw["kind"], other_key(raw))
        found: Any = from_dict(raw, KINDS[raw["kind"]].type)
        return found if known is None else msgspec.structs.replace(found, metadata=known.metadata)

    def _removed(self) -> list[Any]:
        """The objects that are gone, as far as they are there."""
        names = [(raw["kind"], other_key(raw)) for step in self.steps for raw in step.removed]
        return [each for name in names if (each := self._known(*name)) is not None]

    @contextmanager
    def acted(self) -> Iterator[Cycle]:
        """Have the changes for the length of a block, which no checkpoint interrupts.

        The event loop may run before it.
        """
        state, info = self.world.state, self.info
        if info.long:
            info.derive_asked()
        whole_slice()
        nodes = [from_dict(raw, Node) for step in self.steps for raw in step.nodes]
        gone = [*(pod.uid for step in self.steps for pod in step.gone), info.uid]
        objects: list[Any] = [
            from_dict(raw, KINDS[raw["kind"]].type) for step in self.steps for raw in step.objects
        ]
        changed = [self._as_known(raw) for step in self.steps for raw in step.changed]
        with (
            unbroken(),
            as_if_nodes(state, nodes),
            as_if_objects(state, objects, changed, self._removed()),
            _bounded(self.world),
            scratch(state) as changes,
        ):
            for uid in gone:
                if (booked := state.pod(uid)) is not None:
                    changes.remove(booked)
            for step in self.steps:
                for pod, node in step.come:
                    changes.add(pod, node)
            yield Cycle(info, state)

    def opened(self) -> list[str]:
        """The nodes on which the pod fits, by name.

        In a simulation that has placed other pods: and on which it fits if they still wait. Both
        can be the less favourable one: pods that are placed take room, nominated ones keep it.
        """
        names: list[str] = []
        self._feasible(names)
        if not names or (given := self.world.given) is None:
            return names
        there = frozenset(Scene(given, self.steps).opened())
        return [name for name in names if name in there]

    def fits(self) -> bool:
        """Whether the pod fits on some node."""
        return self._feasible(None)

    def _feasible(self, names: list[str] | None) -> bool:
        """Whether some node fits; their names are put into a list, if there is one."""
        self.world.spend()
        if self.raw is None:
            return False
        with self.acted() as cycle:
            try:
                rows = evaluate(self.world.framework, cycle).feasible()
            except (PluginFault, CycleError):
                return False
            if names is not None:
                names.extend(map(cycle.state.columns.names.__getitem__, rows.tolist()))
            return len(rows) > 0

    def opens(self, name: str) -> bool:
        """Whether the pod fits on one node; other nodes are not asked about."""
        self.world.spend()
        if self.raw is None:
            return False
        with self.acted() as cycle:
            return fits_on(self.world.framework, cycle, name)

    def passes(self, plugins: Collection[str], names: Sequence[str]) -> bool:
        """Whether all of some plugins accept one of some nodes, whatever others say."""
        self.world.spend()
        framework = self.world.framework
        if self.raw is None:
            return False
        with self.acted() as cycle:
            _, rows = rows_of(cycle.state, names)
            try:
                if evaluate(framework, cycle).rejection is not None:
                    return False
                for plugin in framework.runner.names("filter"):
                    if plugin in plugins and plugin not in cycle.skipped["filter"]:
                        rows = rows[framework.filters.judge(plugin, cycle, rows) == 0]
            except (PluginFault, CycleError):
                return False
            return len(rows) > 0

    def blockers(self) -> Blockers:
        """Which plugins reject which nodes."""
        self.world.spend()
        framework = self.world.framework
        with self.acted() as cycle:
            names = list(map(cycle.state.columns.names.__getitem__, cycle.state.rows().tolist()))
            try:
                evaluation = evaluate(framework, cycle)
                if evaluation.rejection is not None:
                    rejecting = evaluation.rejection.pre_filter
                    return Blockers(names, (), (), rejecting.plugin if rejecting else "")
                return self._asked(cycle, evaluation, names)
            except (PluginFault, CycleError) as fault:
                return Blockers(names, (), (), fault.plugin)

    def _asked(self, cycle: Cycle, evaluation: Evaluation, names: list[str]) -> Blockers:
        framework, rows = self.world.framework, cycle.state.rows()
        found: dict[str, Scores] = {}
        for plugin in framework.runner.names("filter"):
            if plugin in cycle.skipped["filter"]:
                continue
            codes = framework.filters.judge(plugin, cycle, rows)
            if codes.any():
                found[plugin] = _reason_counts(cycle.state, codes)
        named = evaluation.node_names
        if named is not None:
            left_out = np.array([name not in named for name in names], np.int64)
            plugin = evaluation.excluded.plugin
            found[plugin] = found.get(plugin, np.zeros(len(names), np.int64)) + left_out
        return Blockers(names, list(found), list(found.values()), "")

    def changes(self) -> list[dict[str, Any]]:
        """The steps as changes of objects, the pod's own as one patch."""
        world = self.world
        found: list[dict[str, Any]] = []
        if self.raw is not None and (patch := merge_patch(world.raw, self.raw)):
            patch = patch if world.originals.whole else _strategic(patch, world.raw)
            found.append(_patch("Pod", world.info.pod.metadata, patch))
        for step in self.steps:
            for pod in step.gone:
                metadata = pod.pod.metadata
                where = {"namespace": metadata.namespace, "name": metadata.name}
                found.append({"op": "delete", "kind": "Pod", **where})
            found.extend(map(self._node_change, step.nodes))
            if step.kind != SUPPOSED:
                found += [{"op": "add", "object": dict(raw)} for raw in step.objects]
            found.extend(step.others)
        return [*found, *self._other_changes()]

    def _other_changes(self) -> Iterator[dict[str, Any]]:
        """The changes of objects of other kinds: one for each, whatever step changes it."""
        steps = [step for step in self.steps if step.kind != SUPPOSED]
        last = {(raw["kind"], other_key(raw)): raw for step in steps for raw in step.changed}
        gone = {(raw["kind"], other_key(raw)): None for step in self.steps for raw in step.removed}
        for kind, key in dict.fromkeys((*last, *gone)):
            known = self._known(kind, key)
            if known is None:
                continue
            if (kind, key) in gone:
                where = {"namespace": _namespace(kind, known), "name": known.metadata.name}
                yield {"op": "delete", "kind": kind, **where}
            elif patch := merge_patch(self.world.originals.other(kind, known), last[kind, key]):
                yield {**_patch(kind, known.metadata, patch), "namespace": _namespace(kind, known)}

    def _node_change(self, raw: Object) -> dict[str, Any]:
        known = self.world.state.node(raw["metadata"]["name"])
        if known is None:
            return {"op": "add", "object": dict(raw)}
        patch = merge_patch(self.world.originals.node(known), raw)
        return _patch("Node", known.metadata, patch)


def _reason_counts(state: ClusterState, codes: Codes) -> Scores:
    """How many reasons each code has; at least one, but for 0."""
    counts: Scores = np.zeros(int(codes.max(initial=0)) + 1, np.int64)
    for code in distinct_codes(codes):
        status = state.statuses.status(code)
        counts[code] = 0 if status.ok else max(1, len(status.reasons))
    return counts[codes]


def ways(table: Any) -> tuple[Any, NDArray[np.intp]]:
    """The different columns of a table, and which of them each column is.

    As strings of bytes columns are compared many times faster than as columns.
    """
    packed = np.packbits(table, axis=0) if table.dtype == np.bool_ else table
    lines = np.ascontiguousarray(packed.T)
    keys = lines.view(f"V{lines.shape[1] * lines.itemsize}").reshape(-1)
    if table.dtype == np.bool_ and len(table) <= _BITS:
        keys = (np.int64(1) << np.arange(len(table))) @ table.astype(np.int64)
    _, first, which = np.unique(keys, return_index=True, return_inverse=True)
    return table[:, first], which.reshape(-1)


def fits_on(framework: Framework, cycle: Cycle, name: str) -> bool:
    """Whether the pod of a new cycle fits on one node; other nodes are not asked about."""
    row = cycle.state.row(name)
    if row is None:
        return False
    try:
        evaluation = evaluate(framework, cycle)
        if evaluation.rejection is not None:
            return False
        named = evaluation.node_names
        if named is not None and name not in named:
            return False
        rows: Rows = np.array([row], np.intp)
        return not filter_with_nominated_pods(framework, cycle, rows).any()
    except (PluginFault, CycleError):
        return False


def rows_of(state: ClusterState, names: Sequence[str]) -> tuple[list[str], Rows]:
    """Those of the nodes that are there, and their rows, in the same order."""
    found = list(map(state.row, names))
    there = list(names)
    if None in found:
        there = [name for name, row in zip(names, found, strict=True) if row is not None]
    return there, np.array([row for row in found if row is not None], np.intp)


def written_claim(claim: PersistentVolumeClaim) -> Object:
    """A claim as steps have it."""
    plain: dict[str, Any] = msgspec.to_builtins(claim)
    return {"kind": PersistentVolumeClaim.__name__, **plain}


def other_key(raw: Object) -> str:
    """The key of an object that is written out."""
    metadata = raw["metadata"]
    if not KINDS[raw["kind"]].namespaced:
        return str(metadata["name"])
    return f"{metadata.get('namespace') or 'default'}/{metadata['name']}"


def _namespace(kind: str, known: Any) -> str:
    return str(known.metadata.namespace) if KINDS[kind].namespaced else ""


def _bounded(world: World) -> AbstractContextManager[None]:
    """Have searches for devices end soon: nothing interrupts a trial."""
    ledger = world.state.shared.get(DeviceLedger)
    return nullcontext() if ledger is None else ledger.searching_at_most(TRIAL_WORK)


def _patch(kind: str, metadata: Any, patch: Mapping[str, Any]) -> dict[str, Any]:
    where = {"namespace": metadata.namespace, "name": metadata.name}
    return {"op": "patch", "kind": kind, **where, "patch": dict(patch)}


def _strategic(patch: Mapping[str, Any], before: Object) -> dict[str, Any]:
    """A patch of a pod that is known in part: containers by name, with what changes.

    What was not decoded must not be written over, so it is a strategic merge patch: what is to go
    is there as null.
    """
    spec = dict(patch.get("spec") or {})
    for field in ("containers", "initContainers"):
        if isinstance(spec.get(field), list):
            pairs = zip(before["spec"][field], spec[field], strict=True)
            spec[field] = [_changed_container(old, new) for old, new in pairs if old != new]
    return {**patch, "spec": spec} if spec else dict(patch)


def _changed_container(old: Object, new: Object) -> dict[str, Any]:
    changed = {"name": new.get("name", ""), **merge_patch(old, new)}
    if "ports" in changed:
        pairs = zip(old["ports"], new["ports"], strict=True)
        changed["ports"] = [
            {"containerPort": port.get("containerPort", 0), **merge_patch(known, port)}
            for known, port in pairs
            if known != port
        ]
    return changed
