"""The OpenAPI document: it describes what is served, and nothing else is taken."""

from __future__ import annotations

from typing import Any

import aiohttp
import pytest

from scheduler.serve.endpoints import build_app
from scheduler.serve.guards import BadRequest
from scheduler.serve.openapi import OPERATIONS, PATH, check_parameters, document, routes_of
from scheduler.serve.server import Server
from tests.serve.fake_backend import FakeBackend


def test_the_table_has_every_route_and_no_other() -> None:
    served = {
        route for route in routes_of(build_app(FakeBackend(version="9"))) if route[0] != "head"
    }
    assert served == {(each.method, each.path) for each in OPERATIONS}


async def test_the_document_is_served() -> None:
    async with (
        Server(build_app(FakeBackend(version="9"))) as server,
        aiohttp.ClientSession() as session,
        session.get(server.url + PATH) as response,
    ):
        served = await response.json()
    assert served["openapi"].startswith("3.")
    assert served["info"]["version"] == "9"
    assert served["paths"]["/api/v1/explain"].keys() == {"get", "post"}
    assert "requestBody" in served["paths"]["/api/v1/explain"]["post"]
    parameters = served["paths"]["/api/v1/waiting/{namespace}/{name}/approve"]["post"]["parameters"]
    assert [each["name"] for each in parameters if each["in"] == "path"] == ["namespace", "name"]
    assert served["components"]["schemas"]["Explanation"]["required"]


def test_references_lead_somewhere() -> None:
    whole = document("9", {(each.method, each.path) for each in OPERATIONS})
    schemas = whole["components"]["schemas"]

    def references(value: Any) -> set[str]:
        if isinstance(value, dict):
            own = {value["$ref"]} if "$ref" in value else set()
            return own.union(*map(references, value.values()))
        return set().union(*map(references, value)) if isinstance(value, list) else set()

    assert references(whole) == {f"#/components/schemas/{name}" for name in schemas}


@pytest.mark.parametrize(
    ("method", "path", "name", "message"),
    [
        ("GET", "/api/v1/queue", "namspace", "unknown parameter 'namspace' (did you mean \"nam"),
        ("HEAD", "/api/v1/queue", "lable", "unknown parameter 'lable'"),
        ("POST", "/api/v1/explain", "cuont", '(did you mean "count"?)'),
    ],
)
def test_a_misspelt_parameter_is_refused(method: str, path: str, name: str, message: str) -> None:
    with pytest.raises(BadRequest) as refusal:
        check_parameters(method, path, [name])
    assert message in str(refusal.value)
