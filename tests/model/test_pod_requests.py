"""What a pod asks for, against a sum in fractions that follows the pod through its life."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.model.podinfo import PodInfo
from scheduler.model.resources import MAX_AMOUNT, AmountError, nonzero_requests, pod_requests
from tests.builders import PodBuilder, make_pod

RESOURCES = ("cpu", "memory", "hugepages-2Mi", "example.com/gpu", "ephemeral-storage")
POD_LEVEL = ("cpu", "memory", "hugepages-2Mi")
SUFFIXES = {
    "n": Fraction(1, 10**9),
    "u": Fraction(1, 10**6),
    "m": Fraction(1, 1000),
    "": Fraction(1),
    "k": Fraction(1000),
    "Ki": Fraction(1024),
    "Mi": Fraction(2**20),
}

Exact = Mapping[str, Fraction]


class Member(NamedTuple):
    """A container: what it asks for, whether it is a sidecar, and what its status reports."""

    requests: dict[str, str]
    sidecar: bool
    actuated: dict[str, str] | None
    allocated: dict[str, str]


class Case(NamedTuple):
    containers: list[Member]
    init_containers: list[Member]
    overhead: dict[str, str]
    pod_level: dict[str, str] | None
    infeasible: bool


quantities = st.builds("{}{}".format, st.integers(0, 3000), st.sampled_from(list(SUFFIXES)))
amounts = st.dictionaries(st.sampled_from(RESOURCES), quantities, max_size=3)
members = st.builds(Member, amounts, st.booleans(), st.none() | amounts, amounts)
cases = st.builds(
    Case,
    st.lists(members, min_size=1, max_size=3),
    st.lists(members, max_size=4),
    amounts,
    st.none() | st.dictionaries(st.sampled_from(POD_LEVEL), quantities, max_size=2),
    st.booleans(),
)


def exact(texts: Mapping[str, str]) -> dict[str, Fraction]:
    def value(text: str) -> Fraction:
        digits = text.rstrip("numkKMi")
        return int(digits) * SUFFIXES[text[len(digits) :]]

    return {name: value(text) for name, text in texts.items()}


def plus(lists: Iterable[Exact]) -> dict[str, Fraction]:
    total: dict[str, Fraction] = {}
    for each in lists:
        for name, amount in each.items():
            total[name] = total.get(name, Fraction(0)) + amount
    return total


def peak(lists: Iterable[Exact]) -> dict[str, Fraction]:
    highest: dict[str, Fraction] = {}
    for each in lists:
        for name, amount in each.items():
            highest[name] = max(highest.get(name, amount), amount)
    return highest


def units(total: Exact) -> dict[str, int]:
    """Rounded up once, at the end: cpu in thousandths."""
    scaled = {n: math.ceil(a * 1000 if n == "cpu" else a) for n, a in total.items()}
    return {name: amount for name, amount in scaled.items() if amount}


def oracle(case: Case, *, resized: bool, defaults: Exact) -> dict[str, Fraction]:
    def need(member: Member, *, resizable: bool) -> dict[str, Fraction]:
        wanted = exact(member.requests)
        if resized and resizable and member.actuated is not None:
            running = [exact(member.actuated), exact(member.allocated)]
            wanted = peak(running if case.infeasible else [wanted, *running])
        return {**defaults, **wanted}

    sidecars = [need(m, resizable=True) if m.sidecar else {} for m in case.init_containers]
    moments = [plus([need(m, resizable=True) for m in case.containers] + sidecars)]
    for i, member in enumerate(case.init_containers):
        alone = {} if member.sidecar else need(member, resizable=False)
        moments.append(plus([alone, *sidecars[: i + 1]]))
    return plus([peak(moments) | exact(case.pod_level or {}), exact(case.overhead)])


def build(case: Case) -> PodBuilder:
    pod = make_pod("p").no_containers()
    for member in case.containers:
        pod.container(member.requests)
    for member in case.init_containers:
        (pod.sidecar if member.sidecar else pod.init_container)(member.requests)
    pod.overhead(**case.overhead)
    if case.pod_level is not None:
        pod.pod_level(case.pod_level)
    if case.infeasible:
        pod.status(conditions=[{"type": "PodResizePending", "reason": "Infeasible"}])
    return pod.status(
        containerStatuses=statuses("c", case.containers),
        initContainerStatuses=statuses("i", case.init_containers),
    )


def statuses(prefix: str, of: list[Member]) -> list[dict[str, object]]:
    return [
        {
            "name": f"{prefix}{i}",
            "resources": None if m.actuated is None else {"requests": m.actuated},
            "allocatedResources": m.allocated,
        }
        for i, m in enumerate(of)
    ]


def nonzero(amounts: Mapping[str, int]) -> dict[str, int]:
    return {name: amount for name, amount in amounts.items() if amount}


@given(cases, st.booleans())
def test_requests_are_the_peak_of_the_pods_life(case: Case, resized: bool) -> None:
    got = pod_requests(build(case).struct(), use_status=resized)
    assert nonzero(got) == units(oracle(case, resized=resized, defaults={}))


@given(cases)
def test_scoring_ignores_pod_level_and_assumes_defaults(case: Case) -> None:
    defaults = {"cpu": Fraction(1, 10), "memory": Fraction(200 * 2**20)}
    got = build(case).info().score_requests
    bare = case._replace(pod_level=None)
    assert nonzero(got) == units(oracle(bare, resized=False, defaults=defaults))


@given(cases)
def test_booked_for_scoring(case: Case) -> None:
    """Each silent container counts 100m and 200Mi, unless the pod speaks for all of them."""
    defaults = {"cpu": Fraction(1, 10), "memory": Fraction(200 * 2**20)}
    if case.pod_level:
        stated = oracle(case, resized=True, defaults={})
        defaults = {name: amount for name, amount in defaults.items() if name not in stated}
    want = units(oracle(case, resized=True, defaults=defaults))
    pod = build(case).struct()
    assert nonzero_requests(pod) == (want.get("cpu", 0), want.get("memory", 0))
    assert PodInfo(pod).nonzero == nonzero_requests(pod)


def test_a_pod_level_resize_counts_while_it_may_succeed() -> None:
    pod = make_pod("p").pod_level({"cpu": "1", "memory": "1Gi"})
    # wanted 1, allocated 3, running with 2: the largest is held
    pod.status(resources={"requests": {"cpu": "2"}}, allocatedResources={"cpu": "3"})
    assert pod_requests(pod.struct(), use_status=True) == {"cpu": 3000, "memory": 2**30}
    assert pod_requests(pod.struct(), use_status=False) == {"cpu": 1000, "memory": 2**30}
    pod.status(
        conditions=[{"type": "PodResizePending", "reason": "Infeasible"}],
        allocatedResources={"cpu": "500m", "memory": "2Gi"},
    )
    # the wish for 1Gi is moot, 2Gi is allocated; of cpu 2 are running
    assert pod_requests(pod.struct(), use_status=True) == {"cpu": 2000, "memory": 2**31}


@pytest.mark.parametrize("amount", ["1e30", "10E", 10**40, 1e300])
def test_absurd_amounts_are_capped_and_stay_within_64_bits(amount: str | float) -> None:
    pod = make_pod("p").cpu(amount).memory(amount).container({"cpu": amount, "memory": amount})
    assert pod_requests(pod.struct(), use_status=False) == {"cpu": MAX_AMOUNT, "memory": MAX_AMOUNT}


@pytest.mark.parametrize(
    ("pod", "message"),
    [
        pytest.param(
            make_pod("p").cpu("lots"),
            "spec.containers[0].resources.requests[cpu]: ",
            id="no number",
        ),
        pytest.param(
            make_pod("p").container({"memory": "-1Gi"}),
            "spec.containers[1].resources.requests[memory]: must not be negative: '-1Gi'",
            id="negative",
        ),
        pytest.param(
            make_pod("p").init_container({}).init_container({"cpu": ""}),
            "spec.initContainers[1].resources.requests[cpu]: an empty string",
            id="empty, in an init container",
        ),
        pytest.param(make_pod("p").overhead(cpu="1x"), "spec.overhead[cpu]: ", id="overhead"),
        pytest.param(
            make_pod("p").pod_level({"cpu": "1x"}), "spec.resources.requests[cpu]: ", id="pod level"
        ),
    ],
)
def test_an_unreadable_amount_is_named_by_its_field(pod: PodBuilder, message: str) -> None:
    with pytest.raises(AmountError) as raised:
        pod_requests(pod.struct(), use_status=False)
    assert str(raised.value).startswith(message)
