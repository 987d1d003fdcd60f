"""Labels of metrics: few, and nothing that the author of a pod chooses."""

from __future__ import annotations

import pytest

from scheduler.observe import instruments, metrics
from scheduler.observe.instruments import OTHER, Counter
from scheduler.observe.metrics import Children, Metrics
from shipping.docs.metrics_page import _labels, families
from shipping.docs.program import core_with
from tests.builders import make_pod, make_worker
from tests.pipeline.support import Stage

OF_A_CONFIGURATION = {"profile", "plugin", "webhook", "name", "cache", "kind", "host"}
OF_THE_PROGRAM = {
    *("result", "outcome", "reason", "version", "attempts", "queue", "event", "hint", "type"),
    *("cause", "state", "extension_point", "status", "decision", "operation", "code", "method"),
    *("verb", "generation", "point", "phase", "held_by", "aspect"),
}
OF_NODES = {"node", "driver"}
"""Written by kubelets and drivers, and bounded by MAX_CHILDREN."""


def test_labels_name_nothing_that_an_author_of_pods_chooses() -> None:
    known = Metrics()
    core_with(known)
    used = {label for family in families(known).values() for label in _labels(family)}
    assert used - OF_A_CONFIGURATION - OF_THE_PROGRAM - OF_NODES == set()


async def test_nor_do_their_values() -> None:
    scene = Stage()
    scene.see(make_worker("n"))
    odd = "an-odd-name"
    hopeless = make_pod(f"{odd}-1").label(app=odd).cpu("1000")
    scene.see(make_pod(odd).label(app=odd).image(odd), hopeless)
    await scene.run()
    assert scene.outlet.bound
    for family in scene.metrics.registry.collect():
        for sample in family.samples:
            assert not any(odd in value for value in sample.labels.values()), sample


def test_children_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (instruments, metrics):
        monkeypatch.setattr(module, "MAX_CHILDREN", 3)
    counter = Counter("seen", "What was seen.", ("reason", "node"))
    children = Children(counter)
    for number in range(9):
        children["OutOfcpu", f"node-{number}"].inc()
        children["OutOfcpu", f"node-{number}"].inc()
    (family,) = counter.collect()
    counts = {tuple(each.labels.values()): each.value for each in family.samples}
    assert counts[OTHER, OTHER] == 12
    assert len(counts) == 4
    assert sum(counts.values()) == 18
    assert len(children) == 3
