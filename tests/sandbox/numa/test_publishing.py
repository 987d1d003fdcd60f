"""What agents publish of a node."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from sandbox.numa.publishing import topology
from sandbox.numa.settings import PublisherSettings
from sandbox.numa.tasks import CRD
from scheduler.numa.fingerprint import fingerprint
from tests.sandbox.numa.support import GIB, GPU, container, kubelet, pod, single

PROJECT = Path(__file__).parents[3]


def available(nrt: dict[str, Any], cell: int, name: str) -> int:
    (zone,) = (zone for zone in nrt["zones"] if zone["name"] == f"node-{cell}")
    (found,) = (each for each in zone["resources"] if each["name"] == name)
    return int(found["available"])


def attributes(nrt: dict[str, Any]) -> dict[str, str]:
    return {each["name"]: each["value"] for each in nrt["attributes"]}


def test_an_empty_node() -> None:
    nrt = topology(kubelet(), PublisherSettings())
    assert nrt["metadata"] == {"name": "n1"}
    assert nrt["topologyPolicies"] == ["SingleNUMANodeContainerLevel"]
    assert attributes(nrt) == {
        "topologyManagerPolicy": "single-numa-node",
        "topologyManagerScope": "container",
        "nodeTopologyPodsFingerprint": "pfp0v001ef46db3751d8e999",
        "nodeTopologyPodsFingerprintMethod": "all",
    }
    first = nrt["zones"][0]
    assert (first["name"], first["type"]) == ("node-0", "Node")
    assert first["costs"] == [{"name": "node-0", "value": 10}, {"name": "node-1", "value": 20}]
    assert first["resources"] == [
        {"name": "cpu", "capacity": "8", "allocatable": "7", "available": "7"},
        {
            "name": "memory",
            "capacity": str(16 * GIB),
            "allocatable": str(15 * GIB),
            "available": str(15 * GIB),
        },
        {"name": GPU, "capacity": "2", "allocatable": "2", "available": "2"},
    ]


@pytest.mark.parametrize(
    ("policy", "scope", "name"),
    [
        ("none", "container", "None"),
        ("best-effort", "pod", "BestEffortPodLevel"),
        ("restricted", "container", "RestrictedContainerLevel"),
        ("single-numa-node", "pod", "SingleNUMANodePodLevel"),
    ],
)
def test_policies_in_old_and_new_words(policy: str, scope: str, name: str) -> None:
    nrt = topology(kubelet(policy=policy, scope=scope), PublisherSettings())
    assert nrt["topologyPolicies"] == [name]
    assert attributes(nrt)["topologyManagerPolicy"] == policy
    assert attributes(nrt)["topologyManagerScope"] == scope


def test_what_pods_hold_is_not_available_and_what_is_shared_is() -> None:
    node = kubelet()
    node.admit(single("a", "4", gib=3, gpus=1))
    node.admit(single("b", "5"))
    node.admit(single("shared", "1500m", gib=2))
    nrt = topology(node, PublisherSettings())
    assert [available(nrt, cell, "cpu") for cell in (0, 1)] == [3, 3]
    assert [available(nrt, cell, "memory") for cell in (0, 1)] == [10 * GIB, 15 * GIB]
    assert [available(nrt, cell, GPU) for cell in (0, 1)] == [1, 2]


def test_agents_overlook_what_pods_keep_of_their_init_containers() -> None:
    node = kubelet()
    node.admit(pod("p", container("app", "2"), init=(container("prepare", "6"),)))
    seen = topology(node, PublisherSettings())
    truth = topology(node, PublisherSettings(), truth=True)
    assert (available(seen, 0, "cpu"), available(truth, 0, "cpu")) == (5, 1)


@pytest.mark.parametrize(
    ("settings", "names"),
    [
        (PublisherSettings(), ["pinned", "device", "loose"]),
        (PublisherSettings(method="with-exclusive-resources"), ["pinned", "device"]),
    ],
    ids=["all", "with-exclusive-resources"],
)
def test_fingerprints_are_of_all_pods_or_of_those_that_pin(
    settings: PublisherSettings, names: list[str]
) -> None:
    node = kubelet(memory_manager=False)
    node.admit(single("pinned", "2"))
    node.admit(pod("device", container("app", gpus=1)))
    node.admit(single("loose", "500m"))
    found = attributes(topology(node, settings))
    assert found["nodeTopologyPodsFingerprint"] == fingerprint(("default", n) for n in names)
    assert found["nodeTopologyPodsFingerprintMethod"] == settings.method


def test_a_fingerprint_may_be_an_annotation_or_missing() -> None:
    node = kubelet()
    node.admit(single("a", "1"))
    annotated = topology(node, PublisherSettings(fingerprint="annotation"))
    expected = {"topology.node.k8s.io/fingerprint": fingerprint([("default", "a")])}
    assert annotated["metadata"]["annotations"] == expected
    assert "nodeTopologyPodsFingerprint" not in attributes(annotated)
    unsigned = topology(node, PublisherSettings(fingerprint="none"))
    assert "annotations" not in unsigned["metadata"]
    assert "nodeTopologyPodsFingerprint" not in attributes(unsigned)


@pytest.mark.parametrize("directory", ["deploy/crds", "charts/equipoise/files/crds"])
def test_the_definition_for_clusters_is_the_one_the_sandbox_serves(directory: str) -> None:
    manifest = PROJECT / directory / "noderesourcetopologies.yaml"
    assert yaml.safe_load(manifest.read_text()) == CRD
