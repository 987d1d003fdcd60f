"""Lower requests: which, and to what; ask for a resource by the name that nodes offer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from scheduler.explaining.remedies.costs import cost
from scheduler.explaining.remedies.patches import (
    Object,
    at,
    nanos_of,
    put,
    quantity_text,
    unit_nanos,
)
from scheduler.explaining.remedies.scene import Scene, Step, rows_of, ways
from scheduler.explaining.remedies.spelling import close_to
from scheduler.model.quantity import QuantityError
from scheduler.model.resources import CPU, EPHEMERAL_STORAGE, MEMORY, PODS
from scheduler.numa.plugin import NAME as NODE_RESOURCE_TOPOLOGY
from scheduler.plugins.names import NODE_RESOURCES_FIT
from scheduler.slices import checkpoint

LOWER = "lower"
RENAME = "rename"
UNASK = "unask"
MOST_WAYS = 4
"""So many sets of lacking resources are looked at, those with the smallest reductions."""
MOST_RESOURCES = 8
"""Of so many resources the request is searched for that a NUMA cell holds."""
_SIZED = frozenset({NODE_RESOURCES_FIT, NODE_RESOURCE_TOPOLOGY})
_WHOLE_CPU = 1000
_NANO, _MICRO = 10**9, 10**6
_OVERCOMMITTED = (CPU, MEMORY, EPHEMERAL_STORAGE)
"""A container may be given more of them than it asks for; of others its limit is its request."""


class _RequestPlace(NamedTuple):
    """Where a container's request is."""

    field: str
    number: int
    nanos: int


def lower(scene: Scene, names: list[str]) -> Iterator[Step]:
    """Ask for as much as some node has free: of one resource, or of all that one node lacks.

    Of the nodes that lack the same resources it is the one on which least is taken away, so no
    larger requests fit on any of them.
    """
    found: list[tuple[float, dict[str, int]]] = []
    with scene.acted() as cycle:
        columns = cycle.state.columns
        wanted = {n: a for n, a in scene.info.fit_requests.items() if a and n != PODS}
        _, rows = rows_of(cycle.state, names)
        rows = rows[columns.pod_count[rows] < columns.pod_limit[rows]]
        offered = [name for name in wanted if columns.resources.find(name) is not None]
        if len(offered) < len(wanted) or not len(rows):
            return
        places = [place for n in offered if (place := columns.resources.find(n)) is not None]
        at_rows = np.ix_(np.array(places, np.intp), rows)
        free = columns.allocatable[at_rows] - columns.requested[at_rows]
    asked = np.array([wanted[name] for name in offered], np.int64)[:, np.newaxis]
    short = free < asked
    usable = (free > 0) | ~short
    taken = np.where(short, (asked - free) / np.maximum(asked, 1), 0.0).sum(axis=0)
    taken[~usable.all(axis=0) | ~short.any(axis=0)] = np.inf
    for way in ways(short)[0].T:
        here = (way == short.T).all(axis=1)
        costs = np.where(here, taken, np.inf)
        best = int(costs.argmin())
        if np.isfinite(costs[best]):
            targets = {offered[i]: int(free[i, best]) for i in np.flatnonzero(way).tolist()}
            found.append((float(costs[best]), targets))
    for _, targets in sorted(found, key=lambda each: (len(each[1]), each[0]))[:MOST_WAYS]:
        if (step := lowered(scene, targets)) is not None:
            yield step


def lower_in_cell(scene: Scene, names: list[str]) -> Iterator[Step]:
    """Ask for as much of one resource as one NUMA cell holds: the largest amount that passes.

    Whole CPUs stay whole: a container with a part of one is not pinned at all.
    """
    wanted = {n: a for n, a in scene.info.fit_requests.items() if a and n != PODS}
    for resource, amount in list(wanted.items())[:MOST_RESOURCES]:
        unit = smallest_amount(resource)
        if resource == CPU and not amount % _WHOLE_CPU:
            unit = _WHOLE_CPU
        best = _passing(scene, {resource: unit}, names)
        low, high = 2, amount // unit
        while best is not None and low <= high:
            middle = (low + high) // 2
            step = _passing(scene, {resource: middle * unit}, names)
            if step is not None:
                best, low = step, middle + 1
            else:
                high = middle - 1
        if best is not None:
            yield best


