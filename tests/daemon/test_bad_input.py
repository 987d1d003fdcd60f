"""Whatever people write into pods and nodes harms only that pod or node, and says where."""

from __future__ import annotations

import asyncio
import copy
import random
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sandbox.apiserver import ApiServer
from sandbox.errors import ApiFailure
from tests.builders import (
    Json,
    make_node,
    make_pod,
    make_worker,
    requirement,
    term,
)
from tests.daemon.support import Cluster, expect_bound, expect_pending, running_daemon

LONG = "x" * 200_000


UNREADABLE = {
    "a quantity": (
        make_pod("bad").cpu("12 apples"),
        "spec.containers[0].resources.requests[cpu]",
    ),
    "a negative quantity": (
        make_pod("bad").memory("-1Gi"),
        "spec.containers[0].resources.requests[memory]",
    ),
    "the second container's quantity": (
        make_pod("bad").container({"memory": "1Xi"}),
        "spec.containers[1].resources.requests[memory]",
    ),
    "overhead": (make_pod("bad").overhead(cpu="lots"), "spec.overhead[cpu]"),
    "an operator": (
        make_pod("bad").required(term(requirement("disk", "Resembles", "ssd"))),
        "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution"
        ".nodeSelectorTerms[0].matchExpressions[0].operator",
    ),
    "a number to compare with": (
        make_pod("bad").preferred(1, term(requirement("cores", "Gt", "many"))),
        "spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution"
        "[0].preference.matchExpressions[0].values",
    ),
    "no containers": (make_pod("bad").no_containers(), "spec.containers"),
}


@pytest.mark.parametrize("what", UNREADABLE)
async def test_the_condition_names_the_field(lax_cluster: Cluster, what: str) -> None:
    pod, field = UNREADABLE[what]
    lax_cluster.add(make_worker("n"))
    async with running_daemon(lax_cluster) as replica:
        lax_cluster.submit(pod)
        message = await expect_pending(lax_cluster, replica, "bad")
        assert field in message
        lax_cluster.submit(make_pod("good"))
        await expect_bound(lax_cluster, "good")


async def test_a_pod_that_is_mended_is_bound(lax_cluster: Cluster) -> None:
    lax_cluster.add(make_worker("n"))
    async with running_daemon(lax_cluster) as replica:
        lax_cluster.submit(make_pod("bad").cpu("12 apples"))
        await expect_pending(lax_cluster, replica, "bad")

        def mend(pod: Json) -> None:
            pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "12m"

        lax_cluster.change_pod("bad", mend)
        await expect_bound(lax_cluster, "bad")


@pytest.mark.parametrize("amount", ["1e30", 1e30, "9" * 200, 2**63, "1E"])
async def test_an_absurd_amount_fits_nowhere(lax_cluster: Cluster, amount: str | int) -> None:
    node = make_worker("n").obj()
    node["status"]["allocatable"]["memory"] = amount
    lax_cluster.add(node)
    async with running_daemon(lax_cluster) as replica:
        lax_cluster.submit(make_pod("bad").cpu(amount))
        await expect_pending(lax_cluster, replica, "bad")
        lax_cluster.submit(make_pod("good").memory("1Gi"))
        await expect_bound(lax_cluster, "good")


async def test_absurd_amounts_that_others_bound_do_not_make_room(lax_cluster: Cluster) -> None:
    """Sums must not wrap around."""
    cluster = lax_cluster
    cluster.add(make_worker("n"))
    async with running_daemon(cluster) as replica:
        theirs = [f"theirs-{number}" for number in range(40)]
        for name in theirs:
            cluster.submit(make_pod(name).scheduler("other").cpu("1e30").memory("1e30"))
            cluster.bind(name, "n")
        cluster.submit(make_pod("p").cpu("1m"))
        message = await expect_pending(cluster, replica, "p")
        assert "Insufficient cpu" in message
        for name in theirs:
            cluster.delete_pod(name)
        await expect_bound(cluster, "p")


