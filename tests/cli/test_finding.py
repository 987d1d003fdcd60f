"""The leader is found by the kubeconfig, and tokens go to nobody but a proven API server."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from scheduler.cli import remote
from scheduler.cli.clusters import PASSED_ON
from scheduler.cli.main import cli
from scheduler.serve import access
from tests.builders import make_node, make_pod
from tests.cli.api_server import LEASE, PODS, ApiServer, api_server
from tests.cli.support import Served, serving

NOBODY = "http://127.0.0.1:1"
TOKEN = {"token": "secret"}
VIEWER = "/api/v1/namespaces/equipoise-system/serviceaccounts/equipoise-viewer/token"


def queue(identity: str, leader: str) -> dict[str, Any]:
    said = {"identity": identity, "leading": identity == leader, "leader": leader}
    return {"counts": {}, "pods": [], "replica": said}


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Nothing serves on this machine, and nobody has a kubeconfig of their own."""
    monkeypatch.setattr(remote, "LOCAL_SERVER", NOBODY)
    monkeypatch.setenv("HOME", str(tmp_path))
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "EQUIPOISE_SERVER", "EQUIPOISE_TOKEN"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def api(tmp_path: Path) -> Iterator[ApiServer]:
    with api_server(tmp_path) as server:
        server.lead("lead_1")
        server.answers["GET /api/v1/namespaces/elsewhere/pods"] = {"items": []}
        server.serve("lead", "/api/v1/queue", queue("lead_1", "lead_1"))
        yield server


def run(*arguments: str, kubeconfig: str = "") -> Result:
    return CliRunner().invoke(cli, arguments, env={"KUBECONFIG": kubeconfig or None})


def passed_on(api: ApiServer) -> list[str | None]:
    """The credentials for the scheduler, in each request that was passed on."""
    return [each.headers.get(PASSED_ON) for each in api.asked if "/proxy/" in each.target]


def test_both_sides_name_one_header() -> None:
    assert PASSED_ON == access.PASSED_ON


def test_the_leader_answers_through_the_api_server(api: ApiServer) -> None:
    result = run("queue", kubeconfig=api.kubeconfig(TOKEN))
    assert (result.exit_code, result.stderr) == (0, "")
    assert passed_on(api) == ["Bearer secret"]
    assert api.asked[-1].target.endswith(
        "/pods/https:lead:/proxy/api/v1/queue?limit=100&group=true"
    )


def test_options_name_kubeconfig_context_and_lease(api: ApiServer) -> None:
    result = run("queue", "--kubeconfig", api.kubeconfig(TOKEN), "--context", "x")
    assert result.exit_code == 0
    result = run("queue", "--lease", "elsewhere/other", kubeconfig=api.kubeconfig(TOKEN))
    assert result.exit_code == 4
    assert "no lease elsewhere/other names a leader" in result.stderr
    assert run("queue", "--lease", "nonsense").exit_code == 2


def test_another_token_may_be_given(api: ApiServer) -> None:
    run("queue", "--token", "other", kubeconfig=api.kubeconfig(TOKEN))
    assert passed_on(api) == ["Bearer other"]


def test_no_token_passes_through_a_server_that_proves_nothing(api: ApiServer) -> None:
    blind = api.kubeconfig(TOKEN, **{"insecure-skip-tls-verify": True})
    refused = (403, {"error": {"message": 'User "system:anonymous" cannot'}})
    api.serve("lead", "/api/v1/queue", refused)
    result = run("queue", kubeconfig=blind)
    assert result.exit_code == 1
    assert "No token was sent" in result.stderr
    assert passed_on(api) == [None]
    result = run("queue", "--token", "other", kubeconfig=blind)
    assert result.exit_code == 1
    assert "so no token is sent there" in result.stderr
    assert passed_on(api) == [None]


def test_a_certificate_gets_the_token_of_a_viewer(api: ApiServer) -> None:
    api.answers[f"POST {VIEWER}"] = {"status": {"token": "short-lived"}}
    assert run("queue", kubeconfig=api.kubeconfig()).exit_code == 0
    assert passed_on(api) == ["Bearer short-lived"]


