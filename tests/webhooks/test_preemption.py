"""Preemption beside webhooks: dry runs call nobody, and what a webhook said counts in them."""

from __future__ import annotations

from tests.builders import make_pod, make_worker
from tests.webhooks.support import RemoteStage, WebhookServer, documents, until, webhook
from tests.webhooks.test_extenders import EvictingOutlet


async def test_dry_runs_call_nobody_and_the_pod_asks_when_its_victims_are_gone() -> None:
    async with WebhookServer() as server:
        outlet = EvictingOutlet()
        async with RemoteStage(documents(webhook(server, "filter")), outlet=outlet) as stage:
            low = make_pod("low").cpu("1").on("n1")
            stage.see(make_worker("n1").cpu("1"), low)
            stage.see(make_pod("high").cpu("1").priority(10))
            stage.start()
            await until(lambda: outlet.evicted == ["default/low"])
            assert server.asked == []
            stage.lose(low)
            await stage.later(60)
            await stage.settle()
            assert stage.bound() == {"high": "n1"}
            assert server.last("filter")["nodeNames"] == ["n1"]


async def test_a_node_that_the_webhook_rejected_is_no_candidate() -> None:
    async with WebhookServer() as server:
        outlet = EvictingOutlet()
        async with RemoteStage(documents(webhook(server, "filter")), outlet=outlet) as stage:
            server.answers["filter"] = {"rejected": {"n1": {}}}
            stage.see(make_worker("n1").cpu("2"), make_worker("n2").cpu("1"))
            stage.see(make_pod("low1").cpu("1").on("n1"), make_pod("low2").cpu("1").on("n2"))
            stage.see(make_pod("high").cpu("1").priority(10))
            stage.start()
            await until(lambda: bool(outlet.evicted))
            assert outlet.evicted == ["default/low2"]
            assert [body["nodeNames"] for _, body in server.asked] == [["n1"]]
