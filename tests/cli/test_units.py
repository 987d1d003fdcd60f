"""Amounts and spans as people write them."""

from __future__ import annotations

import pytest

from scheduler.cli import units


@pytest.mark.parametrize(
    ("milli", "text"),
    [(0, "0"), (250, "250m"), (999, "999m"), (1000, "1"), (1500, "1.5"), (1234, "1.234")],
)
def test_cpu(milli: int, text: str) -> None:
    assert units.cpu(milli) == text


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0"),
        (1023, "1023"),
        (1024, "1Ki"),
        (3 << 29, "1.5Gi"),
        ((1 << 30) - 1, "1Gi"),
        (16 << 30, "16Gi"),
        (1 << 73, "8192Ei"),
    ],
)
def test_memory(count: int, text: str) -> None:
    assert units.memory(count) == text


@pytest.mark.parametrize(
    ("resource", "count", "text"),
    [
        ("cpu", 500, "500m"),
        ("ephemeral-storage", 2048, "2Ki"),
        ("hugepages-2Mi", 4 << 20, "4Mi"),
        ("example.com/gpu", 2048, "2048"),
    ],
)
def test_each_resource_has_its_unit(resource: str, count: int, text: str) -> None:
    assert units.amount(resource, count) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-1, "0s"),
        (0.9, "0s"),
        (59, "59s"),
        (60, "1m"),
        (312, "5m12s"),
        (3605, "1h"),
        (7530, "2h5m"),
        (270000, "3d3h"),
    ],
)
def test_spans_have_their_two_largest_units(seconds: float, text: str) -> None:
    assert units.span(seconds) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.00042, "0.4ms"), (0.0123, "12ms"), (0.999, "999ms"), (1.26, "1.3s")]
)
def test_durations(seconds: float, text: str) -> None:
    assert units.duration(seconds) == text
