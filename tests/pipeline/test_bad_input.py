"""A bad field of an object affects only that object."""

from __future__ import annotations

import pytest

from tests.builders import PodBuilder, make_node, make_pod, make_worker, requirement, term
from tests.pipeline.support import Stage, Word

REQUIRED = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"

UNREADABLE = [
    pytest.param(
        make_pod("bad").cpu("a lot"),
        "spec.containers[0].resources.requests[cpu]: 'a lot' is not a quantity",
        id="unparsable quantity",
    ),
    pytest.param(
        make_pod("bad").memory("-1Gi"),
        "spec.containers[0].resources.requests[memory]: must not be negative: '-1Gi'",
        id="negative quantity",
    ),
    pytest.param(
        make_pod("bad").required(term(requirement("zone", "Near", "z1"))),
        f"{REQUIRED}.nodeSelectorTerms[0].matchExpressions[0].operator: unknown operator 'Near'",
        id="unknown operator",
    ),
    pytest.param(
        make_pod("bad").preferred(1, term(requirement("gen", "Gt", "new"))),
        "preference.matchExpressions[0].values: must be one integer for operator Gt",
        id="a preference that cannot be understood",
    ),
    pytest.param(make_pod("bad").no_containers(), "spec.containers: missing", id="no containers"),
]


@pytest.mark.parametrize(("pod", "text"), UNREADABLE)
async def test_the_condition_names_the_field_and_others_are_undisturbed(
    pod: PodBuilder, text: str
) -> None:
    stage = Stage()
    stage.see(make_worker("n1"), pod.priority(100), make_pod("good"))
    await stage.run()
    (word,) = stage.outlet.conditions
    assert word.pod == "default/bad"
    assert word.reason == "Unschedulable"
    assert word.message.startswith("0/1 nodes are available: invalid pod: ")
    assert text in word.message
    assert stage.outlet.bound == [("default/good", "n1")]


async def test_an_unreadable_pod_is_tried_again_only_when_it_is_changed() -> None:
    stage = Stage()
    stage.see(make_worker("n1"), make_pod("bad").required(term(requirement("", "Exists"))))
    await stage.run()
    stage.see(make_worker("n2"))
    assert stage.tiers() == {"bad": "unschedulable"}
    stage.see(make_pod("bad").version(2))
    assert stage.tiers() == {"bad": "backoff"}
    await stage.later(2.0)
    assert [pod for pod, _ in stage.outlet.bound] == ["default/bad"]


@pytest.mark.parametrize("amount", ["1e30", "10E", "9223372036854775807"])
async def test_absurd_requests_fit_nowhere(amount: str) -> None:
    stage = Stage()
    stage.see(make_worker("n1"), make_pod("absurd").cpu(amount).memory(amount), make_pod("good"))
    await stage.run()
    message = "0/1 nodes are available: 1 Insufficient cpu, 1 Insufficient memory."
    assert stage.outlet.conditions == [Word("default/absurd", "Unschedulable", message)]
    assert stage.outlet.bound == [("default/good", "n1")]


async def test_absurd_and_unreadable_pods_that_others_bound_do_not_confuse_the_sums() -> None:
    stage = Stage()
    stage.see(make_worker("n1"), make_worker("n2"))
    stage.see(make_pod("absurd").cpu("1e30").memory("10E").on("n1"))
    stage.see(make_pod("broken").cpu("x").on("n2"))
    stage.see(make_pod("good").cpu("1"))
    await stage.run()
    assert stage.outlet.bound == [("default/good", "n2")]
    stage.check()
    stage.lose(make_pod("absurd"), make_pod("broken"))
    assert stage.cpu("n1") == 0
    stage.check()


async def test_a_node_that_says_nonsense_offers_nothing_and_others_are_used() -> None:
    stage = Stage()
    stage.see(make_node("odd").cpu("many").memory("16Gi"), make_worker("n1"))
    stage.see(make_pod("p").cpu("1"))
    await stage.run()
    assert stage.outlet.bound == [("default/p", "n1")]


async def test_a_node_of_absurd_size_is_used_like_any_other() -> None:
    stage = Stage()
    stage.see(make_node("huge").cpu("1e30").memory("10E"), make_pod("p").cpu("1").memory("1Gi"))
    await stage.run()
    assert stage.outlet.bound == [("default/p", "huge")]
