"""What nobody should write: a message for the pod that meets it, and no harm to others."""

from __future__ import annotations

from itertools import permutations
from typing import Any

import pytest

from scheduler.devices import INVALID_POOLS, NOTHING_FITS, DeviceError
from scheduler.model.devices import ResourceClaim
from scheduler.model.nodes import Node
from scheduler.model.objects import from_dict
from tests.devices.support import (
    ask,
    claim,
    device,
    hold,
    index_of,
    names,
    outcome,
    slice_of,
)

BROKEN = {
    "a capacity that is no quantity": [device("d", capacity={"memory": {"value": "lots"}})],
    "a policy that is no quantity": [
        device("d", capacity={"memory": {"value": "1", "requestPolicy": {"default": "some"}}})
    ],
    "a counter that is no quantity": [
        device("d", consumesCounters=[{"counterSet": "s", "counters": {"u": {"value": "?"}}}])
    ],
    "a counter that does not exist": [
        device("d", consumesCounters=[{"counterSet": "s", "counters": {"u": {"value": "1"}}}])
    ],
    "the same name twice": [device("d"), device("d")],
}


@pytest.mark.parametrize("devices", BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_slice_makes_its_pool_invalid_and_no_other(devices: list[dict[str, Any]]) -> None:
    index = index_of("n0", "n1")
    index.set_slice(None, slice_of("n0", devices))
    index.set_slice(None, slice_of("n1", [device("good")]))
    assert index.reason(outcome(index, claim()), [claim()], 0) == INVALID_POOLS
    assert index.inventory.segment(0).views[0].reason
    assert names(index, claim(), row=1) == ["good"]
    with pytest.raises(DeviceError, match="n0 is currently invalid"):
        index.allocate([claim(ask(allocationMode="All"))], 0)


@pytest.mark.parametrize(
    ("wanted", "text"),
    [
        (claim(ask(count=10**18)), "number of requested devices 1000000000000000000 exceeds"),
        (claim(ask(count=-1)), "request r: count -1 is less than 1"),
        (claim(ask(allocationMode="Most")), "unsupported count mode Most"),
        (claim(ask(expression="device.")), "claim default/c: selector #0: CEL compile error"),
        (claim(ask(expression="1 + ")), "claim default/c: selector #0: CEL compile error"),
        (claim(ask(deviceClassName="none")), "could not retrieve device class none"),
        (claim(ask(capacity={"requests": {"memory": "much"}})), "capacity memory: 'much'"),
        (claim(ask(), constraints=[{}]), "constraint #0: empty constraint"),
    ],
)
def test_a_claim_that_cannot_be_understood_fails_with_a_text(
    wanted: ResourceClaim, text: str
) -> None:
    index = index_of()
    index.set_slice(None, slice_of("n0", [device("d")]))
    with pytest.raises(DeviceError) as raised:
        index.allocate([wanted], 0)
    assert str(raised.value).startswith("claim default/c")
    assert text in str(raised.value)
    assert names(index, claim()) == ["d"]


def test_a_count_of_zero_asks_for_one() -> None:
    index = index_of()
    index.set_slice(None, slice_of("n0", [device("d")]))
    assert names(index, claim(ask(count=0))) == ["d"]


def test_a_share_whose_amounts_cannot_be_read_takes_the_whole_device() -> None:
    index = index_of()
    shared = device("d", allowMultipleAllocations=True, capacity={"m": {"value": "4"}})
    index.set_slice(None, slice_of("n0", [shared]))
    wanted = claim(ask(capacity={"requests": {"m": "1"}}))
    hold(index, "c1", "n0", "d", shareID="1", consumedCapacity={"m": "1"})
    assert outcome(index, wanted).fits
    hold(index, "c2", "n0", "d", shareID="2", consumedCapacity={"m": "?"})
    assert index.reason(outcome(index, wanted), [wanted], 0) == NOTHING_FITS
    index.set_claim("c2", None)
    assert outcome(index, wanted).fits


def test_a_value_of_an_unknown_type_concerns_its_own_device_only() -> None:
    index = index_of("n0", "n1", "n2")
    for row, value in enumerate(({"strings": ["a"]}, {"version": "one"}, {"string": "a"})):
        index.set_slice(None, slice_of(f"n{row}", [{"name": "d", "attributes": {"x": value}}]))
    found = [outcome(index, claim(), row=row) for row in (0, 1, 2)]
    assert [each.fits for each in found] == [False, False, True]
    text = index.reason(found[0], [claim()], 0)
    assert text == "class gpu: selector #0: CEL runtime error: attribute x: " + (
        "unsupported attribute value"
    )


def test_a_node_selector_that_cannot_be_understood_selects_no_node() -> None:
    index = index_of()
    expression = {"key": "zone", "operator": "Near", "values": ["a"]}
    selector = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    index.set_slice(None, slice_of("net", [device("d")], nodeName=None, nodeSelector=selector))
    assert not outcome(index, claim()).fits


def test_a_device_that_two_claims_hold_is_free_when_both_gave_it_back() -> None:
    index = index_of()
    index.set_slice(None, slice_of("n0", [device("d")]))
    hold(index, "c1", "n0", "d")
    hold(index, "c2", "n0", "d")
    index.set_claim("c1", None)
    assert not outcome(index, claim()).fits
    index.set_claim("c2", None)
    assert outcome(index, claim()).fits


def test_a_row_whose_node_is_gone_has_no_devices() -> None:
    index = index_of("n0", "n1")
    index.set_slice(None, slice_of("n1", [device("d")]))
    assert index.judge([claim()], range(2)).fits.tolist() == [False, True]
    index.set_node(1, None)
    assert index.judge([claim()], (0, 1, 500)).fits.tolist() == [False, False, False]
    index.set_node(1, from_dict({"metadata": {"name": "n1"}}, Node))
    assert index.judge([claim()], range(2)).fits.tolist() == [False, True]


CONTRADICTIONS = {
    "one slice claims more than there are": ((2, 3), ("n0", "n0"), False),
    "one slice claims fewer than there are": ((2, 1), ("n0", "n0"), False),
    "each is right, of the node's or of all slices": ((2, 3, 3), ("n0", "n0", "n1"), True),
    "a slice of another node is wrong": ((2, 2, 9), ("n0", "n0", "n1"), True),
}


@pytest.mark.parametrize(
    ("counts", "nodes", "usable"), CONTRADICTIONS.values(), ids=CONTRADICTIONS.keys()
)
def test_all_slices_that_a_node_sees_must_be_right_about_their_number(
    counts: tuple[int, ...], nodes: tuple[str, ...], usable: bool
) -> None:
    slices = [
        slice_of(
            "pool",
            [device(f"d{i}")],
            name=f"s{i}",
            nodeName=node,
            pool={"resourceSliceCount": count},
        )
        for i, (count, node) in enumerate(zip(counts, nodes, strict=True))
    ]
    for order in permutations(slices):
        index = index_of("n0", "n1")
        for each in order:
            index.set_slice(None, each)
        assert outcome(index, claim()).fits == usable


@pytest.mark.parametrize("first", list(permutations(range(3))))
@pytest.mark.parametrize("last", list(permutations(range(3))))
def test_a_pool_of_some_nodes_and_of_all_leaves_nothing_behind(
    first: tuple[int, ...], last: tuple[int, ...]
) -> None:
    index = index_of("n0", "n1")
    slices = [
        slice_of(node, [device(name)], name=name, pool={"name": "p"}, allNodes=not node)
        for node, name in (("n0", "a"), ("n1", "b"), ("", "c"))
    ]
    for number in first:
        index.set_slice(None, slices[number])
    for number in last:
        index.set_slice(slices[number], None)
    assert [index.inventory.segment(row).views for row in (0, 1)] == [(), ()]
    assert not index.inventory._local
