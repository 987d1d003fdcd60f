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
    struct,
)
from tests.plugins.support import Bench, cured

ZONE = "topology.kubernetes.io/zone"
EBS = {"awsElasticBlockStore": {"volumeID": "vol-1"}}

CLAIMING = a_pod().claim("c")
OWN = a_pod().ephemeral()
DISK = a_pod().volume(**EBS)


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


ALL = (VolumeRestrictions, NodeVolumeLimits, VolumeBinding, VolumeZone)
LIMITED, MORE = a_csi_node("n", {"d": 1}), a_csi_node("n", {"d": 2})
UNLIMITED, MIGRATED = a_csi_node("n", {"d": None}), a_csi_node("n", {"d": 1}, migrated="x")
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
    (VolumeBinding, CLAIMING, came(a_class("late")), True, "a class comes"),
    (VolumeBinding, CLAIMING, changed(a_class("late"), ZONED), True, "a class moves"),
    (VolumeBinding, CLAIMING, changed(ZONED, ZONED), False, "a class stays"),
    (VolumeBinding, CLAIMING, came(a_volume("v")), True, "a volume comes"),
    (VolumeBinding, CLAIMING, changed(a_volume("v"), a_volume("v")), True, "a volume changes"),
    (VolumeBinding, CLAIMING, node_changed(Action.NODE_LABEL), True, "a node moves"),
    (VolumeBinding, CLAIMING, node_changed(Action.NODE_ALLOCATABLE), False, "a node grows"),
    (VolumeBinding, CLAIMING, came(LIMITED), True, "a node's drivers become known"),
    (VolumeBinding, CLAIMING, changed(LIMITED, MIGRATED), True, "a plugin is migrated"),
    (VolumeBinding, CLAIMING, changed(LIMITED, MORE), False, "only a limit changes"),
    (
        VolumeBinding,
        CLAIMING,
        changed(a_driver(), a_driver(capacity=False)),
        True,
        "room is no longer watched",
    ),
    (
        VolumeBinding,
        CLAIMING,
        changed(a_driver(capacity=False), a_driver()),
        False,
        "room is watched from now on",
    ),
    (VolumeBinding, CLAIMING, came(SMALL), True, "room comes"),
    (VolumeBinding, CLAIMING, changed(SMALL, LARGE), True, "room grows"),
    (VolumeBinding, CLAIMING, changed(LARGE, SMALL), False, "room shrinks"),
    (VolumeZone, CLAIMING, came(a_class("late")), True, "a class comes that binds late"),
    (VolumeZone, CLAIMING, came(a_class("x", mode="Immediate")), False, "one that does not"),
    (VolumeZone, CLAIMING, came(a_volume("v")), True, "a volume comes"),
    (
        VolumeZone,
        CLAIMING,
        changed(a_volume("v"), a_volume("v", labels={ZONE: "a"})),
        True,
        "a volume moves",
    ),
    (
        VolumeZone,
        CLAIMING,
        changed(a_volume("v"), a_volume("v", spec=csi("h"))),
        False,
        "a volume stays where it is",
    ),
    (VolumeZone, CLAIMING, node_changed(Action.NODE_LABEL), True, "a node moves"),
]


@pytest.mark.parametrize(
    ("plugin", "pod", "event", "cures"),
    [
        pytest.param(*case[:4], id=f"{case[0].name}: {case[4]} ({number})")
        for number, case in enumerate(CASES)
    ],
)
def test_hint(plugin: Any, pod: VolumePod, event: Event, cures: bool) -> None:
    hints = Bench(plugin, [make_node("n")]).framework.hints()
    metrics = Metrics()
    assert cured(plugin.name, hints, pod.info(), event, metrics) is cures
    # A hint that raises counts as a cure, and must not pass for one here.
    assert not [each for family in metrics.plugin_errors.collect() for each in family.samples]
