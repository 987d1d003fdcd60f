"""The pods of a node with cells, and what a published object says about them.

- Which pods it lists: its fingerprint is compared with a few likely sets (`candidates`). The
  scheduler and the kubelet see the same pods at different times. It is not known here whether a pod
  on its way has arrived, whether one that is being deleted has been stopped already, or whether
  finished pods are listed at all (older kubelets do).
- How much it counts for them (`used_amounts` and what follows).
- In which cells they are (`CellInference`): from what has changed since the object before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec

from scheduler.model.meta import ObjectMeta
from scheduler.model.pinning import Pinning, Role, is_memory
from scheduler.model.podinfo import PodInfo
from scheduler.model.resources import Amounts
from scheduler.numa.fingerprint import fingerprint_of, pod_hash
from scheduler.numa.life_cycle import POD_TABLE, NodePodEvent, NodePodState
from scheduler.numa.topology import Cell, Topology

MAX_CANDIDATES = 8
"""How many sets of pods a fingerprint is compared with."""
MAX_TRIES = 2048
"""How many arrangements of pods in cells `CellInference` tries."""
NEVER = 2**62

NamespacedName = tuple[str, str]
HeldAmounts = tuple[tuple[str, int], ...]
"""Amounts by resource name."""
Vector = tuple[int, ...]
"""An amount of each resource of a node, in one order."""


class NodePod:
    """A pod that is on a node, or on its way there."""

    __slots__ = (
        "admitted",
        "admitted_at",
        "assumed",
        "came_at",
        "cell",
        "confirmed_from",
        "deleting",
        "foreign",
        "hash",
        "name",
        "pinning",
        "running",
        "state",
        "uid",
        "version",
    )

    def __init__(self, info: PodInfo, *, foreign: bool, came_at: int = 0) -> None:
        metadata = info.pod.metadata
        self.uid = info.uid
        self.name: NamespacedName = (metadata.namespace, metadata.name)
        self.hash = pod_hash(*self.name)
        self.pinning: Pinning = info.pinning
        self.state = NodePodState.CHARGED
        self.foreign = foreign
        """Another scheduler has placed it."""
        self.came_at = came_at
        """The number of the newest object when the pod came."""
        self.assumed = True
        """The API server has not confirmed that it is bound."""
        self.admitted = False
        """The kubelet has admitted it."""
        self.admitted_at = NEVER
        """The number of the newest object when the watch reported that."""
        self.running = False
        self.deleting = False
        self.cell: int | None = None
        """The rank of the cell that it must be in, if that is known of a confirmed pod."""
        self.confirmed_from = 0
        """The number of the first object that can confirm it. Older ones may be about an earlier
        pod of this name."""
        self.version = 0
        """The resourceVersion at which it was seen bound; 0 if that is unknown."""

    def update(self, info: PodInfo, *, assumed: bool) -> bool:
        """Take over what the API server says now; returns whether that changes anything."""
        if not assumed and not self.version:
            self.version = version_of(info.pod.metadata)
        status = info.pod.status
        running = status.phase == "Running"
        admitted = running or (status.start_time is not None and status.phase != "Failed")
        now = (assumed, admitted, running, info.pod.deleting, info.pinning)
        if now == (self.assumed, self.admitted, self.running, self.deleting, self.pinning):
            return False
        self.assumed, self.admitted, self.running, self.deleting, self.pinning = now
        return True

    def apply(self, event: NodePodEvent) -> None:
        """Make the transition that the table of life cycles has for an event."""
        self.state = POD_TABLE[self.state, event]

    def hidden(self) -> HeldAmounts:
        """What it holds though no object counts it; init containers give memory back."""
        return tuple(
            (name, amount)
            for name, amount in self.pinning.hidden
            if not (self.running and is_memory(name))
        )


def version_of(metadata: ObjectMeta) -> int:
    """The resourceVersion of an object as a number; 0 if it is none."""
    text = metadata.resource_version
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else 0


# Which pods an object lists


class CandidatePods(msgspec.Struct, frozen=True):
    """A set of pods that a fingerprint might stand for."""

    pods: tuple[NodePod, ...] = ()
    released: tuple[NodePod, ...] = ()
    finished: tuple[int, ...] = ()
    """Hashes of finished pods."""

    def fingerprint(self) -> str:
        """The fingerprint that an agent would publish for it."""
        hashes = [pod.hash for pod in self.pods]
        hashes += [pod.hash for pod in self.released]
        hashes += self.finished
        return fingerprint_of(hashes)


def candidates(
    pods: Iterable[NodePod],
    released: Sequence[NodePod],
    finished: Iterable[int],
    *,
    only_exclusive: bool,
) -> Iterator[CandidatePods]:
    """The most likely sets first, at most ``MAX_CANDIDATES``.

    Pods that the kubelet has admitted are in every set, vacated ones in none.
    """
    finished = tuple(finished)
    vacated = NodePodState.VACATED
    present = [pod for pod in pods if pod.state is not vacated]
    seen: set[tuple[int, ...]] = set()
    for method, counts in enumerate(_methods(present, only_exclusive)):
        split = _Split(present, counts)
        left = (
            tuple(released) if counts is None else tuple(p for p in released if counts(p.pinning))
        )
        for coming, (with_deleting, with_finished, with_released) in _likely_first(
            split.arrivals()
        ):
            candidate = CandidatePods(
                (*split.admitted, *coming, *(split.deleting if with_deleting else ())),
                left if with_released else (),
                finished if with_finished else (),
            )
            sizes = (len(candidate.pods), len(candidate.released), len(candidate.finished))
            identity = (method, *map(id, coming), *sizes)
            if identity not in seen:
                seen.add(identity)
                yield candidate
                if len(seen) == MAX_CANDIDATES:
                    return


class _Split:
    """Pods by how certain it is that the agent lists them."""

    __slots__ = ("admitted", "assumed", "bound", "deleting")

    def __init__(
        self, present: Iterable[NodePod], counts: Callable[[Pinning], bool] | None
    ) -> None:
        admitted: list[NodePod] = []
        bound: list[NodePod] = []
        assumed: list[NodePod] = []
        deleting: list[NodePod] = []
        for pod in present:
            if counts is not None and not counts(pod.pinning):
                continue
            if pod.deleting:
                deleting.append(pod)
            elif pod.admitted:
                admitted.append(pod)
            else:
                (assumed if pod.assumed else bound).append(pod)
        self.admitted, self.bound = admitted, bound
        self.assumed, self.deleting = assumed, deleting

    def arrivals(self) -> list[tuple[NodePod, ...]]:
        """Which pods on their way may have arrived: all that are bound, or none, or all.

        Otherwise the first few: they arrive more or less in the order in which they were bound.
        """
        if not self.bound and not self.assumed:
            return [()]
        on_their_way = (*self.bound, *self.assumed)
        shorter = (on_their_way[:n] for n in range(len(on_their_way) - 1, 0, -1))
        return list(dict.fromkeys((tuple(self.bound), (), on_their_way, *shorter)))


_LISTED = (
    (True, False, False),
    (False, False, False),
    (True, True, False),
    (True, False, True),
    (False, True, False),
    (False, False, True),
)
"""Whether pods that are being deleted, finished pods, and released pods are listed."""


def _likely_first(
    arrivals: Sequence[tuple[NodePod, ...]],
) -> Iterator[tuple[tuple[NodePod, ...], tuple[bool, bool, bool]]]:
    """All pairs of arrivals and ``_LISTED``, those first that are near the front of both."""
    for distance in range(len(arrivals) + len(_LISTED) - 1):
        for i in range(max(0, distance - len(_LISTED) + 1), min(distance + 1, len(arrivals))):
            yield arrivals[i], _LISTED[distance - i]


def _methods(
    present: Iterable[NodePod], only_exclusive: bool
) -> list[Callable[[Pinning], bool] | None]:
    """Which pods have exclusive resources, in the ways in which agents read that; None: all."""
    if not only_exclusive:
        return [None]
    methods: list[Callable[[Pinning], bool] | None] = [_shows]
    if any(_shows(pod.pinning) != _shows_more_than_memory(pod.pinning) for pod in present):
        methods.append(_shows_more_than_memory)  # where the memory manager pins nothing
    if any(_shows(pod.pinning) != pod.pinning.pins for pod in present):
        methods.append(_pins)  # where init containers count
    return methods


def _shows(pinning: Pinning) -> bool:
    return bool(pinning.shown)


def _shows_more_than_memory(pinning: Pinning) -> bool:
    return any(not is_memory(name) for name, _ in pinning.shown)


def _pins(pinning: Pinning) -> bool:
    return pinning.pins


# How much an object counts for pods


def total(parts: Iterable[HeldAmounts]) -> Amounts:
    """Amounts added up by resource."""
    summed: Amounts = {}
    for part in parts:
        for name, amount in part:
            summed[name] = summed.get(name, 0) + amount
    return summed


def used_amounts(topology: Topology) -> Amounts:
    """What pods hold in all cells together, as an object counts it."""
    held: Amounts = {}
    for cell in topology.cells:
        available = cell.available
        for name, amount in cell.allocatable.items():
            held[name] = held.get(name, 0) + amount - available[name]
    return held


def hides_init_resources(topology: Topology, pods: Sequence[Pinning]) -> bool:
    """Whether an object leaves out what these pods keep of their init containers."""
    shown = total(pinning.shown for pinning in pods)
    counted = used_amounts(topology)
    return any(
        counted.get(name) != shown.get(name, 0) + amount
        for name, amount in total(pinning.hidden for pinning in pods).items()
        if not is_memory(name)
    )


def counts_more(topology: Topology, pods: Iterable[Pinning], than: Iterable[Pinning]) -> bool:
    """Whether an object counts something of these pods, besides all that others hold."""
    shown = total(pinning.shown for pinning in than)
    counted = used_amounts(topology)
    return any(
        counted.get(name, 0) > shown.get(name, 0) for pinning in pods for name, _ in pinning.shown
    )


def without(topology: Topology, pods: Iterable[Pinning]) -> Topology:
    """The same machine without these pods, wherever they are.

    What an object counts in a cell beyond all that they could hold there stays taken: other pods
    have it.
    """
    held = total(part for pinning in pods for part in (pinning.shown, pinning.hidden))
    return msgspec.structs.replace(
        topology, cells=tuple(_cell_without(cell, held) for cell in topology.cells)
    )


def _cell_without(cell: Cell, held: Amounts) -> Cell:
    available = {
        name: min(amount, cell.available.get(name, 0) + held.get(name, 0))
        for name, amount in cell.allocatable.items()
    }
    return msgspec.structs.replace(cell, available=available)


# In which cells pods are


def keeps_init_resources_in_cell(pinning: Pinning) -> bool:
    """Whether what init containers held beyond the rest is in the cell of the rest.

    It is if a lasting container after them reuses some of each resource, other than memory.
    """
    names = [name for name, _ in pinning.hidden if not is_memory(name)]
    for name in names:
        roles = [need.role for need in pinning.containers if name in dict(need.amounts)]
        if roles[-1] is Role.INIT:
            return False
    return bool(names)


class _TooMany(Exception):
    """There are more arrangements than are worth the time."""


class CellInference:
    """Finds the cells of pods from two objects of their node.

    What has gone from the cells between the two is what the pods took that came, less what those
    gave back that were removed. Often there is just one arrangement in which that adds up. At most
    ``MAX_TRIES`` are tried.
    """

    def __init__(
        self, names: Sequence[str], before: Sequence[Vector], after: Sequence[Vector]
    ) -> None:
        self._names = names
        self._taken = [
            [was - now for was, now in zip(old, new, strict=True)]
            for old, new in zip(before, after, strict=True)
        ]
        """What pods took of each cell, less what is explained by the parts placed so far."""
        self._tries = 0

    def cells_of(
        self, came: Sequence[Pinning], removed: Sequence[Pinning], *, whole_pod: bool
    ) -> list[int | None]:
        """The cell of each pod that came; None if it may be one of several, or is in several."""
        parts: list[tuple[int, Vector]] = []
        for pinning in removed:
            parts += [(-1, _negative(part)) for part in self._parts(pinning, whole_pod)]
        for number, pinning in enumerate(came):
            parts += [(number, part) for part in self._parts(pinning, whole_pod)]
        found: list[set[int]] = [set() for _ in came]
        try:
            self._place(parts, 0, [set() for _ in came], found)
        except _TooMany:
            return [None] * len(came)
        return [
            next(iter(cells)) if len(cells) == 1 and -1 not in cells else None for cells in found
        ]

    def _parts(self, pinning: Pinning, whole_pod: bool) -> list[Vector]:
        """What is certainly in one cell: the pod, or each of its lasting containers."""
        if whole_pod:
            listed = [dict(pinning.shown)]
        else:
            lasting = (need for need in pinning.containers if need.role is not Role.INIT)
            listed = [dict(need.amounts) for need in lasting]
        vectors = [tuple(amounts.get(name, 0) for name in self._names) for amounts in listed]
        return [vector for vector in vectors if any(vector)]

    def _place(
        self,
        parts: Sequence[tuple[int, Vector]],
        at: int,
        chosen: list[set[int]],
        found: list[set[int]],
    ) -> None:
        """Try each cell for a part and go on with the next; note the cells where all adds up."""
        self._tries += 1
        if self._tries > MAX_TRIES:
            raise _TooMany
        if at == len(parts):
            if not any(map(any, self._taken)):
                for cells, mine in zip(found, chosen, strict=True):
                    # -1 stands for a pod that is in more than one cell.
                    cells.add(next(iter(mine)) if len(mine) == 1 else -1)
            return
        pod, part = parts[at]
        for cell, taken in enumerate(self._taken):
            left = [have - take for have, take in zip(taken, part, strict=True)]
            if pod >= 0 and min(left) < 0:
                continue
            self._taken[cell] = left
            added = pod >= 0 and cell not in chosen[pod]
            if added:
                chosen[pod].add(cell)
            self._place(parts, at + 1, chosen, found)
            if added:
                chosen[pod].discard(cell)
            self._taken[cell] = taken


def _negative(vector: Vector) -> Vector:
    return tuple(-amount for amount in vector)
