"""The filter against the emulated kubelet, which shares no code with the plugin.

What the kubelet publishes here is the whole truth at the moment of asking, so that both must agree.
"""

from __future__ import annotations

import copy
from itertools import count
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sandbox.numa.kubelet import NumaKubelet
from sandbox.numa.machine import Machine, MachineCell
from sandbox.numa.publishing import topology
from sandbox.numa.settings import KubeletSettings, PublisherSettings
from scheduler.model.nodes import Node, NodeResourceTopology
from scheduler.model.objects import from_dict
from scheduler.plugin_api.cycle import Cycle
from tests.builders import PodBuilder, make_pod
from tests.numa.support import GIB, Numa, with_container
from tests.pipeline.support import Change

GPU = "example.com/gpu"


@st.composite
def machines(draw: st.DrawFn) -> Machine:
    ids = sorted(draw(st.sets(st.integers(0, 5), min_size=1, max_size=3)))
    cells = tuple(
        MachineCell(
            number,
            draw(st.integers(2, 6)),
            draw(st.integers(2, 6)) * GIB,
            devices={GPU: draw(st.integers(1, 2))} if draw(st.booleans()) else {},
        )
        for number in ids
    )
    return Machine(cells)


@st.composite
def amounts(draw: st.DrawFn) -> dict[str, Any]:
    wanted: dict[str, Any] = {
        "cpu": draw(st.sampled_from(["1", "2", "3", "5", "500m"])),
        "memory": f"{draw(st.integers(1, 4))}Gi",
    }
    if draw(st.integers(0, 3)) == 0:
        wanted[GPU] = draw(st.integers(1, 2))
    return wanted


@st.composite
def pods(draw: st.DrawFn, name: str) -> PodBuilder:
    if draw(st.integers(0, 4)) == 0:
        burstable = make_pod(name).cpu(1)
        return burstable.request(GPU, 1) if draw(st.booleans()) else burstable
    pod = make_pod(name).no_containers()
    for _ in range(draw(st.integers(1, 2))):
        with_container(pod, draw(amounts()))
    kind = draw(st.sampled_from(["", "", "init", "sidecar"]))
    if kind:
        with_container(pod, draw(amounts()), **{kind: True})
    return pod


class Listener:
    """A scheduler that has the true nodes and cells."""

    def __init__(self, *, cache: bool) -> None:
        self._numa = Numa(reserve=cache)
        self._names = (f"n{i}" for i in count())

    def verdict(self, kubelet: NumaKubelet, present: list[PodBuilder], pod: PodBuilder) -> bool:
        """Whether the filter lets a pod pass to a node on which others are."""
        name = next(self._names)
        handler = self._numa.stage.core.event_handlers.handler
        handler("Node")([Change(None, from_dict(kubelet.machine.node(name), Node))])
        bound = [
            each.uid(f"{name}-{i}").on(name).phase("Running") for i, each in enumerate(present)
        ]
        handler("Pod")([Change(None, each.struct()) for each in bound])
        body = topology(kubelet, PublisherSettings(), truth=True)
        body["metadata"]["name"] = name
        handler("NodeResourceTopology")([Change(None, from_dict(body, NodeResourceTopology))])
        row = self._numa.state.row(name)
        assert row is not None
        cycle = Cycle(pod.info(), self._numa.state)
        code = int(self._numa.plugin.filter(cycle, np.array([row]))[0])
        assert self._numa.plugin.filter_one(cycle, row) == code
        return not code


PUBLISHED, RESERVED = Listener(cache=False), Listener(cache=True)


def _limited(pod: PodBuilder) -> PodBuilder:
    """Devices are limited to what is requested, as the API server insists."""
    for container in pod.obj()["spec"]["containers"]:
        resources = container.get("resources", {})
        if GPU in resources.get("requests", {}):
            resources.setdefault("limits", {})[GPU] = resources["requests"][GPU]
            pod.spec(containers=[container])
    return pod


@st.composite
def situations(draw: st.DrawFn, policy: Any) -> tuple[NumaKubelet, list[PodBuilder], PodBuilder]:
    """A kubelet, the pods that it has admitted, and a new one."""
    scope: Any = draw(st.sampled_from(["container", "pod"]))
    kubelet = NumaKubelet("n", draw(machines()), KubeletSettings(policy=policy, scope=scope))
    offered = [_limited(draw(pods(f"old{i}"))) for i in range(draw(st.integers(0, 3)))]
    present = [pod for pod in offered if kubelet.admit(pod.struct()) is None]
    return kubelet, present, _limited(draw(pods("new")))


def taken(kubelet: NumaKubelet, pod: PodBuilder) -> bool:
    """Whether the Topology Manager would have a pod; that the node is large enough is not its
    business."""
    trial = copy.deepcopy(kubelet)
    refusal = trial.admit(pod.struct())
    return refusal is None or refusal.reason.startswith("OutOf")


@given(situations("single-numa-node"))
def test_the_filter_agrees_with_the_kubelet(
    situation: tuple[NumaKubelet, list[PodBuilder], PodBuilder],
) -> None:
    kubelet, present, newcomer = situation
    assert PUBLISHED.verdict(kubelet, present, newcomer) == taken(kubelet, newcomer)


@given(situations("single-numa-node"))
def test_the_kubelet_takes_what_the_reserve_cache_lets_pass(
    situation: tuple[NumaKubelet, list[PodBuilder], PodBuilder],
) -> None:
    kubelet, present, newcomer = situation
    assert taken(kubelet, newcomer) or not RESERVED.verdict(kubelet, present, newcomer)


@given(situation=situations("restricted"))
def test_a_restricted_kubelet_takes_what_the_filter_lets_pass(
    situation: tuple[NumaKubelet, list[PodBuilder], PodBuilder],
) -> None:
    kubelet, present, newcomer = situation
    expected = taken(kubelet, newcomer)
    assert expected or not RESERVED.verdict(kubelet, present, newcomer)
    if not present:  # objects do not show which cells are grouped by pods that need several
        assert expected or not PUBLISHED.verdict(kubelet, present, newcomer)
