"""A pod that claims devices waits, with the reason; it is never bound without them."""

from __future__ import annotations

from scheduler.model.events import UNSCHEDULABLE_POD, Action, Event
from scheduler.model.status import SUCCESS
from scheduler.pipeline.evaluation import evaluate
from scheduler.plugin_api.cycle import Cycle
from scheduler.plugins.dynamic_resources import DynamicResources
from scheduler.simulation import place
from tests.builders import PodBuilder, make_node, make_pod, make_worker
from tests.plugins.support import Bench

REASON = (
    "dynamic resource allocation is not built yet: "
    "a pod with resource claims is never bound without them"
)


def claiming(name: str = "p") -> PodBuilder:
    claim = {"name": "gpu", "resourceClaimTemplateName": "one-gpu"}
    return make_pod(name).spec(resourceClaims=[claim])


def test_a_pod_with_claims_fits_nowhere_and_evictions_would_not_help() -> None:
    verdict = Bench(DynamicResources, [make_node("n")]).verdicts(claiming())["n"]
    assert (verdict.code.value, verdict.message) == ("UnschedulableAndUnresolvable", REASON)


def test_a_pod_without_claims_is_left_alone() -> None:
    assert Bench(DynamicResources, [make_node("n")]).verdicts(make_pod("p")) == {"n": SUCCESS}


def test_the_default_profile_binds_only_the_pod_without_claims() -> None:
    placed = place([make_worker("n").obj(), claiming().obj(), make_pod("q").obj()])
    assert {pod: (node, message) for pod, node, message in placed} == {
        "default/p": (None, f"0/1 nodes are available: {REASON}."),
        "default/q": ("n", ""),
    }


def test_a_pod_without_claims_hears_what_kube_scheduler_says() -> None:
    assert said_when_nothing_fits(make_pod("p")) == "no new claims to deallocate"
    assert said_when_nothing_fits(claiming()) == ""


def said_when_nothing_fits(pod: PodBuilder) -> str:
    bench = Bench(DynamicResources, [make_node("n")])
    cycle = Cycle(pod.info(), bench.state)
    result = bench.framework.run_post_filters(cycle, evaluate(bench.framework, cycle).diagnosis())
    assert result is not None
    return result.status.message


def test_nothing_in_the_cluster_cures_it() -> None:
    bench = Bench(DynamicResources, [])
    assert not bench.wakes(claiming(), Event("Node", Action.ADD, None, make_node("n").struct()))
    for other, wakes in ((make_pod("q"), False), (make_pod("p"), True)):
        event = Event(UNSCHEDULABLE_POD, Action.UPDATE, claiming().info(), other.info())
        assert bench.wakes(claiming(), event) is wakes
