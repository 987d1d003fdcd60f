"""The law: whatever has happened, what is kept equals what would be found out now.

Random histories of all that a scheduler is told and does. After each step every valid entry of
every class is compared with a fresh answer; now and then, and at the end, pods are placed with and
without what is kept.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from scheduler.model.pods import Pod
from tests.equivalence import law
from tests.equivalence.searching import SETTINGS, SHORTER, Change, changes
from tests.equivalence.templates import PROFILES, TEMPLATES, waiting
from tests.equivalence.things import KINDS
from tests.equivalence.world import Object, World

PROBES: dict[str, Pod] = {
    f"{template} for {profile}": waiting(template, f"probe-{i}", profile).struct()
    for profile in PROFILES
    for i, template in enumerate(TEMPLATES)
}
few = st.lists(st.sampled_from(sorted(PROBES)), max_size=2)
several = st.lists(st.sampled_from(sorted(PROBES)), max_size=8)


STORAGE = (
    "PersistentVolume",
    "PersistentVolumeClaim",
    "StorageClass",
    "CSINode",
    "CSIDriver",
    "CSIStorageCapacity",
    "VolumeAttachment",
)
DEVICES = ("ResourceSlice", "ResourceClaim", "DeviceClass")
WORKLOADS = tuple(
    kind
    for kind in KINDS
    if kind not in ("Node", "Pod", "NodeResourceTopology", *STORAGE, *DEVICES)
)


class CacheLaw(RuleBasedStateMachine):
    """Drives a world, and holds all that is kept against fresh answers."""

    key = "Content"
    reserve = False

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.world = World(reserve=self.reserve, key=self.key)
        self.count = 0
        self.looked: dict[str, Pod] = {}
        """The probes for which something may be kept."""

    def teardown(self) -> None:
        try:
            self.look(PROBES)
        finally:
            self.run(self.world.close())
            self.loop.close()

    def run(self, work: Coroutine[Any, Any, Any]) -> None:
        self.loop.run_until_complete(work)

    def do(self, what: Any, *args: Any, **kwargs: Any) -> None:
        """Call something that may start tasks."""

        async def work() -> None:
            what(*args, **kwargs)
            await self.world.turns()

        self.run(work())

    @initialize(probes=several)
    def a_small_cluster(self, probes: Iterable[str]) -> None:
        for i in range(3):
            self.world.change("Node", f"n{i}", zone=i % 3, rack=i % 2)
            self.world.change("CSINode", f"n{i}", limit=2)
        for name in ("late", "now"):
            self.world.change("StorageClass", name)
        self.world.change("PersistentVolume", "v0")
        self.world.change("PersistentVolumeClaim", "c0", volume=1)
        self.world.change("PersistentVolumeClaim", "c1")
        self.world.change("DeviceClass", "gpu", serves=1)
        self.world.change("ResourceSlice", "n0")
        self.world.change("ResourceClaim", "x")
        self.look(probes)

    # Watch events

    @rule(change=changes("Node", "Node", "NodeResourceTopology"), probes=few)
    def a_node_comes_or_changes(self, change: Change, probes: list[str]) -> None:
        self.changed(change, probes)

    @rule(change=changes("Pod"), probes=few)
    def a_pod_of_others_comes_or_changes(self, change: Change, probes: list[str]) -> None:
        self.changed(change, probes)

    @rule(change=changes(*STORAGE), probes=few)
    def storage_comes_or_changes(self, change: Change, probes: list[str]) -> None:
        self.changed(change, probes)

    @rule(change=changes(*DEVICES), probes=few)
    def devices_come_or_change(self, change: Change, probes: list[str]) -> None:
        self.changed(change, [*probes, "devices for equipoise"])

    @rule(change=changes(*WORKLOADS), probes=few)
    def workloads_come_or_change(self, change: Change, probes: list[str]) -> None:
        self.changed(change, probes)

    def changed(self, change: Change, probes: list[str]) -> None:
        kind, name, traits = change
        self.do(self.world.change, kind, name, **traits)
        self.look(probes)

    @precondition(lambda self: self.world.traits)
    @rule(data=st.data(), probes=few)
    def something_goes(self, data: st.DataObject, probes: list[str]) -> None:
        kind, name = data.draw(st.sampled_from(sorted(self.world.traits)))
        self.do(self.world.remove, kind, name)
        self.look(probes)

    @precondition(lambda self: self.world.core.state.columns.capacity == 64)
    @rule(probes=few)
    def a_crowd_comes_and_goes(self, probes: list[str]) -> None:
        """So many nodes that all columns must grow."""
        names = [f"crowd-{i}" for i in range(64)]
        for name in names:
            self.world.see(KINDS["Node"].build(name, {"zone": 1}))
        self.look(probes)
        for name in names[1:]:
            self.world.lose(("Node", name))

    @rule(others=st.integers(0, 3), probes=few)
    def codes_are_given_out_anew(self, others: int, probes: list[str]) -> None:
        """Other statuses come first this time, so an old code means something else or nothing."""
        law.restart_codes(self.world, others)
        self.look(probes)

    # What the scheduler does

    @rule(
        template=st.sampled_from(sorted(TEMPLATES)),
        profile=st.sampled_from(PROFILES),
        number=st.integers(1, 2),
        nomination=st.sampled_from(["", "", "", "n0", "n1"]),
    )
    def pods_arrive(self, template: str, profile: str, number: int, nomination: str) -> None:
        for _ in range(number):
            self.count += 1
            pod = waiting(template, f"w{self.count}", profile).status(nominatedNodeName=nomination)
            self.do(self.world.see, pod.obj())

    @precondition(lambda self: self.world.core.queue.view.counts()["active"])
    @rule(number=st.integers(1, 4), probes=few)
    def pods_are_tried(self, number: int, probes: list[str]) -> None:
        for _ in range(number):
            self.run(self.world.attempt())
        self.look(probes)

    @precondition(lambda self: self.world.outlet.binding)
    @rule(ok=st.booleans(), confirm=st.booleans(), probes=few)
    def a_binding_ends(self, ok: bool, confirm: bool, probes: list[str]) -> None:
        key = next(iter(self.world.outlet.binding))
        self.run(self.world.answer(key, ok=ok, confirm=confirm))
        self.look(probes)

    @precondition(lambda self: self.ours())
    @rule(data=st.data())
    def a_pod_of_ours_is_deleted(self, data: st.DataObject) -> None:
        self.do(self.world.lose, data.draw(st.sampled_from(self.ours())))

    def ours(self) -> list[Object]:
        return sorted(key for key in self.world.seen if key[0] == "Pod" and "/w" in key[1])

    @precondition(lambda self: self.world.outlet.evicted)
    @rule()
    def a_victim_goes(self) -> None:
        key = ("Pod", self.world.outlet.evicted.pop())
        self.world.traits.pop(("Pod", key[1].split("/")[1]), None)
        if key in self.world.seen:
            self.do(self.world.lose, key)

    @precondition(lambda self: self.count)
    @rule(seconds=st.sampled_from([1.0, 5.0, 400.0]), refused=st.booleans())
    def time_passes(self, seconds: float, refused: bool) -> None:
        """And the API server may begin or cease to refuse what volumes need."""
        self.world.outlet.refuses_patches = refused
        self.world.clock.advance(seconds)
        self.do(self.world.core.queue.flush)

    # The law

    @rule(probes=several)
    def look(self, probes: Iterable[str]) -> None:
        """Pods are placed alike with and without what is kept; nothing of this counts."""
        if not probes:
            return
        rebuilt = self.world.rebuilt()
        self.looked |= {name: PROBES[name] for name in probes}
        for pod in map(PROBES.__getitem__, probes):
            assert law.placed_alike(self.world, rebuilt, pod) == []
            assert law.results_alike(self.world, pod) == []

    @invariant()
    def what_is_kept_is_true(self) -> None:
        assert law.violations(self.world, self.looked.values()) == []

    @invariant()
    def the_books_balance(self) -> None:
        assert law.books_balance(law.equivalence_of(self.world)) == []


class CacheLawByController(CacheLaw):
    """The same where only pods of one controller may share a class."""

    key = "ControllerRef"


class CacheLawWithReserve(CacheLaw):
    """The same with the reserve cache of NUMA cells."""

    reserve = True


TestCacheLaw = CacheLaw.TestCase
TestCacheLaw.settings = SETTINGS
TestCacheLawByController = CacheLawByController.TestCase
TestCacheLawByController.settings = SHORTER
TestCacheLawWithReserve = CacheLawWithReserve.TestCase
TestCacheLawWithReserve.settings = SHORTER
