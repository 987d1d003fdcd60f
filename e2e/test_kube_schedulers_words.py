"""Messages of pods that fit nowhere are those of kube-scheduler, which runs beside."""

from typing import Any

from e2e.conftest import Launch
from e2e.harness.cluster import ControlPlane
from e2e.harness.election import NO_ELECTION
from e2e.harness.kube_scheduler import kube_scheduler
from e2e.harness.objects import (
    HOSTNAME,
    ZONE,
    Json,
    condition,
    is_rejected,
    is_running,
    pod,
    priority_class,
)
from e2e.harness.storage import claim, storage_class, uses
from e2e.harness.workspace import Workspace

THEIRS = "default-scheduler"
OURS = "equipoise"

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def affinity(kind: str, app: str, key: str = HOSTNAME) -> Json:
    term = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key}
    return {"affinity": {kind: {REQUIRED: [term]}}}


def spread(key: str, app: str) -> Json:
    constraint = {
        "labelSelector": {"matchLabels": {"app": app}},
        "topologyKey": key,
        "maxSkew": 1,
        "whenUnsatisfiable": "DoNotSchedule",
    }
    return {"topologySpreadConstraints": [constraint]}


def only_on(node: str) -> Json:
    """What a DaemonSet asks for its pods."""
    here = {"key": "metadata.name", "operator": "In", "values": [node]}
    terms = {"nodeSelectorTerms": [{"matchFields": [here]}]}
    return {"affinity": {"nodeAffinity": {REQUIRED: terms}}}


def container(**fields: Any) -> Json:
    return {"containers": [{"name": "main", "image": "registry.invalid/pause", **fields}]}


def hopeless_pods(vip: str, cordoned: str) -> dict[str, Json]:
    """Specs of pods that fit nowhere, each for another reason."""
    return {
        "too-large": container(resources={"requests": {"cpu": "64", "memory": "1Ti"}}),
        "large": container(resources={"requests": {"cpu": "3800m"}}),
        "large-vip": {
            "priorityClassName": vip,
            **container(resources={"requests": {"cpu": "3800m"}}),
        },
        "unknown-resource": container(resources={"limits": {"example.com/gpu": "1"}}),
        "taken-port": container(ports=[{"containerPort": 80, "hostPort": 8080}]),
        "selective": {"nodeSelector": {"disk": "fast"}},
        "elsewhere": only_on("no-such-node"),
        "pinned": only_on(cordoned),
        "apart": affinity("podAntiAffinity", "rock"),
        "apart-by-zone": affinity("podAntiAffinity", "rock", ZONE),
        "together": affinity("podAffinity", "nobody"),
        "evenly": spread(ZONE, "rock"),
        "without-racks": spread("rack", "rock"),
        "claims-nothing": uses("missing"),
        "claims-at-once": uses("immediate"),
        "claims-later": uses("delayed"),
    }


REJECTED_AS_A_WHOLE = ("claims-nothing", "claims-at-once")


def comparable(case: str, message: str) -> str:
    """What must be the same.

    When a pod is rejected before any node is looked at, kube-scheduler 1.36 goes on with a bare
    "not found": its DynamicResources has not been asked yet and misses what it would have noted
    then. We say that preemption does not help.
    """
    return message.partition(". ")[0] if case in REJECTED_AS_A_WHOLE else message


async def fill(space: Workspace, vip: str) -> str:
    """Nodes of which none is empty; returns the one that is cordoned."""
    # The only node of zone d is tainted, so that no other zone may get a pod more than it.
    cordoned, tainted, *others = await space.add_nodes(6, zones=("a", "d", "c", "a", "b", "c"))
    await space.api.patch(f"/api/v1/nodes/{cordoned}", {"spec": {"unschedulable": True}})
    taint = {"key": "dedicated", "value": "batch", "effect": "NoSchedule"}
    await space.api.patch(f"/api/v1/nodes/{tainted}", {"spec": {"taints": [taint]}})
    port = container(ports=[{"containerPort": 80, "hostPort": 8080}])
    rocks: Json = {"labels": {"app": "rock"}, "priorityClassName": vip}
    await space.create_pods(
        [pod(f"low-{node}", nodeName=node) for node in others]
        + [pod(f"rock-{node}", cpu="500m", nodeName=node, **rocks) for node in others]
        + [pod(f"port-{node}", nodeName=node, priorityClassName=vip, **port) for node in others]
    )
    return cordoned


async def test_reasons_are_those_of_kube_scheduler_word_for_word(
    control_plane: ControlPlane, space: Workspace, launch: Launch
) -> None:
    vip, delayed = f"{space.name}-vip", f"{space.name}-delayed"
    await space.apply(
        priority_class(vip, 1000),
        storage_class(delayed),
        claim("delayed", delayed),
        claim("immediate", ""),
    )
    cordoned = await fill(space, vip)
    await space.wait_for_pods(12, is_running)
    specs = hopeless_pods(vip, cordoned)
    names = {(case, by): f"{case}-{by}" for case in specs for by in (OURS, THEIRS)}
    labels = {"app": "rock"}

    launch(*NO_ELECTION)
    with kube_scheduler(control_plane):
        await space.create_pods(
            [
                pod(name, labels=labels, schedulerName=by, **specs[case])
                for (case, by), name in names.items()
            ]
        )
        pods = await space.wait_for_pods(
            12 + len(names), lambda pod: is_running(pod) or is_rejected(pod)
        )

    told = {
        each["metadata"]["name"]: condition(each, "PodScheduled").get("message", "")
        for each in pods
    }
    ours, theirs = (
        {case: comparable(case, told[names[case, by]]) for case in specs} for by in (OURS, THEIRS)
    )
    assert ours == theirs
    assert all(ours.values())
