"""What a kubelet pins: exclusive CPUs, memory of Guaranteed pods, devices of all."""

from __future__ import annotations

import pytest

from scheduler.model.pinning import Need, Pinning, Role, pinning_of
from tests.builders import PodBuilder, make_pod
from tests.numa.support import GIB, pinned, with_container

MEMORY = ("memory", GIB)


def needs(pod: PodBuilder) -> tuple[Need, ...]:
    return pinning_of(pod.struct()).containers


def one(*amounts: tuple[str, int], role: Role = Role.APP) -> tuple[Need, ...]:
    return (Need(role, amounts),)


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        pytest.param(pinned("p", 2), one(("cpu", 2000), MEMORY), id="whole CPUs and memory"),
        pytest.param(pinned("p", "2000m"), one(("cpu", 2000), MEMORY), id="said in milli-CPUs"),
        pytest.param(pinned("p", "1500m"), one(MEMORY), id="a fraction comes from shared CPUs"),
        pytest.param(make_pod("p").cpu(2).memory("1Gi"), (), id="requests alone are Burstable"),
        pytest.param(make_pod("p"), (), id="nothing is asked for"),
        pytest.param(
            make_pod("p").cpu(2).request("example.com/gpu", 1),
            one(("example.com/gpu", 1)),
            id="devices of a Burstable pod",
        ),
        pytest.param(
            pinned("p", 2, gpu=1),
            one(("cpu", 2000), ("example.com/gpu", 1), MEMORY),
            id="devices of a Guaranteed pod",
        ),
        pytest.param(
            with_container(
                make_pod("p").no_containers(), {"cpu": 1, "memory": "1Gi", "hugepages-2Mi": "4Mi"}
            ),
            one(("cpu", 1000), ("hugepages-2Mi", 4 * 2**20), MEMORY),
            id="huge pages are memory",
        ),
        pytest.param(
            pinned("p", 2).spec(resources={"limits": {"cpu": 2, "memory": "1Gi"}}),
            (),
            id="resources of the pod as a whole pin nothing",
        ),
        pytest.param(
            pinned("p", 2, gpu=1).spec(resources={"limits": {"cpu": 2, "memory": "1Gi"}}),
            one(("example.com/gpu", 1)),
            id="but devices are still pinned",
        ),
    ],
)
def test_what_a_container_needs(pod: PodBuilder, expected: tuple[Need, ...]) -> None:
    assert needs(pod) == expected


def test_limits_alone_are_requests() -> None:
    container = {"name": "c", "resources": {"limits": {"cpu": "2", "memory": "1Gi"}}}
    pod = make_pod("p").spec(containers=[container])
    assert needs(pod) == one(("cpu", 2000), MEMORY)


def test_a_request_of_zero_is_not_a_limit() -> None:
    resources = {"requests": {"cpu": "0"}, "limits": {"cpu": "2", "memory": "1Gi"}}
    pod = make_pod("p").spec(containers=[{"name": "c", "resources": resources}])
    assert not pinning_of(pod.struct()).guaranteed


@pytest.mark.parametrize(
    ("init", "sidecar", "app", "peak", "hidden"),
    [
        pytest.param(None, None, 2, 2, 0, id="no init containers"),
        pytest.param(4, None, 2, 4, 2, id="an init container holds more than the app"),
        pytest.param(2, None, 4, 4, 0, id="the app takes all of it over"),
        pytest.param(None, 1, 2, 3, 0, id="a sidecar stays"),
        pytest.param(4, 1, 2, 5, 2, id="an init container beside the sidecar before it"),
        pytest.param(2, 3, 4, 7, 0, id="sidecar and app together need most"),
    ],
)
def test_a_pod_at_its_peak(
    init: int | None, sidecar: int | None, app: int, peak: int, hidden: int
) -> None:
    pod = pinned("p", app)
    if sidecar:
        with_container(pod, {"cpu": sidecar, "memory": "1Gi"}, sidecar=True)
    if init:
        with_container(pod, {"cpu": init, "memory": "1Gi"}, init=True)
    found = pinning_of(pod.struct())
    assert dict(found.pod[0].amounts)["cpu"] == peak * 1000
    assert dict(found.hidden).get("cpu", 0) == hidden * 1000


def test_an_init_container_before_the_sidecar_runs_alone() -> None:
    pod = with_container(pinned("p", 1), {"cpu": 4, "memory": "1Gi"}, init=True)
    pod = with_container(pod, {"cpu": 2, "memory": "1Gi"}, sidecar=True)
    assert dict(pinning_of(pod.struct()).pod[0].amounts)["cpu"] == 4000


def test_containers_are_in_the_order_of_admission() -> None:
    pod = with_container(pinned("p", 1), {"cpu": 4, "memory": "1Gi"}, init=True)
    pod = with_container(pod, {"cpu": 2, "memory": "1Gi"}, sidecar=True)
    pod = with_container(pod, {"cpu": 3, "memory": "1Gi"})
    roles = [(need.role, dict(need.amounts)["cpu"]) for need in needs(pod)]
    expected = [(Role.INIT, 4000), (Role.SIDECAR, 2000), (Role.APP, 1000), (Role.APP, 3000)]
    assert roles == expected


def test_memory_that_only_init_containers_want_is_not_aligned_for_the_pod() -> None:
    amounts: dict[str, str | int | float] = {"cpu": 1, "memory": "1Gi", "hugepages-2Mi": "2Mi"}
    pod = with_container(pinned("p", 1), amounts, init=True)
    assert "hugepages-2Mi" not in dict(pinning_of(pod.struct()).pod[0].amounts)


def test_one_container_that_is_not_guaranteed_makes_the_pod_burstable() -> None:
    pod = pinned("p", 2).container({"cpu": 1})
    assert pinning_of(pod.struct()) == Pinning()


@pytest.mark.parametrize(
    ("field", "amount", "fault"),
    [
        ("limits", "x", "spec.containers[0].resources.limits[cpu]: 'x' is not a quantity"),
        ("requests", "-1", "spec.containers[0].resources.requests[cpu]: must not be negative"),
    ],
)
def test_what_cannot_be_read_is_named_and_pins_nothing(field: str, amount: str, fault: str) -> None:
    resources = {"limits": {"cpu": "2", "memory": "1Gi"}} | {"requests": {"cpu": "2"}}
    resources[field] = {**resources[field], "cpu": amount}
    pod = make_pod("p").spec(containers=[{"name": "c", "resources": resources}])
    found = pinning_of(pod.struct())
    assert found.fault.startswith(fault)
    assert not found.pins
