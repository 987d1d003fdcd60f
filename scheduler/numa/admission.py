"""Which pods a node's kubelet is certain to admit, whatever it did with those not confirmed yet.

A pod that was sent to a node sits in one of the cells that could take it, and the scheduler cannot
know in which before the node publishes it. It may not even have arrived: the kubelet admits pods
in an order of its own. So a node has a set of possible *arrangements* of its unconfirmed pods in
its cells. A pod is certain to be admitted if it fits in all of them.

Each cell has two bounds. *sure* is free whatever happens; *most* is what can be free at best, if
released pods have freed their share here. Where pods may be is a question to *most*, whether one
certainly fits a question to *sure*.

The search is exact for the few pods that are usually unconfirmed on a node. With more arrangements
than ``MAX_ARRANGEMENTS`` it gives up, and nothing is certain.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import combinations, islice
from typing import NamedTuple

from scheduler.numa.node_pods import Vector

MAX_ARRANGEMENTS = 256
_MAX_CELL_SETS = 4096
"""How many sets of cells are looked at for a pod that spans several."""


class AdmissionStep(NamedTuple):
    """The admission of one container, or (scope ``pod``) of a whole pod."""

    amounts: Vector
    reusable: bool = False
    """A plain init container: those after it reuse what it holds."""
    span: int = 1
    """How many cells it needs; more than one only where the policy allows that."""


class CellBounds(NamedTuple):
    """What is free in one cell."""

    sure: Vector
    most: Vector


Arrangement = tuple[CellBounds, ...]
"""One state that the cells of a node may be in."""
PodAdmission = tuple[AdmissionStep, ...]
"""The admission of one pod: its containers, in order."""
Reusable = tuple[tuple[int, int, int], ...]
"""What init containers of a pod leave to those after them: cell, resource, amount."""
ChargedPod = tuple[PodAdmission, bool]
"""The admission of an unconfirmed pod, and whether it has taken place."""
_Left = tuple[int, ...]
"""How many pods of each kind have yet to be admitted."""
_Partial = tuple[Arrangement, Reusable]
"""A node in the middle of a pod's admission."""


