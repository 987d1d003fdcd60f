"""`equipoise waiting`: pods that hold a node and wait for permission."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from scheduler.cli.main import cli
from tests.cli.api_server import ApiServer, api_server


def pod(name: str, **changes: Any) -> dict[str, Any]:
    return {
        "pod": f"team/{name}",
        "profile": "equipoise",
        "tier": "waiting-on-permit",
        "waitingSeconds": 61.0,
        "retrySeconds": None,
        "attempts": 1,
        "plugins": ["Approval"],
        "message": "waiting on permit for node n1",
        "group": "",
        "node": "n1",
        "timeoutSeconds": 312.0,
        **changes,
    }


@pytest.fixture
def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ApiServer]:
    monkeypatch.delenv("EQUIPOISE_SERVER", raising=False)
    with api_server(tmp_path) as server:
        server.lead("lead_1")
        yield server


def run(api: ApiServer, *pods: dict[str, Any], count: int, output: str = "table") -> Result:
    api.serve("lead", "/api/v1/waiting", {"count": count, "pods": list(pods)})
    kubeconfig = api.kubeconfig({"token": "secret"})
    result = CliRunner().invoke(cli, ["waiting", "-o", output], env={"KUBECONFIG": kubeconfig})
    assert result.exit_code == 0, result.stderr
    return result


def test_it_says_for_whom_since_when_and_until(api: ApiServer) -> None:
    header, line, _, total = run(api, pod("train-0"), count=1).stdout.splitlines()
    assert header.split("  ")[0] == "POD"
    assert line.split()[:5] == ["team/train-0", "n1", "Approval", "1m1s", "5m12s"]
    assert total == "1 waiting for permission"
    assert "GROUP" not in header


def test_members_of_gangs_name_theirs(api: ApiServer) -> None:
    header, line, *_ = run(api, pod("a", group="team/g"), count=1).stdout.splitlines()
    assert header.split()[:3] == ["POD", "NODE", "GROUP"]
    assert line.split()[2] == "team/g"


def test_none_and_more_than_are_shown(api: ApiServer) -> None:
    assert run(api, count=0).stdout == "0 waiting for permission\n"
    assert run(api, pod("a"), count=9).stdout.endswith("\n1 of 9 waiting for permission\n")
    assert json.loads(run(api, pod("a"), count=9, output="json").stdout)["count"] == 9
