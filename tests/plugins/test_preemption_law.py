"""The dry run, in step or one node at a time, finds the victims that a plain reading finds.

However few turns it takes between two runs of the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from unittest import mock

from hypothesis import given
from hypothesis import strategies as st

from scheduler import slices
from scheduler.plugins.preemption import trial
from tests.builders import PodBuilder, make_pod
from tests.pipeline.evicting import Arena, make_box

CPUS = 4
VIP = 5
APPS = ("x", "y")
ZONES = ("z0", "z1")


@dataclass(frozen=True)
class Placed:
    """A pod on a node."""

    name: str
    cpu: int
    priority: int
    app: str
    started: int

    def build(self, node: str) -> PodBuilder:
        started = f"2026-01-01T00:00:{self.started:02}Z"
        pod = make_pod(self.name).on(node).cpu(self.cpu).priority(self.priority)
        return pod.label(app=self.app).status(startTime=started)


@dataclass(frozen=True)
class Case:
    """A small cluster, budgets (app to the number allowed) and what the pod asks for."""

    nodes: dict[str, list[Placed]]
    budgets: dict[str, int]
    cpu: int
    keeps_away: str
    """The pod refuses a zone with pods of this app; "" is fine with all."""
    nominated: dict[str, int] = field(default_factory=dict)
    """CPUs of another nominated pod of the same priority, by node."""

    def zone(self, node: str) -> str:
        return ZONES[int(node[1:]) % len(ZONES)]


def fits(case: Case, node: str, there: Sequence[Placed]) -> bool:
    """Whether the pod fits on a node with these pods on it, all other nodes being as they are."""
    used = sum(pod.cpu for pod in there) + case.nominated.get(node, 0)
    if used + case.cpu > CPUS:
        return False
    for other, pods in case.nodes.items():
        here = there if other == node else pods
        if case.zone(other) == case.zone(node) and case.keeps_away in {pod.app for pod in here}:
            return False
    return True


def victims_on(case: Case, node: str) -> tuple[list[Placed], int] | None:
    """Who has to leave, the most important first, and how many of them against a budget."""
    pods = case.nodes[node]
    stays = [pod for pod in pods if pod.priority >= VIP]
    lower = [pod for pod in pods if pod.priority < VIP]
    lower.sort(key=lambda pod: (-pod.priority, pod.started, pod.name))
    if not lower or not fits(case, node, stays):
        return None
    left = dict(case.budgets)
    protected: list[Placed] = []
    others: list[Placed] = []
    for pod in lower:
        if pod.app in left:
            left[pod.app] -= 1
        (protected if left.get(pod.app, 0) < 0 else others).append(pod)
    victims = []
    violations = 0
    for pod in protected + others:
        if fits(case, node, [*stays, pod]):
            stays.append(pod)
        else:
            victims.append(pod)
            violations += pod in protected
    return sorted(victims, key=lambda pod: (-pod.priority, pod.started, pod.name)), violations


def harm(victims: Sequence[Placed], violations: int) -> tuple[int, int, int, int, int]:
    total = sum(pod.priority + 2**31 for pod in victims)
    return violations, victims[0].priority, total, len(victims), -victims[0].started


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Nearly full nodes, since a pod that fits proves nothing here."""
    nodes: dict[str, list[Placed]] = {}
    for i in range(draw(st.integers(1, 4))):
        pods: list[Placed] = []
        while sum(pod.cpu for pod in pods) < CPUS - 1:
            cpu = draw(st.integers(1, CPUS - sum(pod.cpu for pod in pods)))
            priority = draw(st.sampled_from((0, 0, 1, -1, VIP)))
            app, started = draw(st.sampled_from(APPS)), draw(st.integers(0, 2))
            pods.append(Placed(f"p{i}{len(pods)}", cpu, priority, app, started))
        nodes[f"n{i}"] = pods
    return Case(
        nodes,
        budgets=draw(st.dictionaries(st.sampled_from(APPS), st.integers(0, 1))),
        cpu=draw(st.integers(1, CPUS)),
        keeps_away=draw(st.sampled_from(("", *APPS))),
        nominated=draw(st.dictionaries(st.sampled_from(list(nodes)), st.just(1), max_size=1)),
    )


async def outcome(case: Case) -> tuple[str, list[str]]:
    """The nominated node, and the evicted pods; a pod that fits is nominated to none."""
    arena = Arena()
    for app, allowed in case.budgets.items():
        arena.protect(app, allowed, selector={"matchLabels": {"app": app}})
    for node, pods in case.nodes.items():
        arena.see(make_box(node, CPUS).label(zone=case.zone(node)))
        arena.see(*(pod.build(node) for pod in pods))
    for node, cpu in case.nominated.items():
        # A gate keeps it from being tried, and the nomination still counts.
        rival = make_pod(f"rival-{node}").cpu(cpu).priority(VIP).gate("later")
        arena.see(rival.status(nominatedNodeName=node))
    vip = make_pod("vip").cpu(case.cpu).priority(VIP)
    if case.keeps_away:
        rule = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"app": case.keeps_away}}}
        vip._spec["affinity"] = {
            "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [rule]}
        }
    node = await arena.preempt(vip)
    await arena.core.bindings.idle()
    if not arena.outlet.bound:
        arena.check()
    return node, sorted(arena.outlet.evicted)


@given(cases(), st.sampled_from((0.0, 1e9)), st.sampled_from((1, 2, trial.MOST_TURNS)))
def test_the_least_harm_is_found(case: Case, slice_seconds: float, turns: int) -> None:
    found = {node: victims_on(case, node) for node in case.nodes}
    with (
        mock.patch.object(slices, "SLICE_SECONDS", slice_seconds),
        mock.patch.multiple(trial, TURNS_IN_STEP=turns, MOST_TURNS=turns),
    ):
        node, evicted = asyncio.run(outcome(case))
    if any(fits(case, name, pods) for name, pods in case.nodes.items()):
        assert (node, evicted) == ("", [])
        return
    candidates = {name: harm(*each) for name, each in found.items() if each is not None}
    if not candidates:
        assert (node, evicted) == ("", [])
        return
    assert candidates[node] == min(candidates.values())
    chosen = found[node]
    assert chosen is not None
    assert evicted == sorted(pod.name for pod in chosen[0])
