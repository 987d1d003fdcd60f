"""Static types of expressions, and which of them may stand for which.

Type parameters are solved by unification as cel-go's checker does it, oddities included: `dyn` and
`any` fit everywhere, and of two types that fit, the more general one is kept.
"""

from __future__ import annotations

from typing import NamedTuple

from scheduler.cel.errors import CelCompileError
from scheduler.cel.limits import MAX_TYPE


class Type(NamedTuple):
    """`kind` decides how types are compared; `name` tells types of one kind apart."""

    kind: str
    name: str
    params: tuple[Type, ...] = ()
    nullable: bool = False
    weight: int = 1
    """How many parts there are, with those of the parameters."""

    def __str__(self) -> str:
        """The type as messages name it."""
        shown = _SHOWN.get(self.kind, self.name)
        if self.nullable:
            shown = f"wrapper({shown})"
        if not self.params:
            return shown
        return f"{shown}({', '.join(str(param) for param in self.params)})"


_SHOWN = {
    "any": "any", "duration": "duration", "timestamp": "timestamp", "error": "!error!",
    "null": "null",
}  # fmt: skip

ANY = Type("any", "google.protobuf.Any")
BOOL = Type("bool", "bool")
BYTES = Type("bytes", "bytes")
DOUBLE = Type("double", "double")
DURATION = Type("duration", "google.protobuf.Duration")
DYN = Type("dyn", "dyn")
ERROR = Type("error", "error")
INT = Type("int", "int")
NULL = Type("null", "null_type")
STRING = Type("string", "string")
TIMESTAMP = Type("timestamp", "google.protobuf.Timestamp")
TYPE = Type("type", "type")
UINT = Type("uint", "uint")

QUANTITY = Type("struct", "kubernetes.Quantity")
SEMVER = Type("struct", "kubernetes.Semver")
URL = Type("struct", "kubernetes.URL")
NAMED_FORMAT = Type("struct", "kubernetes.NamedFormat")
IP = Type("opaque", "net.IP")
CIDR = Type("opaque", "net.CIDR")
DEVICE = Type("struct", "kubernetes.DRADevice")
AUTHORIZER = Type("struct", "kubernetes.authorization.Authorizer")
PATH_CHECK = Type("struct", "kubernetes.authorization.PathCheck")
GROUP_CHECK = Type("struct", "kubernetes.authorization.GroupCheck")
RESOURCE_CHECK = Type("struct", "kubernetes.authorization.ResourceCheck")
DECISION = Type("struct", "kubernetes.authorization.Decision")

_COMPOUND = frozenset({"opaque", "list", "map"})
_LEGACY_NULLABLE = frozenset({"opaque", "struct", "any", "duration", "timestamp"})


def _of(kind: str, name: str, params: tuple[Type, ...]) -> Type:
    weight = 1 + sum(param.weight for param in params)
    if weight > MAX_TYPE:
        raise CelCompileError(f"expression has a type of more than {MAX_TYPE} parts")
    return Type(kind, name, params, weight=weight)


def list_of(element: Type) -> Type:
    return _of("list", "list", (element,))


def map_of(key: Type, value: Type) -> Type:
    return _of("map", "map", (key, value))


def optional_of(value: Type) -> Type:
    return _of("opaque", "optional_type", (value,))


def type_of(value: Type) -> Type:
    return _of("type", "type", (value,))


def parameter(name: str) -> Type:
    return Type("param", name)


def is_dyn(t: Type) -> bool:
    return t.kind in {"dyn", "any"}


def is_optional(t: Type) -> bool:
    return t.kind == "opaque" and t.name == "optional_type"


def unwrap_optional(t: Type) -> Type:
    return t.params[0] if is_optional(t) else t


def equivalent(a: Type, b: Type) -> bool:
    """Equal but for the names of type parameters."""
    if a.kind != b.kind or len(a.params) != len(b.params):
        return False
    if a.kind != "param" and a.name != b.name:
        return False
    return all(equivalent(x, y) for x, y in zip(a.params, b.params, strict=True))


