"""A pod as a manifest to start from: what the scheduler keeps of it, without where it is."""

from __future__ import annotations

from typing import Any

import msgspec

from scheduler.model.pods import Pod

_OWN = ("name", "namespace", "labels")
"""What a pod like this one would have of its metadata."""
_PLACED = ("nodeName",)
_TEMPLATE_HASH = "pod-template-hash"
"""The label by which a Deployment tells its ReplicaSets apart; their names end in it."""


def pod_manifest(pod: Pod) -> dict[str, Any]:
    """The pod, whose template it was made from, and its manifest with the fields read here."""
    plain: dict[str, Any] = msgspec.to_builtins(pod)
    metadata = {name: value for name, value in plain["metadata"].items() if name in _OWN}
    spec = {name: value for name, value in plain.get("spec", {}).items() if name not in _PLACED}
    manifest = {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}
    return {"pod": pod.key, "owner": _owner(pod), "manifest": manifest}


def _owner(pod: Pod) -> str:
    """``Kind/name`` of the object that has the pod's template; empty if none made it."""
    made_by = next((each for each in pod.metadata.owner_references if each.controller), None)
    if made_by is None:
        return ""
    ending = f"-{pod.metadata.labels.get(_TEMPLATE_HASH, '')}"
    if made_by.kind == "ReplicaSet" and len(ending) > 1 and made_by.name.endswith(ending):
        return f"Deployment/{made_by.name.removesuffix(ending)}"
    return f"{made_by.kind}/{made_by.name}"
