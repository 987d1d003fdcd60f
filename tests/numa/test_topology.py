"""What is read from NodeResourceTopology objects, of both versions and of any quality."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.model.nodes import NodeResourceTopology
from scheduler.model.objects import from_dict
from scheduler.numa.topology import MAX_CELLS, ManagerPolicy, ManagerScope, Topology, topology_of
from tests.numa.support import make_topology


def read(**fields: Any) -> Topology:
    body = {"metadata": {"name": "n1"}, "zones": [], **fields}
    return topology_of(from_dict(body, NodeResourceTopology))


def attributes(**values: str) -> list[dict[str, str]]:
    return [{"name": name, "value": value} for name, value in values.items()]


@pytest.mark.parametrize(
    ("fields", "policy", "scope"),
    [
        pytest.param({}, ManagerPolicy.NONE, ManagerScope.CONTAINER, id="nothing is said"),
        pytest.param(
            {"topologyPolicies": ["SingleNUMANodePodLevel"]},
            ManagerPolicy.SINGLE,
            ManagerScope.POD,
            id="v1alpha1",
        ),
        pytest.param(
            {"topologyPolicies": ["SingleNUMANodeContainerLevel"]},
            ManagerPolicy.SINGLE,
            ManagerScope.CONTAINER,
            id="v1alpha1, containers",
        ),
        pytest.param(
            {"topologyPolicies": ["RestrictedPodLevel"]},
            ManagerPolicy.RESTRICTED,
            ManagerScope.POD,
            id="restricted",
        ),
        pytest.param(
            {"topologyPolicies": ["BestEffortContainerLevel"]},
            ManagerPolicy.BEST_EFFORT,
            ManagerScope.CONTAINER,
            id="best effort",
        ),
        pytest.param(
            {"topologyPolicies": ["Restricted"]},
            ManagerPolicy.NONE,
            ManagerScope.CONTAINER,
            id="no level is said",
        ),
        pytest.param(
            {"topologyPolicies": ["None", "SingleNUMANodePodLevel"]},
            ManagerPolicy.NONE,
            ManagerScope.CONTAINER,
            id="only the first counts",
        ),
        pytest.param(
            {
                "attributes": attributes(
                    topologyManagerPolicy="single-numa-node", topologyManagerScope="pod"
                )
            },
            ManagerPolicy.SINGLE,
            ManagerScope.POD,
            id="v1alpha2",
        ),
        pytest.param(
            {
                "topologyPolicies": ["SingleNUMANodePodLevel"],
                "attributes": attributes(topologyManagerPolicy="restricted"),
            },
            ManagerPolicy.RESTRICTED,
            ManagerScope.POD,
            id="attributes win, one by one",
        ),
        pytest.param(
            {
                "attributes": attributes(
                    topologyManagerPolicy="Single-NUMA-node", TopologyManagerScope="pod"
                )
            },
            ManagerPolicy.NONE,
            ManagerScope.CONTAINER,
            id="spelling matters",
        ),
    ],
)
def test_policy_and_scope(
    fields: dict[str, Any], policy: ManagerPolicy, scope: ManagerScope
) -> None:
    topology = read(**fields)
    assert (topology.policy, topology.scope) == (policy, scope)


def test_of_several_attributes_of_one_name_the_last_valid_one_counts() -> None:
    values = ("single-numa-node", "restricted", "nonsense")
    listed = [{"name": "topologyManagerPolicy", "value": value} for value in values]
    assert read(attributes=listed).policy is ManagerPolicy.RESTRICTED


@pytest.mark.parametrize(
    ("value", "expected"),
    [("4", 4), ("1", 8), ("0", 8), ("-3", 8), ("x", 8), ("5000", 1024), ("9" * 40, 8), ("+16", 16)],
)
def test_how_many_cells_the_kubelet_aligns(value: str, expected: int) -> None:
    assert read(attributes=attributes(topologyManagerMaxNUMANodes=value)).max_cells == expected


@pytest.mark.parametrize(
    ("names", "ids"),
    [
        pytest.param(["node-0", "node-1"], [0, 1], id="the usual"),
        pytest.param(["node-7", "node-2"], [2, 7], id="sparse and out of order"),
        pytest.param(["node-64", "node-1000"], [64, 1000], id="large"),
        pytest.param(["node-+1"], [1], id="a sign"),
        pytest.param(
            ["numa-node-0", "Node-1", "node_3", "node-5-1", "node--1", "node-", "node-1x"],
            [],
            id="no names of cells",
        ),
        pytest.param(["node-1", "node-01"], [1], id="the same twice"),
    ],
)
def test_which_zones_are_cells(names: list[str], ids: list[int]) -> None:
    zones = [{"name": name, "type": "Node"} for name in names]
    assert [cell.id for cell in read(zones=zones).cells] == ids


def test_zones_of_other_types_are_passed_over() -> None:
    topology = make_topology().cell(4).zone("node-9", {"cpu": (1, 1)}, kind="Socket")
    assert [cell.id for cell in topology.read().cells] == [0]


def test_one_object_cannot_make_columns_wide() -> None:
    zones = [{"name": f"node-{i}", "type": "Node"} for i in range(5000)]
    assert len(read(zones=zones).cells) == MAX_CELLS


def test_amounts_that_cannot_be_read_count_as_none() -> None:
    topology = make_topology().zone("node-0", {"cpu": ("many", "16"), "memory": (-5, "1Gi")})
    (cell,) = topology.read().cells
    assert cell.available == {"cpu": 0, "memory": 0}
    assert cell.allocatable == {"cpu": 16000, "memory": 2**30}


@pytest.mark.parametrize(
    ("attribute", "annotation", "expected"),
    [
        (None, None, ""),
        ("pfp0v001a", None, "pfp0v001a"),
        (None, "pfp0v001b", "pfp0v001b"),
        ("pfp0v001a", "pfp0v001b", "pfp0v001a"),
        ("", "pfp0v001b", ""),
    ],
)
def test_where_the_fingerprint_is(
    attribute: str | None, annotation: str | None, expected: str
) -> None:
    topology = make_topology()
    if attribute is not None:
        topology.attribute("nodeTopologyPodsFingerprint", attribute)
    if annotation is not None:
        topology.annotate("topology.node.k8s.io/fingerprint", annotation)
    assert topology.read().fingerprint == expected
