"""What the search costs, in counted operations: no wall time is asserted."""

from __future__ import annotations

import msgspec
import pytest

from scheduler.model.devices import DeviceAttribute, ResourceClaim, ResourceSlice, SliceDevice
from tests.cost.counting import cost
from tests.devices.support import (
    DRIVER,
    ask,
    boards,
    claim,
    device,
    hold,
    index_of,
    names,
    outcome,
    profile,
    slice_of,
)

POOL = 96
"""Slices of a pool that spans so many nodes that none is told apart."""
FIRST_THOUGHTS = 200
"""Steps after which a hopeless search has been found out, with room to spare."""


def test_forty_thousand_devices_cost_one_evaluation_and_one_search() -> None:
    nodes = [f"n{i}" for i in range(313)]
    index = index_of(*nodes)
    model = DeviceAttribute(string="a")
    for node in nodes:
        published = slice_of(node)
        devices = tuple(
            SliceDevice(f"d{i}", {"model": model, "serial": DeviceAttribute(string=f"{node}-{i}")})
            for i in range(128)
        )
        spec = msgspec.structs.replace(published.spec, devices=devices)
        index.set_slice(None, msgspec.structs.replace(published, spec=spec))
    expression = f'device.attributes["{DRIVER}"].model == "a"'
    judgement = index.judge([claim(ask(expression=expression, count=3))], range(len(nodes)))
    assert judgement.fits.all()
    assert index.selectors.get(expression).evaluations == 1
    assert index.searches == 1


def test_nodes_cost_one_search_per_pattern_of_devices_in_use() -> None:
    nodes = [f"n{i}" for i in range(60)]
    index = index_of(*nodes)
    for row, node in enumerate(nodes):
        index.set_slice(None, slice_of(node, [device(f"d{i}") for i in range(4)]))
        hold(index, node, node, *(f"d{i}" for i in range(row % 3)))
    judgement = index.judge([claim(ask(count=3))], range(len(nodes)))
    assert index.searches == 3
    assert judgement.fits.tolist() == [row % 3 < 2 for row in range(60)]
    assert [names(index, claim(ask(count=2)), row=row)[0] for row in range(3)] == ["d0", "d1", "d2"]


def test_a_claim_touches_the_node_whose_device_it_holds() -> None:
    index = index_of("n0", "n1", "n2")
    for node in ("n0", "n1", "n2"):
        index.set_slice(None, slice_of(node, [device("d0"), device("d1")]))
    wanted = claim()
    index.judge([wanted], range(3))
    before = index.searches
    found = index.allocate([wanted], 1)
    assert found is not None
    assert index.set_claim("c", found[0]).rows == (1,)
    assert index.set_claim("c", found[0]).rows == ()
    index.judge([wanted], range(3))
    assert index.searches == before + 1
    assert index.set_claim("c", None).rows == (1,)


def test_a_slice_touches_the_node_that_it_names() -> None:
    index = index_of("n0", "n1")
    first = slice_of("n0", [device("d0")])
    assert index.set_slice(None, first).rows == (0,)
    assert index.set_slice(None, slice_of("n1", [device("d0")])).rows == (1,)
    assert index.set_slice(first, None).rows == (0,)
    everywhere = slice_of("net", [device("x")], nodeName=None, allNodes=True)
    assert index.set_slice(None, everywhere).rows is None


def test_counters_of_one_node_touch_no_other() -> None:
    index = index_of("n0", "n1")
    for node in ("n0", "n1"):
        devices, counters = boards(node, 1)
        index.set_slice(None, devices)
        index.set_slice(None, counters)
    index.judge([claim()], range(2))
    republished = boards("n1", 1)[0]
    assert index.set_slice(republished, republished).rows is not None
    assert outcome(index, claim(profile("r", "half", count=2)), row=1).fits


@pytest.mark.parametrize("count", [4, 8, 16, 31])
def test_one_more_than_there_are_is_refused_at_once(count: int) -> None:
    index = index_of()
    index.set_slice(None, slice_of("n0", [device(f"d{i}") for i in range(count)]))
    found = outcome(index, claim(ask(count=count + 1)))
    assert not found.fits
    assert found.fault is None
    assert found.steps == 1


def test_twice_as_many_requests_take_twice_as_many_steps() -> None:
    def steps(count: int) -> int:
        index = index_of()
        index.set_slice(None, slice_of("n0", [device(f"d{i}") for i in range(count)]))
        found = outcome(index, claim(*(ask(f"r{i}") for i in range(count + 1))))
        assert not found.fits
        assert found.fault is None
        return found.steps

    assert steps(16) <= 2 * steps(8)
    assert steps(30) <= 2 * steps(15)


def _numbered(values: int, devices: int) -> list[dict[str, object]]:
    return [device(f"d{i}", attributes={"x": i % values}) for i in range(devices)]


_DISTINCT = [{"distinctAttribute": f"{DRIVER}/x"}]
_MATCH = [{"matchAttribute": f"{DRIVER}/x"}]

HOPELESS = {
    "more requests than different values": (
        _numbered(8, 24),
        claim(*(ask(f"r{i}") for i in range(9)), constraints=_DISTINCT),
    ),
    "more requests than devices, all different": (
        _numbered(12, 12),
        claim(*(ask(f"r{i}") for i in range(13)), constraints=_DISTINCT),
    ),
    "no group is large enough for both requests": (
        _numbered(4, 32),
        claim(ask("a", count=5), ask("b", count=4), constraints=_MATCH),
    ),
    "two requests together want one more than there are": (
        _numbered(4, 28),
        claim(ask("a", count=14), ask("b", count=15), constraints=_DISTINCT),
    ),
}


