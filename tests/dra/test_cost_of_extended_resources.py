"""Equal pods with an extended resource that devices serve: each costs a look at one node."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from unittest.mock import patch

import pytest

from scheduler.dra.judging import DeviceJudge
from scheduler.dra.ledger import ledger_of
from scheduler.dra.pod_devices import PodDevices
from scheduler.plugin_api.cycle import Cycle
from scheduler.plugins.node_resources_fit import NodeResourcesFit
from scheduler.simulation import place
from scheduler.state.columns import Codes, Rows
from tests.builders import Json, make_node, make_pod
from tests.dra.devices import device_class, slice_of
from tests.dra.recorded import Player, cases

RESOURCE = "example.com/gpu"
NODES = 8


def cluster(pods: int) -> list[Json]:
    served = {"kind": "DeviceClass", **device_class(extendedResourceName=RESOURCE)}
    names = [f"n{i}" for i in range(NODES)]
    return [
        served,
        *(make_node(name).cpu(64).obj() for name in names),
        *({"kind": "ResourceSlice", **slice_of(name, count=8)} for name in names),
        *(make_pod(f"p{i}").request(RESOURCE, 1).obj() for i in range(pods)),
    ]


@pytest.fixture
def rows_asked() -> Iterator[list[int]]:
    """How many rows the two plugins were asked about at once, each time."""
    asked: list[int] = []
    codes, fit = DeviceJudge.codes, NodeResourcesFit.filter

    def counting_codes(self: DeviceJudge, devices: PodDevices, rows: Rows) -> Codes:
        asked.append(len(rows))
        return codes(self, devices, rows)

    def counting_fit(self: NodeResourcesFit, cycle: Cycle, rows: Rows) -> Codes:
        asked.append(len(rows))
        return fit(self, cycle, rows)

    with (
        patch.object(DeviceJudge, "codes", counting_codes),
        patch.object(NodeResourcesFit, "filter", counting_fit),
    ):
        yield asked


def test_more_pods_ask_about_no_more_rows(rows_asked: list[int]) -> None:
    assert all(node for _, node, _ in place(cluster(4)))
    few = sum(rows_asked)
    rows_asked.clear()
    assert all(node for _, node, _ in place(cluster(40)))
    assert sum(rows_asked) == few


@pytest.mark.parametrize(
    ("resource", "fits"),
    [
        (RESOURCE, True),
        ("deviceclass.resource.kubernetes.io/gpu", True),
        ("deviceclass.resource.kubernetes.io/none", False),
        ("example.com/none", False),
    ],
)
def test_only_what_a_class_serves_is_left_to_devices(resource: str, fits: bool) -> None:
    objects = cluster(0)
    pods = [make_pod(f"p{i}").request(resource, 1).obj() for i in range(3)]
    assert [bool(node) for _, node, _ in place([*objects, *pods])] == [fits] * 3


def test_a_claim_that_gets_its_name_changes_its_node_once() -> None:
    """Devices are reserved before the claim exists; that it has them then is no news."""
    case, want = next(
        (case, want)
        for case, want in cases("dra-extended")
        if len(want.get("bind", {}).get("writes", ())) == 4 and "error" not in want["bind"]
    )
    player = Player(case)
    ledger = ledger_of(player.core.state)

    async def bound() -> int:
        ledger.follow_nodes()
        before = ledger.rows_changed
        await player.bind(want["bind"]["node"])
        return ledger.rows_changed - before

    assert asyncio.run(bound()) == 1
