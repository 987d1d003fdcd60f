"""The search: single changes, then the smallest pairs; each verified, ranked, few."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import combinations, islice, product
from typing import Any, NamedTuple

import msgspec

from scheduler.dra.names import PLUGIN as DYNAMIC_RESOURCES
from scheduler.explaining.remedies import (
    claims,
    constraints,
    device_room,
    devices,
    occupancy,
    requests,
    room,
    selectors,
    taints,
)
from scheduler.explaining.remedies.chains import chains
from scheduler.explaining.remedies.gangs import for_gang
from scheduler.explaining.remedies.scene import (
    SUPPOSED,
    Blockers,
    Exhausted,
    Given,
    Scene,
    Step,
    World,
    WrittenObjects,
    written_claim,
)
from scheduler.explaining.remedies.workloads import Together, without_siblings
from scheduler.explaining.replicas import MOST_COPIES, NOTHING_SUPPOSED, Supposed
from scheduler.framework.runtime import Framework
from scheduler.model.meta import OwnerReference
from scheduler.model.objects import ReplicaSet
from scheduler.model.podinfo import PodInfo
from scheduler.numa.plugin import NAME as NODE_RESOURCE_TOPOLOGY
from scheduler.plugins.names import (
    INTER_POD_AFFINITY,
    NODE_AFFINITY,
    NODE_PORTS,
    NODE_RESOURCES_FIT,
    NODE_UNSCHEDULABLE,
    NODE_VOLUME_LIMITS,
    TAINT_TOLERATION,
    TOPOLOGY_SPREAD,
    VOLUME_BINDING,
    VOLUME_RESTRICTIONS,
    VOLUME_ZONE,
)
from scheduler.slices import checkpoint
from scheduler.state.cache import ClusterState

MOST_REMEDIES = 10
MOST_OF_A_KIND = 3
MOST_IN_PAIRS = 2
"""So many steps of a kind are tried as the first, and as the second, of a pair."""


class Generator(NamedTuple):
    """Proposes steps for nodes that only some plugins reject."""

    plugins: frozenset[str]
    propose: Callable[[Scene, list[str]], Iterator[Step]]
    in_pairs: bool = True


_OCCUPANCY = frozenset(
    {
        *(NODE_RESOURCES_FIT, NODE_PORTS, INTER_POD_AFFINITY, TOPOLOGY_SPREAD),
        *(NODE_VOLUME_LIMITS, VOLUME_RESTRICTIONS),
    }
)
"""Plugins that reject a node for what is on it."""
_DEVICES = frozenset({DYNAMIC_RESOURCES})
_VOLUMES = frozenset({VOLUME_BINDING, VOLUME_RESTRICTIONS, NODE_VOLUME_LIMITS, VOLUME_ZONE})
_CLOSED = frozenset({NODE_UNSCHEDULABLE, TAINT_TOLERATION})
_TOPOLOGY = frozenset({TOPOLOGY_SPREAD, INTER_POD_AFFINITY})

GENERATORS = (
    Generator(_OCCUPANCY, occupancy.wait, in_pairs=False),
    Generator(_VOLUMES, claims.correct_claim),
    Generator(_VOLUMES, claims.correct_class),
    Generator(_VOLUMES, claims.create_claims),
    Generator(_VOLUMES, claims.create_classes),
    Generator(_DEVICES, devices.correct_names),
    Generator(frozenset({NODE_AFFINITY}), selectors.correct),
    Generator(frozenset({INTER_POD_AFFINITY}), constraints.correct_labels),
    Generator(frozenset({NODE_RESOURCES_FIT}), requests.rename),
    Generator(_TOPOLOGY, constraints.correct_key),
    Generator(frozenset({TAINT_TOLERATION}), taints.tolerate),
    Generator(_DEVICES, devices.tolerate),
    Generator(frozenset({NODE_AFFINITY}), selectors.drop),
    Generator(_DEVICES, devices.unconstrain),
    Generator(_DEVICES, devices.unselect),
    Generator(frozenset({INTER_POD_AFFINITY}), constraints.relax_affinity),
    Generator(frozenset({TOPOLOGY_SPREAD}), constraints.relax_spread),
    Generator(frozenset({NODE_PORTS}), constraints.free_ports),
    Generator(_CLOSED, taints.uncordon),
    Generator(frozenset({TAINT_TOLERATION}), taints.untaint, in_pairs=False),
    Generator(_TOPOLOGY, constraints.label_node, in_pairs=False),
    Generator(frozenset({NODE_RESOURCES_FIT}), requests.lower),
    Generator(frozenset({NODE_RESOURCE_TOPOLOGY}), requests.lower_in_cell),
    Generator(_DEVICES, devices.smaller),
    Generator(_DEVICES, devices.fewer),
    Generator(_OCCUPANCY | _DEVICES, device_room.release, in_pairs=False),
    Generator(_OCCUPANCY, occupancy.delete, in_pairs=False),
    Generator(_OCCUPANCY | _CLOSED, occupancy.add_node, in_pairs=False),
    Generator(_OCCUPANCY | _CLOSED | _DEVICES, device_room.add_node, in_pairs=False),
    Generator(_OCCUPANCY | _CLOSED | _VOLUMES, occupancy.add_node_for_volume, in_pairs=False),
)
"""In pairs the earlier one comes first, so requests are lowered to what fits after the other."""
PAIRING = tuple(each for each in GENERATORS if each.in_pairs)
MAKING_ROOM = (
    Generator(_OCCUPANCY, occupancy.add_node),
    Generator(_OCCUPANCY, occupancy.delete),
)
"""Tried after a change of the pod where nothing that asks less helps."""
_BY_HOW_MUCH = (requests.lower, requests.lower_in_cell, constraints.relax_spread)
"""Changes as large as they must be where they are proposed: with room made they may be smaller."""


class Helpful(NamedTuple):
    """A scene in which the pod fits, and where."""

    scene: Scene
    opens: list[str]

    @property
    def kinds(self) -> tuple[str, ...]:
        return tuple(step.kind for step in self.scene.steps)

    @property
    def parts(self) -> frozenset[Any]:
        return frozenset((s.kind, part) for s in self.scene.steps for part in s.parts)

    @property
    def rank(self) -> tuple[int, float, int, str]:
        """Single changes first; then by what they ask, and by how many nodes they open."""
        steps = self.scene.steps
        cost = sum(step.cost for step in steps)
        return len(steps), cost, -len(self.opens), self.summary

    @property
    def summary(self) -> str:
        return "; and ".join(step.summary for step in self.scene.steps if step.summary)


def find(
    framework: Framework,
    state: ClusterState,
    info: PodInfo,
    originals: WrittenObjects | None = None,
    held: Sequence[Step] = (),
    seed: int = 0,
    given: Given | None = None,
    count: int | None = None,
    supposed: Supposed = NOTHING_SUPPOSED,
) -> list[dict[str, Any]]:
    """The smallest changes after which a pod that fits nowhere fits, best first.

    A member of a gang that would fit alone gets what would let the gang run; one of ``count`` equal
    pods, of which only some fit, what would let in the next one. ``held`` are the
    steps after which the pod is tried at all. ``given`` makes the cluster as it was given, if
    others have been placed since: what is found holds there too. With ``count``, each says how
    many pods like this one then fit together (``replicas``), and those that let all of them in come
    first. ``supposed`` claims come with the pod. Has checkpoints; nothing is changed.
    """
    if framework.remote.enabled and framework.remote.concerns(info):
        return []  # every trial would be another question to those outside
    if info.excess:
        return []  # it is beyond the limits, whatever is changed: even to read it takes long
    world = World(framework, state, info, originals or WrittenObjects(), given)
    base = Scene(world, (*_coming(supposed), *held))
    together = Together(min(count, MOST_COPIES), seed) if count is not None and count > 1 else None
    found: list[Helpful] = []
    try:
        if not base.fits():
            _search(base, found)
        else:
            if held:
                _try(base, found)
            for step in for_gang(base, seed):
                _try(base.then(step), found)
            if together is not None and (siblings := together.siblings(base)) is not None:
                _search(base.then(siblings), found)
                for scene in together.smaller_pods(base):
                    _try(scene, found)
    except Exhausted:
        pass
    if together is None:
        return [_described(each) for each in _ranked(found)]
    return _for_all(_alone(_ranked(found)), together)


def _coming(supposed: Supposed) -> Iterator[Step]:
    """The step that puts claims there which come with the pod."""
    if supposed.added or supposed.replaced:
        added, replaced = (tuple(map(written_claim, claims)) for claims in supposed)
        yield Step(SUPPOSED, "", 0.0, objects=added, changed=replaced)


def _alone(found: list[Helpful]) -> Iterator[Helpful]:
    """What also lets the pod in if it comes before the others that are equal to it."""
    for each in found:
        scene = without_siblings(each.scene)
        if len(scene.steps) == len(each.scene.steps):
            yield each
        elif opened := [name for name in _opened(scene) if name in each.opens]:
            yield Helpful(scene, opened)


def _for_all(found: Iterable[Helpful], together: Together) -> list[dict[str, Any]]:
    """Remedies with how many equal pods they let in; where that is few, also what lets in all."""
    told: list[tuple[Helpful, int | None]] = []
    for each in found:
        checkpoint()
        fit = together.fit(each.scene)
        scene = None if fit is None else together.for_all(each.scene, fit)
        if scene is not None and (opened := _opened(scene)):
            told.append((Helpful(scene, opened), together.count))
        told.append((each, fit))
    told.sort(key=lambda pair: pair[1] != together.count)
    described: dict[str, dict[str, Any]] = {}
    for each, fit in told:
        replicas = None if fit is None else {"asked": together.count, "fit": fit}
        described.setdefault(each.summary, {**_described(each), "replicas": replicas})
    return [*described.values()][:MOST_REMEDIES]


def _opened(scene: Scene) -> list[str]:
    try:
        return scene.opened()
    except Exhausted:
        return []


def _search(base: Scene, found: list[Helpful]) -> None:
    """Add what helps to the list, so that it is there also if the search ends early."""
    blockers = base.blockers()
    for generator in GENERATORS:
        checkpoint()
        names = _names(generator, blockers)
        for step in generator.propose(base, names) if names else ():
            _try(base.then(step), found)
    if len(_ranked(found)) < MOST_REMEDIES:
        _pairs(base, blockers, list(combinations(PAIRING, 2)), found)
    if not found:
        firsts = [each for each in PAIRING if each.propose not in _BY_HOW_MUCH]
        _pairs(base, blockers, list(product(firsts, MAKING_ROOM)), found)
        _other_pod_on_new_node(base, blockers, found)
    if not found:
        together = [(each.plugins, each.propose) for each in PAIRING]
        for scene in chains(base, together, (_OCCUPANCY | _CLOSED, room.new_node)):
            _try(scene, found)


def _try(scene: Scene, found: list[Helpful]) -> None:
    if opened := scene.opened():
        found.append(Helpful(scene, opened))


def _names(generator: Generator, blockers: Blockers) -> list[str]:
    """The nodes for which a generator may have something."""
    if blockers.whole:
        return list(blockers.names) if blockers.whole in generator.plugins else []
    return blockers.near(generator.plugins)


def _pairs(
    base: Scene,
    blockers: Blockers,
    pairs: Sequence[tuple[Generator, Generator]],
    found: list[Helpful],
) -> None:
    """Pairs of which neither half helps alone."""
    ways = sorted(blockers.sets().items(), key=lambda way: (-way[1], sorted(way[0])))
    for first, second in pairs:
        if blockers.whole:
            names = list(blockers.names) if blockers.whole in first.plugins else []
        else:
            both = first.plugins | second.plugins
            alike = first.plugins == second.plugins
            fitting = [
                way
                for way, _ in ways
                if way <= both and (alike or not (way <= first.plugins or way <= second.plugins))
            ]
            names = blockers.near(both, fitting[0]) if fitting else []
        for step in islice(first.propose(base, names), MOST_IN_PAIRS) if names else ():
            _second(base, step, second, found)


def _other_pod_on_new_node(base: Scene, blockers: Blockers, found: list[Helpful]) -> None:
    names = [] if blockers.whole else blockers.near(_OCCUPANCY | _CLOSED)
    for steps in room.other_pod_on_new_node(base, names) if names else ():
        _try(base.then(*steps), found)


def _second(base: Scene, step: Step, second: Generator, found: list[Helpful]) -> None:
    """Look for the second half of a pair."""
    scene = base.then(step)
    if not (names := _names(second, scene.blockers())):
        return
    for other in islice(second.propose(scene, names), MOST_IN_PAIRS):
        both = scene.then(other)
        opened = both.opened()
        if not opened or scene.fits() or base.then(other).fits():
            continue
        if second in MAKING_ROOM:
            _try(both.least(), found)
        else:
            found.append(Helpful(both, opened))


def _ranked(found: list[Helpful]) -> list[Helpful]:
    """The best, without those that have all parts of another, and few of each kind."""
    ranked: list[Helpful] = []
    of_kind: dict[tuple[str, ...], int] = {}
    seen: set[str] = set()
    for each in sorted(found, key=lambda one: one.rank):
        larger = any(other.kinds == each.kinds and other.parts < each.parts for other in ranked)
        many = of_kind.get(each.kinds, 0) >= MOST_OF_A_KIND
        if larger or many or each.summary in seen:
            continue
        seen.add(each.summary)
        of_kind[each.kinds] = of_kind.get(each.kinds, 0) + 1
        ranked.append(each)
    return ranked[:MOST_REMEDIES]


def _described(found: Helpful) -> dict[str, Any]:
    affects = [text for step in found.scene.steps for text in step.affects]
    owner = _template_owner(found.scene.world)
    if owner is not None and any(step.edit is not None for step in found.scene.steps):
        affects.append(
            f"{owner.kind} {owner.name}: new pods from its template need the same change"
        )
    return {
        "summary": found.summary,
        "opens": sorted(found.opens),
        "changes": found.scene.changes(),
        "affects": affects,
    }


def _template_owner(world: World) -> OwnerReference | None:
    """The workload that people change: of a Deployment's pod the Deployment, not its ReplicaSet."""
    pod = world.info.pod.metadata
    owner = pod.controller
    if owner is None or owner.kind != ReplicaSet.__name__:
        return owner
    replica_set = world.state.objects.get(ReplicaSet, f"{pod.namespace}/{owner.name}")
    if replica_set is not None:
        return replica_set.metadata.controller or owner
    # It need not be known, or exist: a Deployment names its ReplicaSets after itself and the hash.
    name, _, hashed = owner.name.rpartition("-")
    if name and hashed == pod.labels.get("pod-template-hash"):
        return msgspec.structs.replace(owner, kind="Deployment", name=name)
    return owner
