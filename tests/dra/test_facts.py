"""What explanations say of devices that lack."""

from __future__ import annotations

import pytest

from scheduler.simulation import explain, place
from tests.builders import Json, make_node
from tests.dra.devices import claim, device_class, slice_of, using

SELECTOR = 'device.attributes["gpu.example.com"].model == "h100"'


def cluster(wanted: Json) -> list[Json]:
    return [
        *(make_node(f"n{i}").obj() for i in range(3)),
        {"kind": "DeviceClass", **device_class()},
        {"kind": "ResourceSlice", **slice_of("n0", 2)},
        {"kind": "ResourceSlice", **slice_of("n1", 1)},
        {"kind": "ResourceClaim", **wanted},
    ]


def messages(answer: Json, node: str) -> list[str]:
    return [told["message"] for each in answer["nodes"][node]["all"] for told in each["facts"]]


def test_too_few_devices_are_counted() -> None:
    answer = explain(cluster(claim("c", 4)), using("p", "c").obj())
    assert messages(answer, "n0") == ["c/r requests 4 devices of class gpu, 2 free of 2 that suit"]
    assert messages(answer, "n2") == ["c/r requests 4 devices of class gpu, the node has none"]
    (told,) = answer["facts"]
    assert told["message"] == "c/r requests 4 devices of class gpu, at most 2 free, on n0"
    assert (told["asked"], told["free"], told["nodes"]) == (4, 2, 3)


def test_devices_that_are_free_and_cannot_be_had_together_are_said_to_be_so() -> None:
    wanted = claim("c", 2)
    same = {"requests": ["r"], "matchAttribute": "gpu.example.com/board"}
    wanted["spec"]["devices"]["constraints"] = [same]
    answer = explain(cluster(wanted), using("p", "c").obj())
    assert messages(answer, "n0") == [
        "c/r requests 2 devices of class gpu, 2 free of 2 that suit, "
        "but not enough that meet matchAttribute gpu.example.com/board"
    ]


def test_requests_that_need_the_same_devices_are_said_to_do_so() -> None:
    wanted = claim("c", 2)
    requests = wanted["spec"]["devices"]["requests"]
    requests.append({**requests[0], "name": "s"})
    distinct = {"requests": ["s"], "distinctAttribute": "gpu.example.com/board"}
    wanted["spec"]["devices"]["constraints"] = [distinct]
    answer = explain(cluster(wanted), using("p", "c").obj())
    assert messages(answer, "n0") == [
        "c/r requests 2 devices of class gpu, 2 free of 2 that suit, "
        "but parts of them are taken, or other requests need them",
        "c/s requests 2 devices of class gpu, 2 free of 2 that suit, "
        "but not enough that meet distinctAttribute gpu.example.com/board",
    ]


def test_a_selector_that_nothing_meets_is_quoted() -> None:
    wanted = claim("c")
    exactly = wanted["spec"]["devices"]["requests"][0]["exactly"]
    has = f'"model" in device.attributes["gpu.example.com"] && {SELECTOR}'
    exactly["selectors"] = [{"cel": {"expression": has}}]
    answer = explain(cluster(wanted), using("p", "c").obj())
    (told,) = answer["facts"]
    assert told["message"].startswith("c/r requests 1 device of class gpu, 0 of 3 devices suit: ")
    assert told["message"].endswith(has)


def test_a_selector_that_fails_fails_the_attempt_and_keeps_the_other_verdicts() -> None:
    wanted = claim("c")
    exactly = wanted["spec"]["devices"]["requests"][0]["exactly"]
    exactly["selectors"] = [{"cel": {"expression": SELECTOR}}]
    answer = explain(cluster(wanted), using("p", "c").obj())
    assert "CEL runtime error: no such key: model" in answer["message"]
    assert answer["nodes"]["n0"]["code"] == "Error"
    assert answer["nodes"]["n2"]["code"] == "UnschedulableAndUnresolvable"
    assert answer["node"] is None


def test_an_allocation_for_nodes_that_cannot_be_read_names_its_field() -> None:
    requirement = {"key": "zone", "operator": "NotIn"}
    terms = [{"matchExpressions": [requirement]}]
    allocation = {"nodeSelector": {"nodeSelectorTerms": terms}, "devices": {}}
    wanted = {**claim("c"), "status": {"allocation": allocation}}
    answer = explain(cluster(wanted), using("p", "c").obj())
    field = "status.allocation.nodeSelector.nodeSelectorTerms[0].matchExpressions[0].values"
    assert f"claim default/c: {field}: must not be empty" in answer["message"]


def test_pods_are_placed_as_long_as_there_are_devices() -> None:
    objects = cluster(claim("c0"))
    objects += [{"kind": "ResourceClaim", **claim(f"c{i}")} for i in range(1, 4)]
    objects += [using(f"p{i}", f"c{i}").obj() for i in range(4)]
    outcome = place(objects)
    assert sum(node is not None for _, node, _ in outcome) == 3
    (message,) = [message for _, node, message in outcome if node is None]
    assert message == "0/3 nodes are available: 3 cannot allocate all claims."


def broken(**pool: int) -> Json:
    """A slice with two devices of one name, or of a pool that is not all there."""
    raw = slice_of("n0", 2)
    if not pool:
        raw["spec"]["devices"][1]["name"] = "gpu-0"
    raw["spec"]["pool"].update(pool)
    return raw


@pytest.mark.parametrize(
    ("piece", "state", "reason"),
    [
        (broken(), "invalid", "duplicate device name gpu-0"),
        (
            broken(resourceSliceCount=3),
            "incomplete",
            "resourceSliceCount is 3, and its newest generation has 1",
        ),
    ],
)
def test_a_pool_that_cannot_be_used_is_named_with_what_is_wrong_in_it(
    piece: Json, state: str, reason: str
) -> None:
    objects = [
        *(make_node(f"n{i}").obj() for i in range(2)),
        {"kind": "DeviceClass", **device_class()},
        {"kind": "ResourceSlice", **piece},
        {"kind": "ResourceClaim", **claim("c")},
    ]
    answer = explain(objects, using("p", "c").obj())
    told = f"resource pool gpu.example.com/n0 is {state}: {reason}"
    lacking = "c/r requests 1 device of class gpu, the node has none"
    assert messages(answer, "n0") == [lacking, told]
    assert messages(answer, "n1") == [lacking]
    assert (answer["facts"][-1]["message"], answer["facts"][-1]["nodes"]) == (told, 1)
