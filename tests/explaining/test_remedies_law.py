"""The law of remedies: each of them, followed to the letter, lets the pod in, and no less does.

Exactly: the nodes that a remedy opens are those on which the pod then fits. Without any one of its
changes the pod fits on none of them; nor with one unit more of a request that is lowered, or with a
`maxSkew` that is smaller by one; a node that is added has pods of DaemonSets on it by then. A pod
that fits has no remedies, and looking for them changes nothing. While other pods wait, the pod fits
both where they are placed first and in the objects as they were given.
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Iterator
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler import simulation
from scheduler.explaining.remedies.scene import MAX_TRIALS
from scheduler.model.events import Event
from scheduler.model.workloads import POD_GROUP_LABEL
from scheduler.simulation import explain
from scheduler.simulation.explained import ExplainedPod
from scheduler.simulation.loading import load
from scheduler.state.cache import ClusterState
from tests.builders import (
    Json,
    NodeBuilder,
    PodBuilder,
    constraint,
    make_node,
    make_pod,
    pod_term,
    requirement,
    term,
)
from tests.explaining.support import applied, beside_daemons, fits
from tests.gangs.support import make_group, member

HOSTNAME, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
MOST = 10


@st.composite
def clusters(draw: st.DrawFn) -> list[Json]:
    made: list[Json] = []
    for number in range(draw(st.integers(0, 5))):
        made.append(_node(draw, f"n{number}").obj())
        pods = range(draw(st.integers(0, 3)))
        made += [_neighbour(draw, f"n{number}", f"p{number}{pod}").obj() for pod in pods]
    return made


def _node(draw: st.DrawFn, name: str) -> NodeBuilder:
    node = make_node(name).cpu(draw(st.integers(1, 4))).memory(f"{draw(st.integers(1, 4))}Gi")
    node.label(**{HOSTNAME: name}).pods(draw(st.sampled_from([2, 3, 110])))
    if zone := draw(st.sampled_from(["", "east", "west"])):
        node.label(**{ZONE: zone})
    if disk := draw(st.sampled_from(["", "ssd", "hdd"])):
        node.label(disk=disk)
    for key, value in draw(st.sampled_from(TAINTS)):
        node.taint(key, value)
    if draw(st.sampled_from([False, False, False, True])):
        node.cordoned().taint("node.kubernetes.io/unschedulable")
    if draw(st.integers(0, 3)) == 0:
        node.offer("example.com/gpu", 2)
    return node


TAINTS: list[list[tuple[str, str]]] = [
    *([], [], [], [("gpu", "yes")], [("gpu", "yes"), ("team", "a")]),
    *([("team", "b")], [("node.kubernetes.io/not-ready", "")]),
]


def _neighbour(draw: st.DrawFn, node: str, name: str) -> PodBuilder:
    pod = make_pod(name).on(node).cpu(f"{draw(st.integers(1, 20))}00m").memory("512Mi")
    pod.label(app=draw(st.sampled_from(["web", "cache"])))
    pod.priority(draw(st.sampled_from([0, 0, 100])))
    match draw(st.sampled_from(["", "", "", "apart", "port", "leaving", "daemon"])):
        case "apart":
            pod.apart(pod_term(HOSTNAME, {"app": "web"}))
        case "port":
            pod.host_port(80)
        case "leaving":
            pod.deleting()
        case "daemon":
            pod.owner("DaemonSet", "agent")
    return pod


@st.composite
def wanting(draw: st.DrawFn) -> Json:
    pod = make_pod("wanting").label(app="web").priority(draw(st.sampled_from([0, 100])))
    pod.cpu(f"{draw(st.integers(1, 50))}00m").memory(draw(st.sampled_from(["1Gi", "3Gi", "9Gi"])))
    wishes = st.lists(st.sampled_from(sorted(WISHES)), max_size=3, unique=True)
    for wish in draw(wishes):
        WISHES[wish](pod)
    return pod.obj()


WISHES: dict[str, Any] = {
    "selector": lambda pod: pod.node_selector(disk="sdd"),
    "two labels": lambda pod: pod.node_selector(disk="ssd", tier="front"),
    "affinity": lambda pod: pod.required(
        term(requirement("disk", "In", "nvme"), requirement("rack", "Exists")),
        term(requirement(ZONE, "In", "eest")),
    ),
    "tolerates": lambda pod: pod.toleration("gpu", "Exists"),
    "near": lambda pod: pod.near(pod_term(ZONE, {"app": "cache"})),
    "nobody": lambda pod: pod.near(pod_term(HOSTNAME, {"app": "cahce"})),
    "apart": lambda pod: pod.apart(pod_term(HOSTNAME, {"app": "web"})),
    "spread": lambda pod: pod.spread(
        constraint(ZONE, labelSelector={"matchLabels": {"app": "web"}})
    ),
    "hosts": lambda pod: pod.spread(
        constraint(HOSTNAME, labelSelector={"matchLabels": {"app": "web"}})
    ),
    "rack": lambda pod: pod.spread(constraint("rack", labelSelector={"matchLabels": {"app": "x"}})),
    "port": lambda pod: pod.host_port(80),
    "gpus": lambda pod: pod.request("example.com/gpus", 1),
    "gpu": lambda pod: pod.request("example.com/gpu", 1),
    "containers": lambda pod: pod.container({"cpu": "500m", "memory": "256Mi"}),
    "init": lambda pod: pod.init_container({"cpu": "3", "memory": "2Gi"}),
    "sidecar": lambda pod: pod.sidecar({"cpu": "1"}),
    "overhead": lambda pod: pod.overhead(cpu="250m"),
    "gate": lambda pod: pod.gate("example.com/wait"),
    "theirs": lambda pod: pod.scheduler("default-scheduler"),
    "limits": lambda pod: pod.spec(terminationGracePeriodSeconds=5),
}


@st.composite
def crowded(draw: st.DrawFn) -> list[Json]:
    """One or two nodes with room for the pod, but for other pods."""
    made: list[Json] = []
    for number in range(draw(st.integers(1, 2))):
        name = f"n{number}"
        made.append(make_node(name).cpu(4).memory("8Gi").label(**{HOSTNAME: name}).obj())
        pods = range(draw(st.integers(1, 6)))
        made += [_neighbour(draw, name, f"p{number}{pod}").obj() for pod in pods]
    return made


@st.composite
def modest(draw: st.DrawFn) -> Json:
    """A pod that fits on an empty node."""
    pod = make_pod("modest").label(app="web").priority(draw(st.sampled_from([0, 100])))
    pod.cpu(f"{draw(st.integers(10, 40))}00m")
    for wish in draw(st.sampled_from([[], [], ["port"], ["apart"], ["spread"], ["hosts"]])):
        WISHES[wish](pod)
    return pod.obj()


@given(clusters(), wanting())
def test_every_remedy_lets_the_pod_in_and_nothing_less_does(objects: list[Json], pod: Json) -> None:
    check(objects, pod)


@given(crowded(), modest())
def test_it_holds_where_others_stand_in_the_way(objects: list[Json], pod: Json) -> None:
    check(objects, pod)


@st.composite
def waiting(draw: st.DrawFn) -> list[Json]:
    """Other pods that wait; some keep room on a node, some are placed before the explained one."""
    made: list[Json] = []
    for number in range(draw(st.integers(1, 3))):
        pod = make_pod(f"other{number}").cpu(f"{draw(st.integers(1, 20))}00m")
        pod.label(app=draw(st.sampled_from(["web", "cache"])))
        pod.priority(draw(st.sampled_from([0, 50, 1000])))
        if draw(st.booleans()):
            pod.status(nominatedNodeName=draw(st.sampled_from(["n0", "n1"])))
        match draw(st.sampled_from(["", "", "apart", "port", "gate", "leaving"])):
            case "apart":
                pod.apart(pod_term(HOSTNAME, {"app": "web"}))
            case "port":
                pod.host_port(80)
            case "gate":
                pod.gate("example.com/wait")
            case "leaving":
                pod.deleting()
        made.append(pod.obj())
    return made


@given(st.one_of(clusters(), crowded()), waiting(), st.one_of(wanting(), modest()))
def test_it_lets_the_pod_in_though_others_wait(
    objects: list[Json], others: list[Json], pod: Json
) -> None:
    """Those who apply the changes have the objects as they are, and nobody is placed there yet."""
    together = [*objects, *others]
    for remedy in explain(together, pod)["remedies"]:
        assert remedy["opens"], remedy
        assert set(remedy["opens"]) <= set(fits(together, pod, remedy["changes"])), remedy


@st.composite
def gangs(draw: st.DrawFn) -> list[Json]:
    """A pod group and its members, the explained one last, and nodes for some of them."""
    made = [_worker(f"n{n}", draw(st.sampled_from([2, 4]))) for n in range(draw(st.integers(1, 3)))]
    named = draw(st.sampled_from(["g", "g", "g", "another"]))
    made.append(make_group(named, draw(st.integers(1, 6))).obj())
    for number in range(draw(st.integers(1, 5))):
        pod = member(f"m{number}", cpu=draw(st.sampled_from(["1", "2", "3"])))
        if draw(st.integers(0, 5)) == 0:
            pod.gate("example.com/wait")
        if draw(st.integers(0, 5)) == 0:
            pod.apart(pod_term(HOSTNAME, {POD_GROUP_LABEL: "g"}))
        made.append(pod.obj())
    return made


def _worker(name: str, cpu: int) -> Json:
    return make_node(name).cpu(cpu).label(**{HOSTNAME: name}).obj()


@given(gangs())
@settings(max_examples=60)
def test_a_remedy_for_a_gang_lets_it_run(objects: list[Json]) -> None:
    pod = objects.pop()
    for remedy in explain(objects, pod)["remedies"]:
        if not any(word in remedy["summary"] for word in ("roup default/g", "for all members")):
            continue
        changed, own = applied(objects, pod, remedy["changes"])
        nodes = {each[0]: each[1] for each in simulation.place([*changed, own])}
        running = sum(node is not None for key, node in nodes.items() if "/m" in key)
        (group,) = [e for e in changed if e["kind"] == "PodGroup" and e["metadata"]["name"] == "g"]
        assert running >= group["spec"]["minMember"], remedy
        others = "others than this pod" in remedy["summary"]
        assert (nodes[f"default/{pod['metadata']['name']}"] is None) == others, remedy


def check(objects: list[Json], pod: Json) -> None:
    """Assert the law."""
    answer = explain(objects, pod)
    held = bool(pod["spec"].get("schedulingGates")) or pod["spec"]["schedulerName"] != "equipoise"
    if answer["fit"] and not held:
        assert answer["remedies"] == []
    assert len(answer["remedies"]) <= MOST
    assert explain(objects, pod)["remedies"] == answer["remedies"]
    for remedy in answer["remedies"]:
        opens, changes = remedy["opens"], remedy["changes"]
        assert opens, remedy
        assert fits(objects, pod, changes) == opens, remedy
        for less, why in _less(objects, pod, changes):
            left = fits(objects, pod, beside_daemons(objects, less))
            assert not set(left) & set(opens) or _only_held(why, held), (why, left, remedy)


def _only_held(why: str, held: bool) -> bool:
    """Gates and names of schedulers are no matter of filters."""
    return held and why in ("without spec.schedulingGates", "without spec.schedulerName")


def _less(objects: list[Json], pod: Json, changes: list[Json]) -> Iterator[tuple[list[Json], str]]:
    """Smaller remedies of the same kinds."""
    for number, change in enumerate(changes):
        others = changes[:number] + changes[number + 1 :]
        if change["op"] != "patch" or change["kind"] != "Pod":
            yield others, f"without {change['op']} of {change.get('name', 'a node')}"
            continue
        for field in change["patch"]["spec"]:
            fewer = copy.deepcopy(change)
            del fewer["patch"]["spec"][field]
            yield [fewer, *others], f"without spec.{field}"
        _, after = applied(objects, pod, [change])
        for smaller, why in _smaller_pods(pod, after):
            spec = {
                key: value
                for key, value in smaller["spec"].items()
                if value != pod["spec"].get(key)
            }
            gone = {key: None for key in pod["spec"] if key not in smaller["spec"]}
            yield [{**change, "patch": {"spec": {**spec, **gone}}}, *others], why


def _smaller_pods(before: Json, after: Json) -> Iterator[tuple[Json, str]]:
    """The changed pod with one change a little less far."""
    old, new = _requests(before), _requests(after)
    for (field, place, resource), amount in new.items():
        asked = old.get((field, place, resource))
        if asked is None or asked == amount:
            continue
        more = copy.deepcopy(after)
        unit = "m" if resource == "cpu" else ""
        text = f"{_number(resource, amount) + 1}{unit}"
        more["spec"][field][place]["resources"]["requests"][resource] = text
        yield more, f"{field}[{place}] {resource} {text}"
    spread = after["spec"].get("topologySpreadConstraints", [])
    for place, each in enumerate(spread):
        skew = before["spec"]["topologySpreadConstraints"][place]["maxSkew"]
        if each["maxSkew"] > skew:
            more = copy.deepcopy(after)
            more["spec"]["topologySpreadConstraints"][place]["maxSkew"] -= 1
            yield more, f"maxSkew {each['maxSkew'] - 1}"
    had = before["spec"].get("tolerations", [])
    tolerations = after["spec"].get("tolerations", [])
    assert tolerations[: len(had)] == had
    for place in range(len(had), len(tolerations)):
        more = copy.deepcopy(after)
        del more["spec"]["tolerations"][place]
        yield more, f"without toleration {tolerations[place]}"


def _requests(pod: Json) -> dict[tuple[str, int, str], Any]:
    return {
        (field, place, resource): amount
        for field in ("containers", "initContainers")
        for place, each in enumerate(pod["spec"].get(field, []))
        for resource, amount in each.get("resources", {}).get("requests", {}).items()
    }


def _number(resource: str, amount: Any) -> int:
    """A quantity in milli-CPUs or bytes, read without the scheduler's help."""
    text = str(amount)
    if resource == "cpu":
        return int(text[:-1]) if text.endswith("m") else int(text) * 1000
    for suffix, factor in (("Ki", 2**10), ("Mi", 2**20), ("Gi", 2**30)):
        if text.endswith(suffix):
            return int(text[:-2]) * factor
    return int(text)


