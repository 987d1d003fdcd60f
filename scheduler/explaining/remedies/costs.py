"""What each kind of change asks: of the pod's author less than of others, evictions most."""

from __future__ import annotations

from collections.abc import Mapping

OTHER_OBJECTS = 5.0
"""From here on a change is one of other objects than the pod."""
OTHER_PODS = 7.0
"""From here on pods are deleted."""
_MARGIN = 0.01

COSTS: Mapping[str, float] = {
    "wait": 0.0,
    "ungate": 0.5,
    "scheduler-name": 0.5,
    "correct-selector": 1.0,
    "correct-label": 1.0,
    "correct-topology-key": 1.0,
    "correct-claim": 1.0,
    "correct-storage-class": 1.0,
    "correct-device-class": 1.0,
    "rename": 1.0,
    "lower": 2.0,
    "fewer-devices": 2.0,
    "smaller-share": 2.0,
    "raise-max-skew": 2.0,
    "tolerate": 2.5,
    "tolerate-device": 2.5,
    "relax-affinity": 3.0,
    "relax-spread": 3.0,
    "drop-device-constraint": 3.0,
    "host-port": 3.0,
    "drop-selector": 3.5,
    "drop-device-selector": 3.5,
    "unask": 4.0,
    "uncordon": OTHER_OBJECTS,
    "min-member": OTHER_OBJECTS,
    "pod-group": OTHER_OBJECTS,
    "label-node": 5.2,
    "create-claim": 5.4,
    "create-storage-class": 5.4,
    "untaint": 5.5,
    "delete-claim": 5.8,
    "add": 6.0,
    "add-nodes": 6.0,
    "delete": OTHER_PODS,
}
"""By kind. ``docs/remedies.md`` shows them."""


def cost(kind: str, more: float = 0.0) -> float:
    """The cost of a change, and what its size adds, within the class of its kind."""
    base = COSTS[kind]
    end = next((each for each in (OTHER_OBJECTS, OTHER_PODS) if base < each), None)
    return base + more if end is None else min(base + more, end - _MARGIN)


def repeated(kind: str, number: int) -> float:
    """The cost of a change that has several parts."""
    return cost(kind, 0.5 * (number - 1))
