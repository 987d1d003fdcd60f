"""What a claim must be like to place its pod, and what a volume must be like to suit a claim."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from scheduler.model.meta import AnnotatedMeta, LabelSelector, LabelSelectorRequirement
from scheduler.model.status import SUCCESS, Status, unresolvable
from scheduler.model.storage import PersistentVolumeClaim, PersistentVolumeClaimSpec
from scheduler.pipeline.evaluation import CycleError, evaluate
from scheduler.plugin_api.cycle import Cycle
from scheduler.plugins.volume_binding import VolumeBinding
from scheduler.plugins.volumes.matching import too_long_selector
from tests.builders import Json, make_node
from tests.plugins.storage import a_claim, a_class, a_csi_node, a_pod, a_volume, put, within
from tests.plugins.support import Bench
from tests.plugins.volume_oracle import EBS_ZONE, UNBINDABLE, UNREACHABLE, ZONE

NAME = "VolumeBinding"
NO_PROVISIONER = "kubernetes.io/no-provisioner"
GOLD = {"volumeAttributesClassName": "gold"}
GONE = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
NOWHERE: Json = {"nodeAffinity": {"required": {"nodeSelectorTerms": []}}}


def kept_for(claim: str, uid: str = "") -> Json:
    return {"claimRef": {"namespace": "default", "name": claim, "uid": uid}}


@pytest.mark.parametrize(
    ("volume", "wish", "fits"),
    [
        pytest.param({}, {}, True, id="nothing special"),
        pytest.param({"size": "4Gi"}, {}, False, id="too small"),
        pytest.param({"size": "5Gi"}, {}, True, id="just large enough"),
        pytest.param({"class_name": "early"}, {}, False, id="another class"),
        pytest.param({"phase": "Released"}, {}, False, id="not available"),
        pytest.param({"metadata": GONE}, {}, False, id="about to go"),
        pytest.param({"spec": {"volumeMode": "Block"}}, {}, False, id="a block device"),
        pytest.param({}, {"volumeMode": "Block"}, False, id="a block device is wanted"),
        pytest.param({"spec": {"volumeMode": "Filesystem"}}, {}, True, id="a file system"),
        pytest.param({"spec": GOLD}, {}, False, id="attributes"),
        pytest.param({"spec": GOLD}, GOLD, True, id="attributes that are wanted"),
        pytest.param({}, {"accessModes": ["ReadOnlyMany"]}, False, id="another access mode"),
        pytest.param(
            {"modes": ["ReadOnlyMany", "ReadWriteOnce"]}, {}, True, id="more modes than wanted"
        ),
        pytest.param({}, {"selector": {"matchLabels": {"tier": "a"}}}, False, id="other labels"),
        pytest.param(
            {"labels": {"tier": "a"}},
            {"selector": {"matchLabels": {"tier": "a"}}},
            True,
            id="the labels that are wanted",
        ),
        pytest.param({"spec": kept_for("c")}, {}, True, id="kept for the claim"),
        pytest.param(
            {"spec": kept_for("c"), "phase": "Bound", "modes": []}, {}, True, id="bound to it"
        ),
        pytest.param({"spec": kept_for("c", "other")}, {}, False, id="kept for its predecessor"),
        pytest.param({"spec": kept_for("d")}, {}, False, id="kept for another"),
        pytest.param({"spec": NOWHERE}, {}, False, id="out of reach"),
    ],
)
def test_one_volume_and_one_claim(volume: Json, wish: Json, fits: bool) -> None:
    bench = Bench(VolumeBinding, [make_node("n")])
    put(bench.state, a_class("late", NO_PROVISIONER), a_volume("v", **volume))
    put(bench.state, a_claim("c", spec=wish))
    want = SUCCESS if fits else unresolvable(UNBINDABLE).by(NAME)
    assert bench.verdicts(a_pod().claim("c")) == {"n": want}


def test_a_migrated_volume_follows_the_topology_of_its_driver() -> None:
    ours, others = {ZONE: "a", EBS_ZONE: "b"}, {ZONE: "b", EBS_ZONE: "a"}
    nodes = [make_node("n0").label(**ours), make_node("n1").label(**others)]
    bench = Bench(VolumeBinding, nodes)
    disk = {"awsElasticBlockStore": {"volumeID": "vol-1"}}
    put(bench.state, a_volume("v", spec=disk | within(ZONE, "a")), a_claim("c", volume="v"))
    unreachable = unresolvable(UNREACHABLE).by(NAME)
    assert bench.verdicts(a_pod().claim("c")) == {"n0": SUCCESS, "n1": unreachable}
    for name in ("n0", "n1"):
        put(bench.state, a_csi_node(name, {}, migrated="kubernetes.io/aws-ebs,other"))
    assert bench.verdicts(a_pod().claim("c")) == {"n0": unreachable, "n1": SUCCESS}


OWNED = {"ownerReferences": [{"uid": "uid-p", "controller": True}]}


def selecting(labels: int) -> Json:
    """A claim's selector of so many labels."""
    return {"selector": {"matchLabels": {f"key-{i}": "value" for i in range(labels)}}}


