"""A webhook at every extension point: what it is sent, and what each answer causes."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from scheduler.model.status import Code, Status
from scheduler.webhooks import gate
from scheduler.webhooks.protocol import MAX_REFUSALS, refusals_of
from tests.builders import Json, make_pod, make_worker
from tests.pipeline.support import RecordingOutlet
from tests.webhooks.support import NAME, RemoteStage, WebhookServer, documents, until, webhook

NO = {"code": "Unschedulable", "reasons": ["not today"]}


class NominatingOutlet(RecordingOutlet):
    """Notes nominations."""

    def __init__(self) -> None:
        super().__init__()
        self.nominated: list[str] = []

    def nominate(self, pod: Any, node: str) -> None:
        self.nominated.append(node)


async def placed(
    point: str, answer: Any, *, policy: str = "Fail", status: int = 200, path: str = ""
) -> tuple[WebhookServer, RemoteStage]:
    """What comes of one pod and two nodes with a webhook at one point."""
    async with WebhookServer() as server:
        first = {"multiPoint": {"enabled": [{"name": NAME}]}, "bind": {"enabled": [{"name": NAME}]}}
        profile = {"plugins": first} if point == "bind" else None
        config = documents(webhook(server, point, failurePolicy=policy), profile=profile)
        async with RemoteStage(config, outlet=NominatingOutlet()) as stage:
            server.answers[path or point] = answer
            server.status = status
            stage.see(make_worker("n1"), make_worker("n2"), make_pod("p"))
            await stage.settle()
            return server, stage


async def test_pre_filter_may_name_the_only_nodes() -> None:
    server, stage = await placed("preFilter", {"nodeNames": ["n2"]}, path="pre-filter")
    assert stage.bound() == {"p": "n2"}
    assert server.last("pre-filter")["pod"]["metadata"]["name"] == "p"


async def test_pre_filter_may_reject_the_pod() -> None:
    _, stage = await placed("preFilter", NO, path="pre-filter")
    assert stage.messages()["p"].startswith("0/2 nodes are available: not today.")


async def test_after_filter_sees_the_feasible_nodes_and_may_reject_the_pod() -> None:
    server, stage = await placed("afterFilter", NO, path="after-filter")
    assert server.last("after-filter")["nodeNames"] == ["n1", "n2"]
    assert "not today" in stage.messages()["p"]


async def test_post_score_may_veto_the_best_node() -> None:
    async def not_n1(request: Json) -> Json:
        return NO if request["node"] == "n1" else {}

    _, stage = await placed("postScore", not_n1, path="post-score")
    assert stage.bound() == {"p": "n2"}


async def test_post_score_is_not_asked_about_every_node_there_is() -> None:
    async with (
        WebhookServer() as server,
        RemoteStage(documents(webhook(server, "postScore"))) as stage,
    ):
        server.answers["post-score"] = NO
        stage.see(*(make_worker(f"n{i}") for i in range(20)), make_pod("p"))
        await stage.settle()
        assert len(server.asked) == 10
        assert f"10 node(s) came after 10 that webhook {NAME} vetoed" in stage.messages()["p"]


async def test_post_filter_is_asked_when_nothing_fits_and_may_nominate() -> None:
    async with WebhookServer() as server:
        outlet = NominatingOutlet()
        async with RemoteStage(documents(webhook(server, "postFilter")), outlet=outlet) as stage:
            server.answers["post-filter"] = {"nominatedNode": "n1"}
            stage.see(make_worker("n1").cpu("1"), make_pod("p").cpu("2"))
            await stage.settle()
            assert server.last("post-filter")["nodeNames"] == ["n1"]
            assert outlet.nominated == ["n1"]


async def test_post_filter_is_told_why_each_node_will_not_do() -> None:
    async with (
        WebhookServer() as server,
        RemoteStage(documents(webhook(server, "postFilter")), outlet=NominatingOutlet()) as stage,
    ):
        small = [make_worker(f"n{i}").cpu("1") for i in range(3)]
        stage.see(*small, make_worker("tainted").taint("a"), make_pod("p").cpu("2"))
        await stage.settle()
        asked = server.last("post-filter")
        assert [
            (each["plugin"], each["code"], each["reasons"]) for each in asked["rejections"]
        ] == [
            ("NodeResourcesFit", "UnschedulableAndUnresolvable", ["Insufficient cpu"]),
            (
                "TaintToleration",
                "UnschedulableAndUnresolvable",
                ["node(s) had untolerated taint(s)"],
            ),
        ]
        told = [name for each in asked["rejections"] for name in each["nodeNames"]]
        assert sorted(told) == sorted(asked["nodeNames"]), "each node is in one of them"


async def test_a_verdict_on_the_pod_as_a_whole_is_told_without_nodes() -> None:
    async with (
        WebhookServer() as server,
        RemoteStage(documents(webhook(server, "postFilter")), outlet=NominatingOutlet()) as stage,
    ):
        claim = {"persistentVolumeClaim": {"claimName": "none"}, "name": "v"}
        stage.see(make_worker("n1"), make_worker("n2"), make_pod("p").spec(volumes=[claim]))
        await stage.settle()
        (said,) = server.last("post-filter")["rejections"]
        assert said["reasons"] == ['persistentvolumeclaim "none" not found']
        assert said["plugin"] in ("VolumeRestrictions", "VolumeBinding")
        assert "nodeNames" not in said


def test_what_post_filters_are_told_is_bounded() -> None:
    long = "x" * 1000
    verdicts = [
        (Status(Code.UNSCHEDULABLE, tuple(f"{i} {j} {long}" for j in range(20)), "P"), [f"n{i}"])
        for i in range(5000)
    ]
    told = refusals_of(verdicts)
    assert len(told) == MAX_REFUSALS + 1
    assert told[-1].reasons == ["other reasons"]
    names = [name for each in told for name in each.node_names or ()]
    assert sorted(names) == sorted(name for _, nodes in verdicts for name in nodes)
    assert sum(len(reason) for each in told for reason in each.reasons) <= 128 * 1024 + 64


async def test_a_node_that_does_not_exist_cannot_be_nominated() -> None:
    async with (
        WebhookServer() as server,
        RemoteStage(documents(webhook(server, "postFilter")), outlet=NominatingOutlet()) as stage,
    ):
        server.answers["post-filter"] = {"nominatedNode": "nowhere"}
        stage.see(make_worker("n1").cpu("1"), make_pod("p").cpu("2"))
        await stage.settle()
        assert "nominatedNode: there is no node 'nowhere'" in stage.messages()["p"]


async def test_pre_score_may_leave_the_scoring_out() -> None:
    async with (
        WebhookServer() as server,
        RemoteStage(documents(webhook(server, "preScore", "score"))) as stage,
    ):
        server.answers["pre-score"] = {"code": "Skip"}
        stage.see(make_worker("n1"), make_worker("n2"), make_pod("p"))
        await stage.settle()
        assert server.paths() == ["pre-score"]
        assert "p" in stage.bound()


@pytest.mark.parametrize("point", ["reserve", "permit", "preBind"])
async def test_a_no_while_binding_gives_the_node_back_and_undoes(point: str) -> None:
    path = {"preBind": "pre-bind"}.get(point, point)
    server, stage = await placed(point, NO, path=path)
    assert server.last(path)["node"] in {"n1", "n2"}
    assert server.paths() == [path, "unreserve"]
    why = {"code": "Unschedulable", "plugin": NAME, "reasons": ["not today"]}
    assert server.last("unreserve")["rejection"] == why
    assert stage.bound() == {}
    assert stage.messages()["p"] == "not today"
    assert stage.cpu("n1") == stage.cpu("n2") == 0


async def test_permit_is_asked_again_until_it_says_yes() -> None:
    answers = iter([{"code": "Wait", "timeoutSeconds": 60, "retryAfterSeconds": 0.001}] * 3 + [{}])

    async def in_turn(request: Json) -> Json:
        return next(answers)

    server, stage = await placed("permit", in_turn)
    assert server.paths() == ["permit"] * 4
    assert "p" in stage.bound()


async def test_permit_that_waits_for_too_long_is_a_no() -> None:
    wait = {"code": "Wait", "timeoutSeconds": 0.01, "retryAfterSeconds": 0.01}
    _, stage = await placed("permit", wait)
    assert stage.bound() == {}
    assert stage.messages()["p"] == "pod default/p timed out waiting on permit"


async def test_a_webhook_may_bind_by_itself_or_leave_it() -> None:
    asked, stage = await placed("bind", {"code": "Skip"})
    assert asked.paths() == ["bind"]
    assert "p" in stage.bound()
    async with WebhookServer() as server:
        config = documents(
            webhook(server, "bind"),
            profile={
                "plugins": {
                    "multiPoint": {"enabled": [{"name": NAME}]},
                    "bind": {"disabled": [{"name": "DefaultBinder"}]},
                }
            },
        )
        async with RemoteStage(config) as stage:
            stage.see(make_worker("n1"), make_pod("p"))
            await stage.settle()
            assert stage.bound() == {}
            assert stage.core.state.assumed("uid-p")
            assert server.last("bind")["node"] == "n1"


async def test_post_bind_is_told() -> None:
    server, stage = await placed("postBind", {}, path="post-bind")
    assert "p" in stage.bound()
    assert server.last("post-bind")["node"] == stage.bound()["p"]


async def test_pre_enqueue_holds_the_pod_until_it_is_answered() -> None:
    async with (
        WebhookServer() as server,
        RemoteStage(documents(webhook(server, "preEnqueue"))) as stage,
    ):
        server.open.clear()
        stage.see(make_worker("n1"), make_pod("p"))
        assert stage.tiers() == {"p": "gated"}
        server.open.set()
        await stage.settle()
        assert "p" in stage.bound()
        assert len(server.asked) == 1


async def test_pre_enqueue_that_says_no_is_asked_again_in_its_time() -> None:
    async with (
        WebhookServer() as server,
        RemoteStage(documents(webhook(server, "preEnqueue"))) as stage,
    ):
        server.answers["pre-enqueue"] = {**NO, "retryAfterSeconds": 0.01}
        stage.see(make_worker("n1"), make_pod("p"))
        await until(lambda: len(server.asked) >= 3)
        assert stage.tiers() == {"p": "gated"}
        server.answers["pre-enqueue"] = {}
        await until(lambda: stage.tiers() == {"p": "active"})
        await stage.settle()
        assert "p" in stage.bound()


async def test_a_replica_that_does_not_schedule_asks_nobody() -> None:
    async with WebhookServer() as server:
        stage = RemoteStage(documents(webhook(server, "preEnqueue")))
        stage.see(make_worker("n1"), make_pod("p"))
        await asyncio.sleep(0.01)
        assert server.asked == []
        async with stage:
            await stage.settle()
            assert "p" in stage.bound()


async def test_queue_sort_is_asked_once_and_its_keys_order_the_queue() -> None:
    async with WebhookServer() as server:
        profile = {
            "plugins": {
                "multiPoint": {"enabled": [{"name": NAME}]},
                "queueSort": {"disabled": [{"name": "*"}], "enabled": [{"name": NAME}]},
            }
        }
        config = documents(webhook(server, "queueSort"), profile=profile)
        async with RemoteStage(config) as stage:

            async def by_label(request: Json) -> Json:
                return {"key": float(request["pod"]["metadata"]["labels"]["turn"])}

            server.answers["queue-sort"] = by_label
            stage.see(make_worker("n1"))
            stage.see(*(make_pod(f"p{i}").label(turn=str(9 - i)) for i in range(5)))
            await stage.core.background.idle()
            assert len(server.asked) == 5
            await stage.settle()
            assert [pod for pod, _ in stage.outlet.bound] == [
                f"default/p{i}" for i in (4, 3, 2, 1, 0)
            ]


POINTS = {
    "preFilter": "pre-filter",
    "filter": "filter",
    "afterFilter": "after-filter",
    "postScore": "post-score",
    "reserve": "reserve",
    "permit": "permit",
    "preBind": "pre-bind",
    "bind": "bind",
}


@pytest.mark.parametrize(("point", "path"), POINTS.items(), ids=POINTS)
async def test_without_an_answer_the_policy_fail_costs_the_attempt(point: str, path: str) -> None:
    _, stage = await placed(point, {}, status=500, path=path)
    assert stage.bound() == {}
    assert f"webhook {NAME}: HTTP status 500" in stage.messages()["p"]
    assert stage.outlet.conditions[-1].reason == "SchedulerError"
    assert stage.tiers() == {"p": "error-backoff"}
    assert stage.cpu("n1") == stage.cpu("n2") == 0


@pytest.mark.parametrize(("point", "path"), POINTS.items(), ids=POINTS)
async def test_without_an_answer_the_policy_ignore_goes_on(point: str, path: str) -> None:
    server, stage = await placed(point, {}, status=500, policy="Ignore", path=path)
    assert "p" in stage.bound()
    assert path in server.paths()


@pytest.mark.parametrize("policy", ["Fail", "Ignore"])
@pytest.mark.parametrize(("point", "path"), [("score", "score"), ("preScore", "pre-score")])
async def test_a_score_that_fails_never_blocks(point: str, path: str, policy: str) -> None:
    _, stage = await placed(point, {}, status=500, policy=policy, path=path)
    assert "p" in stage.bound()


async def test_what_came_of_a_failure_is_not_kept_for_others() -> None:
    async with WebhookServer() as server:
        reads: Json = {"pod": [], "node": []}
        hook = webhook(server, "filter", reads=reads, failurePolicy="Ignore")
        async with RemoteStage(documents(hook)) as stage:
            server.status = 500
            stage.see(make_worker("n1"), make_pod("a"))
            await stage.settle()
            assert "a" in stage.bound()
            server.status = 200
            server.answers["filter"] = {"rejected": {"n1": {}}}
            stage.see(make_pod("b"))
            await stage.settle()
            assert "b" not in stage.bound()


async def test_a_gate_without_an_answer_stays_shut_or_opens_as_the_policy_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gate, "AFTER_FAILURE_SECONDS", 0.01)
    for policy in ("Fail", "Ignore"):
        async with WebhookServer() as server:
            hook = webhook(server, "preEnqueue", failurePolicy=policy)
            async with RemoteStage(documents(hook)) as stage:
                server.status = 500
                stage.see(make_worker("n1"), make_pod("p"))
                if policy == "Ignore":
                    await stage.settle()
                    assert "p" in stage.bound()
                    continue
                await until(lambda: len(server.asked) > 2)
                assert stage.tiers() == {"p": "gated"}
                # Between two failures it waits for an answer, and says that.
                await until(lambda: "status 500" in stage.core.queue.view.snapshot()[0].message)
                server.status = 200
                await until(lambda: stage.tiers() == {"p": "active"})
