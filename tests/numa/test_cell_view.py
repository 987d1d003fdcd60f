"""What people see of cells: reserved by us against reported by the node."""

from __future__ import annotations

from scheduler.explaining.queries import NodesQuery
from scheduler.inspection import nodes
from scheduler.numa.cell_view import cells_of_nodes, describe_cells
from scheduler.views.node_detail import node_detail
from tests.numa.support import Numa, make_topology, pinned


def world(**options: bool) -> Numa:
    """A node of two cells: of 16 CPUs each, 8 are available in the first and 4 in the second."""
    topology = make_topology().cell(8).cell(4, gpu=(1, 2))
    return Numa(**options).nodes("n1", "n2").publish(topology.knows())


def test_a_clean_node_reserves_what_it_reports() -> None:
    numa = world()
    assert cells_of_nodes(numa.state, ["n1", "n2"], "cpu") == [
        [[16_000, 8_000, 8_000], [16_000, 12_000, 12_000]],
        None,
    ]
    shown = describe_cells(numa.state, "n1")
    assert shown is not None
    assert (shown["state"], shown["policy"]) == ("confirmed", "single-numa-node")
    gpus = [cell["resources"].get("example.com/gpu") for cell in shown["cells"]]
    assert gpus == [
        None,
        {"capacity": 2, "allocatable": 2, "reported": 1, "reserved": 1, "reservedAtLeast": 1},
    ]


def test_a_pod_that_is_not_settled_is_reserved_where_it_may_be() -> None:
    numa = world()
    numa.assume(pinned("large", 6))
    shown = describe_cells(numa.state, "n1")
    assert shown is not None
    assert shown["unsettled"] == ["default/large"]
    cpus = [cell["resources"]["cpu"] for cell in shown["cells"]]
    assert [each["reported"] for each in cpus] == [8_000, 12_000]
    assert [each["reserved"] for each in cpus] == [14_000, 12_000]
    numa.assume(pinned("small", 1))
    shown = describe_cells(numa.state, "n1")
    assert shown is not None
    cpus = [cell["resources"]["cpu"] for cell in shown["cells"]]
    assert [each["reserved"] for each in cpus] == [15_000, 13_000]
    assert [each["reservedAtLeast"] for each in cpus] == [14_000, 12_000]


def test_the_map_and_the_node_show_cells() -> None:
    numa = world()
    shown = nodes(numa.stage.core, NodesQuery(10, "cpu"))
    assert shown["nodes"]["cells"][0][0] == [16_000, 8_000, 8_000]
    assert nodes(numa.stage.core, NodesQuery(10, "pods"))["nodes"]["cells"] is None
    assert node_detail(numa.stage.core, "n1")["numa"]["cells"][1]["name"] == "node-1"
    assert node_detail(numa.stage.core, "n2")["numa"] is None


def test_published_cells_are_shown_as_they_are() -> None:
    shown = describe_cells(world(reserve=False).state, "n1")
    assert shown is not None
    assert (shown["state"], shown["unsettled"]) == ("published", [])


def test_without_cells_there_are_none() -> None:
    numa = Numa().nodes("n1")
    assert cells_of_nodes(numa.state, ["n1"], "cpu") is None
    assert describe_cells(numa.state, "n1") is None
