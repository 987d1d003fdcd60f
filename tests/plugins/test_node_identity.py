"""NodeName and NodeUnschedulable."""

from __future__ import annotations

import pytest

from scheduler.model.status import SUCCESS, unresolvable
from scheduler.plugins.node_identity import NodeName, NodeUnschedulable
from tests.builders import PodBuilder, make_node, make_pod
from tests.plugins.support import Bench

OTHER = unresolvable("node(s) didn't match the requested node name").by("NodeName")
CORDONED = unresolvable("node(s) were unschedulable").by("NodeUnschedulable")
CORDON = "node.kubernetes.io/unschedulable"


@pytest.mark.parametrize(
    ("pod", "verdicts"),
    [
        pytest.param(make_pod("p"), [SUCCESS, SUCCESS], id="no name: any node"),
        pytest.param(make_pod("p").on("n2"), [OTHER, SUCCESS], id="only the named node"),
        pytest.param(make_pod("p").on("gone"), [OTHER, OTHER], id="a node that is not there"),
    ],
)
def test_node_name(pod: PodBuilder, verdicts: list[object]) -> None:
    bench = Bench(NodeName, [make_node("n1"), make_node("n2")])
    assert list(bench.verdicts(pod).values()) == verdicts


@pytest.mark.parametrize(
    ("pod", "verdict"),
    [
        pytest.param(make_pod("p"), CORDONED, id="no toleration"),
        pytest.param(make_pod("p").toleration(CORDON, "Exists"), SUCCESS, id="tolerates it"),
        pytest.param(
            make_pod("p").toleration("", "Exists", effect="NoExecute"), CORDONED, id="other effect"
        ),
    ],
)
def test_node_unschedulable(pod: PodBuilder, verdict: object) -> None:
    bench = Bench(NodeUnschedulable, [make_node("n1").cordoned(), make_node("n2")])
    assert bench.verdicts(pod) == {"n1": verdict, "n2": SUCCESS}