def _passing(scene: Scene, targets: Mapping[str, int], names: list[str]) -> Step | None:
    """The step that lowers requests, if some node then has room in a cell."""
    step = lowered(scene, targets)
    return step if step is not None and scene.then(step).passes(_SIZED, names) else None


def lowered(scene: Scene, targets: Mapping[str, int]) -> Step | None:
    """The step that brings the pod's requests down to some amounts, in units of columns."""
    edit = partial(_edited, targets=dict(targets))
    raw = scene.raw
    if raw is None or (after := edit(raw)) is None:
        return None
    wanted = scene.info.fit_requests
    texts, share = [], 0.0
    for resource, target in targets.items():
        asked, unit = wanted.get(resource, 0), _column_unit(resource)
        if asked <= target:
            continue
        share += (asked - target) / asked
        before = quantity_text(resource, asked * unit)
        texts.append(f"{resource} from {before} to {quantity_text(resource, target * unit)}")
    if not texts:
        return None
    where = _where(raw, after)
    return Step(
        LOWER,
        f"lower the request{'s' if len(texts) > 1 else ''} for {' and '.join(texts)}{where}",
        cost(LOWER, share),
        edit,
        parts=frozenset(targets),
    )


def _where(before: Object, after: Object) -> str:
    """Which container it is, if there are several and one changes."""
    pairs = [
        (field, old, new)
        for field in ("containers", "initContainers")
        for old, new in zip(
            at(before, "spec", field) or [], at(after, "spec", field) or [], strict=True
        )
    ]
    changed = [old.get("name", "?") for _, old, new in pairs if old != new]
    if len(pairs) < 2 or len(changed) != 1:
        return ""
    return f", in container {changed[0]}"


