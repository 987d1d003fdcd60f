"""Selectors of devices: compiled once, evaluated for each shape of device."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

from scheduler.bounded import MEBIBYTE, Recent, Usage
from scheduler.cel.checker import check, demand_bool
from scheduler.cel.compiler import Compiler
from scheduler.cel.errors import Aborted, CelCompileError, CelRuntimeError
from scheduler.cel.estimate import estimate
from scheduler.cel.kubernetes import quantity_of, semver_of
from scheduler.cel.limits import COST_LIMIT, METER
from scheduler.cel.parser import parse
from scheduler.cel.reads import Reads, reads_of
from scheduler.cel.recursion import room_for
from scheduler.cel.regex import patterns_usage
from scheduler.cel.state import Closure, DeviceBindings, Domains, State
from scheduler.cel.validation import validate
from scheduler.cel.values import DomainMap, TextMap, Value, type_name
from scheduler.model.devices import DeviceAttribute, DeviceCapacity

COUNTED_FROM = 10_000
"""Above this estimate the cost is counted: a hundredth of what is allowed."""

_FRAMES = 6
"""Python's calls for each level of an expression, at most."""
_SHALLOW = 40
_CACHED_BYTES = 32 * MEBIBYTE
_BYTES_PER_CHARACTER = 128
"""What closures take for each character of an expression, at most."""


class CelDevice:
    """What selectors see of a device. Bare names belong to the domain of its driver."""

    __slots__ = ("_attributes", "_bindings", "_capacity", "_driver", "_failure", "_shared")

    def __init__(
        self,
        driver: str,
        attributes: Mapping[str, DeviceAttribute],
        capacity: Mapping[str, DeviceCapacity],
        allow_multiple_allocations: bool = False,
    ) -> None:
        self._driver = driver
        self._attributes = attributes
        self._capacity = capacity
        self._shared = allow_multiple_allocations
        self._bindings: DeviceBindings | None = None
        self._failure: str | None = None

    @property
    def failure(self) -> str | None:
        """Why every selector fails for this device: it has a value that cannot be read."""
        with suppress(CelRuntimeError):
            self.bindings()
        return self._failure

    def bindings(self) -> DeviceBindings:
        """The values, read when first asked for. Raises `CelRuntimeError`."""
        if self._bindings is None:
            if self._failure is None:
                try:
                    self._bindings = self._read()
                    return self._bindings
                except CelRuntimeError as error:
                    self._failure = str(error)
            raise CelRuntimeError(self._failure)
        return self._bindings

    def _read(self) -> DeviceBindings:
        attributes: Domains = {}
        for qualified, attribute in self._attributes.items():
            domain, name = self._split(qualified)
            try:
                value = _value(attribute)
            except CelRuntimeError as error:
                raise CelRuntimeError(f"attribute {qualified}: {error}") from None
            attributes.setdefault(domain, {})[name] = value
        capacity: Domains = {}
        for qualified, entry in self._capacity.items():
            domain, name = self._split(qualified)
            capacity.setdefault(domain, {})[name] = quantity_of(str(entry.value))
        device = TextMap.of(
            {
                "driver": self._driver,
                "allowMultipleAllocations": self._shared,
                "attributes": _by_domain(attributes),
                "capacity": _by_domain(capacity),
            }
        )
        return DeviceBindings(self._driver, attributes, capacity, device, self._shared)

    def _split(self, qualified: str) -> tuple[str, str]:
        domain, slash, name = qualified.partition("/")
        return (domain, name) if slash else (self._driver, qualified)


def _by_domain(domains: Domains) -> DomainMap:
    return DomainMap({domain: (domain, TextMap.of(values)) for domain, values in domains.items()})


def _value(attribute: DeviceAttribute) -> Value:
    if attribute.int_ is not None:
        return attribute.int_
    if attribute.bool_ is not None:
        return attribute.bool_
    if attribute.string is not None:
        return attribute.string
    if attribute.version is None:
        raise CelRuntimeError("unsupported attribute value")
    try:
        return semver_of(attribute.version)
    except CelRuntimeError as error:
        raise CelRuntimeError(f"parse semantic version: {error}") from None


class CelSelector:
    """A compiled expression; see `compile_selector`."""

    __slots__ = (
        "_closure",
        "_counted",
        "_depth",
        "_slots",
        "estimated_cost",
        "expression",
        "reads",
        "size",
    )

    def __init__(self, text: str) -> None:
        self.expression = text
        parsed = parse(text)
        self._depth = parsed.depth
        with room_for(parsed.depth * _FRAMES):
            result = check(parsed)
            validate(parsed)
            demand_bool(result)
            self.estimated_cost = estimate(parsed.root)
            self._counted = self.estimated_cost > COUNTED_FROM
            compiler = Compiler(self._counted)
            self._closure: Closure = compiler.compile(parsed.root)
            self._slots = compiler.slots
            self.size = 4096 + len(text) * _BYTES_PER_CHARACTER + compiler.pattern_bytes
            self.reads: Reads | None = reads_of(parsed.root)

    @property
    def too_complex(self) -> bool:
        """Whether the API server refuses the expression for what it may cost."""
        return self.estimated_cost > COST_LIMIT

    def evaluate(self, device: CelDevice) -> bool:
        """Whether a device matches. Raises `CelRuntimeError`, and nothing else."""
        state = State(device.bindings(), self._slots)
        METER.start()
        try:
            if self._depth <= _SHALLOW:
                result = self._closure(state)
            else:
                with room_for(self._depth * _FRAMES):
                    result = self._closure(state)
        except Aborted as error:
            raise CelRuntimeError(str(error)) from None
        except RecursionError:
            raise CelRuntimeError("values nest too deeply") from None
        except MemoryError:
            raise CelRuntimeError("values are too large") from None
        if type(result) is not bool:
            raise _not_bool(result)
        return result

    def __repr__(self) -> str:
        return f"Selector({self.expression!r})"


def _not_bool(result: Value) -> CelRuntimeError:
    kind = type_name(result)
    shown = {
        "string": "unsupported native conversion from string to 'bool'",
        "int": "unsupported type conversion from 'int' to bool",
    }
    cause = f"type conversion error from '{kind.removeprefix('kubernetes.')}' to 'bool'"
    return CelRuntimeError(
        f"CEL result of type {kind} could not be converted to bool: {shown.get(kind, cause)}"
    )


def _size(expression: str, selector: CelSelector | str) -> int:
    held = selector.size if isinstance(selector, CelSelector) else len(selector)
    return len(expression) + held


_selectors: Recent[str, CelSelector | str] = Recent(_CACHED_BYTES, _size)


def selectors_usage() -> dict[str, Usage]:
    """How much is kept of selectors, and of the patterns in them."""
    return {"device_selectors": _selectors.usage(), "device_patterns": patterns_usage()}


def compile_selector(expression: str) -> CelSelector:
    """The selector of an expression, kept for the next time. Raises `CelCompileError`."""
    found = _selectors.find(expression)
    if found is None:
        found = _compiled(expression)
        _selectors.put(expression, found)
    if isinstance(found, str):
        raise CelCompileError(found)
    return found


def _compiled(expression: str) -> CelSelector | str:
    """The selector, or why there is none."""
    try:
        return CelSelector(expression)
    except CelCompileError as error:
        return str(error)
    except RecursionError:
        return "expression nests too deeply"
