"""How much of a shared device a request takes: asked for, defaulted, rounded, or refused.

Amounts are exact integers (nano units). What is stored in a claim keeps the text it came from; only
what a step rounds is written anew.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from scheduler.model.devices import (
    CapacityRange,
    CapacityRequestPolicy,
    DeviceCapacity,
    QuantityList,
)
from scheduler.model.meta import RawQuantity
from scheduler.model.quantity import Quantity, QuantityError, parse

_BINARY = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")


class Amount(NamedTuple):
    """An amount and its text, as results show it."""

    nanos: int
    text: str


class _Read(NamedTuple):
    quantity: Quantity
    amount: Amount


def _read(raw: RawQuantity) -> _Read:
    quantity = parse(raw)
    return _Read(quantity, Amount(quantity.nanos, str(raw)))


def amount_of(raw: RawQuantity) -> Amount:
    """A quantity, exactly. Raises `QuantityError`."""
    return _read(raw).amount


@dataclass(frozen=True, slots=True)
class Policy:
    """Which amounts of one capacity may be taken."""

    default: _Read | None
    values: tuple[_Read, ...]
    in_range: bool
    least: _Read | None
    most: _Read | None
    step: _Read | None

    def rounded(self, asked: _Read) -> _Read:
        """What is taken for an amount that was asked for."""
        if self.least is not None:
            return self._within_range(asked, self.least)
        for value in self.values:
            if asked.amount.nanos <= value.amount.nanos:
                return value
        return asked

    def _within_range(self, asked: _Read, least: _Read) -> _Read:
        if asked.amount.nanos < least.amount.nanos:
            return least
        if self.step is None:
            return asked
        step, floor = self.step.quantity.value(), least.quantity.value()
        if step <= 0:
            return asked
        steps = -(-(asked.quantity.value() - floor) // step)
        return _read(binary_text(floor + step * steps))

    def allows(self, taken: _Read) -> bool:
        """Whether an amount may be taken, once rounded."""
        if self.default is not None and taken.amount.nanos == self.default.amount.nanos:
            return True
        if self.in_range:
            return self._in_range(taken)
        nanos = taken.amount.nanos
        return not self.values or any(nanos == value.amount.nanos for value in self.values)

    def _in_range(self, taken: _Read) -> bool:
        if self.most is not None and taken.amount.nanos > self.most.amount.nanos:
            return False
        if self.step is None:
            return True
        step = self.step.quantity.value()
        floor = 0 if self.least is None else self.least.quantity.value()
        return step > 0 and (taken.quantity.value() - floor) % step == 0


@dataclass(frozen=True, slots=True)
class Capacity:
    """One capacity of a device: how much there is, and what may be asked of it."""

    value: _Read
    policy: Policy | None

    @property
    def nanos(self) -> int:
        """The whole of it."""
        return self.value.amount.nanos

    def taken(self, asked: _Read | None) -> Amount | None:
        """What a request takes of it; None if it may not."""
        if asked is None:
            default = None if self.policy is None else self.policy.default
            read = self.value if default is None else default
        else:
            read = asked if self.policy is None else self.policy.rounded(asked)
        return None if self.policy is not None and not self.policy.allows(read) else read.amount


def compile_capacity(raw: DeviceCapacity) -> Capacity:
    """A capacity as published. Raises `QuantityError` that names the field."""
    policy = raw.request_policy
    return Capacity(_named(raw.value, "value"), None if policy is None else _policy(policy))


def _policy(raw: CapacityRequestPolicy) -> Policy:
    bounds = raw.valid_range or CapacityRange()
    return Policy(
        default=_optional(raw.default, "requestPolicy.default"),
        values=tuple(_named(each, "requestPolicy.validValues") for each in raw.valid_values),
        in_range=raw.valid_range is not None,
        least=_optional(bounds.min, "requestPolicy.validRange.min"),
        most=_optional(bounds.max, "requestPolicy.validRange.max"),
        step=_optional(bounds.step, "requestPolicy.validRange.step"),
    )


def _optional(raw: RawQuantity | None, field: str) -> _Read | None:
    return None if raw is None else _named(raw, field)


def _named(raw: RawQuantity, field: str) -> _Read:
    try:
        return _read(raw)
    except QuantityError as fault:
        raise QuantityError(f"{field}: {fault}") from None


Asked = Mapping[str, _Read]
"""Amounts that a request asks for, by name of the capacity."""


def compile_asked(raw: QuantityList) -> dict[str, _Read]:
    """The amounts of a request. Raises `QuantityError` that names the capacity."""
    return {name: _named(value, name) for name, value in raw.items()}


def taken_of(capacities: Mapping[str, Capacity], asked: Asked) -> dict[str, Amount] | None:
    """What a request takes of each capacity of a device; None if the device cannot serve it.

    A request that names a capacity which the device lacks, an amount that the policy refuses, or
    one above what the whole device has: no state of the device makes these possible.
    """
    if any(name not in capacities for name in asked):
        return None
    result = {}
    for name, capacity in capacities.items():
        amount = capacity.taken(asked.get(name))
        if amount is None or amount.nanos > capacity.nanos:
            return None
        result[name] = amount
    return result


def binary_text(value: int) -> str:
    """An integer as the API machinery writes it in binary format."""
    if abs(value) < 1024:
        return f"{value // 1000}k" if value and value % 1000 == 0 else str(value)
    unit = 0
    while value % 1024 == 0 and unit < len(_BINARY) - 1:
        value, unit = value // 1024, unit + 1
    return f"{value}{_BINARY[unit]}"