def smallest_amount(resource: str) -> int:
    """The smallest amount of a resource that one may ask for, in units of columns."""
    return max(1, unit_nanos(resource) // _column_unit(resource))


def _column_unit(resource: str) -> int:
    return _MICRO if resource == CPU else _NANO


def _edited(raw: Object, targets: Mapping[str, int]) -> Object | None:
    after: Object | None = raw
    try:
        for resource, target in targets.items():
            if after is not None:
                after = _with_total(after, resource, target * _column_unit(resource))
    except QuantityError:  # a limit, which no filter reads
        return None
    return after


def _with_total(raw: Object, resource: str, target: int) -> Object | None:
    """The pod with a request in total that is at most the target; None if there is no such pod."""
    overhead = at(raw, "spec", "overhead", resource)
    unit = unit_nanos(resource)
    room = target - (nanos_of(overhead) if overhead is not None else 0)
    room -= room % unit
    if room <= 0:
        return None
    tied = _tied_to_limit(raw, resource)
    level = at(raw, "spec", "resources", "requests", resource)
    if level is not None and nanos_of(level) > room:
        raw = _with_request(raw, ("spec", "resources"), resource, room, tied)
    return _with_containers(raw, resource, room, unit, tied)


def _with_containers(raw: Object, resource: str, room: int, unit: int, tied: bool) -> Object | None:
    """The pod with containers that ask for no more than some room together."""
    inits = _places(raw, "initContainers", resource)
    sidecars = [p for p in inits if _is_sidecar(raw, p)]
    together = [*_places(raw, "containers", resource), *sidecars]
    total = sum(place.nanos for place in together)
    if total > room:
        shares = _shares(together, total, room, unit)
        if shares is None:
            return None
        for place, share in zip(together, shares, strict=True):
            if share != place.nanos:
                raw = _with_request(raw, _path(place), resource, share, tied)
                checkpoint()
    beside = 0
    for place in _places(raw, "initContainers", resource):
        if _is_sidecar(raw, place):
            beside += place.nanos
        elif place.nanos + beside > room:
            left = (room - beside) // unit * unit
            if left <= 0:
                return None
            raw = _with_request(raw, _path(place), resource, left, tied)
    return raw


def _shares(together: list[_RequestPlace], total: int, room: int, unit: int) -> list[int] | None:
    """What containers ask for so that it is no more than the room.

    The largest request pays if it can; else all shrink alike, and the largest gets what is left.
    """
    largest = max(range(len(together)), key=lambda i: (together[i].nanos, -i))
    shares = [place.nanos for place in together]
    left = (shares[largest] - (total - room)) // unit * unit
    if left > 0:
        shares[largest] = left
        return shares
    shares = [nanos * room // total // unit * unit for nanos in shares]
    if not all(share > 0 for share, place in zip(shares, together, strict=True) if place.nanos):
        return None
    shares[largest] += (room - sum(shares)) // unit * unit
    return shares


def _places(raw: Object, field: str, resource: str) -> list[_RequestPlace]:
    return [
        _RequestPlace(field, index, nanos_of(text))
        for index, container in enumerate(at(raw, "spec", field) or [])
        if (text := at(container, "resources", "requests", resource)) is not None
    ]


def _path(place: _RequestPlace) -> tuple[str | int, ...]:
    return "spec", place.field, place.number, "resources"


def _is_sidecar(raw: Object, place: _RequestPlace) -> bool:
    return bool(at(raw, "spec", place.field, place.number, "restartPolicy") == "Always")


def _with_request(
    raw: Object, path: tuple[str | int, ...], resource: str, nanos: int, tied: bool
) -> Object:
    """A request changed, and the limit with it where it has to be equal or was and should be."""
    text = quantity_text(resource, nanos)
    old = at(raw, *path, "requests", resource)
    limit = at(raw, *path, "limits", resource)
    raw = put(raw, (*path, "requests", resource), text)
    if limit is not None and tied and nanos_of(limit) == nanos_of(old):
        raw = put(raw, (*path, "limits", resource), text)
    return raw


def _tied_to_limit(raw: Object, resource: str) -> bool:
    """Whether requests stay equal to limits: extended resources, and pods that are Guaranteed."""
    if resource not in _OVERCOMMITTED:
        return True
    containers = [
        *(at(raw, "spec", "containers") or []),
        *(at(raw, "spec", "initContainers") or []),
    ]
    return all(_equal(container, name) for container in containers for name in (CPU, MEMORY))


def _equal(container: Any, resource: str) -> bool:
    request = at(container, "resources", "requests", resource)
    limit = at(container, "resources", "limits", resource)
    if limit is None:
        return False
    return request is None or nanos_of(request) == nanos_of(limit)


def rename(scene: Scene, names: list[str]) -> Iterator[Step]:
    """Ask for a resource by the closest name that some node offers, or not at all."""
    with scene.acted() as cycle:
        columns = cycle.state.columns
        rows = cycle.state.rows()
        offered = [
            name
            for place, name in enumerate(columns.resources.values)
            if columns.allocatable[place][rows].any()
        ]
    wanted = [name for name, amount in scene.info.fit_requests.items() if amount and name != PODS]
    for resource in [name for name in wanted if name not in offered][:MOST_RESOURCES]:
        free_names = [name for name in offered if name not in wanted]
        close = close_to(resource, free_names, 1, 0.75)
        for name in close:
            edit = partial(_renamed, old=resource, new=name)
            summary = f"ask for {name} in place of {resource}, which no node offers"
            yield Step(RENAME, summary, cost(RENAME), edit, parts=frozenset({resource}))
        if not close:
            summary = f"do not ask for {resource}, which no node offers"
            edit = partial(_renamed, old=resource, new=None)
            yield Step(UNASK, summary, cost(UNASK), edit, parts=frozenset({resource}))


def _renamed(raw: Object, old: str, new: str | None) -> Object:
    """The pod with another name of a resource wherever it asks for it; None: with none."""
    paths: list[tuple[str | int, ...]] = [("spec", "resources"), ("spec",)]
    for field in ("containers", "initContainers"):
        paths += [
            ("spec", field, i, "resources") for i, _ in enumerate(at(raw, "spec", field) or [])
        ]
    for path in paths:
        for member in ("requests", "limits", "overhead"):
            amount = at(raw, *path, member, old)
            if amount is not None:
                raw = put(raw, (*path, member, old), None)
                if new is not None:
                    raw = put(raw, (*path, member, new), amount)
    return raw
