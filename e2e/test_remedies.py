"""What explain proposes, kube-scheduler confirms: pods that follow a remedy go where it says."""

import asyncio
import copy
from typing import Any

from e2e.harness.client import ApiClient
from e2e.harness.cluster import ControlPlane
from e2e.harness.kube_scheduler import kube_scheduler
from e2e.harness.objects import Json, is_bound, is_ready_node, is_running, pod, priority_class
from e2e.harness.workspace import Workspace
from e2e.test_kube_schedulers_words import (
    REQUIRED,
    THEIRS,
    affinity,
    container,
    fill,
    only_on,
    spread,
)
from scheduler.explaining.remedies.patches import merge_patch
from scheduler.simulation import explain
from tests.explaining.support import applied, merged

MOST_TRIED = 2
"""On so many of the nodes that a remedy opens the pod is tried."""


def hopeless_pods(cordoned: str) -> dict[str, Json]:
    """Specs of pods that fit nowhere and whose remedies are followed."""
    gpus = {"example.com/gpu": "1"}
    return {
        "too-large": container(resources={"requests": {"cpu": "64", "memory": "1Ti"}}),
        "guaranteed": container(
            resources={
                "requests": {"cpu": "6", "memory": "1Gi"},
                "limits": {"cpu": "6", "memory": "1Gi"},
            }
        ),
        "unknown-resource": container(resources={"requests": gpus, "limits": gpus}),
        "taken-port": container(ports=[{"containerPort": 80, "hostPort": 8080}]),
        "selective": {"nodeSelector": {"topology.kubernetes.io/zone": "e", "disk": "fast"}},
        "pinned": only_on(cordoned),
        "apart": affinity("podAntiAffinity", "rock"),
        "together": affinity("podAffinity", "rokc"),
        "evenly": spread("topology.kubernetes.io/zone", "rock"),
        "without-racks": spread("rack", "rock"),
    }


async def everything(space: Workspace) -> list[Json]:
    """All objects that matter here, as the API server has them."""
    found: list[Json] = []
    for kind, path in (("Node", "/api/v1/nodes"), ("Pod", space.pods)):
        found += [{**each, "kind": kind} for each in await space.api.items(path)]
    return found


def forced(manifest: Json, name: str, node: str) -> Json:
    """The pod as kube-scheduler gets it, with one node in question."""
    patch = {"metadata": {"name": name}, "spec": {"schedulerName": THEIRS}}
    made: Json = copy.deepcopy(merged(manifest, patch))
    if "topologySpreadConstraints" in made["spec"]:
        return made  # which nodes are in question decides how even it is
    only: Json = only_on(node)["affinity"]["nodeAffinity"][REQUIRED]["nodeSelectorTerms"][0]
    rules = made["spec"].setdefault("affinity", {}).setdefault("nodeAffinity", {})
    terms: list[Json] = rules.get(REQUIRED, {}).get("nodeSelectorTerms", [{}])
    fields = only["matchFields"]
    rules[REQUIRED] = {
        "nodeSelectorTerms": [
            {**term, "matchFields": [*term.get("matchFields", []), *fields]} for term in terms
        ]
    }
    return made


async def change_nodes(api: ApiClient, changes: list[Json], nodes: dict[str, Json]) -> list[Any]:
    """Make a remedy's changes of nodes; returns what takes them back."""
    back: list[Any] = []
    for change in changes:
        if change["op"] == "add":
            name = change["object"]["metadata"]["name"]
            await api.create("/api/v1/nodes", change["object"])
            await api.wait_until(f"/api/v1/nodes/{name}", is_ready_node)
            back.append(api.delete(f"/api/v1/nodes/{name}"))
        elif change["kind"] == "Node":
            path = f"/api/v1/nodes/{change['name']}"
            after = merged(nodes[change["name"]], change["patch"])
            await api.patch(path, change["patch"])
            await api.wait_until(path, is_ready_node)
            back.append(api.patch(path, merge_patch(after, nodes[change["name"]])))
    return back


async def test_kube_scheduler_places_pods_where_remedies_say(
    control_plane: ControlPlane, space: Workspace
) -> None:
    vip = f"{space.name}-vip"
    await space.apply(priority_class(vip, 1000))
    cordoned = await fill(space, vip)
    await space.wait_for_pods(12, is_running)
    objects = await everything(space)
    nodes = {each["metadata"]["name"]: each for each in objects if each["kind"] == "Node"}
    followed: dict[str, list[str]] = {}
    with kube_scheduler(control_plane):
        for case, spec in hopeless_pods(cordoned).items():
            manifest = pod(case, labels={"app": "rock"}, **spec)
            manifest["metadata"]["namespace"] = space.name
            del manifest["spec"]["schedulerName"]
            answer = await asyncio.to_thread(explain, objects, manifest)
            assert answer["fit"] == [], case
            for number, remedy in enumerate(answer["remedies"]):
                changes = remedy["changes"]
                if any(change["op"] == "delete" for change in changes):
                    continue
                _, patched = applied(objects, manifest, changes)
                back = await change_nodes(space.api, changes, nodes)
                for node in remedy["opens"][:MOST_TRIED]:
                    name = f"{case}-{number}-{remedy['opens'].index(node)}"
                    await space.create_pods([forced(patched, name, node)])
                    bound = await space.wait_for_pod(name, is_bound)
                    assert bound["spec"]["nodeName"] in remedy["opens"], remedy
                    await space.api.delete(f"{space.pods}/{name}", gracePeriodSeconds="0")
                for undo in back:
                    await undo
                followed.setdefault(case, []).append(remedy["summary"])
    assert followed.keys() == hopeless_pods(cordoned).keys()
