"""Every list and every map that a user can write into an object that the scheduler watches.

They are found in the structs of the model, so that a new field is held to the laws too.
"""

from __future__ import annotations

import types
import typing
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Union, get_args, get_origin

import msgspec

from scheduler.model.meta import Struct
from scheduler.model.objects import KINDS

Json = dict[str, Any]

QUANTITIES = (
    "requests",
    "limits",
    "overhead",
    "allocatable",
    "allocatedResources",
    "capacity",
    "minResources",
)
"""Maps from resources to quantities."""


class Field(NamedTuple):
    """A list or map of a kind: the way to it, each step as documents spell it."""

    kind: str
    steps: tuple[str, ...]
    element: Any
    is_map: bool

    def __str__(self) -> str:
        return f"{self.kind} {'.'.join(self.steps)}"

    def object(self, number: int, first: int = 0) -> Json:
        """The smallest object with so many entries there; all entries are different.

        So are those of objects whose ``first`` is beyond the last of the other's.
        """
        entries = self._entries(range(first, first + number))
        return _nested(KINDS[self.kind].type, self.steps, entries)

    def _entries(self, numbers: Sequence[int]) -> Any:
        name = self.steps[-1]
        if self.is_map and _is_struct(self.element):
            return {f"key-{i}": _sample(self.element, name, i) for i in numbers}
        if self.is_map and name in QUANTITIES:
            return {f"example.com/r-{i}": "1" for i in numbers}
        if self.is_map:
            return {f"key-{i}": f"value-{i}" for i in numbers}
        if name == "matchFields":
            return [{**_expression(i), "key": "metadata.name"} for i in numbers]
        if name == "values":
            return [f"value-{i}" for i in numbers]
        return [_sample(self.element, name, i) for i in numbers]


def fields() -> list[Field]:
    """All of them."""
    return [field for kind in KINDS.values() for field in _of(kind.name, kind.type, ())]


def _of(kind: str, struct: type[Struct], steps: tuple[str, ...]) -> Iterator[Field]:
    hints = typing.get_type_hints(struct)
    for each in msgspec.structs.fields(struct):
        type_ = _without_none(hints[each.name])
        here = (*steps, each.encode_name)
        if get_origin(type_) is tuple:
            element = _without_none(get_args(type_)[0])
            yield Field(kind, here, element, is_map=False)
            if _is_struct(element):
                yield from _of(kind, element, here)
        elif get_origin(type_) is dict:
            yield Field(kind, here, _without_none(get_args(type_)[1]), is_map=True)
        elif _is_struct(type_):
            yield from _of(kind, type_, here)


def _nested(struct: type[Struct], steps: tuple[str, ...], entries: Any) -> Json:
    """What a struct with the entries at the end of the steps is written as."""
    step, *rest = steps
    hints = typing.get_type_hints(struct)
    name = next(f.name for f in msgspec.structs.fields(struct) if f.encode_name == step)
    type_ = _without_none(hints[name])
    written = dict(_sample(struct, step, 0)) if struct in SAMPLES else {}
    if not rest:
        written[step] = entries
    elif get_origin(type_) is tuple:
        element = _without_none(get_args(type_)[0])
        written[step] = [_nested(element, tuple(rest), entries)]
    else:
        written[step] = _nested(type_, tuple(rest), entries)
    return written


def _without_none(type_: Any) -> Any:
    if get_origin(type_) in (Union, types.UnionType):
        left = [each for each in get_args(type_) if each is not type(None)]
        return left[0]
    return type_


def _is_struct(type_: Any) -> bool:
    return isinstance(type_, type) and issubclass(type_, Struct)


def _sample(type_: Any, name: str, number: int) -> Any:
    """A valid entry that is unlike those of other numbers."""
    if type_ in SAMPLES:
        return SAMPLES[type_](number)
    if _is_struct(type_):
        hints = typing.get_type_hints(type_)
        return {
            field.encode_name: _sample(_without_none(hints[field.name]), field.name, number)
            for field in msgspec.structs.fields(type_)
            if _without_none(hints[field.name]) in (str, int, bool)
        }
    if type_ is bool:
        return False
    if type_ is int:
        return number + 1
    return f"{name}-{number}"


def _by_name(name: str) -> type[Struct]:
    return next(each for each in _all_structs(Struct) if each.__name__ == name)


def _all_structs(base: type[Struct]) -> Iterator[type[Struct]]:
    for each in base.__subclasses__():
        yield each
        yield from _all_structs(each)


def _expression(i: int) -> Json:
    return {"key": f"key-{i}", "operator": "In", "values": [f"value-{i}"]}


def _term(i: int) -> Json:
    return {"topologyKey": f"key-{i}", "labelSelector": {"matchLabels": {"app": f"app-{i}"}}}


_WRITTEN: dict[str, Callable[[int], Any]] = {
    "Container": lambda i: {
        "name": f"c-{i}",
        "image": f"image-{i}",
        "resources": {"requests": {"cpu": "1m"}},
    },
    "ContainerPort": lambda i: {"hostPort": i + 1, "containerPort": i + 1},
    "Toleration": lambda i: {"key": f"key-{i}", "operator": "Exists"},
    "Taint": lambda i: {"key": f"key-{i}", "effect": "PreferNoSchedule"},
    "NodeSelectorRequirement": _expression,
    "LabelSelectorRequirement": _expression,
    "NodeSelectorTerm": lambda i: {"matchExpressions": [_expression(i)]},
    "PreferredSchedulingTerm": lambda i: {
        "weight": 1,
        "preference": {"matchExpressions": [_expression(i)]},
    },
    "PodAffinityTerm": _term,
    "WeightedPodAffinityTerm": lambda i: {"weight": 1, "podAffinityTerm": _term(i)},
    "TopologySpreadConstraint": lambda i: {**_term(i), "whenUnsatisfiable": "ScheduleAnyway"},
    "ContainerImage": lambda i: {"names": [f"image-{i}"], "sizeBytes": 2**30},
    "ContainerStatus": lambda i: {"name": f"c-{i}", "resources": {"requests": {"cpu": "1m"}}},
    "Volume": lambda i: {"name": f"v-{i}", "persistentVolumeClaim": {"claimName": f"claim-{i}"}},
    "TopologySelectorRequirement": lambda i: {"key": f"key-{i}", "values": [f"value-{i}"]},
    "TopologySelectorTerm": lambda i: {
        "matchLabelExpressions": [{"key": f"key-{i}", "values": [f"value-{i}"]}]
    },
    "ZoneResource": lambda i: {
        "name": f"example.com/r-{i}",
        "capacity": "4",
        "allocatable": "4",
        "available": "4",
    },
    "TopologyZone": lambda i: {
        "name": f"node-{i}",
        "type": "Node",
        "resources": [{"name": "cpu", "capacity": "4", "allocatable": "4", "available": "4"}],
    },
}

SAMPLES: dict[Any, Callable[[int], Any]] = {
    _by_name(name): written for name, written in _WRITTEN.items()
}
"""Entries that take more than different texts and numbers to mean something."""
