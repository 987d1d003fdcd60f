"""Names of drivers come from kubelets: what is kept for them is bounded, and goes."""

from __future__ import annotations

import numpy as np

from scheduler.state.attachments import MOST_DRIVERS
from tests.builders import make_node
from tests.pipeline.support import Stage
from tests.plugins.storage import a_csi_node, struct


class Raw:
    """An object as JSON, for a stage."""

    def __init__(self, raw: dict[str, object]) -> None:
        self._raw = raw

    def obj(self) -> dict[str, object]:
        return self._raw

    def struct(self) -> object:
        return struct(self._raw)


def publish(scene: Stage, *drivers: str) -> None:
    scene.see(Raw(a_csi_node("n", dict.fromkeys(drivers, 7), migrated=",".join(drivers))))


def stage() -> Stage:
    scene = Stage()
    scene.see(make_node("n"))
    return scene


def test_of_very_many_drivers_some_are_counted() -> None:
    scene = stage()
    publish(scene, *(f"driver-{i}" for i in range(3 * MOST_DRIVERS)))
    attachments = scene.core.state.attachments
    limited = [attachments.limits(f"driver-{i}").min() == 7 for i in range(3 * MOST_DRIVERS)]
    assert sum(limited) == MOST_DRIVERS
    assert scene.core.state.usage()["attached_volumes"].entries <= 3 * MOST_DRIVERS


def test_drivers_that_are_gone_make_room_for_others() -> None:
    scene = stage()
    attachments = scene.core.state.attachments
    for number in range(3 * MOST_DRIVERS):
        publish(scene, f"driver-{number}")
        assert attachments.limits(f"driver-{number}").min() == 7
        assert np.array(attachments.migrated(f"driver-{number}")).any()
    assert attachments.usage().entries <= 3 * MOST_DRIVERS
