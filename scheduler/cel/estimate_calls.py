"""What a call may cost, and how large its result may be."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from scheduler.cel.ast import CallNode, Literal, Node
from scheduler.cel.sizes import MAX, UNKNOWN, Entries, Path, Size, size_at
from scheduler.cel.types import CIDR, IP, NAMED_FORMAT, QUANTITY, SEMVER, URL, Type

_TEXT = 0.1
_REGEX = 0.25
_LIST = Size(10, 10)
_ONE = Size(1, 1)
_LONGEST_FORMAT = 64
_FORMAT_REGEX = 128
_IP_BYTES = Size(4, 16)


class Operand(NamedTuple):
    """The target or an argument of a call: `size` is what is known without its path."""

    node: Node
    path: Path
    size: Size | None

    @property
    def type(self) -> Type:
        return self.node.type

    @property
    def known(self) -> Size:
        """The size where the expression itself says it."""
        return self.size or UNKNOWN

    @property
    def declared(self) -> Size:
        """The size where the expression or the declaration of the device says it."""
        return self.size or size_at(self.path) or UNKNOWN


class Estimate(NamedTuple):
    cost: Size
    size: Size | None = None


def _allocating(factor: float, size: Size) -> Estimate:
    return Estimate(size.scaled(factor).plus(_ONE).plus(_LIST), size)


def _number(operand: Operand, default: int) -> int:
    node = operand.node
    if not isinstance(node, Literal) or type(node.value) is not int:
        return default
    return max(0, node.value)


def _text(size: Size) -> Size:
    return size.scaled(_TEXT)


def _of_elements(target: Operand) -> Size | None:
    """The size of the elements of a list, None if the type is no list."""
    if not target.type.params:
        return None
    path = Path([*target.path.names, "@items"])
    return size_at(path) or UNKNOWN


class CallEstimator:
    """Estimates of calls; sizes of entries of lists and maps are kept by the caller."""

    def __init__(
        self,
        set_entries: Callable[[Node, Entries | None], None],
        entries_of: Callable[[Node], Entries | None],
    ) -> None:
        self._set_entries = set_entries
        self._entries_of = entries_of

    def estimate(
        self, node: CallNode, overload: str, target: Operand | None, args: list[Operand],
        costs: list[Size],
    ) -> Estimate:  # fmt: skip
        total = Size(0, 0)
        for cost in costs:
            total = total.plus(cost)
        found = _by_list_overload(overload, target, args)
        if found is None:
            found = _by_function(node.function, overload, target, args)
        if found is None and overload in {"logical_and", "logical_or"}:
            return Estimate(Size(costs[0].low, total.high))
        if found is None and overload == "conditional":
            return self._conditional(node, args, costs)
        if found is None:
            found = self._by_overload(node, overload, target, args)
        return Estimate(found.cost.plus(total), found.size)

    def _conditional(self, node: CallNode, args: list[Operand], costs: list[Size]) -> Estimate:
        first, second = (self._entries_of(arg.node) for arg in args[1:])
        self._set_entries(node, None if first is None else first.union(second))
        size = args[1].known.union(args[2].known)
        return Estimate(costs[0].plus(costs[1].union(costs[2])), size)

    def _by_overload(
        self, node: CallNode, overload: str, target: Operand | None, args: list[Operand]
    ) -> Estimate:
        if overload in {"add_string", "add_bytes", "add_list"}:
            size = args[0].known.plus(args[1].known)
            first, second = (self._entries_of(arg.node) for arg in args)
            self._set_entries(node, None if first is None else first.union(second))
            return Estimate(_ONE if overload == "add_list" else _text(size), size)
        if overload in _SHORTER:
            high = min(args[0].known.high, args[1].known.high)
            return Estimate(_text(Size(1 if high > 0 else 0, high)))
        return _simple(overload, target, args)


_SHORTER = frozenset({"equals", "not_equals"}) | {
    f"{name}_{kind}"
    for name in ("less", "greater", "less_equals", "greater_equals")
    for kind in ("string", "bytes")
}


def _simple(overload: str, target: Operand | None, args: list[Operand]) -> Estimate:
    if target is not None:
        if overload == "string_format":
            return Estimate(_text(target.known))
        if overload in {"starts_with_string", "ends_with_string"}:
            return Estimate(_text(args[0].known))
        if overload == "matches_string":
            return Estimate(_text(target.known.plus(_ONE)).times(args[0].known.scaled(_REGEX)))
        if overload == "contains_string":
            return Estimate(_text(target.known).times(_text(args[0].known)))
    elif overload == "in_list":
        return Estimate(args[1].known)
    elif overload in {"string_to_bytes", "bytes_to_string", "strings_quote"}:
        size = args[0].known
        grown = {
            "string_to_bytes": Size(size.low, size.high * 4 & MAX),
            "bytes_to_string": Size(size.low // 4, size.high),
            "strings_quote": Size(size.low + 2 & MAX, size.high * 2 + 2 & MAX),
        }
        return Estimate(_text(size), grown[overload])
    return Estimate(_ONE)


def _by_list_overload(
    overload: str, target: Operand | None, args: list[Operand]
) -> Estimate | None:
    """Functions of the libraries of lists and sets, whose costs are declared by overload."""
    if overload.startswith("list_sets_"):
        size = args[0].declared.times(args[1].declared)
        size = size.scaled(2 if overload == "list_sets_equivalent_list" else 1)
        return Estimate(size.plus(_ONE))
    if overload == "lists_range":
        count = _number(args[0], MAX)
        return _allocating(1, Size(count, count))
    if target is None:
        return None
    if overload == "list_slice":
        length = (_number(args[1], target.declared.high) - _number(args[0], 0)) & MAX
        return _allocating(1, Size(length, length))
    if overload == "list_reverse":
        return _allocating(1, target.declared)
    if overload in {"list_flatten", "list_flatten_int"}:
        return _allocating(float(_number(args[0], MAX) if args else 1), target.declared)
    if overload == "list_distinct":
        return _allocating(2.0, target.declared.times(target.declared))
    if overload.endswith(("_sort", "_sortByAssociatedKeys")) and overload.startswith("list_"):
        compared = args[0] if args else target
        texts = overload.startswith(("list_string_", "list_bytes_"))
        factor = 2.0 + _TEXT if texts else 2.0
        return _allocating(factor, compared.declared.times(compared.declared))
    return None


def _by_function(
    function: str, overload: str, target: Operand | None, args: list[Operand]
) -> Estimate | None:
    """Functions whose costs Kubernetes declares by name, whatever they are called on."""
    if function in _UNITS:
        return Estimate(_ONE)
    if function == "check":
        return Estimate(Size(350_000, 350_000))
    if function == "_==_":
        return _equality(args)
    if function in {"fieldSelector", "labelSelector"} and len(args) == 1:
        size = args[0].declared
        requirements = size.scaled(0.5).scaled(50)
        return Estimate(_LIST.plus(_text(size)).plus(requirements))
    if function in _READS_ARGUMENT and args:
        if function == "ip" and overload == "cidr_ip":
            return Estimate(_ONE)
        size = args[0].declared
        factor = 2 * _TEXT if function == "ip.isCanonical" else _TEXT
        return Estimate(size.scaled(factor), size if function == "url" else None)
    if function == "ip":
        return Estimate(_ONE) if overload == "cidr_ip" else None
    if function in {"containsIP", "containsCIDR"}:
        return _containment(function, overload, args)
    if function == "validate":
        return Estimate(_text(args[0].declared).scaled(_FORMAT_REGEX * _REGEX))
    return None if target is None else _of_target(function, target, args)


_READS_ARGUMENT = frozenset(
    {
        "url", "cidr", "isIP", "isCIDR", "ip", "ip.isCanonical", "quantity", "isQuantity",
        "semver", "isSemver",
    }
)  # fmt: skip
_UNITS = frozenset(
    {
        "serviceAccount", "path", "group", "resource", "subresource", "namespace", "name",
        "allowed", "reason", "error", "errored", "masked", "prefixLength", "family",
        "isUnspecified", "isLoopback", "isLinkLocalMulticast", "isLinkLocalUnicast",
        "isGlobalUnicast", "format.named", "sign", "asInteger", "isInteger",
        "asApproximateFloat", "isGreaterThan", "isLessThan", "compareTo", "add", "sub", "major",
        "minor", "patch", "getScheme", "getHostname", "getHost", "getPort", "getEscapedPath",
        "getQuery",
    }
)  # fmt: skip


def _of_target(function: str, target: Operand, args: list[Operand]) -> Estimate | None:
    if function in {"isSorted", "sum", "max", "min", "indexOf", "lastIndexOf"}:
        return _traversed(target)
    size = target.declared
    if function in {"lowerAscii", "upperAscii", "substring", "trim"}:
        return Estimate(_text(size), size)
    if function == "replace" and len(args) >= 2:
        return Estimate(size.scaled(2 * _TEXT), _replaced(size, args))
    if function == "split":
        limit = args[1].node if len(args) > 1 else None
        high = size.high
        if isinstance(limit, Literal) and type(limit.value) is int:
            high = limit.value & MAX
        return Estimate(size.scaled(2 * _TEXT), Size(0, high))
    if function == "join":
        joined = _joined(size, target, args)
        return Estimate(_text(joined), joined)
    if function in {"find", "findAll"} and args:
        pattern = args[0].declared.scaled(_REGEX)
        return Estimate(_text(size.plus(_ONE)).times(pattern), Size(0, size.high))
    return None


def _traversed(target: Operand) -> Estimate:
    element = _of_elements(target)
    size = target.declared
    if element is None:
        return Estimate(_text(size))
    each = _ONE
    if target.type.params[0].kind in {"string", "bytes"}:
        each = each.plus(_text(element))
    return Estimate(size.times(each))


def _joined(size: Size, target: Operand, args: list[Operand]) -> Size:
    element = _of_elements(target)
    joined = Size(0, 0) if element is None else size.times(element)
    if args:
        separators = Size(max(0, size.low - 1), max(0, size.high - 1))
        joined = joined.plus(args[0].declared.times(separators))
    return joined


def _replaced(size: Size, args: list[Operand]) -> Size:
    """How long a text may be after a replacement."""
    old, new = args[0].declared, args[1].declared
    count_low = count_high = kept_low = kept_high = 0
    if old.low == 0:
        count_high = min(MAX, size.high + 1)
        kept_high = size.high
    elif new.high <= old.low:
        kept_high = size.high
    else:
        count_high = _divided(size.high, old.low)
    if old.high == 0:
        count_low = min(MAX, size.low + 1)
        kept_low = size.low
    elif old.high <= new.low:
        kept_low = size.low
    else:
        count_low = _divided(size.low, old.high)
    return Size(count_low, count_high).times(new).plus(Size(kept_low, kept_high))


def _divided(a: int, b: int) -> int:
    return min(MAX, -int(-(float(a) / float(b)) // 1))


def _containment(function: str, overload: str, args: list[Operand]) -> Estimate | None:
    if not args:
        return None
    cost = _text(_IP_BYTES.plus(_IP_BYTES))
    if function == "containsCIDR":
        cost = cost.plus(_text(_IP_BYTES)).plus(_ONE)
    if overload in {"cidr_contains_ip_string", "cidr_contains_cidr_string"}:
        cost = cost.plus(_text(args[0].declared))
    return Estimate(cost)


def _equality(args: list[Operand]) -> Estimate | None:
    t = args[0].type
    if t.name != args[1].type.name:
        return None
    if t in {IP, CIDR, QUANTITY, SEMVER}:
        return Estimate(_ONE)
    if t == NAMED_FORMAT:
        return Estimate(_text(Size(1, _LONGEST_FORMAT)))
    if t == URL:
        size = args[1].size or _ONE
        return Estimate(_text(Size(1, size.high)))
    return None