@pytest.mark.parametrize(
    ("claim", "ephemeral", "text"),
    [
        pytest.param(None, False, 'persistentvolumeclaim "c" not found', id="no claim"),
        pytest.param(
            None,
            True,
            'waiting for ephemeral volume controller to create the persistentvolumeclaim "p-v0"',
            id="no claim yet",
        ),
        pytest.param(
            a_claim("p-v0"),
            True,
            "PVC default/p-v0 was not created for pod default/p (pod is not owner)",
            id="the claim of somebody else",
        ),
        pytest.param(a_claim("p-v0", metadata=OWNED), True, "", id="a claim made for the pod"),
        pytest.param(
            a_claim("c", volume="v", status={"phase": "Lost"}),
            False,
            'persistentvolumeclaim "c" bound to non-existent persistentvolume "v"',
            id="a lost claim",
        ),
        pytest.param(
            a_claim("c", metadata=GONE),
            False,
            'persistentvolumeclaim "c" is being deleted',
            id="a claim that goes",
        ),
        pytest.param(
            a_claim("c", "now"),
            False,
            "pod has unbound immediate PersistentVolumeClaims",
            id="a claim that should be bound",
        ),
        pytest.param(
            a_claim("c", None),
            False,
            "pod has unbound immediate PersistentVolumeClaims",
            id="a claim without a class",
        ),
        pytest.param(
            a_claim("c", volume="v", annotations={}),
            False,
            "pod has unbound immediate PersistentVolumeClaims",
            id="a claim that names a volume and does not have it",
        ),
        pytest.param(
            a_claim("c", spec=selecting(1025)),
            False,
            'persistentvolumeclaim "c": spec.selector: 1025 entries; all claims of a pod may have'
            " 1024",
            id="a claim with a selector that is too long",
        ),
        pytest.param(
            a_claim("c", volume="v", spec=selecting(1025)),
            False,
            "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
            id="a bound claim, whose selector means nothing any more",
        ),
        pytest.param(a_claim("c", spec=selecting(1024)), False, "", id="a claim that waits"),
    ],
)
def test_claims_as_a_whole(claim: Json | None, ephemeral: bool, text: str) -> None:
    bench = Bench(VolumeBinding, [make_node("n")])
    put(bench.state, a_class("late"), a_class("now", mode="Immediate"))
    if claim:
        put(bench.state, claim)
    pod = a_pod().ephemeral() if ephemeral else a_pod().claim("c")
    want: Status = unresolvable(text).by(NAME) if text else SUCCESS
    assert bench.verdicts(pod) == {"n": want}


def test_a_class_without_a_mode_is_a_fault() -> None:
    bench = Bench(VolumeBinding, [make_node("n")])
    put(bench.state, a_class("late") | {"volumeBindingMode": None}, a_claim("c"))
    with pytest.raises(CycleError, match='VolumeBindingMode not set for StorageClass "late"'):
        bench.verdicts(a_pod().claim("c"))


def test_pods_without_claims_are_not_looked_at() -> None:
    bench = Bench(VolumeBinding, [make_node("n")])
    cycle = Cycle(a_pod().volume(emptyDir={}).info(), bench.state)
    evaluate(bench.framework, cycle).diagnosis()
    assert cycle.skipped["filter"] == {NAME}


def test_old_annotations_name_the_class() -> None:
    bench = Bench(VolumeBinding, [make_node("n")])
    beta: dict[str, Any] = {"volume.beta.kubernetes.io/storage-class": "old"}
    put(bench.state, a_class("old", NO_PROVISIONER))
    put(bench.state, a_claim("c", None, annotations=beta))
    assert bench.verdicts(a_pod().claim("c")) == {"n": unresolvable(UNBINDABLE).by(NAME)}
    put(bench.state, a_volume("v", "", metadata={"annotations": beta}))
    assert bench.verdicts(a_pod().claim("c")) == {"n": SUCCESS}


def test_a_claim_that_is_used_twice_gets_one_volume() -> None:
    bench = Bench(VolumeBinding, [make_node("n")])
    put(bench.state, a_class("late", NO_PROVISIONER))
    put(bench.state, a_claim("c"), a_volume("v"))
    assert bench.verdicts(a_pod().claim("c", "c")) == {"n": SUCCESS}


class Looked(tuple[Any, ...]):
    """Requirements that count how often they are gone through."""

    times = 0

    def __iter__(self) -> Iterator[Any]:
        Looked.times += 1
        return super().__iter__()


def asking(name: str, requirements: int, values: int) -> PersistentVolumeClaim:
    listed = Looked(
        LabelSelectorRequirement(f"key-{i}", "In", ("value",) * values) for i in range(requirements)
    )
    metadata = AnnotatedMeta(name=name, namespace="default")
    selector = LabelSelector(match_expressions=listed)
    return PersistentVolumeClaim(
        metadata=metadata, spec=PersistentVolumeClaimSpec(selector=selector)
    )


@pytest.mark.parametrize(
    ("claims", "found", "times"),
    [
        pytest.param([(8, 1), (8, 120)], None, 2, id="as many as there may be"),
        pytest.param([(8, 1), (2, 600)], ("c-1", 1202), 5, id="many values"),
        pytest.param([(1025, 1), (2000, 1), (1500, 9)], ("c-1", 4000), 1, id="many requirements"),
    ],
)
def test_values_are_counted_where_there_are_few_requirements(
    claims: list[tuple[int, int]], found: tuple[str, int] | None, times: int
) -> None:
    """A tenant may have hundreds of claims, each with tens of thousands of requirements."""
    made = [asking(f"c-{i}", *sizes) for i, sizes in enumerate(claims)]
    Looked.times = 0
    assert too_long_selector(made) == found
    assert Looked.times == times
