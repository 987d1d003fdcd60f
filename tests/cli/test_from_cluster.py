"""`equipoise simulate --from-cluster` where the API server refuses, fails or is gone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import Result

from tests.builders import Json, make_node, make_pod
from tests.cli.api_server import ApiServer, api_server
from tests.cli.test_simulate import run


def listed(*objects: Json) -> Json:
    return {"metadata": {}, "items": [{**each, "kind": None} for each in objects]}


@pytest.fixture
def api(tmp_path: Path) -> Iterator[ApiServer]:
    with api_server(tmp_path) as server:
        server.answers["GET /version"] = {"major": "1"}
        server.answers["GET /api/v1/nodes"] = listed(make_node("n").cpu(2).obj())
        server.answers["GET /api/v1/pods"] = listed(make_pod("p").cpu(1).obj())
        yield server


def ask(api: ApiServer, *arguments: str) -> Result:
    return run("--from-cluster", "--kubeconfig", api.kubeconfig(), *arguments)


def test_apis_that_the_cluster_lacks_are_no_matter(api: ApiServer) -> None:
    result = ask(api, "--more", "pod/p")
    assert (result.exit_code, result.stdout, result.stderr) == (0, "1 more like pod/p fits\n", "")


def test_a_kind_that_may_not_be_listed_is_named(api: ApiServer) -> None:
    api.answers["GET /apis/apps/v1/deployments"] = 403
    result = ask(api)
    assert result.exit_code == 0
    assert "no right to list deployments" in result.stderr


@pytest.mark.parametrize("kind", ["nodes", "pods"])
def test_without_nodes_or_pods_nothing_is_said(kind: str, api: ApiServer) -> None:
    api.answers[f"GET /api/v1/{kind}"] = 403
    result = ask(api)
    assert (result.exit_code, result.stdout) == (1, "")
    assert f"403 Forbidden: /api/v1/{kind}" in result.stderr


def test_a_server_that_fails_cannot_be_reached(api: ApiServer) -> None:
    api.answers["GET /api/v1/pods"] = 500
    result = ask(api)
    assert (result.exit_code, result.stdout) == (4, "")
    assert "the API server: 500" in result.stderr


def test_a_server_that_is_gone_cannot_be_reached(tmp_path: Path) -> None:
    with api_server(tmp_path) as api:
        kubeconfig = api.kubeconfig()
    result = run("--from-cluster", "--kubeconfig", kubeconfig)
    assert (result.exit_code, result.stdout) == (4, "")
    assert "no cluster can be reached" in result.stderr


def test_a_cluster_without_nodes(api: ApiServer) -> None:
    api.answers["GET /api/v1/nodes"] = listed()
    assert "no nodes available to schedule pods" in ask(api).stdout
    assert ask(api, "--more", "pod/p").stdout == "0 more like pod/p fit\n"
    assert "more nodes of no shape would help" in ask(api, "--missing-nodes").stdout
