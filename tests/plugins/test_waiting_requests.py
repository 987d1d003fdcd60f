"""What all waiting pods request, in one table: it answers as the hint does for each of them."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.model.events import ASSIGNED_POD, Action, Event, Hint
from scheduler.plugins import waiting_requests
from scheduler.plugins.node_resources_fit import NodeResourcesFit
from scheduler.queueing.columns import members
from scheduler.queueing.hints import HintRegistration
from tests.builders import NodeBuilder, PodBuilder, make_node, make_pod
from tests.plugins.support import Bench

RESOURCES = ("cpu", "memory", "example.com/a", "example.com/b", "example.com/c")
AMOUNTS = st.dictionaries(st.sampled_from(RESOURCES), st.integers(0, 4), max_size=4)


def node_with(name: str, amounts: dict[str, int], pods: int = 3) -> NodeBuilder:
    node = make_node(name).pods(str(pods))
    for resource, amount in amounts.items():
        node.offer(resource, str(amount))
    return node


def pod_with(name: str, amounts: dict[str, int]) -> PodBuilder:
    pod = make_pod(name)
    for resource, amount in amounts.items():
        pod.request(resource, str(amount))
    return pod


def registered(bench: Bench) -> tuple[HintRegistration, HintRegistration]:
    pods, nodes, _classes = bench.framework.hints()[NodeResourcesFit.name]
    return pods, nodes


@settings(deadline=None)
@given(
    offered=st.lists(AMOUNTS, min_size=1, max_size=3),
    used=st.lists(st.tuples(st.integers(0, 2), AMOUNTS), max_size=5),
    wanted=st.lists(AMOUNTS, min_size=1, max_size=6),
    gone=st.sets(st.integers(0, 5)),
    grown=AMOUNTS,
    few=st.booleans(),
)
def test_the_table_answers_as_the_hint(
    offered: list[dict[str, int]],
    used: list[tuple[int, dict[str, int]]],
    wanted: list[dict[str, int]],
    gone: set[int],
    grown: dict[str, int],
    few: bool,
) -> None:
    nodes = [node_with(f"n{i}", amounts) for i, amounts in enumerate(offered)]
    running = [
        pod_with(f"r{i}", amounts).on(f"n{node % len(nodes)}")
        for i, (node, amounts) in enumerate(used)
    ]
    bench = Bench(NodeResourcesFit, nodes, running)
    of_pods, of_nodes = registered(bench)
    assert of_pods.column is not None
    assert of_pods.column == of_nodes.column
    before = waiting_requests.MOST_RESOURCES
    waiting_requests.MOST_RESOURCES = 2 if few else before
    try:
        table = of_pods.column()
        pods = {i: pod_with(f"w{i}", amounts).info() for i, amounts in enumerate(wanted)}
        for number, pod in pods.items():
            table.add(number, pod)
        for number in gone & pods.keys():
            table.remove(number)
            del pods[number]
        left = pod_with("gone", {}).on("n0").info()
        better = node_with("n0", {**offered[0], **grown})
        for registration, event in (
            (of_pods, Event(ASSIGNED_POD, Action.DELETE, left)),
            (of_nodes, Event("Node", Action.ADD, None, better.struct())),
            (of_nodes, Event("Node", Action.NODE_ALLOCATABLE, nodes[0].struct(), better.struct())),
        ):
            hint = registration.hint
            assert hint is not None
            answer = table.answer(event)
            cured, unsure = members(answer.cured), answer.unsure
            expected = {number for number, pod in pods.items() if hint(pod, event) is Hint.QUEUE}
            assert set(cured) <= expected <= {*cured, *unsure}
            assert few or not unsure
        accepted = {
            number
            for number, pod in pods.items()
            if bench.framework.plugins[bench.name].accepts(pod, bench.state.rows()).any()  # type: ignore[attr-defined]  # it is quick
        }
        assert not accepted & set(members(table.hopeless()))
    finally:
        waiting_requests.MOST_RESOURCES = before


@settings(deadline=None)
@given(
    offered=st.lists(AMOUNTS, min_size=1, max_size=3),
    used=st.lists(st.tuples(st.integers(0, 2), AMOUNTS), max_size=5),
    wanted=AMOUNTS,
)
def test_a_quick_look_accepts_what_the_filter_accepts(
    offered: list[dict[str, int]], used: list[tuple[int, dict[str, int]]], wanted: dict[str, int]
) -> None:
    nodes = [node_with(f"n{i}", amounts) for i, amounts in enumerate(offered)]
    running = [
        pod_with(f"r{i}", amounts).on(f"n{node % len(nodes)}")
        for i, (node, amounts) in enumerate(used)
    ]
    bench = Bench(NodeResourcesFit, nodes, running)
    pod = pod_with("p", wanted)
    fits = any(status.ok for status in bench.verdicts(pod).values())
    rows = bench.state.rows()
    assert bench.framework.filters.still_reject([bench.name], pod.info(), rows) is not fits


def test_the_table_forgets_resources_that_nobody_wants_any_more() -> None:
    bench = Bench(NodeResourcesFit, [node_with("n", {"cpu": 1})])
    column = registered(bench)[0].column
    assert column is not None
    table = column()
    assert isinstance(table, waiting_requests.WaitingRequests)
    for number in range(1000):
        table.add(number, pod_with("p", {f"example.com/{number}": 1}).uid(f"u{number}").info())
    assert len(table._amounts) == waiting_requests.MOST_RESOURCES
    for number in range(1000):
        table.remove(number)
    assert not table._amounts


def test_one_pod_may_stand_for_several_waiters() -> None:
    bench = Bench(NodeResourcesFit, [node_with("n", {"cpu": 1})])
    column = registered(bench)[0].column
    assert column is not None
    table = column()
    assert isinstance(table, waiting_requests.WaitingRequests)
    pod = pod_with("p", {"cpu": 1}).info()
    table.add(0, pod)
    table.add(1, pod)
    table.remove(0)
    table.remove(1)
    assert not table._amounts
    assert not table._numbers
