"""Every verdict, reason and score equals what kube-scheduler's own plugins gave for the case."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from scheduler.config.plugins import DEFAULT_PLUGINS
from scheduler.plugins.table import IN_TREE
from scheduler.simulation import judge
from tests.builders import Json

DATA = Path(__file__).parent / "data" / "parity"

KINDS = {
    "nodes": "Node",
    "pods": "Pod",
    "nominated": "Pod",
    "namespaces": "Namespace",
    "services": "Service",
    "replicationcontrollers": "ReplicationController",
    "replicasets": "ReplicaSet",
    "statefulsets": "StatefulSet",
    "pvs": "PersistentVolume",
    "pvcs": "PersistentVolumeClaim",
    "storageclasses": "StorageClass",
    "csinodes": "CSINode",
    "csidrivers": "CSIDriver",
    "csistoragecapacities": "CSIStorageCapacity",
    "volumeattachments": "VolumeAttachment",
    "pdbs": "PodDisruptionBudget",
}
"""The kind of the objects in each list of a case; an unknown list is an error, not ignored."""

ALWAYS_ZERO = "DynamicResources"
"""Recorded with a score of 0 in every case, whether or not the pod has claims."""


CASES: list[tuple[Json, Json]] = [
    (record["case"], record["want"])
    for file in sorted(DATA.glob("*.jsonl"))
    for record in map(msgspec.json.decode, file.read_bytes().splitlines())
]


def objects_of(case: Json) -> list[Json]:
    lists = {name: items for name, items in case.items() if name not in ("id", "pending")}
    return [{"kind": KINDS[name], **item} for name, items in lists.items() for item in items]


def verdict(raw: Json) -> Json:
    """A verdict in comparable form: reasons are a multiset."""
    if raw["fit"]:
        return {"fit": True}
    return {key: raw[key] for key in ("fit", "plugin", "code")} | {
        "reasons": sorted(raw["reasons"])
    }


def weighted(scores: Json) -> Json:
    return {name: score for name, score in scores["plugins"].items() if name != ALWAYS_ZERO}


@pytest.mark.parametrize(("case", "want"), CASES, ids=[case["id"] for case, _ in CASES])
def test_verdicts_and_scores(case: Json, want: Json) -> None:
    got = judge(objects_of(case), {"kind": "Pod", **case["pending"]})

    assert {name: verdict(node) for name, node in got["nodes"].items()} == {
        name: verdict(node) for name, node in want["nodes"].items()
    }
    assert got["message"] == want.get("fitError", "")
    scores = want.get("scores", {})
    assert got["fit"] == sorted(scores)
    assert {name: node["plugins"] for name, node in got["scores"].items()} == {
        name: weighted(node) for name, node in scores.items()
    }
    assert {name: node["total"] for name, node in got["scores"].items()} == {
        name: node["total"] for name, node in scores.items()
    }


def test_the_whole_default_profile_is_compared() -> None:
    assert {plugin.name for plugin in DEFAULT_PLUGINS} <= IN_TREE.keys()
    assert len(CASES) == 750