HUGE = {
    "label": lambda: make_pod("bad").label(huge=LONG),
    "selector": lambda: make_pod("bad").node_selector(huge=LONG),
    "image": lambda: make_pod("bad").image(LONG),
    "toleration": lambda: make_pod("bad").toleration(LONG, "Exists"),
    "resource": lambda: make_pod("bad").request(f"example.com/{LONG}", "1"),
    "quantity": lambda: make_pod("bad").cpu(LONG),
}


@pytest.mark.parametrize("where", HUGE)
async def test_huge_strings_disturb_nobody(lax_cluster: Cluster, where: str) -> None:
    lax_cluster.add(make_worker("n"))
    async with running_daemon(lax_cluster):
        lax_cluster.submit(HUGE[where]())
        lax_cluster.submit(make_pod("good"))
        await expect_bound(lax_cluster, "good")


# Mangled objects: valid ones with some values replaced by unexpected ones.


def rich_pod(name: str) -> Json:
    pod = (
        make_pod(name)
        .cpu("100m")
        .memory("1Mi")
        .image("example.com/app:1")
        .host_port(8080)
        .init_container({"cpu": "1"})
        .sidecar({"cpu": "10m"})
        .overhead(cpu="1m")
        .label(app="x")
        .node_selector(disk="ssd")
        .toleration("dedicated", "Exists")
        .required(term(requirement("disk", "In", "ssd")))
        .preferred(5, term(requirement("cores", "Gt", "4")))
        .obj()
    )
    pod["spec"]["topologySpreadConstraints"] = [
        {
            "maxSkew": 1,
            "topologyKey": "zone",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": "x"}},
        }
    ]
    pod["spec"]["volumes"] = [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]
    return pod


def rich_node(name: str) -> Json:
    node = make_worker(name).taint("odd").label(disk="ssd", cores="8")
    body = node.image("example.com/app:1", size=10_000_000).obj()
    body["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
    return body


def nested(depth: int) -> Json:
    value: Json = {}
    for _ in range(depth):
        value = {"a": value}
    return value


ODD_VALUES: list[Any] = [
    None,
    True,
    -1,
    0,
    2**31,
    2**63,
    -(2**63),
    10**40,
    1e308,
    0.1,
    "",
    "\u0000",
    "\u202e\U0001f4a9" * 50,
    "9" * 200,
    "1e9999999",
    "-5",
    "Exists",
    "NoExecute",
    "NaN",
    [],
    [None],
    {},
    {"": None},
    [[]],
    nested(60),
]
# Not these: without them it is another object, or the server itself would not know it.
IDENTITY = {"metadata", "name", "namespace", "kind", "apiVersion", "schedulerName"}


def places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every (container, key) in a document whose value may be replaced."""
    pairs = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in pairs:
        if key not in IDENTITY:
            yield value, key
        if isinstance(inner, dict | list):
            yield from places(inner)


def mangle(body: Json, choose: random.Random) -> Json:
    for _ in range(choose.randint(1, 3)):
        container, key = choose.choice(list(places(body)))
        alike = [odd for odd in ODD_VALUES if type(odd) is type(container[key])]
        # Mostly what still decodes: the rest of the way is worth more attacks than the decoder.
        candidates = alike if alike and choose.random() < 0.8 else ODD_VALUES
        container[key] = copy.deepcopy(choose.choice(candidates))
    return body


async def scenario(seed: int) -> None:
    choose = random.Random(seed)
    async with ApiServer(validate=False) as server:
        cluster = Cluster(server)
        cluster.add(make_node("good").cpu("4").memory("16Gi"))
        async with running_daemon(cluster):
            for number in range(10):
                _try(cluster.add, mangle(rich_node(f"node-{number}"), choose))
                _try(cluster.submit, mangle(rich_pod(f"pod-{number}"), choose))
            kept = term(fields=(requirement("metadata.name", "In", "good"),))
            cluster.submit(make_pod("good").cpu("1m").required(kept))
            await expect_bound(cluster, "good")


def _try(create: Callable[[Json], None], body: Json) -> None:
    # Even a server without rules has to make some sense of what it gets.
    with suppress(ApiFailure, TypeError, ValueError, AttributeError, OverflowError, KeyError):
        create(body)


@settings(max_examples=25)
@given(st.integers(0, 2**32))
def test_mangled_objects_never_stop_the_daemon(seed: int) -> None:
    asyncio.run(scenario(seed))
