"""Devices for selectors, and what selectors say of them."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import msgspec

from scheduler.cel import CelCompileError, CelDevice, CelRuntimeError, compile_selector
from scheduler.cel.checker import check
from scheduler.cel.compiler import Compiler
from scheduler.cel.errors import Aborted
from scheduler.cel.parser import parse
from scheduler.cel.state import State
from scheduler.model.devices import DeviceAttribute, DeviceCapacity

GPU: dict[str, Any] = {
    "driver": "gpu.example.com",
    "attributes": {
        "model": {"string": "A100"},
        "cores": {"int": 64},
        "ecc": {"bool": True},
        "fw": {"version": "1.2.3"},
        "topology.example.org/rack": {"string": "r1"},
    },
    "capacity": {"memory": {"value": "40Gi"}, "vendor.example.net/power": {"value": "350500m"}},
}


def device(case: dict[str, Any]) -> CelDevice:
    return CelDevice(
        case["driver"],
        msgspec.convert(case.get("attributes", {}), dict[str, DeviceAttribute]),
        msgspec.convert(case.get("capacity", {}), dict[str, DeviceCapacity]),
        bool(case.get("allowMultipleAllocations")),
    )


def outcome(expression: str, case: dict[str, Any] = GPU) -> bool | str:
    """What an expression gives for a device: true, false, or the text of the error."""
    try:
        return compile_selector(expression).evaluate(device(case))
    except CelRuntimeError as error:
        return str(error)


def refusal(expression: str) -> str | None:
    """The first line of why an expression does not compile, if it does not."""
    try:
        compile_selector(expression)
    except CelCompileError as error:
        return str(error).split("\n", maxsplit=1)[0]
    return None


def costs(expression: str, *cases: dict[str, Any]) -> list[int]:
    """What the evaluation of an expression for each device costs, whatever its outcome is."""
    parsed = parse(expression)
    check(parsed)
    compiler = Compiler(counted=True)
    closure = compiler.compile(parsed.root)
    found = []
    for case in cases or (GPU,):
        state = State(device(case).bindings(), compiler.slots)
        with suppress(CelRuntimeError, Aborted):
            closure(state)
        found.append(state.cost)
    return found