@pytest.mark.parametrize("case", HOPELESS.values(), ids=HOPELESS.keys())
def test_hopeless_claims_are_proven_hopeless_soon(
    case: tuple[list[dict[str, object]], ResourceClaim],
) -> None:
    devices, wanted = case
    index = index_of()
    index.set_slice(None, slice_of("n0", devices))
    found = outcome(index, wanted)
    assert not found.fits
    assert found.fault is None
    assert found.steps < FIRST_THOUGHTS


PACKED = {
    "more units than there are": claim(
        profile("e", "eighth", count=7),
        profile("q", "quarter", count=8),
        profile("h", "half", count=3),
        profile("w", "whole", count=5),
    ),
    "whole boards after each board was touched": claim(
        *(profile(f"e{i}", "eighth") for i in range(8)),
        *(profile(f"w{i}", "whole") for i in range(8)),
    ),
    "one half too many": claim(*(profile(f"h{i}", "half") for i in range(17))),
}


@pytest.mark.parametrize("wanted", PACKED.values(), ids=PACKED.keys())
def test_partitions_that_cannot_fit_are_found_out_soon(wanted: ResourceClaim) -> None:
    index = index_of()
    for each in boards("n0", 8):
        index.set_slice(None, each)
    found = outcome(index, wanted)
    assert not found.fits
    assert found.fault is None
    assert found.steps < FIRST_THOUGHTS


def test_a_search_that_is_given_up_says_that_nothing_is_proven() -> None:
    index = index_of(most_work=300)
    for each in boards("n0", 8):
        index.set_slice(None, each)
    wanted = claim(*(profile(f"e{i}", "eighth", count=3) for i in range(10)))
    found = outcome(index, wanted)
    assert found.fault is not None
    assert found.fault.unproven
    text = index.reason(found, [wanted], 0)
    assert text == "node n0: timed out trying to allocate devices"
    assert outcome(index_of(), claim()).fault is None


def test_each_asker_has_its_own_bound() -> None:
    index = index_of()
    for each in boards("n0", 8):
        index.set_slice(None, each)
    wanted = [claim(*(profile(f"e{i}", "eighth", count=3) for i in range(10)))]
    for _ in range(2):  # what one has found out is not told the other
        (given_up,) = index.judge(wanted, (0,), most_work=300).outcomes
        assert given_up.fault is not None
        assert given_up.fault.unproven
        (found,) = index.judge(wanted, (0,)).outcomes
        assert found.fits


def test_who_wants_all_devices_is_thought_of_before_others_take_them() -> None:
    """Four that others can share are the last of 1,001 ways to choose four of fourteen."""
    index = index_of("n0")
    kept = [device(f"a{i:02}", capacity={"memory": {"value": f"{i + 1}Gi"}}) for i in range(10)]
    shared = [device(f"b{i}", allowMultipleAllocations=True) for i in range(4)]
    index.set_slice(None, slice_of("n0", kept + shared))
    found = outcome(index, claim(ask("some", count=4), ask("all", allocationMode="All")))
    assert found.fits
    assert found.steps <= FIRST_THOUGHTS


def _one_pool(count: int, where: str) -> list[ResourceSlice]:
    """The slices of a pool that spans nodes."""
    pool = {"name": "rack", "resourceSliceCount": count}
    slices = []
    for number in range(count):
        node, spec = f"n{number}", {}
        if where == "selector":
            term = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
            spec["nodeSelector"] = {"nodeSelectorTerms": [{"matchExpressions": [term]}]}
            spec["nodeName"] = None  # type: ignore[assignment]  # JSON
        slices.append(slice_of(node, [device(node)], pool=pool, **spec))
    return slices


def _newer(each: ResourceSlice) -> ResourceSlice:
    pool = msgspec.structs.replace(each.spec.pool, generation=each.spec.pool.generation + 1)
    return msgspec.structs.replace(each, spec=msgspec.structs.replace(each.spec, pool=pool))


@pytest.mark.parametrize("where", ["name", "selector"])
def test_each_slice_of_a_pool_costs_the_same_however_many_there_are(where: str) -> None:
    def published(count: int) -> int:
        index, slices = (
            index_of(*(f"n{number}" for number in range(count))),
            _one_pool(count, where),
        )

        def work() -> None:
            for each in slices:
                index.set_slice(None, each)
            for each in slices:
                index.set_slice(each, _newer(each))
                index.shapes_of([(DRIVER, "rack")])

        return cost(work).operations

    few = published(POOL)
    assert published(2 * POOL) <= 2 * few + POOL


def test_a_pool_that_many_nodes_see_is_right_on_each_of_them() -> None:
    index = index_of(*(f"n{number}" for number in range(POOL)))
    *most, last = _one_pool(POOL, "name")
    for each in most:
        index.set_slice(None, each)
    rows = range(POOL)
    everything = [claim(ask(allocationMode="All"))]
    assert not index.judge(everything, rows).fits.any()
    index.set_slice(None, last)
    assert index.judge(everything, rows).fits.all()
    newest = _newer(most[0])
    index.set_slice(most[0], newest)
    assert not index.judge(everything, rows).fits.any()
    index.set_slice(newest, most[0])
    assert index.judge(everything, rows).fits.all()
    index.set_slice(last, None)
    assert not index.judge(everything, rows).fits.any()
