"""Explanations and simulations ask webhooks and extenders, and wait for them."""

from __future__ import annotations

import asyncio

from scheduler import inspection, simulation
from scheduler.webhooks.originals import Originals
from tests.builders import Json, make_pod, make_worker
from tests.webhooks.support import NAME, RemoteStage, WebhookServer, documents, until, webhook


async def not_n1(request: Json) -> Json:
    return {"rejected": {"n1": {"reasons": ["not there"]}}} if "n1" in request["nodeNames"] else {}


async def test_an_explanation_has_the_webhooks_verdicts_and_scores() -> None:
    async with (
        WebhookServer() as server,
        RemoteStage(documents(webhook(server, "filter", "score"))) as stage,
    ):
        server.answers["filter"] = not_n1
        server.answers["score"] = {"scores": {"n2": 40}}
        stage.see(make_worker("n1"), make_worker("n2"), make_worker("n3"))
        pods = {"default/p": make_pod("p").struct()}
        answer = await inspection.explain(stage.core, pods, "default/p")
        assert answer["fit"] == ["n2", "n3"]
        said = {"plugin": NAME, "code": "Unschedulable", "reasons": ["not there"]}
        assert answer["nodes"]["n1"] == {"fit": False, **said, "all": [{**said, "facts": []}]}
        assert answer["scores"]["n2"]["plugins"][NAME] == 40
        assert answer["node"] == "n2"


async def test_a_webhook_is_not_asked_about_nodes_that_others_reject() -> None:
    async with (
        WebhookServer() as server,
        RemoteStage(documents(webhook(server, "filter"))) as stage,
    ):
        server.answers["filter"] = not_n1
        stage.see(make_worker("n1").taint("t"), make_worker("n2"))
        pods = {"default/p": make_pod("p").struct()}
        answer = await inspection.explain(stage.core, pods, "default/p")
        (only,) = answer["nodes"]["n1"]["all"]
        assert only["plugin"] == "TaintToleration"
        assert len(server.asked) == 1


async def test_a_pod_that_a_webhook_keeps_out_of_the_queue_goes_nowhere() -> None:
    async with (
        WebhookServer() as server,
        RemoteStage(documents(webhook(server, "preEnqueue"))) as stage,
    ):
        server.answers["pre-enqueue"] = {"code": "Unschedulable", "reasons": ["not today"]}
        pod = make_pod("p")
        stage.see(make_worker("n1"), pod)
        await until(lambda: len(server.asked) == 1 and stage.tiers() == {"p": "gated"})
        pods = {"default/p": pod.struct()}
        answer = await inspection.explain(stage.core, pods, "default/p")
        assert (answer["node"], answer["wouldGoTo"]) == (None, "n1")
        assert answer["standing"]["state"] == "gated"
        assert answer["standing"]["plugins"] == [NAME]
        standby = await inspection.explain(stage.core, pods, "default/p", leading=False)
        assert standby["standing"]["state"] == "standby"


async def test_a_pod_that_runs_is_explained_as_if_it_did_not() -> None:
    async with (
        WebhookServer() as server,
        RemoteStage(documents(webhook(server, "filter"))) as stage,
    ):
        server.answers["filter"] = not_n1
        stage.see(make_worker("n1").cpu("1"), make_worker("n2").cpu("1"))
        pod = make_pod("p").cpu("1").on("n2")
        stage.see(pod)
        answer = await inspection.explain(stage.core, {"default/p": pod.struct()}, "default/p")
        assert server.last("filter")["nodeNames"] == ["n1", "n2"]
        assert answer["fit"] == ["n2"]
        assert stage.cpu("n2") == 1000


async def test_without_an_answer_an_explanation_says_so_as_an_attempt_would() -> None:
    async with (
        WebhookServer() as server,
        RemoteStage(documents(webhook(server, "filter"))) as stage,
    ):
        server.status = 500
        stage.see(make_worker("n1"))
        pods = {"default/p": make_pod("p").struct()}
        answer = await inspection.explain(stage.core, pods, "default/p")
        assert "HTTP status 500" in answer["message"]


async def test_simulations_ask_for_real() -> None:
    async with WebhookServer() as server:
        server.answers["filter"] = not_n1
        config = list(documents(webhook(server, "filter", "preEnqueue")))
        pod = make_pod("p").meta(annotations={"rack": "7"})
        objects = [make_worker("n1").obj(), make_worker("n2").obj()]
        explained = await asyncio.to_thread(simulation.explain, objects, pod.obj(), config)
        assert explained["fit"] == ["n2"]
        assert server.last("filter")["pod"]["metadata"]["annotations"] == {"rack": "7"}
        placed = await asyncio.to_thread(simulation.place, [*objects, pod.obj()], config)
        assert placed == [("default/p", "n2", "")]


def test_objects_are_kept_as_they_were_sent_while_somebody_may_ask_for_them() -> None:
    originals = Originals({"equipoise"}, nodes=True)
    keep = originals.keeper("Pod")
    assert keep is not None
    sent = b'{"metadata": {"name": "p", "annotations": {"a": "b"}, "managedFields": [{}]}}'
    waiting, bound = make_pod("p").struct(), make_pod("p").on("n1").struct()
    keep("default/p", waiting, sent)
    kept = bytes(originals.pod(waiting))
    assert b'"annotations":{"a":"b"}' in kept
    assert b"managedFields" not in kept
    assert kept.startswith(b'{"apiVersion":"v1","kind":"Pod"')
    assert originals.usage()["original_pods"] == (1, len(kept), 0)
    keep("default/p", waiting, sent)
    assert originals.usage()["original_pods"] == (1, len(kept), 0)
    keep("default/p", bound, sent)
    assert originals.usage()["original_pods"] == (0, 0, 0)
    assert b"annotations" not in bytes(originals.pod(bound))
    assert Originals({"equipoise"}, nodes=False).keeper("Node") is None
    assert originals.keeper("Service") is None


async def test_simulations_have_nobody_outside_book_or_bind() -> None:
    async with WebhookServer() as server:
        points = ("filter", "reserve", "permit", "preBind", "bind", "postBind")
        first = {"multiPoint": {"enabled": [{"name": NAME}]}, "bind": {"enabled": [{"name": NAME}]}}
        kube, own = documents(webhook(server, *points), profile={"plugins": first})
        kube["extenders"] = [{"urlPrefix": server.url, "bindVerb": "extender-bind"}]
        objects = [make_worker("n1").obj(), make_pod("p").obj()]
        placed = await asyncio.to_thread(simulation.place, objects, [kube, own])
        assert placed == [("default/p", "n1", "")]
        assert server.paths() == ["filter"]
