"""Longer remedies: all that it takes for the nodes that the fewest plugins reject.

Nothing here is tried unless single changes and pairs have failed. The plugins that reject such a
node are satisfied one after the other, each by the first change that makes it accept one of the
nodes, and what turns out not to be needed is left out again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice

from scheduler.explaining.remedies.requests import LOWER
from scheduler.explaining.remedies.scene import Blockers, Scene, Step
from scheduler.slices import checkpoint

MOST_STEPS = 6
MOST_CHAINS = 3
MOST_PROPOSALS = 2
"""So many changes of a kind are tried for a plugin."""

Proposals = Sequence[tuple[frozenset[str], Callable[[Scene, list[str]], Iterator[Step]]]]
"""Plugins, and what may satisfy them; the earlier one is tried first."""
Room = tuple[frozenset[str], Callable[[Scene, list[str]], Iterator[tuple[Step, ...]]]]
"""Likewise, tried when nothing else satisfies them: it ends a remedy."""


def chains(base: Scene, proposals: Proposals, room: Room) -> Iterator[Scene]:
    """Scenes in which the pod fits, of as many changes as it takes, none of them in vain."""
    blockers = base.blockers()
    for names in _nearest(blockers):
        scene = _chain(base, names, proposals, room)
        if scene is not None and len(scene.steps) > len(base.steps):
            yield _needed(base, scene)


def _nearest(blockers: Blockers) -> Iterator[list[str]]:
    """Nodes that the same plugins reject, those with the fewest plugins first."""
    if blockers.whole:
        yield list(blockers.names)
        return
    sets = sorted(blockers.sets().items(), key=lambda way: (len(way[0]), -way[1], sorted(way[0])))
    for plugins, _ in sets[:MOST_CHAINS]:
        yield blockers.near(plugins, plugins)


def _chain(base: Scene, names: list[str], proposals: Proposals, room: Room) -> Scene | None:
    """Take away one reason after the other against some of these nodes; None if one stays."""
    scene, blockers = base, base.blockers()
    for _ in range(MOST_STEPS):
        checkpoint()
        found = _next(scene, blockers, names, proposals)
        if found is None:
            return _with_room(base, scene, room)
        scene, blockers = found
        if not blockers.whole:
            if not blockers.nearest(blockers.names)[0]:
                return scene  # on one of these nodes, or on another one
            names = blockers.nearest(names)[2]
    return None


def _with_room(base: Scene, scene: Scene, room: Room) -> Scene | None:
    """The scene with room for the pod, if that is all that it lacks on some node.

    Requests that were lowered to what nodes have free are asked for again: room is for all of
    them, or lowers them itself.
    """
    plugins, propose = room
    kept = tuple(step for step in scene.steps[len(base.steps) :] if step.kind != LOWER)
    scene = base.then(*kept)
    blockers = scene.blockers()
    names = [] if blockers.whole else blockers.near(plugins)
    for steps in islice(propose(scene, names), MOST_PROPOSALS) if names else ():
        after = scene.then(*steps)
        if after.fits():
            return after
    return None


def _next(
    scene: Scene, blockers: Blockers, names: list[str], proposals: Proposals
) -> tuple[Scene, Blockers] | None:
    """The scene after a change with which there are fewer reasons against one of the nodes."""
    before, plugins, _ = blockers.nearest(names)
    if blockers.whole:
        plugins = frozenset({blockers.whole})
    for concerned, propose in proposals:
        if not concerned & plugins:
            continue
        # The last change is made for all nodes that it opens, not for these alone: so it is as
        # small as it can be.
        last = plugins <= concerned and not blockers.whole
        where = blockers.near(concerned) if last else names
        for step in islice(propose(scene, where), MOST_PROPOSALS):
            after = scene.then(step)
            then = after.blockers()
            if not then.whole and (blockers.whole or then.nearest(where)[0] < before):
                return after, then
    return None


def _needed(base: Scene, scene: Scene) -> Scene:
    """The scene without the steps that it does not need."""
    for step in scene.steps[len(base.steps) :]:
        fewer = Scene(scene.world, tuple(each for each in scene.steps if each is not step))
        if fewer.fits():
            scene = fewer
    return scene.least()
