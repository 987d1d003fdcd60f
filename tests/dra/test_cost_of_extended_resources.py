"""Equal pods with an extended resource that devices serve: each costs a look at one node."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

import pytest

from scheduler.devices import DeviceIndex, Judgement, Touched
from scheduler.dra import judging
from scheduler.dra.judging import DeviceJudge
from scheduler.dra.ledger import MOST_CHANGED, ledger_of
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


def test_a_look_ahead_judges_the_nodes_that_have_changed() -> None:
    judged: list[int] = []
    judge = DeviceIndex.judge

    def counting(self: DeviceIndex, claims: Any, rows: Any, *more: Any) -> Judgement:
        judged.append(len(rows))
        return judge(self, claims, rows, *more)

    with patch.object(judging, "FEW_ROWS", 2), patch.object(DeviceIndex, "judge", counting):
        assert all(node for _, node, _ in place(cluster(40)))

    assert judged[:2] == [NODES, NODES]  # the first look ahead, and the first attempt
    later = judged[2:]
    assert later
    assert max(later) < NODES


def test_changes_of_rows_are_listed_as_long_as_they_are_few() -> None:
    case, _ = cases("dra-extended")[0]
    ledger = ledger_of(Player(case).core.state)
    ledger.follow_nodes()
    mark = ledger.rows_changed

    ledger._rows_changed([3, 1])
    ledger._rows_changed([3])

    assert ledger.changed_since(mark) == [1, 3]
    assert ledger.changed_since(mark + 2) == [3]
    assert ledger.changed_since(mark + 3) == []
    ledger._rows_changed(range(MOST_CHANGED))
    assert ledger.changed_since(mark) is None
    mark = ledger.rows_changed
    ledger._touch(Touched(None))
    ledger._rows_changed([2])
    assert ledger.changed_since(mark) is None
    assert ledger.changed_since(ledger.rows_changed - 1) == [2]
