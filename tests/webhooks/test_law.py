"""What must hold whatever happens: kept answers equal fresh ones, and nonsense does no harm."""

from __future__ import annotations

import asyncio
import contextlib
import random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.webhooks import extender_protocol as wire
from scheduler.webhooks.protocol import PATHS, read_answer
from tests.builders import Json, make_pod, make_worker
from tests.webhooks.support import NAME, RemoteStage, WebhookServer, documents, webhook

CLOSED = "closed"
NODES = 6
STEPS = 60


def accepts(labels: dict[str, str], app: str) -> bool:
    """The rule of the webhook."""
    return labels.get(CLOSED) not in (app, "all")


async def by_rule(request: Json) -> Json:
    app = request["pod"]["metadata"]["labels"]["app"]
    refused = [
        node["metadata"]["name"]
        for node in request["nodes"]
        if not accepts(node["metadata"].get("labels", {}), app)
    ]
    return {"rejected": {name: {} for name in refused}}


@pytest.mark.parametrize("seed", range(3))
async def test_every_kept_verdict_equals_a_fresh_one(seed: int) -> None:
    chance = random.Random(seed)
    reads = {"pod": ["metadata.labels.app"], "node": ["labels"]}
    async with (
        WebhookServer() as server,
        RemoteStage(documents(webhook(server, "filter", reads=reads))) as stage,
    ):

        async def sooner_or_later(request: Json) -> Json:
            answer = await by_rule(request)
            for _ in range(chance.randrange(3)):
                await asyncio.sleep(0)
            return answer

        server.answers["filter"] = sooner_or_later
        labels: dict[str, dict[str, str]] = {f"n{i}": {} for i in range(NODES)}
        stage.see(*map(make_worker, labels))
        for step in range(STEPS):
            app = chance.choice(("a", "b"))
            stage.see(make_pod(f"p{step}").label(app=app))
            stage.start()
            for _ in range(chance.randrange(4)):
                name = chance.choice(list(labels))
                labels[name] = chance.choice([{}, {CLOSED: "a"}, {CLOSED: "b"}, {CLOSED: "all"}])
                stage.see(make_worker(name).label(**labels[name]))
                await asyncio.sleep(0)
            if chance.random() < 0.5:
                continue  # the next pod comes while this one waits
            await stage.settle()
            check_kept(stage, labels)
        await stage.settle()
        check_kept(stage, labels)
        # Some were kept, or nothing was shown.
        assert len(server.asked) < STEPS * 2


def check_kept(stage: RemoteStage, labels: dict[str, dict[str, str]]) -> None:
    equivalence = stage.core.equivalence
    assert equivalence is not None
    for pod_class in equivalence:
        (key,) = (key for each, key in pod_class.plugins["filter"] if each.plugin == NAME)
        app = "a" if b"\xa1a" in bytes(key) else "b"  # type: ignore[call-overload]  # its bytes
        for node, verdicts in equivalence.verdicts(pod_class).items():
            status = verdicts[NAME]
            if status is not None:
                assert status.ok == accepts(labels[node], app), (node, app, labels[node])


@given(body=st.binary(max_size=200), point=st.sampled_from(sorted(PATHS)))
def test_any_bytes_are_an_answer_or_a_value_error(body: bytes, point: str) -> None:
    with contextlib.suppress(ValueError):
        read_answer(point, body, ["n1"])


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=12), inner),
)
FIELDS = (
    "Nodes", "NodeNames", "FailedNodes", "FailedAndUnresolvableNodes", "Error", "Host", "Score",
    "NodeNameToMetaVictims", "Pods", "UID", "NumPDBViolations", "items", "metadata", "name",
)  # fmt: skip
ODD = st.recursive(
    JSON,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(FIELDS), inner, max_size=4)
    ),
    max_leaves=10,
)


@given(value=ODD)
def test_any_json_of_an_extender_is_an_answer_or_a_value_error(value: object) -> None:
    body = msgspec.json.encode(value)
    for read in (wire.read_filter, wire.read_priorities, wire.read_binding, wire.read_preemption):
        with contextlib.suppress(ValueError):
            read(body)