def _no_more_specific(a: Type, b: Type) -> bool:
    if is_dyn(a) or a.kind == "param":
        return True
    if is_dyn(b) or b.kind == "param" or a.kind != b.kind:
        return False
    if a.kind in _COMPOUND:
        if a.name != b.name or len(a.params) != len(b.params):
            return False
        return all(_no_more_specific(x, y) for x, y in zip(a.params, b.params, strict=True))
    return a.kind == "type" or a[:3] == b[:3]


def most_general(a: Type, b: Type) -> Type:
    return a if _no_more_specific(a, b) else b


class Substitution:
    """What is known of type parameters. What a failed attempt has added is taken back."""

    def __init__(self) -> None:
        self._known: dict[str, Type] = {}
        self._log: list[tuple[str, Type | None]] = []
        self._fresh = 0

    def fresh(self) -> Type:
        """A parameter of which nothing is known."""
        self._fresh += 1
        return parameter(f"_var{self._fresh - 1}")

    def instance(self, types: tuple[Type, ...]) -> tuple[Type, ...]:
        """The types with fresh parameters for those they have."""
        names: dict[str, Type] = {}

        def renamed(t: Type) -> Type:
            if t.kind == "param":
                return names.setdefault(t.name, self.fresh())
            if not t.params:
                return t
            return _of(t.kind, t.name, tuple(renamed(param) for param in t.params))

        return tuple(renamed(t) for t in types)

    def apply(self, t: Type, to_dyn: bool = False) -> Type:
        """The type with what is known filled in; with `to_dyn` the rest is dyn."""
        if t.kind == "param":
            known = self._known.get(t.name)
            if known is not None:
                return self.apply(known, to_dyn)
            return DYN if to_dyn else t
        if not t.params:
            return t
        return _of(t.kind, t.name, tuple(self.apply(param, to_dyn) for param in t.params))

    def assignable(self, a: Type, b: Type) -> bool:
        """Whether one may stand for the other; what that takes is remembered."""
        return self.all_assignable((a,), (b,))

    def all_assignable(self, a: tuple[Type, ...], b: tuple[Type, ...]) -> bool:
        start = len(self._log)
        if self._lists(a, b):
            self._log.clear()
            return True
        while len(self._log) > start:
            name, before = self._log.pop()
            if before is None:
                del self._known[name]
            else:
                self._known[name] = before
        return False

    def _set(self, name: str, t: Type) -> None:
        self._log.append((name, self._known.get(name)))
        self._known[name] = t

    def _lists(self, a: tuple[Type, ...], b: tuple[Type, ...]) -> bool:
        return len(a) == len(b) and all(self._assignable(x, y) for x, y in zip(a, b, strict=True))

    def _assignable(self, a: Type, b: Type) -> bool:
        if b.kind == "param":
            valid, bound = self._substitutable(a, b)
            if valid or bound:
                return valid
        if a.kind == "param":
            return self._substitutable(b, a)[0]
        if is_dyn(a) or is_dyn(b) or "error" in {a.kind, b.kind}:
            return True
        if a.kind == "null":
            return _takes_null(b)
        if b.kind == "null":
            return _takes_null(a)
        if a.kind == "type":
            return b.kind == "type"
        if a.kind != b.kind or a.name != b.name:
            return False
        return a.kind not in _COMPOUND or self._lists(a.params, b.params)

    def _substitutable(self, t: Type, param: Type) -> tuple[bool, bool]:
        if t == param:
            return True, True
        known = self._known.get(param.name)
        if known is not None:
            if t == known:
                return True, True
            if not self._assignable(t, known):
                return False, True
            general = most_general(t, known)
            if self._free_of(param, general):
                self._set(param.name, general)
            return True, True
        if self._free_of(param, t):
            self._set(param.name, t)
            return True, False
        return False, False

    def _free_of(self, param: Type, t: Type) -> bool:
        if t == param:
            return False
        if t.kind == "param":
            known = self._known.get(t.name)
            return known is None or self._free_of(param, known)
        return all(self._free_of(param, inner) for inner in t.params)


def _takes_null(t: Type) -> bool:
    return t.kind in _LEGACY_NULLABLE or t.kind == "null" or t.nullable
