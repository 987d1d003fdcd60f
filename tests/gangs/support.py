"""Gangs for tests: a group, its members, and a stage that schedules them."""

from __future__ import annotations

import copy
from typing import Any

from scheduler.model.objects import PodGroup, from_dict
from scheduler.model.workloads import POD_GROUP_LABEL
from tests.builders import Json, PodBuilder, make_pod
from tests.pipeline.support import FakeClock, RecordingOutlet, Stage


def configured(**args: Any) -> Json:
    """The default profile with Coscheduling, and its arguments."""
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [
            {
                "plugins": {"multiPoint": {"enabled": [{"name": "Coscheduling"}]}},
                "pluginConfig": [{"name": "Coscheduling", "args": args}],
            }
        ],
    }


class GroupBuilder:
    """A PodGroup."""

    def __init__(self, name: str, minimum: int, namespace: str = "default") -> None:
        self._raw: Json = {
            "apiVersion": "scheduling.x-k8s.io/v1alpha1",
            "kind": "PodGroup",
            "metadata": {"name": name, "namespace": namespace, "uid": f"uid-{name}"},
            "spec": {"minMember": minimum},
        }

    def spec(self, **fields: Any) -> GroupBuilder:
        self._raw["spec"] |= fields
        return self

    def status(self, **fields: Any) -> GroupBuilder:
        self._raw["status"] = fields
        return self

    def obj(self) -> Json:
        return copy.deepcopy(self._raw)

    def struct(self) -> PodGroup:
        return from_dict(self.obj(), PodGroup)


def make_group(name: str, minimum: int) -> GroupBuilder:
    return GroupBuilder(name, minimum)


def member(name: str, group: str = "g", cpu: str = "1") -> PodBuilder:
    """A pod of a group that asks for a CPU."""
    return make_pod(name).cpu(cpu).label(**{POD_GROUP_LABEL: group})


def gang_stage(
    clock: FakeClock | None = None, outlet: RecordingOutlet | None = None, **args: Any
) -> Stage:
    """A stage whose profile has Coscheduling."""
    return Stage(config=(configured(**args),), clock=clock, outlet=outlet)


def messages(stage: Stage) -> dict[str, str]:
    """Why each waiting pod waits, by its short name."""
    return {entry.pod.split("/")[1]: entry.message for entry in stage.core.queue.view.snapshot()}


def bound(stage: Stage) -> list[str]:
    """The pods that were bound, by their short names."""
    return sorted(key.split("/")[1] for key, _ in stage.outlet.bound)
