"""Equal input has one outcome: every report is the same in every process, however slow it is."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.simulation import place
from tests.builders import Json, constraint, make_node, make_pod, pod_term
from tests.cli.reports import QUESTIONS
from tests.cli.support import workload, write
from tests.cli.test_simulate_batch import crowd
from tests.gangs.support import make_group, member

HOST = "kubernetes.io/hostname"


def busy() -> list[Json]:
    """A crowded cluster with all that may depend on an order: gangs, affinity, victims, daemons."""
    objects = crowd(20)
    for body in objects:
        if body["kind"] == "Node":
            body["metadata"].setdefault("labels", {})[HOST] = body["metadata"]["name"]
    apart = [
        make_pod(f"apart-{i}").cpu(2).label(app="a").apart(pod_term(HOST, {"app": "a"})).obj()
        for i in range(3)
    ]
    spread = [make_pod(f"s-{i}").label(app="s").spread(constraint(HOST)).obj() for i in range(4)]
    running = [
        make_pod(f"old-{i}").cpu(20).on(f"gpu-{i % 3:02}").priority(-1).obj() for i in range(6)
    ]
    return [
        *(*objects, *apart, *spread, *running),
        *(workload("Deployment", "web", replicas=3), workload("Job", "sum")),
        workload("DaemonSet", "agent"),
    ]


def test_every_report_is_the_same_in_every_process(tmp_path: Path) -> None:
    file = write(tmp_path / "cluster.yaml", *busy())
    other = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [
            {
                "pluginConfig": [
                    {
                        "name": "NodeResourcesFit",
                        "args": {"scoringStrategy": {"type": "MostAllocated"}},
                    }
                ]
            }
        ],
    }
    config = write(tmp_path / "config.yaml", other)
    command = (sys.executable, "-m", "tests.cli.reports", file, config)
    first, second = (
        subprocess.run(
            command, env=os.environ | changes, stdout=subprocess.PIPE, check=True, text=True
        ).stdout
        for changes in ({"PYTHONHASHSEED": "0"}, {"PYTHONHASHSEED": "1", "HURRIED": "1"})
    )
    assert first == second
    for question in QUESTIONS:
        assert f"== {' '.join(question)}: 0\n" in first, "it was refused"
    for said in ("Preempted by pod", "solved at once", "MISSING", "evicted"):
        assert said in first, "the law is about nothing without it"


@st.composite
def clusters(draw: st.DrawFn) -> list[Json]:
    nodes = [
        make_node(f"n{i}").cpu(draw(st.integers(1, 4))).label(**{HOST: f"n{i}"}).obj()
        for i in range(draw(st.integers(1, 4)))
    ]
    pods = []
    for number in range(draw(st.integers(1, 8))):
        pod = make_pod(f"p{number}").cpu(draw(st.integers(1, 2))).label(app="x")
        pod.priority(draw(st.integers(0, 2)))
        match draw(st.integers(0, 3)):
            case 0:
                pod.apart(pod_term(HOST, {"app": "x"}))
            case 1:
                pod = member(f"p{number}", "g", "1")
            case 2:
                pod.on(f"n{draw(st.integers(0, len(nodes) - 1))}")
        pods.append(pod.obj())
    return [*nodes, make_group("g", 2).obj(), *pods]


@settings(deadline=None, max_examples=20)
@given(clusters(), st.booleans())
def test_a_simulation_again_comes_out_the_same(objects: list[Json], evict: bool) -> None:
    assert place(objects, evict=evict) == place(objects, evict=evict)
