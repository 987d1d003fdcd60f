"""Label and node selectors, compiled once per pod and asked many times.

A compiled selector is a tuple of requirements. Each requirement depends on one key only, so columns
can evaluate it once per distinct value of that key instead of once per node.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property

import msgspec

from scheduler.model.meta import LabelSelector, LabelSelectorRequirement
from scheduler.model.nodes import Node, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from scheduler.model.pods import PreferredSchedulingTerm

NODE_NAME_FIELD = "metadata.name"

_LABEL_OPERATORS = ("In", "NotIn", "Exists", "DoesNotExist")
_NODE_OPERATORS = (*_LABEL_OPERATORS, "Gt", "Lt")
_FIELD_OPERATORS = ("In", "NotIn")
_LONGEST_LABEL = 63
_FEW = 8
"""So many requirements are compared one by one."""


class SelectorError(ValueError):
    """A selector that cannot be understood; the text starts with the path of the field."""


class BoundError(SelectorError):
    """A ``Gt`` or ``Lt`` whose bound is no integer, which the API server accepts nevertheless."""


class Requirement(msgspec.Struct, frozen=True):
    """What one label (or field) must be. Hashable, so that answers can be kept per requirement."""

    key: str
    operator: str
    values: frozenset[str] = frozenset()

    def accepts(self, value: str | None) -> bool:
        """Whether a label with this value satisfies the requirement; None means no such label."""
        match self.operator:
            case "In":
                return value is not None and value in self.values
            case "NotIn":
                return value is None or value not in self.values
            case "Exists":
                return value is not None
            case "DoesNotExist":
                return value is None
        (bound,) = self.values
        number = integer(value)
        if number is None:
            return False
        return number > int(bound) if self.operator == "Gt" else number < int(bound)


def integer(text: str | None) -> int | None:
    """A 64-bit integer as Go's ParseInt reads it: no spaces, no underscores, ASCII digits."""
    if text is None or len(text) > _LONGEST_LABEL or not text.isascii():
        return None
    digits = text[1:] if text[:1] in ("+", "-") else text
    if not digits.isdigit():
        return None
    number = int(text)
    return number if -(2**63) <= number < 2**63 else None


