"""The variable `device`, and what is read of it."""

from __future__ import annotations

import msgspec
import pytest

from scheduler.cel import CelCompileError, CelDevice, CelRuntimeError, compile_selector
from scheduler.model.devices import DeviceAttribute, DeviceCapacity
from tests.cel.devices import GPU, device, outcome


@pytest.mark.parametrize(
    "expression",
    [
        "device.driver == 'gpu.example.com' && !device.allowMultipleAllocations",
        "device.attributes['gpu.example.com'].model == 'A100'",
        "device.attributes['gpu.example.com']['cores'] == 64",
        "device.attributes['gpu.example.com'].ecc",
        "device.attributes['topology.example.org'].rack == 'r1'",
        "device.attributes['gpu.example.com'].fw == semver('1.2.3+build')",
        "device.capacity['gpu.example.com'].memory == quantity('40Gi')",
        "device.capacity['vendor.example.net'].power.compareTo(quantity('350.5')) == 0",
        # A domain that the device does not have is an empty map, but is not there.
        "has(device.attributes.anything) && device.attributes[?'none'].hasValue()",
        "device.attributes['none'] == {} && device.capacity['none'] == {}",
        "!('none' in device.attributes) && size(device.attributes) == 2",
        "!has(device.attributes['none'].x) && !has(device.attributes['gpu.example.com'].x)",
        "!has(device.attributes['gpu.example.com'].model.x)",
        "device.attributes['gpu.example.com'].?none.orValue(true)",
        "device.attributes.exists(d, v, d == 'topology.example.org' && v.rack == 'r1')",
        "device.attributes.all(d, d.endsWith('.com') || d.endsWith('.org'))",
        # Kubernetes' own types compare with their like only.
        "device.attributes['gpu.example.com'].fw != '1.2.3'",
        "!('1.2.3' == device.attributes['gpu.example.com'].fw)",
    ],
)
def test_true(expression: str) -> None:
    assert outcome(expression) is True


@pytest.mark.parametrize(
    ("expression", "text"),
    [
        ("device.attributes['gpu.example.com'].none == 1", "no such key: none"),
        ("device.attributes['none'].x", "no such key: x"),
        ("device.attributes['gpu.example.com'].fw == '1.2.3'", "no such overload"),
        (
            "device.attributes['gpu.example.com'].cores",
            "CEL result of type int could not be converted to bool: "
            "unsupported type conversion from 'int' to bool",
        ),
        (
            "quantity('1') == device.capacity['gpu.example.com'].memory.add(1)",
            "no such overload",
        ),
    ],
)
def test_errors(expression: str, text: str) -> None:
    assert outcome(expression) == text


def test_sums_of_quantities_equal_as_the_left_operand() -> None:
    assert outcome("device.capacity['gpu.example.com'].memory.sub(1) != quantity('40Gi')") is True
    assert outcome("quantity('1').add(1) == quantity('2')") is True


@pytest.mark.parametrize(
    ("attribute", "text"),
    [
        ({"version": "1.2"}, "parse semantic version: No Major.Minor.Patch elements found"),
        ({}, "unsupported attribute value"),
    ],
)
def test_a_device_with_an_unreadable_attribute_fails_for_every_selector(
    attribute: dict[str, str], text: str
) -> None:
    broken = device({**GPU, "attributes": {"bad": attribute}})
    assert broken.failure == f"attribute bad: {text}"
    for _ in range(2):
        with pytest.raises(CelRuntimeError) as failed:
            compile_selector("true").evaluate(broken)
        assert str(failed.value) == f"attribute bad: {text}"
    assert device(GPU).failure is None


@pytest.mark.parametrize(
    ("expression", "reads"),
    [
        ("true", set()),
        ("device.driver == 'a'", {("driver", "", "")}),
        (
            "device.allowMultipleAllocations || device.attributes['d'].x",
            {("allowMultipleAllocations", "", ""), ("attribute", "d", "x")},
        ),
        ("has(device.attributes['d'].x)", {("attribute", "d", "x")}),
        ("device.attributes['d']['x'] == 1", {("attribute", "d", "x")}),
        ("device.attributes[?'d'].?x.orValue(true)", {("attribute", "d", "x")}),
        ("device.attributes['d'].?x.optMap(v, v == 1).orValue(true)", {("attribute", "d", "x")}),
        ("'x' in device.attributes['d']", {("attribute", "d", "x")}),
        ("device.capacity['d'].m.isInteger()", {("capacity", "d", "m")}),
        (
            "cel.bind(a, device.attributes['d'], has(a.x) && a.y == 1)",
            {("attribute", "d", "x"), ("attribute", "d", "y")},
        ),
        (
            "cel.bind(a, device.attributes, a['d'].x == a['e'].y)",
            {("attribute", "d", "x"), ("attribute", "e", "y")},
        ),
        ("['a'].exists(n, device.attributes['d'].x == n)", {("attribute", "d", "x")}),
        # What is computed, counted or iterated may be anything.
        ("device.attributes[device.driver].x == 1", None),
        ("size(device.attributes) == 1", None),
        ("device.attributes.exists(d, d == 'a')", None),
        ("device.attributes['d'] == {}", None),
        ("'d' in device.attributes", None),
        ("cel.bind(a, device.attributes['d'], a.exists(n, n == 'x'))", None),
        ("dyn(device) == dyn(device)", None),
    ],
)
def test_what_a_selector_may_read_is_known(
    expression: str, reads: set[tuple[str, str, str]] | None
) -> None:
    assert compile_selector(expression).reads == (None if reads is None else frozenset(reads))


def test_a_variable_hides_the_device() -> None:
    assert compile_selector("[1].exists(device, device == 1)").reads == frozenset()


def test_selectors_are_kept_and_so_are_refusals() -> None:
    assert compile_selector("1 == 1") is compile_selector("1 == 1")
    for _ in range(2):
        with pytest.raises(CelCompileError):
            compile_selector("1 ==")


def test_values_of_a_device_are_read_once() -> None:
    seen = device(GPU)
    assert seen.bindings() is seen.bindings()


def test_bare_names_belong_to_the_driver() -> None:
    attributes = msgspec.convert({"x": {"int": 1}, "a/x": {"int": 2}}, dict[str, DeviceAttribute])
    capacity = msgspec.convert({"m": {"value": 5}}, dict[str, DeviceCapacity])
    seen = CelDevice("d", attributes, capacity, True)
    whole = "device.attributes == {'d': {'x': 1}, 'a': {'x': 2}}"
    assert compile_selector(whole).evaluate(seen)
    assert compile_selector("device.capacity['d'].m.asInteger() == 5").evaluate(seen)
    assert compile_selector("device.allowMultipleAllocations").evaluate(seen)
