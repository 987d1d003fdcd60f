"""Which events wake pods that the volume plugins rejected."""

from __future__ import annotations

from typing import Any

import pytest

from scheduler.model.events import ASSIGNED_POD, Action, Event
from scheduler.observe.metrics import Metrics
from scheduler.plugins.node_volume_limits import NodeVolumeLimits
from scheduler.plugins.volume_binding import VolumeBinding
from scheduler.plugins.volume_restrictions import VolumeRestrictions
from scheduler.plugins.volume_zone import VolumeZone
from tests.builders import Json, make_node
from tests.plugins.storage import (
    VolumePod,
    a_claim,
    a_class,
    a_csi_node,
    a_driver,
    a_pod,
    a_room,
    a_volume,
    an_attachment,
    csi,
    put,
    struct,
    within,
)
from tests.plugins.support import Bench, cured

ZONE = "topology.kubernetes.io/zone"
EBS = {"awsElasticBlockStore": {"volumeID": "vol-1"}}

CLAIMING = a_pod().claim("c")
OWN = a_pod().ephemeral()
DISK = a_pod().volume(**EBS)
LATE, NOW = a_pod().claim("late"), a_pod().claim("now")
BOUND, IN_TREE = a_pod().claim("bound"), a_pod().claim("in-tree")

NFS = {"nfs": {"server": "s", "path": "/"}}
NEWER = a_volume("w", version="2")
HERE = a_volume("v", labels={ZONE: "b"}, spec={**csi("h"), **within(ZONE, "b")})
KEPT = a_volume("w", spec={"claimRef": {"namespace": "default", "name": "late"}})
OTHERS = a_volume("w", spec={"claimRef": {"namespace": "default", "name": "other"}})
THERE = [
    a_class("late"),
    a_class("now", mode="Immediate"),
    a_claim("late"),
    a_claim("now", "now"),
    a_claim("bound", volume="v"),
    HERE,
    a_claim("in-tree", volume="ebs"),
    a_volume("ebs", spec=EBS),
]
"""What there is in the cluster when something happens."""


def came(new: Json) -> Event:
    return Event(new["kind"], Action.ADD, None, struct(new))


def changed(old: Json, new: Json) -> Event:
    return Event(new["kind"], Action.UPDATE, struct(old), struct(new))


def went(old: Json) -> Event:
    return Event(old["kind"], Action.DELETE, struct(old))


def pod_went(pod: VolumePod) -> Event:
    return Event(ASSIGNED_POD, Action.DELETE, pod.info())


def node_changed(action: Action) -> Event:
    old, new = make_node("n").struct(), make_node("n").label(zone="b").struct()
    return Event("Node", action, None if action is Action.ADD else old, new)


def node_came(b: bool) -> Event:
    zone = {ZONE: "b" if b else "a"}
    return Event("Node", Action.ADD, None, make_node("n").label(**zone).struct())


ALL = (VolumeRestrictions, NodeVolumeLimits, VolumeBinding, VolumeZone)
LIMITED, MORE = a_csi_node("n", {"d": 1}), a_csi_node("n", {"d": 2})
UNLIMITED, MIGRATED = (
    a_csi_node("n", {"d": None}),
    a_csi_node("n", {"d": 1}, migrated="kubernetes.io/aws-ebs"),
)
ZONED = a_class("late", allowedTopologies=[{"matchLabelExpressions": []}])
SMALL, LARGE = a_room("r", "late", "1Gi"), a_room("r", "late", "2Gi")

