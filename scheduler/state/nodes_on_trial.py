"""Nodes and other objects that are changed or added on trial, and put back.

Other trials (`scratch`) write nothing into the change log, because filters that read pods on nodes
look at counters that are always true. Much of what is known of *nodes* and objects is kept by
plugins until the log says that they changed. So both the change and its reversal are logged: what
is kept for these rows is asked again, which costs a row each, and nothing stale is left. No event
is published, so no pod is woken.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from scheduler.model.nodes import Node
from scheduler.slices import unbroken
from scheduler.state.cache import ClusterState


@contextmanager
def as_if_nodes(state: ClusterState, nodes: Sequence[Node]) -> Iterator[None]:
    """Have these versions of nodes, or these nodes besides, for the length of a block.

    No checkpoint interrupts the block. A node that is added must have a name that no pod's node
    has. Must not be called within another trial, which would keep it out of the log.
    """
    if not nodes:
        yield
        return
    if state.changes.on_trial:
        raise RuntimeError("nodes cannot be changed within another trial")
    with unbroken():
        before = [(node.name, state.node(node.name)) for node in nodes]
        versions = state.node_versions([name for name, _ in before])
        try:
            for node in nodes:
                state.set_node(node)
            yield
        finally:
            for name, old in reversed(before):
                if old is None:
                    state.remove_node(name)
                else:
                    state.set_node(old)
            state.restore_node_versions(versions)


@contextmanager
def as_if_objects(
    state: ClusterState,
    added: Sequence[Any],
    changed: Sequence[Any] = (),
    removed: Sequence[Any] = (),
) -> Iterator[None]:
    """Have objects of other kinds besides, in another version, or not, for the length of a block.

    Likewise. One that is to be added and is there stays as it is.
    """
    if not added and not changed and not removed:
        yield
        return
    if state.changes.on_trial:
        raise RuntimeError("objects cannot be changed within another trial")
    with unbroken():
        before: list[tuple[str, str, Any]] = []
        try:
            new = [each for each in added if each.metadata.key not in state.objects.all(type(each))]
            for each, now in (
                *((each, each) for each in (*new, *changed)),
                *((each, None) for each in removed),
            ):
                kind, key = type(each).__name__, each.metadata.key
                before.append((kind, key, state.objects.get(type(each), key)))
                state.set_object(kind, key, now)
            yield
        finally:
            for kind, key, old in reversed(before):
                state.set_object(kind, key, old)
