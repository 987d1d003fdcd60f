"""kube-scheduler's extenders: what they are sent and what their answers cause, as there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from scheduler.model.podinfo import PodInfo
from scheduler.webhooks.extender import UNEXPLAINED
from tests.builders import Json, make_pod, make_worker
from tests.pipeline.support import RecordingOutlet
from tests.webhooks.support import RemoteStage, WebhookServer, until, with_extenders


def extender(server: WebhookServer, **fields: Any) -> Json:
    return {"urlPrefix": server.url, "httpTimeout": "60s", **fields}


class EvictingOutlet(RecordingOutlet):
    """Notes victims and nominations."""

    def __init__(self) -> None:
        super().__init__()
        self.evicted: list[str] = []

    async def evict(self, pod: PodInfo, condition: Mapping[str, Any]) -> None:
        self.evicted.append(pod.key)

    def nominate(self, pod: PodInfo, node: str) -> None:
        """Nobody listens."""


async def test_a_filter_is_sent_pod_and_nodes_as_go_writes_them() -> None:
    async with (
        WebhookServer() as server,
        RemoteStage(with_extenders(extender(server, filterVerb="filter"))) as stage,
    ):

        async def second(request: Json) -> Json:
            items = [node for node in request["Nodes"]["items"] if node["metadata"]["name"] == "n2"]
            return {"Nodes": {"metadata": {}, "items": items}, "FailedNodes": {"n1": "no device"}}

        server.answers["filter"] = second
        stage.see(make_worker("n1"), make_worker("n2").label(zone="a"), make_pod("p"))
        await stage.settle()
        sent = server.last("filter")
        assert set(sent) == {"Pod", "Nodes", "NodeNames"}
        assert sent["NodeNames"] is None
        assert sent["Pod"]["metadata"]["name"] == "p"
        assert sent["Nodes"]["items"][1]["metadata"]["labels"] == {"zone": "a"}
        assert stage.bound() == {"p": "n2"}


async def test_one_that_keeps_nodes_itself_is_sent_names() -> None:
    async with (
        WebhookServer() as server,
        RemoteStage(
            with_extenders(extender(server, filterVerb="filter", nodeCacheCapable=True))
        ) as stage,
    ):
        server.answers["filter"] = {"nodenames": ["n2"]}
        stage.see(make_worker("n1"), make_worker("n2"), make_pod("p"))
        await stage.settle()
        assert server.last("filter")["NodeNames"] == ["n1", "n2"]
        assert server.last("filter")["Nodes"] is None
        assert stage.bound() == {"p": "n2"}


async def test_failed_nodes_come_with_their_reasons_and_codes() -> None:
    async with (
        WebhookServer() as server,
        RemoteStage(
            with_extenders(extender(server, filterVerb="filter", nodeCacheCapable=True))
        ) as stage,
    ):
        server.answers["filter"] = {
            "NodeNames": [],
            "FailedNodes": {"n1": "busy", "n2": "both"},
            "FailedAndUnresolvableNodes": {"n2": "broken"},
        }
        stage.see(*(make_worker(f"n{i}") for i in (1, 2, 3)), make_pod("p"))
        await stage.settle()
        expected = f"0/3 nodes are available: 1 broken, 1 busy, 1 {UNEXPLAINED}."
        assert stage.messages()["p"].startswith(expected)
        assert stage.tiers() == {"p": "unschedulable"}


async def test_scores_are_scaled_and_weighted() -> None:
    async with (
        WebhookServer() as server,
        RemoteStage(
            with_extenders(extender(server, prioritizeVerb="prioritize", weight=7))
        ) as stage,
    ):
        server.answers["prioritize"] = [{"Host": "n1", "Score": 3}, {"Host": "n2", "Score": 10}]
        pod = make_pod("p")
        stage.see(make_worker("n1"), make_worker("n2"), pod)
        await stage.settle()
        assert stage.bound() == {"p": "n2"}
        from scheduler import inspection

        explained = await inspection.explain(stage.core, {"default/p": pod.struct()}, "default/p")
        scores = explained["scores"]
        assert scores["n1"]["plugins"][server.url] == 3 * 10 * 7
        assert scores["n2"]["plugins"][server.url] == 10 * 10 * 7


async def test_failures_of_prioritizing_never_matter() -> None:
    async with (
        WebhookServer() as server,
        RemoteStage(
            with_extenders(extender(server, prioritizeVerb="prioritize", weight=1))
        ) as stage,
    ):
        server.status = 500
        stage.see(make_worker("n1"), make_worker("n2"), make_pod("p"))
        await stage.settle()
        assert "p" in stage.bound()


@pytest.mark.parametrize("ignorable", [False, True])
@pytest.mark.parametrize(
    "answer", [{"Error": "out of order"}, b"{", {"NodeNames": ["stranger"]}], ids=str
)
async def test_a_filter_without_a_usable_answer_fails_or_is_passed_over(
    answer: Any, ignorable: bool
) -> None:
    async with WebhookServer() as server:
        one = extender(server, filterVerb="f", nodeCacheCapable=True, ignorable=ignorable)
        async with RemoteStage(with_extenders(one)) as stage:
            server.answers["f"] = answer
            stage.see(make_worker("n1"), make_pod("p"))
            await stage.settle()
            if ignorable:
                assert stage.bound() == {"p": "n1"}
            else:
                assert stage.outlet.conditions[-1].reason == "SchedulerError"


async def test_it_binds_before_the_binder() -> None:
    async with (
        WebhookServer() as server,
        RemoteStage(with_extenders(extender(server, bindVerb="bind"))) as stage,
    ):
        stage.see(make_worker("n1"), make_pod("p"))
        await stage.settle()
        assert server.last("bind") == {
            "PodName": "p",
            "PodNamespace": "default",
            "PodUID": "uid-p",
            "Node": "n1",
        }
        assert stage.bound() == {}
        assert stage.sample(
            "scheduler_schedule_attempts_total", result="scheduled", profile="equipoise"
        )


@pytest.mark.parametrize("ignorable", [False, True])
async def test_an_error_of_binding_fails_the_attempt_or_leaves_it_to_the_binder(
    ignorable: bool,
) -> None:
    async with WebhookServer() as server:
        one = extender(server, bindVerb="bind", ignorable=ignorable)
        async with RemoteStage(with_extenders(one)) as stage:
            server.answers["bind"] = {"Error": "no"}
            stage.see(make_worker("n1"), make_pod("p"))
            await stage.settle()
            assert stage.bound() == ({"p": "n1"} if ignorable else {})


async def test_only_pods_that_ask_for_a_managed_resource_are_its_business() -> None:
    managed = [{"name": "example.com/fpga", "ignoredByScheduler": True}]
    async with WebhookServer() as server:
        one = extender(server, filterVerb="filter", nodeCacheCapable=True, managedResources=managed)
        async with RemoteStage(with_extenders(one)) as stage:
            server.answers["filter"] = {"NodeNames": ["n1"]}
            stage.see(make_worker("n1"), make_pod("plain"))
            # No node offers the resource: only the extender counts it.
            stage.see(make_pod("special").request("example.com/fpga", "1"))
            await stage.settle()
            assert stage.bound() == {"plain": "n1", "special": "n1"}
            assert len(server.asked) == 1


async def test_those_that_may_fail_are_asked_last() -> None:
    async with WebhookServer() as server:
        one = extender(server, filterVerb="one", nodeCacheCapable=True, ignorable=True)
        two = extender(server, filterVerb="two", nodeCacheCapable=True)
        async with RemoteStage(with_extenders(one, two)) as stage:
            server.answers |= {"one": {"NodeNames": ["n1"]}, "two": {"NodeNames": ["n1", "n2"]}}
            stage.see(*(make_worker(f"n{i}") for i in (1, 2, 3)), make_pod("p"))
            await stage.settle()
            assert server.paths() == ["two", "one"]
            assert server.last("one")["NodeNames"] == ["n1", "n2"]
            assert stage.bound() == {"p": "n1"}


@pytest.mark.parametrize("cached", [False, True])
async def test_victims_of_preemption_are_trimmed(cached: bool) -> None:
    async with WebhookServer() as server:
        one = extender(server, preemptVerb="preempt", nodeCacheCapable=cached)
        outlet = EvictingOutlet()
        async with RemoteStage(with_extenders(one), outlet=outlet) as stage:
            server.answers["preempt"] = {
                "NodeNameToMetaVictims": {
                    "n2": {"Pods": [{"UID": "uid-low2"}], "NumPDBViolations": 0}
                }
            }
            for i in (1, 2):
                stage.see(make_worker(f"n{i}").cpu("1"), make_pod(f"low{i}").cpu("1").on(f"n{i}"))
            stage.see(make_pod("high").cpu("1").priority(10))
            stage.start()
            await until(lambda: bool(outlet.evicted))
            assert outlet.evicted == ["default/low2"]
            sent = server.last("preempt")
            if cached:
                assert sent["NodeNameToVictims"] is None
                victims = sent["NodeNameToMetaVictims"]
                assert victims["n1"] == {"Pods": [{"UID": "uid-low1"}], "NumPDBViolations": 0}
            else:
                victims = sent["NodeNameToVictims"]
                assert victims["n1"]["Pods"][0]["metadata"]["name"] == "low1"
            assert set(victims) == {"n1", "n2"}


async def test_an_extender_that_leaves_no_victims_prevents_preemption() -> None:
    async with WebhookServer() as server:
        outlet = EvictingOutlet()
        config = with_extenders(extender(server, preemptVerb="preempt", nodeCacheCapable=True))
        async with RemoteStage(config, outlet=outlet) as stage:
            stage.see(make_worker("n1").cpu("1"), make_pod("low").cpu("1").on("n1"))
            stage.see(make_pod("high").cpu("1").priority(10))
            await stage.settle()
            assert outlet.evicted == []
            assert "no candidate node for preemption" in stage.messages()["high"]


async def test_a_victim_that_is_not_there_fails_the_attempt() -> None:
    async with WebhookServer() as server:
        config = with_extenders(extender(server, preemptVerb="preempt", nodeCacheCapable=True))
        async with RemoteStage(config, outlet=EvictingOutlet()) as stage:
            server.answers["preempt"] = {
                "NodeNameToMetaVictims": {"n1": {"Pods": [{"UID": "nobody"}]}}
            }
            stage.see(make_worker("n1").cpu("1"), make_pod("low").cpu("1").on("n1"))
            stage.see(make_pod("high").cpu("1").priority(10))
            await stage.settle()
            assert "claims to preempt pod (UID: nobody) on node: n1" in stage.messages()["high"]


async def test_scores_beyond_all_measure_do_not_turn_over() -> None:
    async with WebhookServer() as server:
        one = extender(server, prioritizeVerb="prioritize", weight=2**31 - 1)
        async with RemoteStage(with_extenders(one)) as stage:
            server.answers["prioritize"] = [{"Host": "n2", "Score": 1_500_000_000}]
            stage.see(*(make_worker(f"n{i}") for i in (1, 2, 3)), make_pod("p"))
            await stage.settle()
            assert stage.bound() == {"p": "n2"}


async def test_victims_that_became_others_while_it_thought_are_asked_about_again() -> None:
    async with WebhookServer() as server:
        outlet = EvictingOutlet()
        config = with_extenders(extender(server, preemptVerb="preempt", nodeCacheCapable=True))
        async with RemoteStage(config, outlet=outlet) as stage:

            async def agree(request: Json) -> Json:
                return {"NodeNameToMetaVictims": request["NodeNameToMetaVictims"]}

            server.answers["preempt"] = agree
            server.open.clear()
            stage.see(make_worker("n1").cpu("1"), make_pod("low1").cpu("1").on("n1"))
            stage.see(make_pod("high").cpu("1").priority(10))
            stage.start()
            await until(lambda: server.present == 1)
            # To evict the first alone would be of no use now.
            stage.see(make_worker("n1").cpu("2"), make_pod("low2").cpu("1").on("n1"))
            stage.see(make_pod("vip").cpu("1").priority(20).on("n1"))
            server.open.set()
            await until(lambda: len(outlet.evicted) == 2)
            assert len(server.asked) == 2
