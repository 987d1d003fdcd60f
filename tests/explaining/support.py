"""Remedies followed to the letter: their changes applied to objects by an applier of its own."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from scheduler.simulation import judge
from tests.builders import Json

CLUSTER_SCOPED = ("Node", "PersistentVolume", "StorageClass", "ResourceSlice", "DeviceClass")


def merged(target: Any, patch: Any) -> Any:
    """RFC 7386, section 2, word for word."""
    if not isinstance(patch, Mapping):
        return copy.deepcopy(patch)
    result = dict(target) if isinstance(target, Mapping) else {}
    for name, value in patch.items():
        if value is None:
            result.pop(name, None)
        else:
            result[name] = merged(result.get(name), value)
    return result


def applied(objects: Sequence[Json], pod: Json, changes: Iterable[Json]) -> tuple[list[Json], Json]:
    """The objects and the pod after changes, in order."""
    made, pod = copy.deepcopy(list(objects)), copy.deepcopy(pod)
    own = ("Pod", pod["metadata"].get("namespace", "default"), pod["metadata"]["name"])
    for change in changes:
        if change["op"] == "add":
            assert not any(_named(each) == _named(change["object"]) for each in made)
            made.append(copy.deepcopy(change["object"]))
            continue
        name = (change["kind"], change["namespace"], change["name"])
        if name == own:
            assert change["op"] == "patch"
            pod = merged(pod, change["patch"])
            continue
        places = [i for i, each in enumerate(made) if _named(each) == name]
        assert len(places) == 1, f"{name} is none of the objects"
        if change["op"] == "delete":
            del made[places[0]]
        else:
            made[places[0]] = merged(made[places[0]], change["patch"])
    return made, pod


def _named(raw: Json) -> tuple[str, str, str]:
    metadata = raw["metadata"]
    namespaced = raw["kind"] not in CLUSTER_SCOPED
    namespace = metadata.get("namespace", "default") if namespaced else ""
    return raw["kind"], namespace, metadata["name"]


def fits(objects: Sequence[Json], pod: Json, changes: Iterable[Json]) -> list[str]:
    """The nodes on which the pod fits after changes."""
    fit: list[str] = judge(*applied(objects, pod, changes))["fit"]
    return sorted(fit)


def beside_daemons(objects: Sequence[Json], changes: Sequence[Json]) -> list[Json]:
    """Changes, and the pods of DaemonSets that come to nodes that are added."""
    come: list[Json] = []
    new = [each["object"]["metadata"]["name"] for each in changes if each["op"] == "add"]
    for name in new:
        for pod in objects:
            on = pod.get("spec", {}).get("nodeName", "")
            if on and on == name.partition("-copy-")[0] and _of_node(pod):
                daemon = copy.deepcopy(pod)
                daemon["metadata"] |= {"name": f"{name}-{pod['metadata']['name']}", "uid": None}
                daemon["spec"]["nodeName"] = name
                come.append({"op": "add", "object": daemon})
    return [*changes, *come]


def _of_node(pod: Json) -> bool:
    owners = pod["metadata"].get("ownerReferences", [])
    leaving = "deletionTimestamp" in pod["metadata"]
    return not leaving and any(each["kind"] == "DaemonSet" for each in owners)


def summaries(answer: Mapping[str, Any]) -> list[str]:
    """What is proposed, best first."""
    return [remedy["summary"] for remedy in answer["remedies"]]
