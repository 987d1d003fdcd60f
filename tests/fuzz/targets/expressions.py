"""CEL expressions of device selectors: refused, an error or an answer; the same one each time."""

from __future__ import annotations

from random import Random

from scheduler.cel import CelCompileError, CelRuntimeError, CelSelector
from tests.cel.devices import GPU, device
from tests.fuzz.mutating import mutate_bytes
from tests.fuzz.target import Input

_VALUES = (
    "1", "-1", "2u", "1.5", "'a'", "''", "b'a'", "true", "null", "[]", "[1]", "['a']", "{}",
    "{'a': 1}",
    "device.driver", "device.attributes['gpu.example.com'].model", "dyn(1)", "device.attributes",
    "device.capacity['gpu.example.com'].memory", "device.attributes['gpu.example.com'].none",
    "device",
    "quantity('1')", "quantity('1e99999999')", "semver('1.2.3')", "duration('1h')", "timestamp(0)",
    "optional.of(1)", "optional.none()", "ip('::1')", "cidr('10.0.0.0/8')", "url('/a')", "int",
    "lists.range(3)", "lists.range(100000)", "9223372036854775807", "'\\ud7ff'", "format.uuid()",
    "duration('-9223372036s')", "timestamp('9999-12-31T23:59:59Z')", "1e308", "0x10", "'x'*3",
)  # fmt: skip
_METHODS = (
    "size", "startsWith", "contains", "matches", "split", "join", "indexOf", "sort", "distinct",
    "flatten",
    "sum", "min", "add", "sub", "compareTo", "isGreaterThan", "major", "value", "orValue", "or",
    "first",
    "format", "replace", "substring", "charAt", "find", "findAll", "getHours", "getDayOfYear",
    "containsIP",
    "getHost", "validate", "slice", "reverse", "lastIndexOf", "trim", "family", "asInteger",
    "hasValue",
    "lowerAscii", "isSorted", "asApproximateFloat", "indexOf", "getMilliseconds", "masked",
    "prefixLength",
)  # fmt: skip
_FUNCTIONS = (
    "int", "uint", "double", "string", "bytes", "bool", "duration", "timestamp", "type", "dyn",
    "size",
    "quantity", "semver", "ip", "cidr", "url", "sign", "isIP", "lists.range", "sets.contains",
    "optional.of", "strings.quote", "format.named", "isQuantity", "isSemver", "math.greatest",
)  # fmt: skip
_OPERATORS = ("==", "!=", "<", ">=", "+", "-", "*", "/", "%", "in", "&&", "||")
_PIECES = (b"(", b")", b"[", b"]", b"{", b"}", b"'", b'"', b"\\", b"?", b":", b".?", b"r'",
b"\"\"\"",
           b"//", b"\\u{110000}", b"\\400", b"\0", b"(" * 300, b"!" * 400, b"-" * 400, b"[" * 300,
           b"a." * 300, b"1+" * 2000)  # fmt: skip


class Expressions:
    """Compiles and evaluates one expression, twice."""

    name = "expressions"
    what = "CEL expressions: refused, an error or an answer, and the same one again"
    share = 50

    def __init__(self) -> None:
        self._device = device(GPU)

    def draw(self, rng: Random) -> Input:
        """An expression, or one with pieces of it changed."""
        text = _expression(rng, rng.randint(0, 4))
        if rng.random() < 0.3:
            return mutate_bytes(rng, text.encode(), _PIECES).decode("latin-1")
        return text if rng.random() < 0.3 else f"dyn({text}) == true"

    def check(self, given: Input) -> list[str]:
        """No other exception than those of the package, and the same answer twice."""
        first, second = self._outcome(given), self._outcome(given)
        if first != second:
            return [f"an expression is answered {first!r}, then {second!r}"]
        if not isinstance(first, bool | str):
            return [f"a selector answers {first!r}"]
        return []

    def _outcome(self, text: str) -> object:
        try:
            return CelSelector(text).evaluate(self._device)
        except CelCompileError as fault:
            return f"refused: {fault}"
        except CelRuntimeError as fault:
            return f"error: {fault}"

    def close(self) -> None:
        """Nothing is held."""


def _expression(rng: Random, depth: int) -> str:
    if depth == 0:
        return rng.choice(_VALUES)
    one = _expression(rng, depth - 1)
    two = _expression(rng, rng.randrange(depth))
    args = ", ".join(
        _expression(rng, rng.randrange(depth)) for _ in range(rng.choice((0, 1, 1, 2)))
    )
    match rng.randrange(10):
        case 0 | 1:
            return f"({one} {rng.choice(_OPERATORS)} {two})"
        case 2 | 3:
            return f"{one}.{rng.choice(_METHODS)}({args})"
        case 4:
            return f"{rng.choice(_FUNCTIONS)}({args})"
        case 5:
            return f"{one}[{two}]"
        case 6:
            return f"{one}.{rng.choice(('exists', 'all', 'exists_one', 'map', 'filter'))}(x, {two})"
        case 7:
            return f"({one} ? {two} : {one})"
        case 8:
            return rng.choice((f"dyn({one})", f"has({one}.a)", f"!{one}", f"-{one}"))
        case _:
            return rng.choice(
                (f"[{one}, {two}]", f"{{{one}: {two}}}", f"cel.bind(x, {one}, x == {two})")
            )