class Selector(msgspec.Struct, frozen=True, dict=True):
    """A conjunction of label requirements; ``nothing`` selects no object at all."""

    requirements: tuple[Requirement, ...] = ()
    nothing: bool = False

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Whether an object with these labels is selected.

        O(requirements or labels, the fewer), after O(requirements) once: objects without bound are
        compared with selectors of tens of thousands of requirements.
        """
        if self.nothing:
            return False
        if len(self.requirements) > _FEW:
            return self._by_key.accepts(labels)
        return all(r.accepts(labels.get(r.key)) for r in self.requirements)

    @cached_property
    def _by_key(self) -> _RequirementsByKey:
        return _RequirementsByKey(self.requirements)


class _RequirementsByKey:
    """Many requirements, those of a key together."""

    def __init__(self, requirements: Iterable[Requirement]) -> None:
        self._by_key: dict[str, _ValuesOfKey] = {}
        for each in requirements:
            values = self._by_key.get(each.key)
            if values is None:
                values = self._by_key[each.key] = _ValuesOfKey()
            values.require(each)
        self._present = sum(values.present for values in self._by_key.values())

    def accepts(self, labels: Mapping[str, str]) -> bool:
        """Whether labels satisfy all requirements. A key without a label matters if it must be."""
        there = len(labels)
        if there < self._present:
            return False
        by_key, present = self._by_key, 0
        for key in labels if there < len(by_key) else by_key:
            values, label = by_key.get(key), labels.get(key)
            if values is not None and label is not None:
                if not values.accept(label):
                    return False
                present += values.present
        return present == self._present


class _ValuesOfKey:
    """What all requirements of one key leave of its values."""

    __slots__ = ("_excluded", "_missing", "_only", "_others", "present")

    def __init__(self) -> None:
        self.present = False
        """Whether there has to be such a label."""
        self._missing = False
        """Whether there must be none."""
        self._only: frozenset[str] | None = None
        self._excluded: set[str] = set()
        self._others: dict[Requirement, None] = {}

    def require(self, requirement: Requirement) -> None:
        self.present |= requirement.operator not in ("NotIn", "DoesNotExist")
        match requirement.operator:
            case "In":
                values, only = requirement.values, self._only
                self._only = values if only is None else only & values
            case "NotIn":
                self._excluded |= requirement.values
            case "DoesNotExist":
                self._missing = True
            case "Gt" | "Lt":
                self._others[requirement] = None

    def accept(self, value: str) -> bool:
        """Whether a label may have this value."""
        if self._missing or value in self._excluded:
            return False
        if self._only is not None and value not in self._only:
            return False
        return all(each.accepts(value) for each in self._others)


class NodeTerm(msgspec.Struct, frozen=True, cache_hash=True):
    """One alternative of a node selector: label and field requirements that must all hold."""

    labels: tuple[Requirement, ...] = ()
    fields: tuple[Requirement, ...] = ()

    def matches(self, node: Node) -> bool:
        """Whether the node satisfies every requirement."""
        labels = node.metadata.labels
        return all(r.accepts(labels.get(r.key)) for r in self.labels) and all(
            r.accepts(node.name) for r in self.fields
        )


_NO_NODE = NodeTerm(labels=(Requirement("", "In"),))
"""Requires a label to have one of no values."""


class WeightedTerm(msgspec.Struct, frozen=True):
    """A preferred alternative and what a node gains by matching it."""

    weight: int
    term: NodeTerm


class NodeMatcher(msgspec.Struct, frozen=True, cache_hash=True):
    """Where a pod may go: its nodeSelector, and any one of its required terms (None: no terms)."""

    selector: tuple[Requirement, ...] = ()
    terms: tuple[NodeTerm, ...] | None = None

    def matches(self, node: Node) -> bool:
        """Whether the pod may go to this node."""
        labels = node.metadata.labels
        if not all(r.accepts(labels.get(r.key)) for r in self.selector):
            return False
        return self.terms is None or any(term.matches(node) for term in self.terms)


_TERMS = re.compile(r",(?![^(]*\))")
_KEY = r"[A-Za-z0-9](?:[A-Za-z0-9._/-]*[A-Za-z0-9])?"
_VALUE = r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?"
_SET = re.compile(rf"({_KEY})\s+(in|notin)\s*\(([^()]*)\)")
_EQUALITY = re.compile(rf"({_KEY})\s*(==|=|!=)\s*({_VALUE}|)")
_EXISTS = re.compile(rf"(!?)\s*({_KEY})")


def parse_label_selector(text: str) -> Selector:
    """A selector as kubectl takes it (``app=web,tier in (a, b),!old``); raises SelectorError."""
    if not text.strip():
        return Selector()
    return Selector(tuple(_parsed(term.strip()) for term in _TERMS.split(text)))


def _parsed(term: str) -> Requirement:
    if found := _SET.fullmatch(term):
        operator = "In" if found[2] == "in" else "NotIn"
        return Requirement(found[1], operator, frozenset(v.strip() for v in found[3].split(",")))
    if found := _EQUALITY.fullmatch(term):
        return Requirement(found[1], "NotIn" if found[2] == "!=" else "In", frozenset({found[3]}))
    if found := _EXISTS.fullmatch(term):
        return Requirement(found[2], "DoesNotExist" if found[1] else "Exists")
    raise SelectorError(f"cannot be understood: {term!r}")


def compile_label_selector(selector: LabelSelector | None, path: str) -> Selector:
    """A selector as ``metav1.LabelSelector`` means it: absent selects nothing, empty everything."""
    if selector is None:
        return Selector(nothing=True)
    requirements = [equals(key, value) for key, value in sorted(selector.match_labels.items())]
    for i, expression in enumerate(selector.match_expressions):
        requirements.append(
            _requirement(expression, _LABEL_OPERATORS, f"{path}.matchExpressions[{i}]")
        )
    return Selector(tuple(requirements))


def equals(key: str, value: str) -> Requirement:
    """The requirement that a label has exactly this value."""
    return Requirement(key, "In", frozenset((value,)))


def compile_set(labels: Mapping[str, str]) -> tuple[Requirement, ...]:
    """All the given labels, with exactly their values."""
    return tuple(equals(key, value) for key, value in sorted(labels.items()))


def compile_node_selector(selector: NodeSelector | None, path: str) -> tuple[NodeTerm, ...] | None:
    """The alternatives of a node selector; one without requirements matches no node."""
    if selector is None:
        return None
    return tuple(
        _alternative(term, f"{path}.nodeSelectorTerms[{i}]")
        for i, term in enumerate(selector.node_selector_terms or ())
    )


def _alternative(term: NodeSelectorTerm, path: str) -> NodeTerm:
    if not term.match_expressions and not term.match_fields:
        return _NO_NODE
    try:
        return compile_node_term(term, path)
    except BoundError:  # the other alternatives still hold, as they do for kube-scheduler
        return NodeTerm(_NO_NODE.labels, _fields(term, path))


def compile_node_term(term: NodeSelectorTerm, path: str) -> NodeTerm:
    """One alternative, with errors that name the requirement at fault."""
    labels = tuple(
        _requirement(r, _NODE_OPERATORS, f"{path}.matchExpressions[{i}]")
        for i, r in enumerate(term.match_expressions)
    )
    return NodeTerm(labels, _fields(term, path))


def _fields(term: NodeSelectorTerm, path: str) -> tuple[Requirement, ...]:
    return tuple(
        _field_requirement(r, f"{path}.matchFields[{i}]") for i, r in enumerate(term.match_fields)
    )


def node_term_faults(term: NodeSelectorTerm, path: str) -> Iterator[str]:
    """Everything in a term that cannot be understood, where compiling stops at the first fault."""
    for i, raw in enumerate(term.match_expressions):
        yield from _faults(_requirement, raw, _NODE_OPERATORS, f"{path}.matchExpressions[{i}]")
    for i, raw in enumerate(term.match_fields):
        yield from _faults(_field_requirement, raw, f"{path}.matchFields[{i}]")


def _faults(compile_: Callable[..., Requirement], *arguments: object) -> Iterator[str]:
    try:
        compile_(*arguments)
    except SelectorError as fault:
        yield str(fault)


def compile_preferences(
    terms: Sequence[PreferredSchedulingTerm], path: str
) -> tuple[WeightedTerm, ...]:
    """The preferred terms that can add to a score: those with a weight and a requirement."""
    return tuple(
        WeightedTerm(term.weight, compile_node_term(term.preference, f"{path}[{i}].preference"))
        for i, term in enumerate(terms)
        if term.weight and (term.preference.match_expressions or term.preference.match_fields)
    )


def _requirement(
    raw: NodeSelectorRequirement | LabelSelectorRequirement, operators: tuple[str, ...], path: str
) -> Requirement:
    if raw.operator not in operators:
        raise SelectorError(
            f"{path}.operator: unknown operator {raw.operator!r} (one of {', '.join(operators)})"
        )
    if not raw.key:
        raise SelectorError(f"{path}.key: missing")
    count = len(raw.values)
    if raw.operator in ("In", "NotIn") and not count:
        raise SelectorError(f"{path}.values: must not be empty for operator {raw.operator}")
    if raw.operator in ("Exists", "DoesNotExist") and count:
        raise SelectorError(f"{path}.values: must be empty for operator {raw.operator}")
    if raw.operator in ("Gt", "Lt") and (count != 1 or integer(raw.values[0]) is None):
        raise BoundError(f"{path}.values: must be one integer for operator {raw.operator}")
    return Requirement(raw.key, raw.operator, frozenset(raw.values))


def _field_requirement(raw: NodeSelectorRequirement, path: str) -> Requirement:
    requirement = _requirement(raw, _FIELD_OPERATORS, path)
    if raw.key != NODE_NAME_FIELD:
        raise SelectorError(f"{path}.key: unknown field {raw.key!r} (only {NODE_NAME_FIELD})")
    if len(raw.values) != 1:
        raise SelectorError(f"{path}.values: must have one element")
    return requirement