class AdmissionSearch:
    """Searches the arrangements of nodes with the same resources.

    ``binding`` lists the resources that tie a container to the cell of what it reuses: CPUs and
    devices do, memory does not.
    """

    def __init__(self, binding: Sequence[bool], limit: int = MAX_ARRANGEMENTS) -> None:
        self._binding = binding
        self._limit = limit

    def arrangements_after(
        self, arrangements: Iterable[Arrangement], pods: Iterable[PodAdmission]
    ) -> set[Arrangement] | None:
        """All arrangements that are possible after these pods are admitted; None: too many."""
        reached: set[Arrangement] | None = set(arrangements)
        for pod in pods:
            if reached is not None:
                reached = self._after(reached, pod)
        return reached

    def admits_in_any_order(
        self, arrangements: Iterable[Arrangement], pods: Iterable[PodAdmission]
    ) -> bool:
        """Whether all these pods are admitted, in whatever order and in whatever cells.

        It is not enough that each is admitted after all others: one that comes before another may
        get the only cell that is large enough for that one.
        """
        kinds = Counter(pods)
        level: dict[_Left, set[Arrangement]] = {tuple(kinds.values()): set(arrangements)}
        for _ in range(kinds.total()):
            after: dict[_Left, set[Arrangement]] = {}
            for left, reached in level.items():
                for kind, pod in enumerate(kinds):
                    if not left[kind]:
                        continue
                    if not self.always_admits(reached, pod):
                        return False
                    rest = (*left[:kind], left[kind] - 1, *left[kind + 1 :])
                    admitted = self._after(reached, pod) if any(rest) else set()
                    if admitted is None:
                        return False
                    after.setdefault(rest, set()).update(admitted)
            if sum(map(len, after.values())) > self._limit:
                return False
            level = after
        return True

    def always_admits(self, arrangements: Iterable[Arrangement], pod: PodAdmission) -> bool:
        """Whether a pod is admitted in each arrangement, whatever cells the kubelet chooses."""
        partial: set[_Partial] | None = {(cells, ()) for cells in arrangements}
        for number, step in enumerate(pod, 1):
            if partial is None or not all(self._certain(each, step) for each in partial):
                return False
            if number < len(pod):
                partial = self._advance(partial, step)
        return True

    def first_fit_admits(self, cells: Arrangement, pod: PodAdmission) -> bool:
        """Whether a pod is admitted if each container gets the first cell with room.

        That is what kubelets do, but it is conclusive only where the cells are known exactly.
        """
        partial: _Partial = (cells, ())
        for step in pod:
            after = self._first_fit(partial, step)
            if after is None:
                return False
            partial = after
        return True

    def _first_fit(self, partial: _Partial, step: AdmissionStep) -> _Partial | None:
        cells, reusable = partial
        for cell, bounds in enumerate(cells) if step.span == 1 else ():
            if self._fits(bounds.sure, step, cell, reusable):
                return self._take(cells, step, cell, reusable)
        return None

    def _after(self, arrangements: set[Arrangement], pod: PodAdmission) -> set[Arrangement] | None:
        partial: set[_Partial] | None = {(cells, ()) for cells in arrangements}
        for step in pod:
            if partial is not None:
                partial = self._advance(partial, step)
        # Sorted: which cell is which does not matter, and there are fewer arrangements that way.
        return None if partial is None else {tuple(sorted(cells)) for cells, _ in partial}

    def _advance(self, partial: set[_Partial], step: AdmissionStep) -> set[_Partial] | None:
        after: set[_Partial] = set()
        for each in partial:
            after.update(self._ways(each, step))
            if len(after) > self._limit:
                return None
        return after

    def _ways(self, partial: _Partial, step: AdmissionStep) -> Iterator[_Partial]:
        cells, reusable = partial
        found = False
        for cell, bounds in enumerate(cells) if step.span == 1 else ():
            if self._fits(bounds.most, step, cell, reusable):
                found = True
                yield self._take(cells, step, cell, reusable)
        if not found:
            # It spans cells, or was admitted though no cell seems to have room. So none of what it
            # holds is sure to be free in any cell.
            yield tuple(CellBounds(_minus(c.sure, step.amounts), c.most) for c in cells), reusable

    def _certain(self, partial: _Partial, step: AdmissionStep) -> bool:
        cells, reusable = partial
        if step.span > 1:
            return fits_span(cells, step)
        return any(self._fits(each.sure, step, cell, reusable) for cell, each in enumerate(cells))

    def _fits(self, free: Vector, step: AdmissionStep, cell: int, reusable: Reusable) -> bool:
        if not reusable:
            return has(free, step.amounts)
        own = {resource: amount for at, resource, amount in reusable if at == cell}
        elsewhere = {resource for at, resource, _ in reusable if at != cell}
        return all(
            max(0, free[resource]) + own.get(resource, 0) >= want
            and not (self._binding[resource] and resource in elsewhere)
            for resource, want in enumerate(step.amounts)
            if want
        )

    @staticmethod
    def _take(cells: Arrangement, step: AdmissionStep, cell: int, reusable: Reusable) -> _Partial:
        taken = step.amounts
        if reusable or step.reusable:
            own = {resource: amount for at, resource, amount in reusable if at == cell}
            pairs = [(want, own.get(r, 0)) for r, want in enumerate(step.amounts)]
            taken = tuple(max(0, want - old) for want, old in pairs)
            left = [max(want, old) if step.reusable else max(0, old - want) for want, old in pairs]
            reusable = (
                *(each for each in reusable if each[0] != cell),
                *((cell, resource, amount) for resource, amount in enumerate(left) if amount),
            )
        return (*cells[:cell], _less(cells[cell], taken), *cells[cell + 1 :]), reusable