def test_a_certificate_without_that_right_names_the_way_out(api: ApiServer) -> None:
    api.answers[f"POST {VIEWER}"] = 403
    refused = (403, {"error": {"message": 'User "system:anonymous" cannot'}})
    api.serve("lead", "/api/v1/queue", refused)
    result = run("queue", kubeconfig=api.kubeconfig())
    assert result.exit_code == 1
    assert "a client certificate does not pass through the API server" in result.stderr
    assert "--token $(kubectl -n equipoise-system create token equipoise-viewer)" in result.stderr


def test_errors_of_the_scheduler_are_told_in_its_words(api: ApiServer) -> None:
    api.serve("lead", "/api/v1/explain", (404, {"error": {"message": "unknown pod: team/x"}}))
    result = run("explain", "x", kubeconfig=api.kubeconfig(TOKEN))
    assert (result.exit_code, result.stderr) == (1, "equipoise: unknown pod: team/x\n")
    assert api.asked[-1].target.endswith("?pod=team%2Fx"), "the namespace is the context's"


@pytest.mark.parametrize("trouble", [404, 503])
def test_where_the_leader_does_not_answer_a_standby_does(api: ApiServer, trouble: int) -> None:
    running = {"metadata": {"name": "stand"}, "status": {"phase": "Running"}}
    failed = {"metadata": {"name": "old"}, "status": {"phase": "Failed"}}
    api.answers[f"GET {PODS}"] = {"items": [failed, running]}
    api.serve("lead", "/api/v1/queue", trouble)
    api.serve("stand", "/api/v1/queue", queue("stand_2", "lead_1"))
    result = run("queue", kubeconfig=api.kubeconfig(TOKEN))
    assert result.exit_code == 1
    assert result.stderr.startswith("equipoise: stand_2 is a standby: the leader is lead_1\n")


def test_without_any_replica_the_leader_is_named(api: ApiServer) -> None:
    api.answers[f"GET {PODS}"] = {"items": []}
    api.serve("lead", "/api/v1/queue", 503)
    result = run("queue", kubeconfig=api.kubeconfig(TOKEN))
    assert result.exit_code == 4
    assert "the leader lead_1 does not answer" in result.stderr


@pytest.mark.parametrize("where", [f"GET {LEASE}", f"GET {PODS}/https:lead:/proxy/api/v1/queue"])
def test_a_right_that_is_missing_is_named(api: ApiServer, where: str) -> None:
    api.answers[where] = 403
    result = run("queue", kubeconfig=api.kubeconfig(TOKEN))
    assert result.exit_code == 1
    assert "rbac.viewers" in result.stderr


def test_without_a_lease_its_pods_are_asked(api: ApiServer) -> None:
    api.lead("")
    running = {"metadata": {"name": "lead"}, "status": {"phase": "Running"}}
    api.answers[f"GET {PODS}"] = {"items": [running]}
    assert run("queue", kubeconfig=api.kubeconfig(TOKEN)).exit_code == 0


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    with serving([make_node("n1").obj(), make_pod("a").obj()]) as running:
        yield running


def test_without_a_kubeconfig_this_machine_is_asked(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote, "LOCAL_SERVER", served.url)
    result = run("queue")
    assert (result.exit_code, result.stderr) == (0, "")


def test_a_cluster_without_a_scheduler_is_noted_if_this_machine_answers(
    api: ApiServer, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote, "LOCAL_SERVER", served.url)
    file = api.kubeconfig(TOKEN)
    result = run("queue", "--lease", "elsewhere/x", kubeconfig=file)
    assert result.exit_code == 0
    assert "the scheduler on this machine answers" in result.stderr
    chosen = run("queue", "--lease", "elsewhere/x", "--kubeconfig", file)
    assert chosen.exit_code == 1, "a kubeconfig that the user names is not replaced"


def test_a_leader_on_this_machine_needs_no_pod(
    api: ApiServer, served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote, "LOCAL_SERVER", served.url)
    api.answers[f"GET {PODS}"] = {"items": []}
    api.lead("here")
    assert run("queue", kubeconfig=api.kubeconfig(TOKEN)).exit_code == 0
    api.lead("there")
    assert run("queue", kubeconfig=api.kubeconfig(TOKEN)).exit_code == 4


def test_no_kubeconfig_and_nothing_here_says_what_was_tried() -> None:
    result = run("queue")
    assert result.exit_code == 4
    assert "$KUBECONFIG: not set" in result.stderr
    assert NOBODY in result.stderr
