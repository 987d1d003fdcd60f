"""`equipoise snapshot` and `simulate --from-cluster`, on the embedded API server."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from sandbox.apiserver import ApiServer
from scheduler.cli.snapshots import unpacked
from tests.apicontract.client import ApiEndpoint, connect
from tests.builders import Json, make_node, make_pod
from tests.demo.support import environment, finished, started

SECRET = "hunter2"


@pytest.fixture
def env(tmp_path: Path) -> dict[str, str]:
    return environment(tmp_path)


def kubeconfig(path: Path, server: str) -> str:
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "here",
        "clusters": [{"name": "here", "cluster": {"server": server}}],
        "users": [{"name": "me", "user": {"token": "t"}}],
        "contexts": [{"name": "here", "context": {"cluster": "here", "user": "me"}}],
    }
    path.write_text(json.dumps(document))
    return str(path)


async def fill(url: str) -> None:
    pod = make_pod("waits").cpu(3).obj()
    pod["spec"]["containers"][0]["env"] = [{"name": "PASSWORD", "value": SECRET}]
    running = make_pod("runs").cpu(2).on("n1").obj()
    for each in (pod, running):
        each["spec"]["containers"][0]["image"] = "app"
    async with connect(ApiEndpoint(url)) as client:
        made = [
            await client.create("/api/v1/nodes", make_node("n1").cpu(4).obj()),
            await client.create("/api/v1/namespaces/default/pods", pod),
            await client.create("/api/v1/namespaces/default/pods", running),
        ]
        assert [reply.status for reply in made] == [201] * 3, made


async def call(env: dict[str, str], *arguments: str) -> tuple[int, str, str]:
    async with started(*arguments, env=env) as process:
        return await finished(process)


def items(path: Path) -> list[Json]:
    document: Json = msgspec.json.decode(unpacked(path.read_bytes()))
    found: list[Json] = document["items"]
    return found


async def test_a_snapshot_is_simulated_like_the_cluster(
    tmp_path: Path, env: dict[str, str]
) -> None:
    file = tmp_path / "cluster.json.zst"
    async with ApiServer() as server:
        await fill(server.url)
        config = kubeconfig(tmp_path / "kubeconfig", server.url)
        code, _, said = await call(env, "snapshot", str(file), "--kubeconfig", config)
        assert code == 0, said
        arguments = ("--all-schedulers", "-o", "json")
        live = await call(env, "simulate", "--from-cluster", "--kubeconfig", config, *arguments)
        more = await call(
            env,
            *("simulate", "--from-cluster", "--kubeconfig", config),
            *("--add-nodes", "1", "like", "n1", *arguments),
        )
    copied = await call(env, "simulate", "-f", str(file), *arguments)
    assert live[0] == copied[0] == more[0] == 0, (live, copied, more)
    assert json.loads(live[1]) == json.loads(copied[1])
    assert [pod["node"] for pod in json.loads(live[1])["pods"]] == [None]
    assert [pod["node"] for pod in json.loads(more[1])["pods"]] == ["n1-new-1"]
    assert {body["kind"] for body in items(file)} >= {"Namespace", "Node", "Pod"}
    assert SECRET not in unpacked(file.read_bytes()).decode()


async def test_a_snapshot_can_have_other_names(tmp_path: Path, env: dict[str, str]) -> None:
    file = tmp_path / "cluster.json"
    async with ApiServer() as server:
        await fill(server.url)
        config = kubeconfig(tmp_path / "kubeconfig", server.url)
        code, _, said = await call(
            env, "snapshot", str(file), "--anonymise", "--kubeconfig", config
        )
        assert code == 0, said
    assert "waits" not in file.read_text()
    result = await call(env, "simulate", "-f", str(file), "--all-schedulers", "-o", "json")
    assert json.loads(result[1])["pending"] == 1


async def test_a_cluster_that_is_not_there_is_named(tmp_path: Path, env: dict[str, str]) -> None:
    config = kubeconfig(tmp_path / "kubeconfig", "http://127.0.0.1:1")
    code, _, said = await call(env, "snapshot", str(tmp_path / "c.json"), "--kubeconfig", config)
    assert code == 4
    assert "127.0.0.1:1" in said


async def test_a_name_without_a_format_is_refused(tmp_path: Path, env: dict[str, str]) -> None:
    code, _, said = await call(env, "snapshot", str(tmp_path / "cluster.tar"))
    assert code == 2
    assert ".json.zst, .json.gz or .json" in said
