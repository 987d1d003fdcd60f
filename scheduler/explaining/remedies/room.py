"""Room where a change of the pod makes none: a new node for the pod as it is then.

A node that is added gets pods of DaemonSets as the node has that it is like: a request is lowered
to what they leave.
"""

from __future__ import annotations

from collections.abc import Iterator

from scheduler.explaining.remedies.occupancy import add_node, added, daemons, leaves_room, shapes
from scheduler.explaining.remedies.requests import lowered, rename
from scheduler.explaining.remedies.scene import Scene, Step
from scheduler.model.resources import PODS


def new_node(scene: Scene, names: list[str]) -> Iterator[tuple[Step, ...]]:
    """Add a node like one of these; one that is too small, for a pod that asks for less."""
    for step in add_node(scene, names):
        yield (step,)
    yield from other_pod_on_new_node(scene, names)


def other_pod_on_new_node(scene: Scene, names: list[str]) -> Iterator[tuple[Step, ...]]:
    """Add a node for a pod that asks by another name, or for no more than a new node offers."""
    for step in rename(scene, names):
        for new in add_node(scene.then(step), names):
            yield step, new
    # Some are large enough, but for the pods of DaemonSets.
    for name in [*shapes(scene, names, large_enough=False), *shapes(scene, names)]:
        add = added(scene, name)
        targets = {} if add is None else _beyond(scene, name, add)
        lower = lowered(scene, targets) if targets else None
        if add is not None and lower is not None and leaves_room(scene.then(lower), name, add):
            yield lower, add


def _beyond(scene: Scene, name: str, add: Step) -> dict[str, int]:
    """What a new node leaves of the resources of which the pod asks for more."""
    row = scene.state.row(name)
    if row is None:
        return {}
    columns, left = scene.state.columns, {}
    for resource, asked in scene.info.fit_requests.items():
        place = columns.resources.find(resource)
        offered = int(columns.allocatable[place, row]) if place is not None else 0
        offered -= sum(pod.requests.get(resource, 0) for pod, _ in daemons(scene, name, add.nodes))
        if resource != PODS and asked > offered:
            left[resource] = offered
    return left if all(amount > 0 for amount in left.values()) else {}