class AdmissionCheck:
    """Whether one more pod on a node is certain to be admitted, and endangers none on their way.

    The pod and all those that have not arrived must be admitted in whatever order they come.

    All that must hold even if a pod that is there is removed in the meantime. Its room can be a
    trap: an init container put there ties the pod to a cell too small for the rest, or a pod that
    fitted nowhere else takes the memory or devices there that another one needs. One removal at
    a time is assumed; pods are on their way for fractions of a second.
    """

    def __init__(
        self,
        search: AdmissionSearch,
        cells: Arrangement,
        used: Sequence[Vector],
        charged: Sequence[ChargedPod],
        confirmed: Iterable[Vector],
        *,
        exact: bool,
    ) -> None:
        """``used`` of each cell by pods, the ``confirmed`` ones among them holding so much each.

        ``exact``: nothing is unknown, so that the kubelet's first fit is conclusive.
        """
        self._search = search
        self._cells = cells
        self._used = used
        self._arrived = [pod for pod, arrived in charged if arrived]
        self._coming = [pod for pod, arrived in charged if not arrived]
        self._confirmed = list(dict.fromkeys(confirmed))
        self._exact = exact
        self._with_arrived: list[set[Arrangement] | None] = []
        """One entry once it was computed."""

    def admits(self, newcomer: PodAdmission) -> bool:
        """Whether a pod may be sent here."""
        if not self._admits(self._cells, newcomer):
            return False
        if not self._coming and len(newcomer) == 1:
            return True  # more room never hurts a single container
        return all(self._admits(cells, newcomer) for cells in self._after_removals(newcomer))

    def _admits(self, cells: Arrangement, newcomer: PodAdmission) -> bool:
        arrangements = self._arrangements(cells)
        if arrangements is None:
            return False
        if self._exact:  # no pod is on its way, and the first fit is one of all ways
            if self._search.first_fit_admits(cells, newcomer):
                return True
            if all(step.span == 1 for step in newcomer):
                return False
        return self._search.admits_in_any_order(arrangements, [*self._coming, newcomer])

    def _arrangements(self, cells: Arrangement) -> set[Arrangement] | None:
        """The arrangements of the unconfirmed pods that have arrived."""
        if cells is not self._cells:
            return self._search.arrangements_after([cells], self._arrived)
        if not self._with_arrived:
            self._with_arrived.append(self._search.arrangements_after([cells], self._arrived))
        return self._with_arrived[0]

    def _after_removals(self, newcomer: PodAdmission) -> Iterator[Arrangement]:
        """The cells after one confirmed pod is removed, where that may change what others get.

        It may where a pod needs what is freed, and the cell has not enough of it for all.
        """
        movable = [step.amounts for pod in (newcomer, *self._coming) for step in pod]
        if not movable:
            return
        arrived = [step.amounts for pod in self._arrived for step in pod]
        wanted = [sum(amounts) for amounts in zip(*movable, *arrived, strict=True)]
        for held in self._confirmed:
            for c, cell in enumerate(self._cells):
                if has(self._used[c], held):
                    more = CellBounds(_plus(cell.sure, held), _plus(cell.most, held))
                    scarce = [
                        r for r, freed in enumerate(held) if freed and cell.most[r] < wanted[r]
                    ]
                    if any(has(more.most, step) and _wants(step, scarce) for step in movable):
                        yield (*self._cells[:c], more, *self._cells[c + 1 :])


def has(free: Sequence[int], amounts: Vector) -> bool:
    """Whether there is enough of everything that is wanted."""
    return all(have >= want for have, want in zip(free, amounts, strict=True) if want)


def fits_span(cells: Arrangement, step: AdmissionStep) -> bool:
    """Whether some set of as many cells as the step spans surely has enough together."""
    return any(
        all(
            sum(cell.sure[resource] for cell in chosen) >= want
            for resource, want in enumerate(step.amounts)
        )
        for chosen in islice(combinations(cells, step.span), _MAX_CELL_SETS)
    )


def _wants(step: Vector, resources: Iterable[int]) -> bool:
    return any(step[resource] for resource in resources)


def _less(cell: CellBounds, amounts: Vector) -> CellBounds:
    sure = _minus(cell.sure, amounts)
    return CellBounds(sure, sure if cell.sure is cell.most else _minus(cell.most, amounts))


def _plus(vector: Vector, amounts: Vector) -> Vector:
    return tuple(have + more for have, more in zip(vector, amounts, strict=True))


def _minus(vector: Vector, amounts: Vector) -> Vector:
    return tuple(have - want for have, want in zip(vector, amounts, strict=True))
