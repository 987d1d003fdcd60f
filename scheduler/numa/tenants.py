"""Pods on a node with cells, and which of them a published fingerprint may speak of.

The scheduler and the kubelet see the same pods at different times. Whether a pod on its way has
arrived, whether one that is being deleted is gone already, whether finished ones are listed at all
(older kubelets do) cannot be known here, so a fingerprint is compared with several sets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

import msgspec

from scheduler.model.meta import ObjectMeta
from scheduler.model.pinning import Pinning, is_memory
from scheduler.model.podinfo import PodInfo
from scheduler.numa.fingerprint import fingerprint_of, pod_hash

MAX_CANDIDATES = 8

Name = tuple[str, str]
"""Namespace and name."""
NEVER = 2**62


class Tenant:
    """A pod that is on a node, or on its way there."""

    __slots__ = (
        "admitted",
        "admitted_at",
        "assumed",
        "came_at",
        "deleting",
        "foreign",
        "hash",
        "home",
        "name",
        "pinning",
        "proven_from",
        "running",
        "settled",
        "uid",
        "vacated",
        "version",
    )

    def __init__(self, info: PodInfo, *, foreign: bool, came_at: int = 0) -> None:
        metadata = info.pod.metadata
        self.uid = info.uid
        self.name: Name = (metadata.namespace, metadata.name)
        self.hash = pod_hash(*self.name)
        self.pinning: Pinning = info.pinning
        self.foreign = foreign
        """Another scheduler has put it here."""
        self.came_at = came_at
        """The number of the newest object when we learnt of it."""
        self.assumed = True
        """The API server has not confirmed that it is bound."""
        self.admitted = False
        """The kubelet has taken it."""
        self.admitted_at = NEVER
        """The number of the newest object when we learnt that."""
        self.running = False
        self.deleting = False
        self.settled = False
        """What it holds is included in what is believed of the cells."""
        self.home: int | None = None
        """The cell it must be in, if that is known of a settled pod; by rank."""
        self.vacated = False
        """It is still there for the API server, but the kubelet has let go of it."""
        self.proven_from = 0
        """The number of the first object that may prove it: older ones speak of a namesake."""
        self.version = 0
        """When it was seen bound, by the API server's count; 0 if that is unknown."""

    def update(self, info: PodInfo, *, assumed: bool) -> bool:
        """Take over what the API server says of it now; whether that changes anything."""
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

    def hidden(self) -> Held:
        """What it holds though no object shows it; init containers give memory back."""
        return tuple(
            (name, amount)
            for name, amount in self.pinning.hidden
            if not (self.running and is_memory(name))
        )


Held = tuple[tuple[str, int], ...]


def version_of(metadata: ObjectMeta) -> int:
    """When the API server wrote an object, in its own count; 0 if it does not say."""
    text = metadata.resource_version
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else 0


class Gone(msgspec.Struct, frozen=True):
    """A settled pod that went; what it held may be free, in a cell that nobody can name."""

    name: Name
    hash: int
    pinning: Pinning
    hidden: Held = ()
    home: int | None = None


class Candidate(msgspec.Struct, frozen=True):
    """A set of pods that a fingerprint might stand for."""

    tenants: tuple[Tenant, ...]
    gone: tuple[Gone, ...]
    others: tuple[int, ...]
    """Hashes of finished pods."""

    def fingerprint(self) -> str:
        """The fingerprint that an agent would publish for it."""
        hashes = [tenant.hash for tenant in self.tenants]
        hashes += [pod.hash for pod in self.gone]
        hashes += self.others
        return fingerprint_of(hashes)


def candidates(
    tenants: Iterable[Tenant],
    gone: Sequence[Gone],
    finished: Iterable[int],
    *,
    only_exclusive: bool,
) -> Iterator[Candidate]:
    """The most likely sets first, at most ``MAX_CANDIDATES``.

    Pods that the kubelet has admitted are in every set.
    """
    finished = tuple(finished)
    there = [tenant for tenant in tenants if not tenant.vacated]
    seen: set[tuple[int, ...]] = set()
    for method, counted in enumerate(_methods(there, only_exclusive)):
        split = _split(there, counted)
        left = tuple(gone) if counted is None else tuple(g for g in gone if counted(g.pinning))
        for coming, (with_leaving, with_finished, with_gone) in _diagonally(split.arrivals()):
            candidate = Candidate(
                (*split.firm, *coming, *(split.leaving if with_leaving else ())),
                left if with_gone else (),
                finished if with_finished else (),
            )
            sizes = (len(candidate.tenants), len(candidate.gone), len(candidate.others))
            identity = (method, *map(id, coming), *sizes)
            if identity not in seen:
                seen.add(identity)
                yield candidate
                if len(seen) == MAX_CANDIDATES:
                    return


class _Split:
    """Tenants by how sure it is that they are listed."""

    __slots__ = ("assumed", "bound", "firm", "leaving")

    def __init__(self) -> None:
        self.firm: list[Tenant] = []
        self.bound: list[Tenant] = []
        self.assumed: list[Tenant] = []
        self.leaving: list[Tenant] = []

    def arrivals(self) -> list[tuple[Tenant, ...]]:
        """Which pods on their way may have arrived: all that are bound, or none, or all.

        Otherwise the first few, since they come more or less in the order in which they were bound.
        """
        if not self.bound and not self.assumed:
            return [()]
        everyone = (*self.bound, *self.assumed)
        shorter = (everyone[:n] for n in range(len(everyone) - 1, 0, -1))
        return list(dict.fromkeys((tuple(self.bound), (), everyone, *shorter)))


def _split(there: Iterable[Tenant], counted: Callable[[Pinning], bool] | None) -> _Split:
    split = _Split()
    for tenant in there:
        if counted is not None and not counted(tenant.pinning):
            continue
        if tenant.deleting:
            split.leaving.append(tenant)
        elif tenant.admitted:
            split.firm.append(tenant)
        else:
            (split.assumed if tenant.assumed else split.bound).append(tenant)
    return split


_SURROUNDINGS = (
    (True, False, False),
    (False, False, False),
    (True, True, False),
    (True, False, True),
    (False, True, False),
    (False, False, True),
)
"""Whether pods that are being deleted, finished pods, and pods that went are listed."""


def _diagonally(
    coming: Sequence[tuple[Tenant, ...]],
) -> Iterator[tuple[tuple[Tenant, ...], tuple[bool, bool, bool]]]:
    """All pairs, those first that are near the front on both sides."""
    for distance in range(len(coming) + len(_SURROUNDINGS) - 1):
        for i in range(max(0, distance - len(_SURROUNDINGS) + 1), min(distance + 1, len(coming))):
            yield coming[i], _SURROUNDINGS[distance - i]


def _methods(
    there: Iterable[Tenant], only_exclusive: bool
) -> list[Callable[[Pinning], bool] | None]:
    """Which pods count at all, in the ways in which agents understand it; None: all do."""
    if not only_exclusive:
        return [None]
    methods: list[Callable[[Pinning], bool] | None] = [_shows]
    if any(_shows(tenant.pinning) != _shows_more_than_memory(tenant.pinning) for tenant in there):
        methods.append(_shows_more_than_memory)  # where the memory manager pins nothing
    if any(_shows(tenant.pinning) != tenant.pinning.pins for tenant in there):
        methods.append(_pins)  # where init containers count
    return methods


def _shows(pinning: Pinning) -> bool:
    return bool(pinning.shown)


def _shows_more_than_memory(pinning: Pinning) -> bool:
    return any(not is_memory(name) for name, _ in pinning.shown)


def _pins(pinning: Pinning) -> bool:
    return pinning.pins
