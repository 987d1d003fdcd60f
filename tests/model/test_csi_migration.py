"""In-tree volumes in the words of the CSI drivers that serve them now."""

from __future__ import annotations

import pytest

from scheduler.model.csi_migration import (
    TranslationError,
    driver_of,
    inline_handle,
    migration_of,
    translated_affinity,
    volume_handle,
)
from scheduler.model.nodes import NodeSelector
from scheduler.model.objects import from_dict
from scheduler.model.pods import Volume
from scheduler.model.storage import PersistentVolume
from tests.builders import Json, requirement, term

ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
OLD_ZONE = "failure-domain.beta.kubernetes.io/zone"
OLD_REGION = "failure-domain.beta.kubernetes.io/region"
GCE_ZONE, EBS_ZONE = "topology.gke.io/zone", "topology.ebs.csi.aws.com/zone"

GCE: Json = {"gcePersistentDisk": {"pdName": "d"}}
EBS: Json = {"awsElasticBlockStore": {"volumeID": "vol-1"}}
AZURE: Json = {"azureDisk": {"diskURI": "/disks/d"}}
CINDER: Json = {"cinder": {"volumeID": "id"}}
PORTWORX: Json = {"portworxVolume": {"volumeID": "id"}}


def a_volume(
    source: Json, terms: list[Json] | None = None, labels: dict[str, str] | None = None
) -> PersistentVolume:
    required = {} if terms is None else {"required": {"nodeSelectorTerms": terms}}
    spec = {**source, "nodeAffinity": required}
    return from_dict(
        {"metadata": {"name": "v", "labels": labels or {}}, "spec": spec}, PersistentVolume
    )


@pytest.mark.parametrize(
    ("source", "driver", "handle"),
    [
        (GCE, "pd.csi.storage.gke.io", "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/d"),
        (EBS, "ebs.csi.aws.com", "vol-1"),
        (AZURE, "disk.csi.azure.com", "/disks/d"),
        (CINDER, "cinder.csi.openstack.org", "id"),
        (PORTWORX, "pxd.portworx.com", "id"),
    ],
)
def test_drivers_and_handles(source: Json, driver: str, handle: str) -> None:
    inline = from_dict({"name": "v", **source}, Volume)
    migration = migration_of(inline)
    assert migration is not None
    assert migration.driver == driver == driver_of(migration.plugin)
    assert inline_handle(inline) == handle == volume_handle(a_volume(source))


def test_what_has_no_driver() -> None:
    assert migration_of(from_dict({"name": "v", "emptyDir": {}}, Volume)) is None
    assert driver_of("csi.example.com") == "csi.example.com"
    assert driver_of("kubernetes.io/vsphere-volume") == ""


@pytest.mark.parametrize("text", ["vol-1", "aws:///vol-1", "aws://us-east-1a/vol-1"])
def test_names_of_ebs_disks(text: str) -> None:
    assert volume_handle(a_volume({"awsElasticBlockStore": {"volumeID": text}})) == "vol-1"


@pytest.mark.parametrize(
    ("labels", "place"),
    [
        ({}, "zones/UNSPECIFIED"),
        ({ZONE: "us-east1-a"}, "zones/us-east1-a"),
        ({ZONE: "us-east1-a", OLD_ZONE: "us-east1-b"}, "zones/us-east1-b"),
        ({ZONE: "us-east1-a__us-east1-b"}, "regions/us-east1"),
    ],
)
def test_places_of_gce_disks(labels: dict[str, str], place: str) -> None:
    assert volume_handle(a_volume(GCE, labels=labels)) == f"projects/UNSPECIFIED/{place}/disks/d"


@pytest.mark.parametrize(
    "volume",
    [
        pytest.param(
            a_volume({"awsElasticBlockStore": {"volumeID": "aws://a/b/c"}}), id="a strange name"
        ),
        pytest.param(a_volume({"azureDisk": {"kind": "Shared"}}), id="an unmanaged disk"),
        pytest.param(a_volume(GCE, labels={ZONE: "a__b"}), id="zones without a region"),
        pytest.param(a_volume(GCE, labels={ZONE: "a-b-c__d-e-f"}), id="zones of two regions"),
    ],
)
def test_volumes_that_no_driver_can_serve(volume: PersistentVolume) -> None:
    with pytest.raises(TranslationError):
        translated_affinity(volume)


IN_A = requirement(ZONE, "In", "a")
ON_SSD = requirement("disk", "In", "ssd")


@pytest.mark.parametrize(
    ("volume", "terms"),
    [
        pytest.param(a_volume(EBS), None, id="no zone"),
        pytest.param(
            a_volume(EBS, [term(IN_A, ON_SSD), term(ON_SSD)]),
            [term(requirement(EBS_ZONE, "In", "a"), ON_SSD), term(ON_SSD)],
            id="a zone in the affinity",
        ),
        pytest.param(
            a_volume(EBS, [term(IN_A)], labels={ZONE: "b"}),
            [term(requirement(EBS_ZONE, "In", "a"))],
            id="the affinity wins over the label",
        ),
        pytest.param(
            a_volume(GCE, labels={ZONE: "us-east1-b__us-east1-a"}),
            [term(requirement(GCE_ZONE, "In", "us-east1-a", "us-east1-b"))],
            id="zones in the label",
        ),
        pytest.param(
            a_volume(EBS, [term(ON_SSD), term()], labels={OLD_ZONE: "a"}),
            [
                term(ON_SSD, requirement(EBS_ZONE, "In", "a")),
                term(requirement(EBS_ZONE, "In", "a")),
            ],
            id="an old label narrows every term",
        ),
        pytest.param(
            a_volume(EBS, [term(requirement(ZONE, "Exists"))], labels={ZONE: "a"}),
            [term(requirement(ZONE, "Exists"), requirement(EBS_ZONE, "In", "a"))],
            id="a zone that is not named",
        ),
        pytest.param(
            a_volume(
                EBS, [term(requirement(OLD_ZONE, "In", "a"), requirement(OLD_REGION, "In", "r"))]
            ),
            [term(requirement(EBS_ZONE, "In", "a"), requirement(REGION, "In", "r"))],
            id="an old region becomes a new one",
        ),
        pytest.param(a_volume(EBS, labels={ZONE: " "}), None, id="a label without zones"),
        pytest.param(a_volume(AZURE, [term(IN_A)], labels={ZONE: "b"}), [term(IN_A)], id="Azure"),
    ],
)
def test_topology(volume: PersistentVolume, terms: list[Json] | None) -> None:
    want = None if terms is None else from_dict({"nodeSelectorTerms": terms}, NodeSelector)
    assert translated_affinity(volume) == want
