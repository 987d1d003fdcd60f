"""Claims that come with a pod that does not exist are judged as if controllers had made them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from scheduler import inspection
from scheduler.model.objects import Change, from_dict
from scheduler.model.pods import Pod
from scheduler.model.storage import PersistentVolumeClaim, StorageClass
from scheduler.model.volumes import BETA_CLASS
from scheduler.serve.guards import BadRequest
from scheduler.serve.parameters import MAX_CLAIMS, question_of
from tests.builders import Json, PodBuilder, make_pod, make_worker
from tests.pipeline.support import Stage

ZONE = "topology.kubernetes.io/zone"
OWNER = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": "db"}


def storage_class(name: str, mode: str = "WaitForFirstConsumer", **fields: Any) -> Json:
    terms = [{"matchLabelExpressions": [{"key": ZONE, "values": ["a"]}]}]
    return {
        "metadata": {"name": name, **fields},
        "provisioner": "example.com/disks",
        "volumeBindingMode": mode,
        "allowedTopologies": terms,
    }


def stage_with(*classes: Json) -> Stage:
    """Two nodes of one CPU in each of two zones."""
    stage = Stage()
    for zone in ("a", "b"):
        for number in range(2):
            stage.see(make_worker(f"{zone}{number}").cpu("1").label(**{ZONE: zone}))
    for each in classes:
        stage.core.event_handlers.handler("StorageClass")(
            [Change(None, from_dict(each, StorageClass))]
        )
    return stage


def replica() -> PodBuilder:
    """The first pod of a StatefulSet with one template of claims."""
    volume = {"name": "data", "persistentVolumeClaim": {"claimName": "data-db-0"}}
    pod = make_pod("db-0").cpu("700m").spec(volumes=[volume])
    return pod.meta(ownerReferences=[{**OWNER, "controller": True}])


def claim(of: str | None = "late") -> PersistentVolumeClaim:
    spec: Json = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    spec |= {} if of is None else {"storageClassName": of}
    return from_dict({"metadata": {"name": "data-db-0"}, "spec": spec}, PersistentVolumeClaim)


def ephemeral(of: str = "late", *, annotated: bool = False) -> PodBuilder:
    spec: Json = {"accessModes": ["ReadWriteOnce"]}
    template: Json = {"spec": spec if annotated else {**spec, "storageClassName": of}}
    if annotated:
        template["metadata"] = {"annotations": {BETA_CLASS: of}}
    volume = {"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}}
    return make_pod("p").cpu("700m").spec(volumes=[volume])


async def asked(
    stage: Stage, pod: PodBuilder, *claims: PersistentVolumeClaim, count: int | None = None
) -> dict[str, Any]:
    before = dict(stage.core.state.objects.all(PersistentVolumeClaim))
    manifest = pod.struct()
    answer = await inspection.explain(
        stage.core, {}, manifest.key, manifest=manifest, claims=claims, count=count
    )
    assert stage.core.state.objects.all(PersistentVolumeClaim) == before
    return answer


async def test_a_claim_of_a_template_is_judged_by_its_class() -> None:
    stage = stage_with(storage_class("late"))
    missing = await asked(stage, replica())
    assert missing["fit"] == []
    assert "not found" in missing["message"]
    assert (await asked(stage, replica(), claim()))["fit"] == ["a0", "a1"]


async def test_a_claim_that_names_no_class_is_of_the_default_one() -> None:
    marked = {"storageclass.kubernetes.io/is-default-class": "true"}
    stage = stage_with(storage_class("late", annotations=marked))
    assert (await asked(stage, replica(), claim(None)))["fit"] == ["a0", "a1"]


async def test_a_class_that_binds_at_once_is_said() -> None:
    stage = stage_with(storage_class("now", "Immediate"))
    answer = await asked(stage, replica(), claim("now"))
    assert "pod has unbound immediate PersistentVolumeClaims" in answer["message"]
    assert any("binds immediately" in fact["message"] for fact in answer["facts"])


async def test_each_replica_has_a_claim_of_its_own() -> None:
    stage = stage_with(storage_class("late"))
    answer = await asked(stage, replica(), claim(), count=3)
    assert answer["replicas"]["fit"] == 2
    assert answer["replicas"]["nodes"] == {"a0": 1, "a1": 1}
    lower = [each for each in answer["remedies"] if each["summary"].startswith("lower")]
    assert lower
    assert all(each["replicas"] == {"asked": 3, "fit": 3} for each in lower)


async def test_replicas_of_a_pod_whose_claim_is_bound_go_to_other_zones() -> None:
    """The pod that waits is bound to a volume; those that come after it are not."""
    stage = stage_with(storage_class("late"))
    bound = msgspec.structs.replace(
        claim(), spec=msgspec.structs.replace(claim().spec, volume_name="gone")
    )
    metadata = msgspec.structs.replace(bound.metadata, namespace="default")
    bound = msgspec.structs.replace(bound, metadata=metadata)
    stage.core.event_handlers.handler("PersistentVolumeClaim")([Change(None, bound)])
    pod = replica().struct()
    stage.see(replica())
    answer = await inspection.explain(stage.core, {pod.key: pod}, pod.key, count=2)
    assert answer["fit"] == []
    assert answer["replicas"]["fit"] == 2


@pytest.mark.parametrize("annotated", [False, True])
async def test_claims_of_a_pods_own_templates_are_judged_and_counted(annotated: bool) -> None:
    """Also where an annotation names the class, as it was written before there was a field."""
    stage = stage_with(storage_class("late"))
    answer = await asked(stage, ephemeral(annotated=annotated), count=3)
    assert answer["fit"] == ["a0", "a1"]
    assert answer["replicas"]["fit"] == 2


async def test_the_class_of_a_pods_own_template_is_corrected() -> None:
    answer = await asked(stage_with(storage_class("late")), ephemeral("late-"))
    first = answer["remedies"][0]
    assert first["summary"] == (
        "use the storage class late in place of late-, which does not exist, in claim p-scratch"
    )
    (change,) = first["changes"]
    template = change["patch"]["spec"]["volumes"][0]["ephemeral"]["volumeClaimTemplate"]
    assert template["spec"]["storageClassName"] == "late"
    assert first["affects"] == ["PersistentVolumeClaim p-scratch: it is made anew with the pod"]


async def test_nobody_is_told_to_create_a_claim_that_comes_with_the_pod() -> None:
    stage = stage_with(storage_class("late"))
    answer = await asked(stage, replica().cpu("3"), claim())
    assert answer["remedies"]
    for remedy in answer["remedies"]:
        assert not any(
            change["op"] == "add" and "Claim" in str(change) for change in remedy["changes"]
        )
    misspelt = await asked(stage, replica(), claim("lat"))
    assert misspelt["remedies"][0]["affects"] == [
        "PersistentVolumeClaim data-db-0: change the template that it will be made from"
    ]


def listed(*items: Any) -> bytes:
    return msgspec.json.encode({"apiVersion": "v1", "kind": "List", "items": items})


def test_a_list_has_a_pod_and_its_claims() -> None:
    body = {"kind": "PersistentVolumeClaim", "metadata": {"name": "c"}, "spec": {}}
    pod, claims = question_of(listed(replica().obj(), body))
    assert isinstance(pod, Pod)
    assert [each.metadata.name for each in claims] == ["c"]


@pytest.mark.parametrize(
    ("items", "said"),
    [
        ([], "items: must have one Pod, not 0"),
        ([make_pod("a").obj(), make_pod("b").obj()], "items: must have one Pod, not 2"),
        ([make_pod("a").obj(), {"kind": "Node"}], "items[1].kind: must be PersistentVolumeClaim"),
        (
            [
                make_pod("a").obj(),
                {"kind": "PersistentVolumeClaim", "spec": {"storageClassname": "x"}},
            ],
            "items[1].spec.storageClassname: unknown field (did you mean storageClassName?)",
        ),
        (
            [make_pod("a").obj(), *[{"kind": "PersistentVolumeClaim"}] * (MAX_CLAIMS + 1)],
            "items: must have a Pod and at most 64 claims",
        ),
    ],
    ids=["no pod", "two pods", "another kind", "a misspelt field", "too many claims"],
)
def test_what_is_wrong_in_a_list_is_named(items: list[Any], said: str) -> None:
    with pytest.raises(BadRequest) as fault:
        question_of(listed(*items))
    assert said in str(fault.value)