CASES: list[tuple[Any, VolumePod, Event, bool, str]] = [
    *((plugin, CLAIMING, came(a_claim("c")), True, "its claim comes") for plugin in ALL),
    *((plugin, CLAIMING, came(a_claim("d")), False, "another claim comes") for plugin in ALL),
    *(
        (plugin, CLAIMING, came(a_claim("c", namespace="other")), False, "a namesake comes")
        for plugin in ALL
    ),
    (NodeVolumeLimits, OWN, came(a_claim("p-v0")), True, "its ephemeral claim comes"),
    (VolumeBinding, OWN, came(a_claim("p-v0")), True, "its ephemeral claim comes"),
    *(
        (plugin, CLAIMING, changed(a_claim("c"), a_claim("c", volume="v")), True, "it is bound")
        for plugin in (VolumeBinding, VolumeZone)
    ),
    (VolumeRestrictions, DISK, pod_went(a_pod("q").volume(**EBS)), True, "its disk is free"),
    (VolumeRestrictions, DISK, pod_went(a_pod("q")), False, "a pod without disks goes"),
    (VolumeRestrictions, CLAIMING, pod_went(a_pod("q").claim("c")), True, "its claim is free"),
    (VolumeRestrictions, CLAIMING, pod_went(a_pod("q").claim("d")), False, "another claim is"),
    (VolumeRestrictions, DISK, node_changed(Action.ADD), True, "a node comes"),
    (NodeVolumeLimits, CLAIMING, came(LIMITED), True, "a node's drivers become known"),
    (NodeVolumeLimits, CLAIMING, changed(LIMITED, MORE), True, "a limit grows"),
    (NodeVolumeLimits, CLAIMING, changed(MORE, LIMITED), False, "a limit shrinks"),
    (NodeVolumeLimits, CLAIMING, changed(LIMITED, UNLIMITED), True, "a limit goes"),
    (NodeVolumeLimits, CLAIMING, pod_went(a_pod("q").claim("d").on("n")), True, "room is made"),
    (NodeVolumeLimits, CLAIMING, pod_went(a_pod("q").volume(**EBS).on("n")), True, "also inline"),
    (NodeVolumeLimits, CLAIMING, pod_went(a_pod("q").on("n")), False, "no room is made"),
    (NodeVolumeLimits, CLAIMING, pod_went(a_pod("q").claim("d")), False, "it had no node"),
    (NodeVolumeLimits, CLAIMING, went(an_attachment("a", "n", "v")), True, "a volume is detached"),
    (NodeVolumeLimits, DISK, went(an_attachment("a", "n", "v")), False, "of another driver"),
    (
        NodeVolumeLimits,
        DISK,
        went(an_attachment("a", "n", "v", "ebs.csi.aws.com")),
        True,
        "of its driver",
    ),
    (VolumeBinding, LATE, came(a_class("late")), True, "its class comes"),
    (VolumeBinding, LATE, came(a_class("other")), False, "another class comes"),
    (VolumeBinding, BOUND, came(a_class("late")), False, "its claim is bound"),
    (VolumeBinding, LATE, changed(a_class("late"), ZONED), True, "its class moves"),
    (VolumeBinding, LATE, changed(ZONED, ZONED), False, "a class stays"),
    (VolumeBinding, LATE, came(a_volume("w")), True, "a volume comes that suits"),
    (VolumeBinding, LATE, came(a_volume("w", size="1Gi")), False, "one that is too small"),
    (VolumeBinding, LATE, came(a_volume("w", modes=["ReadOnlyMany"])), False, "of another mode"),
    (VolumeBinding, LATE, came(a_volume("w", "nfs", spec=NFS)), False, "of another class"),
    (VolumeBinding, LATE, came(KEPT), True, "one that is kept for it"),
    (VolumeBinding, LATE, went(KEPT), True, "the one that was kept for it goes"),
    (VolumeBinding, LATE, came(OTHERS), False, "one that is kept for another"),
    (VolumeBinding, LATE, changed(OTHERS, a_volume("w")), True, "one that becomes free"),
    (VolumeBinding, LATE, changed(a_volume("w"), NEWER), False, "one whose version alone changes"),
    (VolumeBinding, LATE, went(a_volume("w")), False, "a free one goes"),
    (VolumeBinding, BOUND, came(HERE), True, "its volume comes"),
    (VolumeBinding, BOUND, changed(a_volume("v"), HERE), True, "its volume changes"),
    (VolumeBinding, BOUND, came(a_volume("w")), False, "another comes"),
    (VolumeBinding, CLAIMING, came(a_volume("w")), False, "its claim is not there"),
    (VolumeBinding, LATE, node_changed(Action.NODE_LABEL), True, "a node moves"),
    (VolumeBinding, LATE, node_changed(Action.NODE_ALLOCATABLE), False, "a node grows"),
    (VolumeBinding, LATE, node_changed(Action.NODE_TAINT), False, "a node's taints change"),
    (VolumeBinding, CLAIMING, node_changed(Action.ADD), False, "no node brings a claim"),
    (VolumeBinding, NOW, node_changed(Action.ADD), False, "nor binds it"),
    (VolumeBinding, BOUND, node_came(b=True), True, "a node in the volume's zone"),
    (VolumeBinding, BOUND, node_came(b=False), False, "a node elsewhere"),
    (VolumeBinding, LATE, came(LIMITED), False, "a node's drivers become known"),
    (VolumeBinding, IN_TREE, came(MIGRATED), True, "its plugin is migrated on a node that comes"),
    (VolumeBinding, IN_TREE, changed(LIMITED, MIGRATED), True, "its plugin is migrated"),
    (VolumeBinding, BOUND, changed(LIMITED, MIGRATED), False, "another plugin is migrated"),
    (VolumeBinding, IN_TREE, changed(LIMITED, MORE), False, "only a limit changes"),
    (
        VolumeBinding,
        LATE,
        changed(a_driver(), a_driver(capacity=False)),
        True,
        "room is no longer watched",
    ),
    (
        VolumeBinding,
        LATE,
        changed(a_driver("other"), a_driver("other", capacity=False)),
        False,
        "another driver's room is no longer watched",
    ),
    (
        VolumeBinding,
        LATE,
        changed(a_driver(capacity=False), a_driver()),
        False,
        "room is watched from now on",
    ),
    (VolumeBinding, LATE, came(SMALL), True, "room comes"),
    (VolumeBinding, LATE, came(a_room("r", "other", "1Gi")), False, "room of another class comes"),
    (VolumeBinding, LATE, changed(SMALL, LARGE), True, "room grows"),
    (VolumeBinding, LATE, changed(LARGE, SMALL), False, "room shrinks"),
    (VolumeRestrictions, CLAIMING, node_changed(Action.ADD), False, "a claim is taken everywhere"),
    (VolumeZone, CLAIMING, came(a_class("late")), True, "a class comes that binds late"),
    (VolumeZone, CLAIMING, came(a_class("x", mode="Immediate")), False, "one that does not"),
    (VolumeZone, BOUND, came(a_volume("v")), True, "its volume comes"),
    (VolumeZone, BOUND, came(a_volume("w")), False, "another volume comes"),
    (
        VolumeZone,
        BOUND,
        changed(a_volume("v"), a_volume("v", labels={ZONE: "a"})),
        True,
        "its volume moves",
    ),
    (
        VolumeZone,
        BOUND,
        changed(a_volume("w"), a_volume("w", labels={ZONE: "a"})),
        False,
        "another volume moves",
    ),
    (
        VolumeZone,
        BOUND,
        changed(a_volume("v"), a_volume("v", spec=csi("h"))),
        False,
        "a volume stays where it is",
    ),
    (VolumeZone, BOUND, node_came(b=True), True, "a node comes to its zone"),
    (VolumeZone, BOUND, node_came(b=False), False, "a node comes to another zone"),
    (VolumeZone, BOUND, node_changed(Action.NODE_LABEL), True, "a node without zones"),
    (VolumeZone, CLAIMING, node_came(b=True), False, "no node brings a claim"),
]


@pytest.mark.parametrize(
    ("plugin", "pod", "event", "cures"),
    [
        pytest.param(*case[:4], id=f"{case[0].name}: {case[4]} ({number})")
        for number, case in enumerate(CASES)
    ],
)
def test_hint(plugin: Any, pod: VolumePod, event: Event, cures: bool) -> None:
    bench = Bench(plugin, [make_node("n")])
    put(bench.state, *THERE)
    hints = bench.framework.hints()
    metrics = Metrics()
    assert cured(plugin.name, hints, pod.info(), event, metrics) is cures
    # A hint that raises counts as a cure, and must not pass for one here.
    assert not [each for family in metrics.plugin_errors.collect() for each in family.samples]
