"""`equipoise fingerprint`: prints, compares, and says what is different."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from sandbox.apiserver import ApiServer
from scheduler.cli.fingerprint_command import fingerprint
from scheduler.numa.fingerprint import fingerprint as fingerprint_of
from tests.apicontract.client import ApiEndpoint, connect
from tests.builders import PodBuilder, make_pod
from tests.cli.support import Json, write
from tests.kube.support import Kubeconfig

A, B, C = ("default", "a"), ("default", "b"), ("default", "c")


def run(*arguments: str) -> Result:
    return CliRunner().invoke(fingerprint, arguments)


def pods() -> list[PodBuilder]:
    return [
        make_pod("a").image("app").on("n1").phase("Running"),
        make_pod("b").image("app").on("n1").phase("Succeeded"),
        make_pod("c").image("app").on("n2").phase("Running"),
    ]


def topology(node: str, text: str, method: str = "all") -> Json:
    return {
        "apiVersion": "topology.node.k8s.io/v1alpha2",
        "kind": "NodeResourceTopology",
        "metadata": {"name": node},
        "attributes": [
            {"name": "nodeTopologyPodsFingerprint", "value": text},
            {"name": "nodeTopologyPodsFingerprintMethod", "value": method},
        ],
        "zones": [],
    }


def test_names_are_enough() -> None:
    result = run("default/b", "default/a")
    assert result.exit_code == 0
    assert result.output.startswith(fingerprint_of([A, B]))


@pytest.mark.parametrize("text", ["a", "/a", "default/", "", "default/a/b"])
def test_a_bad_name_is_named(text: str) -> None:
    result = run(text)
    assert result.exit_code == 2
    assert repr(text) in result.output


def test_the_pods_of_a_node_are_compared_with_what_it_published(tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    write(file, *(pod.obj() for pod in pods()), topology("n1", fingerprint_of([A, B])))
    result = run("-f", str(file), "--node", "n1")
    assert (result.exit_code, "the same" in result.output) == (0, True)


@pytest.mark.parametrize(
    ("published", "words"),
    [
        pytest.param([A], "without pods that are Succeeded or Failed", id="finished"),
        pytest.param([B], "without default/a", id="one pod"),
        pytest.param([C], "differs by more than one pod", id="others"),
    ],
)
def test_a_difference_is_explained(
    published: list[tuple[str, str]], words: str, tmp_path: Path
) -> None:
    file = tmp_path / "cluster.yaml"
    write(file, *(pod.obj() for pod in pods()), topology("n1", fingerprint_of(published)))
    result = run("-f", str(file), "--node", "n1", "-o", "json")
    assert result.exit_code == 1
    answer = json.loads(result.output)
    assert words in answer["difference"]
    assert answer["match"] is False


def test_what_is_no_fingerprint_is_said_to_be_none() -> None:
    result = run("default/a", "--expect", "nonsense")
    assert (result.exit_code, "malformed" in result.output) == (1, True)


def test_only_pods_with_exclusive_resources_count_where_the_agent_says_so(tmp_path: Path) -> None:
    file = tmp_path / "cluster.yaml"
    pinned = make_pod("d").image("app").request("example.com/nic", 1).on("n1").phase("Running")
    everybody = [pod.obj() for pod in (*pods(), pinned)]
    published = fingerprint_of([("default", "d")])
    write(file, *everybody, topology("n1", published, "with-exclusive-resources"))
    result = run("-f", str(file), "--node", "n1")
    assert result.exit_code == 0
    assert "1 pod (with-exclusive-resources)" in result.output
    write(file, *everybody, topology("n1", published))
    result = run("-f", str(file), "--node", "n1")
    assert (result.exit_code, "no exclusive resources" in result.output) == (1, True)


def test_a_node_without_an_object_is_said_to_have_none(tmp_path: Path) -> None:
    write(tmp_path / "cluster.yaml", *(pod.obj() for pod in pods()))
    result = run("-f", str(tmp_path / "cluster.yaml"), "--node", "n3")
    assert "no NodeResourceTopology of node n3" in result.stderr


def test_objects_of_other_kinds_are_no_concern(tmp_path: Path) -> None:
    other = {"kind": "Other", "metadata": {"name": "a"}, "spec": ["nodeName"]}
    write(tmp_path / "cluster.yaml", other, pods()[0].obj())
    assert run("-f", str(tmp_path / "cluster.yaml")).output.startswith(fingerprint_of([A]))


def test_nothing_given_is_a_mistake() -> None:
    assert run().exit_code == 2


async def test_a_node_is_asked_live(tmp_path: Path) -> None:
    async with ApiServer() as server:
        async with connect(ApiEndpoint(server.url)) as client:
            for pod in pods():
                (await client.create("/api/v1/namespaces/default/pods", pod.obj())).ok(201)
        config = Kubeconfig(tmp_path, {"server": server.url}).write()
        result = await asyncio.to_thread(run, "--node", "n1", "--kubeconfig", config)
    assert (result.exit_code, result.stdout.split()[0]) == (0, fingerprint_of([A, B]))
