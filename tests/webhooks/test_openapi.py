"""The OpenAPI file says what is really sent, and allows exactly what is really understood."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pytest
import yaml

from scheduler.webhooks.protocol import PATHS, Rejection, allowed_codes, answer_type
from tests.builders import Json, make_pod, make_worker
from tests.schemas import check_schema, validate
from tests.webhooks.support import NAME, RemoteStage, WebhookServer, documents, webhook

FILE = Path(__file__).parents[2] / "docs" / "plugins" / "webhooks.openapi.yaml"
DOCUMENT: Json = yaml.safe_load(FILE.read_text())
POINT_OF = {f"/{path}": point for point, path in PATHS.items()}


def schema(path: str, part: str) -> Json:
    """The schema of a request or an answer, with all others to refer to."""
    operation = DOCUMENT["paths"][path]["post"]
    content = operation["requestBody" if part == "request" else "responses"]
    content = content if part == "request" else content["200"]
    found: Json = content["content"]["application/json"]["schema"]
    return {**found, "components": DOCUMENT["components"]}


def properties(path: str) -> Json:
    name = schema(path, "answer")["$ref"].rpartition("/")[2]
    found: Json = DOCUMENT["components"]["schemas"][name]
    assert found["additionalProperties"] is False
    members: Json = found["properties"]
    return members


def fields(struct: type[msgspec.Struct]) -> set[str]:
    return {field.encode_name for field in msgspec.structs.fields(struct)}


def test_every_point_has_its_path() -> None:
    assert {path: each["post"]["operationId"] for path, each in DOCUMENT["paths"].items()} == (
        POINT_OF
    )


@pytest.mark.parametrize("path", POINT_OF)
def test_answers_have_the_fields_and_codes_that_are_understood(path: str) -> None:
    point = POINT_OF[path]
    assert set(properties(path)) == fields(answer_type(point))
    assert properties(path)["code"]["enum"] == allowed_codes(point)


def test_rejections_have_the_fields_that_are_understood() -> None:
    assert set(DOCUMENT["components"]["schemas"]["Rejection"]["properties"]) == fields(Rejection)


def test_schemas_are_schemas() -> None:
    for each in DOCUMENT["components"]["schemas"].values():
        check_schema(each)


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"nodes": "Objects"},
        {"reads": {"pod": ["metadata.labels", "spec.containers"], "node": ["requested"]}},
    ],
    ids=["names", "objects", "declared"],
)
async def test_what_is_sent_to_every_point_is_what_the_file_says(more: Json) -> None:
    points = [point for point in PATHS if point != "unreserve"]
    sort: dict[str, Any] = {"disabled": [{"name": "*"}], "enabled": [{"name": NAME}]}
    plugins = {
        "multiPoint": {"enabled": [{"name": NAME}]},
        "queueSort": sort,
        "bind": {"enabled": [{"name": NAME}]},
        "postFilter": {"disabled": [{"name": "*"}], "enabled": [{"name": NAME}]},
    }
    async with WebhookServer() as server:
        config = documents(webhook(server, *points, **more), profile={"plugins": plugins})
        async with RemoteStage(config) as stage:
            # A stage without an outlet of its own leaves post-filters out.
            stage.see(make_worker("n1").cpu("4"), make_worker("n2").cpu("4"))
            stage.see(make_pod("p").cpu("1").label(app="x"))
            server.answers["bind"] = {"code": "Unschedulable"}
            await stage.settle()
    sent = {f"/{path}" for path, _ in server.asked}
    # Scores that are kept are asked for without anything before them.
    left_out = {"/post-filter", "/post-bind"} | ({"/pre-score"} if "reads" in more else set())
    assert sent == {*POINT_OF} - left_out
    for path, body in server.asked:
        validate(body, schema(f"/{path}", "request"))
        assert body["point"] == POINT_OF[f"/{path}"]


async def test_what_is_sent_after_binding_and_without_a_node_is_what_the_file_says() -> None:
    from tests.webhooks.test_points import NominatingOutlet

    async with WebhookServer() as server:
        config = documents(webhook(server, "postFilter", "postBind"))
        async with RemoteStage(config, outlet=NominatingOutlet()) as stage:
            stage.see(make_worker("n1").cpu("1"), make_pod("large").cpu("2"), make_pod("small"))
            await stage.settle()
    assert sorted(server.paths()) == ["post-bind", "post-filter"]
    for path, body in server.asked:
        validate(body, schema(f"/{path}", "request"))
