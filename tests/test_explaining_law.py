"""The laws of explanations: what is said of a pod is what is done with it.

One file, one decision: whatever `simulate` does with a pod is what `explain -f` says of it, the
node it gets or why it gets none. And what a running scheduler says of the pod whose turn it is, is
what its next attempt comes to; of a manifest, what becomes of it once it is created.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import yaml
from click.testing import CliRunner
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler import inspection
from scheduler.cli.main import cli
from scheduler.model.objects import KINDS, from_dict
from scheduler.simulation import PREEMPTED, explain, place
from tests.builders import Json, make_node, make_pod, pod_term, requirement, term
from tests.cli.support import workload
from tests.examples import few
from tests.gangs.support import gang_stage, make_group, member

ZONES = ("a", "b")


@st.composite
def nodes(draw: st.DrawFn) -> list[Json]:
    made = []
    for number in range(draw(st.integers(0, 4))):
        node = make_node(f"n{number}").cpu(draw(st.integers(1, 4))).pods(10)
        node.label(zone=draw(st.sampled_from(ZONES)), **{"kubernetes.io/hostname": f"n{number}"})
        if draw(st.booleans()) and number:
            node.taint("dedicated")
        made.append(node.obj())
    return made


@st.composite
def pods(draw: st.DrawFn) -> list[Json]:
    made = []
    for number in range(draw(st.integers(1, 7))):
        name, group = f"p{number}", draw(st.sampled_from(["", "", "", "g", "h"]))
        pod = member(name, group) if group else make_pod(name)
        pod.cpu(draw(st.integers(1, 3))).label(app=draw(st.sampled_from(["x", "y"])))
        pod.priority(draw(st.sampled_from([0, 0, 5, 10])))
        match draw(st.sampled_from(["plain"] * 4 + ["on", "gate", "near", "apart", "zone", *ODD])):
            case "on":
                pod.on(f"n{draw(st.integers(0, 3))}")
            case "gate":
                pod.gate("example.com/wait")
            case "near":
                pod.near(pod_term("zone", {"app": draw(st.sampled_from(["x", "y"]))}))
            case "apart":
                pod.apart(pod_term("kubernetes.io/hostname", {"app": "x"}))
            case "zone":
                pod.required(term(requirement("zone", "In", draw(st.sampled_from(ZONES)))))
            case "tolerates":
                pod.toleration("dedicated")
            case "theirs":
                pod.scheduler("default-scheduler")
            case "never":
                pod.spec(preemptionPolicy="Never")
        made.append(pod.obj())
    return made


ODD = ("tolerates", "theirs", "never")


@st.composite
def files(draw: st.DrawFn) -> list[Json]:
    groups = [make_group(name, draw(st.integers(1, 3))).obj() for name in ("g", "h")]
    objects = [*draw(nodes()), *groups, *draw(pods())]
    order: Sequence[int] = draw(st.permutations(range(len(objects))))
    return [objects[i] for i in order]


def check(answer: dict[str, Any], node: str | None, message: str) -> None:
    assert answer["node"] == node
    if node is not None:
        assert answer["nodes"][node]["fit"]
        assert answer["wouldGoTo"] is None
        return
    said = answer["standing"]["message"] or answer["message"]
    assert said == message
    if answer["wouldGoTo"] is not None:  # then something else than the nodes is said to hold it
        assert answer["standing"]["state"] in ("gated", "group")


@settings(deadline=None, max_examples=few(30))
@given(files())
def test_the_placement_of_a_simulation_is_what_is_explained(objects: list[Json]) -> None:
    placed = place(objects)
    assert placed == place(objects)
    by_key = {f"default/{o['metadata']['name']}": o for o in objects if o["kind"] == "Pod"}
    for key, node, message in placed:
        check(explain(objects, by_key[key]), node, message)
    for key in by_key.keys() - {outcome[0] for outcome in placed}:
        state = explain(objects, by_key[key])["standing"]["state"]
        assert state == ("bound" if by_key[key]["spec"].get("nodeName") else "other-scheduler")


@settings(deadline=None, max_examples=8)
@given(files())
def test_so_do_the_commands(objects: list[Json]) -> None:
    with TemporaryDirectory() as directory:
        file = Path(directory) / "cluster.yaml"
        made = [workload("DaemonSet", "agent"), workload("Deployment", "web", replicas=2)]
        file.write_text(yaml.safe_dump_all([*objects, *made]))
        run = CliRunner().invoke
        outcome = run(cli, ["simulate", "-f", str(file), "-o", "json"])
        for pod in json.loads(outcome.stdout)["pods"]:
            result = run(cli, ["explain", pod["pod"], "-f", str(file), "-o", "json"])
            answer = json.loads(result.stdout)
            check(answer, pod["node"], pod["message"])
            assert result.exit_code == (0 if pod["node"] else 3)


class Given(NamedTuple):
    """An object as a stage sees it."""

    body: Json

    def obj(self) -> Json:
        return self.body

    def struct(self) -> Any:
        return from_dict(self.body, KINDS[self.body["kind"]].type)


async def attempted(objects: Sequence[Json]) -> None:
    stage = gang_stage()
    stage.see(*map(Given, objects))
    pods = {pod.key: pod for o in objects if o["kind"] == "Pod" for pod in [Given(o).struct()]}
    while (head := stage.core.queue.peek()) is not None:
        answer = await inspection.explain(stage.core, pods, head.key)
        before = dict(stage.outlet.bound)
        stage.attempt()
        await stage.idle()
        bound = dict(stage.outlet.bound)
        assert before.items() <= bound.items()
        if answer["standing"]["state"] == "active":
            assert bound.get(head.key) == answer["node"]
            continue
        assert answer["standing"]["state"] in ("group", "backoff")
        if head.key in bound:
            assert answer["nodes"][bound[head.key]]["fit"]


@settings(deadline=None, max_examples=60)
@given(files())
def test_what_is_explained_of_the_next_pod_is_what_comes_of_its_attempt(
    objects: list[Json],
) -> None:
    asyncio.run(attempted(objects))


@st.composite
def full_clusters(draw: st.DrawFn) -> list[Json]:
    """Nodes, pods of all priorities on them, and a pod that may have to evict some."""
    made = [make_node(f"n{i}").cpu(draw(st.integers(1, 4))).obj() for i in range(3)]
    for number in range(draw(st.integers(0, 8))):
        pod = make_pod(f"r{number}").cpu(draw(st.integers(1, 2))).label(app="r")
        priority, node = draw(st.sampled_from([0, 3, 5, 9])), draw(st.integers(0, 2))
        made.append(pod.priority(priority).on(f"n{node}").obj())
    wanted = make_pod("p").cpu(draw(st.integers(1, 4))).priority(5)
    if draw(st.booleans()):
        wanted.apart(pod_term("kubernetes.io/hostname", {"app": "r"}))
    made = [_named(each) for each in made]
    return [*made, wanted.obj()]


def _named(body: Json) -> Json:
    if body["kind"] == "Node":
        body["metadata"].setdefault("labels", {})["kubernetes.io/hostname"] = body["metadata"][
            "name"
        ]
    return body


@settings(deadline=None, max_examples=60)
@given(full_clusters())
def test_whom_a_pod_is_said_to_evict_is_whom_it_evicts(objects: list[Json]) -> None:
    answer = explain(objects, objects[-1])
    outcomes = place(objects, evict=True)
    evicted = sorted(key for key, _, message in outcomes if message.startswith(PREEMPTED))
    [node] = [node for key, node, _ in outcomes if key == "default/p"]
    preview = answer["preemption"]
    if answer["node"] is not None or preview is None:
        assert (node, evicted) == (answer["node"], [])
    else:
        assert sorted(preview["victims"]) == evicted
        assert node == preview["node"]


async def created_after_all(objects: Sequence[Json]) -> None:
    *others, wanted = map(Given, objects)
    stage, key = gang_stage(), "default/p"
    stage.see(*others)
    asked = await inspection.explain(stage.core, {}, key, manifest=wanted.struct())
    assert stage.core.queue.view.entry(key, wanted.struct().metadata.uid) is None
    stage.see(wanted)
    waits = await inspection.explain(stage.core, {key: wanted.struct()}, key)
    await stage.run()
    assert dict(stage.outlet.bound).get(key) == asked["node"] == waits["node"]
    assert asked["nodes"] == waits["nodes"]
    assert asked["scores"] == waits["scores"]


@settings(deadline=None, max_examples=40)
@given(full_clusters())
def test_what_is_said_of_a_manifest_is_what_becomes_of_the_pod(objects: list[Json]) -> None:
    asyncio.run(created_after_all(objects))
