"""What tables show of a message."""

from __future__ import annotations

import pytest

from scheduler.explaining.reasons import informative, reasons_of

REJECTIONS = "1 node(s) had untolerated taint(s), 2 Insufficient cpu"


@pytest.mark.parametrize(
    ("message", "shown"),
    [
        (f"0/3 nodes are available: {REJECTIONS}.", REJECTIONS),
        (
            f"0/3 nodes are available: {REJECTIONS}. no new claims to deallocate, preemption: "
            "0/3 nodes are available: 3 Preemption is not helpful for scheduling.",
            REJECTIONS,
        ),
        (f"0/3 nodes are available: {REJECTIONS}. preemption: not eligible.", REJECTIONS),
        ("0/0 nodes are available: no nodes available.", "no nodes available"),
        (
            "pod group g: 1 of 2 members can be placed.",
            "pod group g: 1 of 2 members can be placed.",
        ),
        ("", ""),
    ],
)
def test_the_rejections_are_the_informative_part(message: str, shown: str) -> None:
    assert informative(message) == shown


def test_reasons_are_told_without_the_number_of_nodes() -> None:
    taint = "node(s) had untolerated taint(s) {a: 1, b: 2}"
    message = f"0/3 nodes are available: 1 {taint}, 2 Insufficient cpu. preemption: 1 not helpful."
    assert reasons_of(message) == [taint, "Insufficient cpu"]
    gang = f"pod group default/g: 0 of 4 members can be placed; default/a: {message}"
    assert reasons_of(gang) == reasons_of(message)
    assert reasons_of("waiting for scheduling gates") == ["waiting for scheduling gates"]
