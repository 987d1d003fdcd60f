"""What keeps a pod from being tried at all: gates, and the name of another scheduler."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial

from scheduler.explaining.remedies.costs import cost
from scheduler.explaining.remedies.patches import listed, put
from scheduler.explaining.remedies.scene import Step
from scheduler.model.pods import Pod

UNGATE = "ungate"
RESCHEDULER = "scheduler-name"


def holding(pod: Pod, profiles: Collection[str]) -> tuple[Step, ...]:
    """The steps after which a pod is tried; none if nothing of the kind holds it."""
    steps = []
    gates = [gate.name for gate in pod.spec.scheduling_gates]
    if gates:
        edit = partial(put, path=("spec", "schedulingGates"), new=None)
        many = "s" if len(gates) > 1 else ""
        summary = f"remove the scheduling gate{many} {listed(gates)}"
        steps.append(Step(UNGATE, summary, cost(UNGATE), edit, parts=frozenset(gates)))
    if profiles and pod.spec.scheduler_name not in profiles:
        ours = next(iter(profiles))
        edit = partial(put, path=("spec", "schedulerName"), new=ours)
        summary = f"set schedulerName to {ours}"
        steps.append(Step(RESCHEDULER, summary, cost(RESCHEDULER), edit, parts=frozenset({ours})))
    return tuple(steps)
