"""What a remedy does for all equal pods of a workload, and what would let all of them in.

A remedy is found for one pod. Here copies of it, as it would be then, are placed in the same scene.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

import msgspec

from scheduler.explaining.remedies.costs import cost
from scheduler.explaining.remedies.gangs import ADD_NODES
from scheduler.explaining.remedies.occupancy import ADD, copies, daemons
from scheduler.explaining.remedies.patches import Object
from scheduler.explaining.remedies.requests import (
    LOWER,
    MOST_RESOURCES,
    lowered,
    smallest_amount,
)
from scheduler.explaining.remedies.scene import SUPPOSED, Scene, Step, written_claim
from scheduler.explaining.replicas import Copies, by_sums, copies_of, place_together
from scheduler.framework.faults import PluginFault
from scheduler.model.own_claims import has_own_claims
from scheduler.model.resources import CPU
from scheduler.pipeline.evaluation import CycleError

MOST_PLACED = 256
"""So many pods are placed one by one for all remedies of a pod together."""
MOST_NEW_NODES = 64
MOST_SIBLINGS = 64
"""Of so many equal pods, if only some fit, it is searched for what would let the next one in."""
SIBLINGS = "siblings"
SHARES = 1024
"""A request is searched for in steps of about such a part of it."""
_WHOLE_CPU, _ROUND_CPU = 1000, 10


class Together:
    """Counts how many of some equal pods fit after a remedy; bounded for all remedies of a pod."""

    def __init__(self, count: int, seed: int) -> None:
        self.count = count
        self._seed = seed
        self._left = MOST_PLACED

    def fit(self, scene: Scene) -> int | None:
        """How many of the pods then fit at the same time; None if that takes too long to say."""
        world, info = scene.world, scene.info
        try:
            if not has_own_claims(info.pod):
                with scene.acted():
                    found = by_sums(world.framework, world.state, info, self.count)
                if found is not None:
                    return min(self.count, sum(found.values()))
            if self.count > self._left:
                return None
            self._left -= self.count
            copies = copies_of(info, self.count, scene.claim)
            placed = self._placed(scene, copies)
        except (PluginFault, CycleError):
            return None
        return len(placed)

    def siblings(self, scene: Scene) -> Step | None:
        """A step after which those of the pods have nodes that fit; None if all do, or too many."""
        copies = copies_of(scene.info, min(self.count, MOST_SIBLINGS), scene.claim)
        pods = {pod.uid: pod for pod in copies.pods}
        try:
            placed = self._placed(scene, copies)
        except (PluginFault, CycleError):
            return None
        if len(placed) == len(pods):
            return None
        come = tuple((pods[uid], node) for uid, node in placed.items())
        return Step(SIBLINGS, "", 0.0, come=come)

    def _placed(self, scene: Scene, copies: Copies) -> dict[str, str]:
        """The nodes of copies that find one, by uid; their own claims are there meanwhile."""
        world = scene.world
        if copies.claims:
            made = tuple(map(written_claim, copies.claims))
            scene = scene.then(Step(SUPPOSED, "", 0.0, objects=made))
        return place_together(
            world.framework, world.state, self._seed, copies.pods, scene.acted, stop_early=True
        )

    def for_all(self, scene: Scene, fit: int) -> Scene | None:
        """The scene with as much more of its last change as all pods need, if that is known."""
        last = scene.steps[-1]
        if not 0 < fit < self.count or len(last.parts) != 1:
            return None
        before, (name,) = Scene(scene.world, scene.steps[:-1]), last.parts
        if last.kind == ADD:
            return self._more_nodes(before, name, -(-self.count // fit))
        if last.kind == LOWER:
            return self._smaller(before, name, scene.info.fit_requests[name])
        return None

    def smaller_pods(self, scene: Scene) -> Iterator[Scene]:
        """Scenes with as much less of one resource as all pods need."""
        wanted = scene.info.fit_requests.items()
        for resource, amount in islice(wanted, MOST_RESOURCES):
            smaller = self._smaller(scene, resource, amount) if amount > 1 else None
            if smaller is not None:
                yield smaller

    def _more_nodes(self, before: Scene, name: str, high: int) -> Scene | None:
        """The fewest nodes like one; ``high`` is how many it may be."""
        raw = before.node(name)
        if raw is None:
            return None
        low = 2
        while high <= MOST_NEW_NODES and not self._enough(before, name, raw, high):
            low, high = high + 1, 2 * high
        if high > MOST_NEW_NODES:
            return None
        while low < high:
            middle = (low + high) // 2
            if self._enough(before, name, raw, middle):
                high = middle
            else:
                low = middle + 1
        return before.then(self._added(name, copies(raw, before.state, high)))

    def _enough(self, before: Scene, name: str, raw: Object, number: int) -> bool:
        """Whether all pods fit with so many new nodes, beside the daemons that come there."""
        step = self._added(name, copies(raw, before.state, number))
        come = daemons(before, name, step.nodes)
        return self.fit(before.then(msgspec.structs.replace(step, come=come))) == self.count

    def _smaller(self, before: Scene, resource: str, most: int) -> Scene | None:
        """The largest request with which all fit, to about a thousandth of what one may ask for."""
        grain = _grain(resource, most)
        low, high, best = 1, most // grain, None
        while low <= high:
            middle = (low + high) // 2
            step = lowered(before, {resource: middle * grain})
            scene = None if step is None else before.then(self._said_for_all(step))
            if scene is not None and self.fit(scene) == self.count:
                best, low = scene, middle + 1
            else:
                high = middle - 1
        return best

    def _said_for_all(self, step: Step) -> Step:
        summary = f"{step.summary}, for all {self.count} pods"
        return msgspec.structs.replace(step, summary=summary)

    def _added(self, name: str, nodes: Sequence[Object]) -> Step:
        number = len(nodes)
        return Step(
            ADD_NODES,
            f"add {number} nodes like {name}, for all {self.count} pods",
            cost(ADD_NODES, 0.05 * (number - 1)),
            nodes=tuple(nodes),
            affects=(f"the cluster: {number} more nodes",),
            parts=frozenset({name}),
        )


def without_siblings(scene: Scene) -> Scene:
    """The scene in which none of the equal pods is placed."""
    return Scene(scene.world, tuple(step for step in scene.steps if step.kind != SIBLINGS))


def _grain(resource: str, most: int) -> int:
    """In which steps a request is searched for: of about a thousandth, and round."""
    if resource == CPU:
        return _ROUND_CPU if most >= _WHOLE_CPU else 1
    return max(smallest_amount(resource), 1 << max(0, (most // SHARES).bit_length() - 1))
