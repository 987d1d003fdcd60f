"""What the real plugin of kube-scheduler found on recorded cases, as far as the allocator goes.

`tests/dra` runs the same cases through the whole plugin: which claims a pod has, what was refused
before any search, and what is written.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from scheduler.devices import DeviceError, DeviceIndex
from scheduler.model.devices import DeviceClass, ResourceClaim, ResourceSlice
from scheduler.model.nodes import Node
from scheduler.model.objects import from_dict

Json = dict[str, Any]

DATA = Path(__file__).parent.parent / "data" / "dra"
FILES = sorted(path for path in DATA.glob("*.jsonl.gz") if not path.name.startswith("cel"))
SPECIAL = "<extended-resources>"
ERROR = 'running "DynamicResources" filter plugin: '
CEL = "CEL runtime error"
NOT_OURS = ("resourceclaim not available on the node", "cannot schedule extended resource claim")


def cases(path: Path) -> Iterator[tuple[Json, Json]]:
    with gzip.open(path, "rb") as lines:
        for line in lines:
            both = msgspec.json.decode(line)
            yield both["case"], both["want"]


def indexed(case: Json) -> DeviceIndex:
    index = DeviceIndex()
    for row, node in enumerate(case["nodes"]):
        index.set_node(row, from_dict(node, Node))
    for each in case.get("deviceclasses", ()):
        index.set_class(each["metadata"]["name"], from_dict(each, DeviceClass))
    for each in case.get("resourceslices", ()):
        index.set_slice(None, from_dict(each, ResourceSlice))
    for each in (*case.get("resourceclaims", ()), *case.get("inflight", ())):
        claim = from_dict(each, ResourceClaim)
        if claim.status.allocation is not None:
            index.set_claim(claim.metadata.key, claim.status.allocation)
    return index


def unallocated(case: Json) -> list[ResourceClaim]:
    """The pod's claims that have no devices, in its order."""
    pod = case["pending"]
    namespace = pod["metadata"].get("namespace", "default")
    known = [from_dict(each, ResourceClaim) for each in case.get("resourceclaims", ())]
    by_name = {(each.metadata.namespace, each.metadata.name): each for each in known}
    made = {
        each["name"]: each.get("resourceClaimName")
        for each in pod.get("status", {}).get("resourceClaimStatuses", ())
    }
    names = [
        each.get("resourceClaimName") or made.get(each["name"])
        for each in pod["spec"].get("resourceClaims", ())
    ]
    claims = [by_name[namespace, name] for name in names if name]
    return [each for each in claims if each.status.allocation is None]


def stored(index: DeviceIndex, claims: list[ResourceClaim], row: int) -> list[Json] | str:
    """What would be stored, as the data show it; a text: why nothing is."""
    try:
        found = index.allocate(claims, row)
    except DeviceError as fault:
        return f"{ERROR}{str(fault).split(CEL)[0]}"
    if found is None:
        return index.reason(index.judge(claims, (row,)).outcomes[0], claims, row)
    node = index.inventory.node_name(row)
    return [
        _shown(claim, msgspec.json.decode(msgspec.json.encode(allocation)), node)
        for claim, allocation in zip(claims, found, strict=True)
    ]


def _shown(claim: ResourceClaim, allocation: Json, node: str) -> Json:
    devices = allocation.get("devices", {})
    here = {"key": "metadata.name", "operator": "In", "values": [node]}
    selector = allocation.get("nodeSelector")
    if selector == {"nodeSelectorTerms": [{"matchFields": [here]}]}:
        selector = "@node"
    results = [
        {**each, "shareID": "*"} if "shareID" in each else each
        for each in devices.get("results", [])
    ]
    shown = {
        "claim": claim.metadata.name,
        "devices": results,
        "config": devices.get("config"),
        "nodeSelector": selector,
    }
    return {key: value for key, value in shown.items() if value}


def special(allocation: Json, namespace: str) -> ResourceClaim:
    """The claim for extended resources, from what was recorded of it."""
    return from_dict(
        {
            "metadata": {"name": SPECIAL, "namespace": namespace},
            "spec": {"devices": {"requests": allocation.get("requests")}},
        },
        ResourceClaim,
    )


def judged(case: Json, want: Json) -> Iterator[tuple[int, list[ResourceClaim], list[Json] | str]]:
    """Per row that the allocator decides about: the claims, and what was recorded."""
    claims = unallocated(case)
    namespace = case["pending"]["metadata"].get("namespace", "default")
    allocations = want.get("allocations", {})
    has_special = any(each[-1]["claim"] == SPECIAL for each in allocations.values() if each)
    # Without an allocation nobody says what the special claim would have asked for.
    extended = has_special or "/" in " ".join(_requests(case["pending"]))
    for row, node in enumerate(case["nodes"]):
        name = node["metadata"]["name"]
        verdict = want["nodes"][name]
        if name in allocations:
            wanted = [
                {k: v for k, v in each.items() if k not in ("requests", "mappings") and v}
                for each in allocations[name]
            ]
            more = allocations[name][-1]
            all_claims = [*claims, special(more, namespace)] if has_special else claims
            if more["claim"] != SPECIAL:
                all_claims = claims
            yield row, all_claims, wanted
        elif claims and not extended and verdict.get("plugin") == "DynamicResources":
            reason = verdict["reasons"][0]
            if reason not in NOT_OURS:
                yield row, claims, reason.split(CEL)[0]


def _requests(pod: Json) -> Iterator[str]:
    for kind in ("containers", "initContainers"):
        for container in pod["spec"].get(kind, ()):
            yield from container.get("resources", {}).get("requests", {})


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name.split(".")[0])
def test_recorded_cases(path: Path) -> None:
    seen = 0
    for case, want in cases(path):
        if want.get("prefilter") or want.get("preenqueue"):
            continue
        index = indexed(case)
        for row, claims, recorded in judged(case, want):
            assert stored(index, claims, row) == recorded, case["id"]
            seen += 1
    assert seen
