"""Twice as many entries cost at most twice as much, whichever list of whichever object it is.

An object comes, is changed, a pod is attempted, and the object goes. Nothing is bounded by
settings: the work itself has to be linear. What is compared is how much the cost grows, so that
what everything costs anyway does not hide a square.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import msgspec
import pytest

from scheduler.config.defaults import SCHEDULER_NAME
from scheduler.equivalence import classes
from scheduler.model import limits
from scheduler.model.objects import KINDS, from_dict
from scheduler.numa.topology import MAX_CELLS
from scheduler.state import podindex
from tests.builders import make_pod, make_worker
from tests.cost.counting import UNLIMITED, Cost, PlainEncoder, counted
from tests.cost.fields import Field, Json, fields
from tests.pipeline.support import Stage

FEW = 24
MOST = 4 * FEW
SLACK = 100 * FEW
"""Dictionaries that grow, plugins that first wake up: steps that are no squares."""

BOUNDED = {"NodeResourceTopology zones": MAX_CELLS}
"""Lists of which only so many entries are looked at: up to there, cost may grow faster."""

KUBE = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [
        {
            "schedulerName": SCHEDULER_NAME,
            "plugins": {
                "multiPoint": {
                    "enabled": [{"name": "Coscheduling"}, {"name": "NodeResourceTopologyMatch"}]
                }
            },
        }
    ],
}
LABELS = {f"key-{i}": f"value-{i}" for i in range(MOST)}
NODES = ("node-0", "node-1", "node-2")


class Written:
    """An object as JSON, for a stage."""

    def __init__(self, kind: str, raw: Json) -> None:
        self._kind = kind
        self._raw = raw

    def obj(self) -> Json:
        return {**self._raw, "kind": self._kind}

    def struct(self) -> Any:
        return counted(from_dict(self._raw, KINDS[self._kind].type))


def stage() -> Stage:
    """Nodes and running pods with all labels that entries may name."""
    scene = Stage(config=(KUBE, UNLIMITED))
    for name in NODES:
        scene.see(make_worker(name).label(**LABELS, **{"kubernetes.io/hostname": name}))
        scene.see(make_pod(f"running-on-{name}").label(**LABELS, app="app-1").on(name))
    return scene


def named(field: Field, raw: Json, role: str) -> Json:
    """The object with a name, and in its role: of a node, waiting for us, or running."""
    name = NODES[0] if field.kind in ("Node", "CSINode", "NodeResourceTopology") else "object"
    written = {"name": name, "namespace": "default", "uid": "uid-object", **raw.get("metadata", {})}
    if not KINDS[field.kind].namespaced:
        del written["namespace"]
    result = {**raw, "metadata": written}
    if field.kind == "Pod":
        spec = {"containers": [{"name": "c-0"}], **raw.get("spec", {})}
        spec["schedulerName"] = SCHEDULER_NAME if role == "ours" else "another"
        if role != "ours":
            spec["nodeName"] = NODES[1]
        result["spec"] = spec
    if field.kind == "Node":
        status = dict(raw.get("status", {}))
        offered = {"cpu": "8", "memory": "32Gi", "pods": "110"}
        status["allocatable"] = {**offered, **status.get("allocatable", {})}
        result["status"] = status
    return result


def changed(raw: Json) -> Json:
    labels = {**raw["metadata"].get("labels", {}), "changed": "yes"}
    return {**raw, "metadata": {**raw["metadata"], "labels": labels}}


def life(field: Field, number: int, role: str) -> Cost:
    """What an object costs from its coming to its going, with an attempt or two between."""
    scene = stage()
    raw = named(field, field.object(number), role)
    first, second = Written(field.kind, raw), Written(field.kind, changed(raw))
    probes = [
        make_pod(f"probe-{i}").label(**LABELS, app="app-0").owner("ReplicaSet", "object")
        for i in range(2)
    ]
    taken = Cost()
    for each in (first, second):
        struct = each.struct()
        taken.of(partial(scene.see, _Ready(each, struct)))
    scene.see(*probes)
    for _ in range(3):
        taken.of(scene.attempt)
    taken.of(partial(scene.lose, _Ready(second, struct)))
    return taken


class _Ready:
    """A builder whose struct is made already: decoding is not what is counted."""

    def __init__(self, builder: Written, struct: Any) -> None:
        self._builder = builder
        self._struct = struct

    def obj(self) -> Json:
        return self._builder.obj()

    def struct(self) -> Any:
        return self._struct


def cases() -> list[Any]:
    return [
        pytest.param(field, role, id=f"{field} {role}".strip())
        for field in fields()
        for role in (("ours", "running") if field.kind == "Pod" else ("",))
    ]


@pytest.fixture(scope="module", autouse=True)
def everything_is_imported() -> None:
    """What is imported when first needed costs only once."""
    scene = stage()
    scene.see(make_pod("hopeless").cpu("1000"))
    scene.attempt()


@pytest.fixture(autouse=True)
def encoders(monkeypatch: pytest.MonkeyPatch) -> None:
    """Encoders take no strings of other types."""
    monkeypatch.setattr(classes, "_ENCODER", PlainEncoder(classes._ENCODER))
    monkeypatch.setattr(limits, "_ENCODER", PlainEncoder(limits._ENCODER))
    in_order = msgspec.json.Encoder(order="deterministic")
    monkeypatch.setattr(podindex, "encode_labels", PlainEncoder(in_order).encode)


@pytest.fixture(autouse=True)
def everything_went_well(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """An event that cannot be applied, or an attempt that fails, costs nothing and says nothing."""
    yield
    assert [record.message for record in caplog.records if record.levelname == "ERROR"] == []


@pytest.mark.parametrize(("field", "role"), cases())
async def test_twice_as_many_entries_cost_at_most_twice_as_much(field: Field, role: str) -> None:
    few = BOUNDED.get(str(field), FEW)
    few, more, most = (life(field, n, role).operations for n in (few, 2 * few, 4 * few))
    assert most - more <= 2.2 * max(more - few, 0) + SLACK, (few, more, most)
