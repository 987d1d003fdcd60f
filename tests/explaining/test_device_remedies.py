"""What is proposed to a pod that lacks devices, one cause at a time."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from msgspec.structs import replace

from scheduler.dra.ledger import ledger_of
from scheduler.model.devices import ResourceClaim, ResourceSlice
from scheduler.model.objects import from_dict
from scheduler.simulation import explain
from scheduler.simulation.explained import ExplainedPod
from scheduler.simulation.loading import load
from tests.builders import Json, make_node, make_pod
from tests.explaining.support import fits, summaries

GPU = "gpu.example.com"


def device(name: str, **fields: Any) -> Json:
    return {"name": name, "attributes": {"model": {"string": "a"}}, **fields}


def devices_of(node: str, *devices: Json) -> Json:
    pool = {"name": node, "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": GPU, "nodeName": node, "pool": pool, "devices": list(devices)}
    return {"kind": "ResourceSlice", "metadata": {"name": f"{node}-gpus"}, "spec": spec}


def claim(name: str = "mine", constraints: Any = (), **ask: Any) -> Json:
    exactly = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": 1, **ask}
    devices = {"requests": [{"name": "r", "exactly": exactly}], "constraints": list(constraints)}
    metadata = {"name": name, "namespace": "default"}
    return {"kind": "ResourceClaim", "metadata": metadata, "spec": {"devices": devices}}


def held(name: str, node: str, device: str, *users: str, owner: str = "") -> Json:
    """A claim that has a device of a node."""
    made = claim(name)
    result = {"request": "r", "driver": GPU, "pool": node, "device": device}
    reserved = [{"resource": "pods", "name": each, "uid": f"uid-{each}"} for each in users]
    made["status"] = {"allocation": {"devices": {"results": [result]}}, "reservedFor": reserved}
    if owner:
        reference = {"apiVersion": "v1", "kind": "Pod", "name": owner, "uid": f"uid-{owner}"}
        made["metadata"]["ownerReferences"] = [{**reference, "controller": True}]
    return made


def using(name: str, *claims: str) -> Any:
    entries = [{"name": f"c{i}", "resourceClaimName": each} for i, each in enumerate(claims)]
    return make_pod(name).uid(f"uid-{name}").spec(resourceClaims=entries)


def selecting(model: str) -> list[Json]:
    expression = f'device.attributes["{GPU}"].model == "{model}"'
    return [{"cel": {"expression": expression}}]


CLASS: Json = {"kind": "DeviceClass", "metadata": {"name": "gpu"}, "spec": {}}
NODE = make_node("n1").cpu(4).obj()
TWO = devices_of("n1", device("d0"), device("d1"))
TAINT = {"key": "bad", "effect": "NoSchedule"}
WANTING = using("wanting", "mine").obj()

CASES: dict[str, tuple[list[Json], str, list[Json]]] = {
    "a claim that does not exist": (
        [TWO, claim("mime")],
        "use the claim mime in place of mine, which does not exist",
        [],
    ),
    "a class that does not exist": (
        [TWO, claim(deviceClassName="gqu")],
        "use the device class gpu in place of gqu, which does not exist, in request r of claim"
        " mine",
        [],
    ),
    "too many devices": (
        [TWO, claim(count=5)],
        "ask for 2 devices in place of 5, in request r of claim mine",
        [],
    ),
    "all devices, and one is taken": (
        [TWO, held("theirs", "n1", "d0"), claim(allocationMode="All", count=0)],
        "ask for 1 device in place of all, in request r of claim mine",
        [],
    ),
    "a selector that no device meets": (
        [TWO, claim(selectors=selecting("z"))],
        f'drop the selector device.attributes["{GPU}"].model == "z" of request r of claim mine',
        [],
    ),
    "a selector that fails": (
        [TWO, claim(selectors=[{"cel": {"expression": 'device.attributes["x"].y == 1'}}])],
        'drop the selector device.attributes["x"].y == 1 of request r of claim mine',
        [],
    ),
    "a constraint that cannot be met": (
        [TWO, claim(count=2, constraints=[{"distinctAttribute": f"{GPU}/model"}])],
        f"drop the constraint distinctAttribute {GPU}/model of claim mine",
        [],
    ),
    "a tainted device": (
        [devices_of("n1", device("d0", taints=[TAINT])), claim()],
        "tolerate the device taint bad:NoSchedule in request r of claim mine",
        [],
    ),
    "two taints on each device": (
        [
            devices_of("n1", device("d0", taints=[TAINT, {"key": "old", "effect": "NoExecute"}])),
            claim(),
        ],
        "tolerate the device taint bad:NoSchedule in request r of claim mine and the device taint"
        " old:NoExecute in request r of claim mine",
        [],
    ),
    "a share that is too large": (
        [
            devices_of(
                "n1",
                device("d0", allowMultipleAllocations=True, capacity={"memory": {"value": "4Gi"}}),
            ),
            claim(capacity={"requests": {"memory": "6Gi"}}),
        ],
        "ask for 4096Mi of memory in place of 6Gi, in request r of claim mine",
        [],
    ),
    "devices that a pod has": (
        [
            devices_of("n1", device("d0")),
            held("theirs", "n1", "d0", "other", owner="other"),
            using("other", "theirs").on("n1").obj(),
            claim(),
        ],
        "delete pod default/other with the devices of node n1, or move it elsewhere",
        [
            {"op": "delete", "kind": "Pod", "namespace": "default", "name": "other"},
            {"op": "delete", "kind": "ResourceClaim", "namespace": "default", "name": "theirs"},
        ],
    ),
    "devices of a claim that two pods share": (
        [
            devices_of("n1", device("d0")),
            held("theirs", "n1", "d0", "a", "b"),
            *(using(name, "theirs").on("n1").obj() for name in ("a", "b")),
            claim(),
        ],
        "delete pods default/a, default/b with the devices of node n1, or move them elsewhere",
        [
            {"op": "delete", "kind": "Pod", "namespace": "default", "name": "a"},
            {"op": "delete", "kind": "Pod", "namespace": "default", "name": "b"},
            {
                "op": "patch",
                "kind": "ResourceClaim",
                "namespace": "default",
                "name": "theirs",
                "patch": {"status": {"allocation": None, "reservedFor": None}},
            },
        ],
    ),
    "devices of a pod that is going": (
        [
            devices_of("n1", device("d0")),
            held("theirs", "n1", "d0", "other"),
            using("other", "theirs").on("n1").deleting().obj(),
            claim(),
        ],
        "wait: pod default/other with devices of node n1 is being deleted",
        [],
    ),
    "devices of a claim that nobody uses": (
        [devices_of("n1", device("d0")), held("theirs", "n1", "d0"), claim()],
        "delete the claim default/theirs, with devices of node n1 and used by no pod",
        [{"op": "delete", "kind": "ResourceClaim", "namespace": "default", "name": "theirs"}],
    ),
    "no devices left": (
        [
            devices_of("n1", device("d0")),
            held("theirs", "n1", "d0", "other"),
            using("other", "theirs").on("n1").priority(9).obj(),
            claim(),
        ],
        f"add 1 node like n1 with its devices of {GPU}",
        [],
    ),
}


@pytest.mark.parametrize(("objects", "summary", "changes"), CASES.values(), ids=CASES.keys())
def test_what_would_help_is_proposed(
    objects: list[Json], summary: str, changes: list[Json]
) -> None:
    given = [NODE, CLASS, *objects]
    answer = explain(given, WANTING)
    assert summary in summaries(answer)
    (remedy,) = [each for each in answer["remedies"] if each["summary"] == summary]
    if changes:
        assert sorted(remedy["changes"], key=str) == sorted(changes, key=str)
    assert fits(given, WANTING, remedy["changes"]) == remedy["opens"]


def test_fewer_of_an_extended_resource_are_asked_for() -> None:
    served = {**CLASS, "spec": {"extendedResourceName": "example.com/gpu"}}
    pod = make_pod("wanting").request("example.com/gpu", 3).obj()
    answer = explain([NODE, served, TWO], pod)
    assert "lower the request for example.com/gpu from 3 to 2" in summaries(answer)


def test_a_claim_from_a_template_says_what_to_change() -> None:
    made = claim("made", count=3)
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "wanting", "uid": "uid-wanting"}
    made["metadata"]["ownerReferences"] = [{**owner, "controller": True}]
    entry = {"name": "c", "resourceClaimTemplateName": "template"}
    pod = make_pod("wanting").uid("uid-wanting").spec(resourceClaims=[entry])
    pod.status(resourceClaimStatuses=[{"name": "c", "resourceClaimName": "made"}])
    (remedy,) = explain([NODE, CLASS, TWO, made], pod.obj())["remedies"]
    assert remedy["affects"] == ["ResourceClaimTemplate template: change it, and delete the pod"]


def test_two_causes_are_cured_together() -> None:
    objects = [make_node("n1").cpu(4).taint("gpu").obj(), CLASS, TWO, claim(count=3)]
    answer = explain(objects, WANTING)
    both = (
        "tolerate the taint gpu:NoSchedule; and"
        " ask for 2 devices in place of 3, in request r of claim mine"
    )
    assert both in summaries(answer)
    for remedy in answer["remedies"]:
        assert fits(objects, WANTING, remedy["changes"]) == remedy["opens"]


def test_a_claim_that_a_pod_of_higher_priority_uses_stays() -> None:
    objects = [
        *(NODE, CLASS, devices_of("n1", device("d0")), claim()),
        held("theirs", "n1", "d0", "a", "b"),
        using("a", "theirs").on("n1").obj(),
        using("b", "theirs").on("n1").priority(9).obj(),
    ]
    assert not [each for each in summaries(explain(objects, WANTING)) if "delete" in each]


def test_looking_for_remedies_leaves_the_devices_as_they_were() -> None:
    objects = [
        *(NODE, CLASS, devices_of("n1", device("d0"), device("d1", taints=[TAINT]))),
        held("theirs", "n1", "d0", "other"),
        using("other", "theirs").on("n1").obj(),
        claim(selectors=selecting("a")),
    ]
    explained = ExplainedPod([*objects], WANTING, None)
    load(explained._core, objects)
    state = explained._core.state
    ledger = ledger_of(state)
    probe = [from_dict(claim(tolerations=[{"operator": "Exists"}]), ResourceClaim)]

    def image() -> object:
        ledger.follow_nodes()
        return (
            dict(ledger._held),
            dict(state.objects.all(ResourceClaim)),
            dict(state.objects.all(ResourceSlice)),
            ledger.most_work,
            ledger.index.allocate(probe, state.rows().item(0)),
        )

    before = image()
    assert explained._found_remedies()
    assert image() == before
    asyncio.run(explained._core.stop())


def test_a_claim_that_is_being_written_is_left_alone() -> None:
    wanted = claim(count=3)
    wanted["metadata"]["resourceVersion"] = "1"
    objects = [NODE, CLASS, TWO, wanted]
    explained = ExplainedPod([*objects], WANTING, None)
    load(explained._core, objects)
    ledger = ledger_of(explained._core.state)
    mine = ledger.claim("default/mine")
    assert mine is not None
    written = replace(mine, metadata=replace(mine.metadata, resource_version="9"))
    ledger.wrote(mine, written)
    assert not [each for each in explained._found_remedies() if "in place of 3" in each["summary"]]
    assert ledger.claim("default/mine") is written
    asyncio.run(explained._core.stop())