@given(clusters(), wanting())
@settings(max_examples=60)
def test_looking_for_remedies_changes_nothing(objects: list[Json], pod: Json) -> None:
    explained = ExplainedPod([*objects], pod, None)
    core = explained._core
    load(core, objects)
    events: list[Event] = []
    core.state.connect(events.append)
    before = _image(core.state)
    explained._found_remedies()
    first = _image(core.state)
    assert {**first, "counters": before["counters"]} == before  # they are made when first asked for
    explained._found_remedies()
    assert _image(core.state) == first
    assert events == []
    asyncio.run(core.stop())


def _image(state: ClusterState) -> dict[str, Any]:
    """All of a state that anybody reads, byte by byte, but for the change log."""
    columns = state.columns
    arrays = {
        name: (array.shape, array.tobytes())
        for name in ("live", "allocatable", "requested", "nonzero", "pod_limit", "pod_count")
        if (array := getattr(columns, name)) is not None
    }
    arrays["unschedulable"] = (columns.unschedulable.shape, columns.unschedulable.tobytes())
    sets = {
        name: [values.interner.values[number] for number in values.numbers.tolist()]
        for name, values in (
            ("taints", columns.taints),
            ("features", columns.features),
            ("conditions", columns.conditions),
        )
    }
    counters = {
        key: (counter.counts.tobytes(), counter.total)
        for key, counter in state.index._counters.items()
    }
    return {
        "arrays": arrays,
        "sets": sets,
        "names": list(columns.names),
        "hashes": columns.name_hash[columns.live].tobytes(),
        "nodes": list(map(id, columns.nodes)),
        "order": state.names(),
        "rows": {name: state.row(name) for name in state.names()},
        "free": list(state._free),
        "versions": {name: state.node_version(name) for name in state.names()},
        "pods": {pod.uid: (id(pod), pod.node_name) for pod in state.pods()},
        "assumed": [pod.uid for pod in state.assumed_pods()],
        "by node": {n: sorted(p.uid for p in state.pods_on(n)) for n in state.nodes_with_pods()},
        "ports": copy.deepcopy(state.ports._rows),
        "counters": counters,
        "groups": {key: dict(group.rows) for key, group in state.index._groups.items()},
        "terms": {key: counter.total for key, counter in state.index._terms.items()},
        "on trial": state.changes.on_trial,
    }


def test_the_number_of_trials_is_bounded() -> None:
    objects = [
        make_node(f"n{n}").cpu(1).memory("1Gi").taint(f"t{n % 13}").label(zone=f"z{n % 7}").obj()
        for n in range(60)
    ]
    pod = make_pod("greedy").cpu(9).memory("9Gi").node_selector(**{f"k{i}": "v" for i in range(40)})
    pod.near(*(pod_term("zone", {"app": str(i)}) for i in range(20)))
    selectors = [{"matchLabels": {"app": str(i)}} for i in range(9)]
    pod.spread(*(constraint("zone", labelSelector=selector) for selector in selectors))
    explained = ExplainedPod([*objects], pod.obj(), None)
    load(explained._core, objects)
    judged = 0
    evaluate = explained._core.frameworks["equipoise"].run_pre_filter

    def counting(cycle: Any) -> Any:
        nonlocal judged
        judged += 1
        return evaluate(cycle)

    explained._core.frameworks["equipoise"].run_pre_filter = counting  # type: ignore[method-assign]  # counted
    explained._found_remedies()
    assert 0 < judged <= MAX_TRIALS
    asyncio.run(explained._core.stop())
