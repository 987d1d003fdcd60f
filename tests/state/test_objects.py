"""Other objects: what the watch says, and what is assumed of them meanwhile."""

from __future__ import annotations

import msgspec

from scheduler.model.storage import PersistentVolume, PersistentVolumeSpec
from scheduler.state.cache import ClusterState

KIND = "PersistentVolume"


def a_volume(class_name: str) -> PersistentVolume:
    return PersistentVolume(spec=PersistentVolumeSpec(storage_class_name=class_name))


class Watched:
    """A store with one volume, and everything its listener gets."""

    def __init__(self) -> None:
        self.store = ClusterState().objects
        self.heard: list[tuple[str, object, object]] = []
        self.store.subscribe(PersistentVolume, lambda *change: self.heard.append(change))
        self.first = a_volume("first")
        self.store.put(KIND, "v", self.first)

    @property
    def seen(self) -> PersistentVolume | None:
        return self.store.get(PersistentVolume, "v")

    @property
    def confirmed(self) -> PersistentVolume | None:
        return self.store.confirmed(PersistentVolume, "v")


def test_an_assumption_is_seen_by_all_until_it_is_forgotten() -> None:
    watched = Watched()
    assumed = a_volume("assumed")
    watched.store.assume("v", assumed)
    assert watched.seen is assumed
    assert watched.confirmed is watched.first
    watched.store.forget("v", assumed)
    assert watched.seen is watched.confirmed is watched.first
    assert watched.heard == [
        ("v", None, watched.first),
        ("v", watched.first, assumed),
        ("v", assumed, watched.first),
    ]


def test_the_watch_ends_an_assumption() -> None:
    watched = Watched()
    assumed, second = a_volume("assumed"), a_volume("second")
    watched.store.assume("v", assumed)
    watched.store.put(KIND, "v", second)
    watched.store.forget("v", assumed)
    assert watched.seen is watched.confirmed is second

    watched.store.assume("v", assumed)
    watched.store.put(KIND, "v", None)
    watched.store.forget("v", assumed)
    assert watched.seen is watched.confirmed is None


def test_a_newer_assumption_is_not_forgotten_with_an_older_one() -> None:
    watched = Watched()
    one, other = a_volume("one"), a_volume("other")
    watched.store.assume("v", one)
    watched.store.assume("v", other)
    watched.store.forget("v", one)
    assert watched.seen is other
    watched.store.forget("v", msgspec.structs.replace(other))
    assert watched.seen is other
    watched.store.forget("v", other)
    assert watched.seen is watched.first
