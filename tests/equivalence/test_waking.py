"""No event is missed: after whatever happened, no pod that waits for an event would fit.

Random histories as in the other laws. After each event everybody who was woken is tried; whoever
still waits is then judged afresh. If a node fits, an event has come and gone without waking the
pod, and it would wait until it is tried again for the sake of its age.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from scheduler.explaining import findings
from scheduler.model.podinfo import PodInfo
from scheduler.queueing import scheduling_queue
from scheduler.queueing import waiters as queue_waiting
from tests.equivalence.searching import SETTINGS, Change, changes
from tests.equivalence.templates import PROFILES, TEMPLATES, waiting
from tests.equivalence.test_twins import FAULTY, Twin
from tests.equivalence.things import KINDS


class Waking(RuleBasedStateMachine):
    """Drives a world that settles after each event."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.world = Twin()
        self.count = 0

    def teardown(self) -> None:
        self.run(self.world.close())
        self.loop.close()

    def run(self, work: Coroutine[Any, Any, Any]) -> None:
        self.loop.run_until_complete(work)

    def tell(self, verb: str, *args: Any, **kwargs: Any) -> None:
        async def work() -> None:
            getattr(self.world, verb)(*args, **kwargs)
            await self.world.turns()
            await self.world.settle()

        self.run(work())
        assert self.sleepers() == {}

    def sleepers(self) -> dict[str, list[str]]:
        """Pods that wait for an event, and the nodes where they would fit now."""
        core, found = self.world.core, {}
        for entry in core.queue.view.snapshot():
            pod = self.world.seen.get(("Pod", entry.pod))
            if entry.tier == "unschedulable" and pod is not None:
                framework = core.frameworks[pod.spec.scheduler_name]
                judged = findings.explain(framework, core.state, PodInfo(pod), core.seed)
                if judged["fit"]:
                    found[entry.pod] = judged["fit"]
        return found

    @initialize()
    def a_small_cluster(self) -> None:
        for i in range(3):
            self.tell("change", "Node", f"n{i}", zone=i % 3, rack=i % 2)
            self.tell("change", "CSINode", f"n{i}", limit=2)
        for name in ("late", "now"):
            self.tell("change", "StorageClass", name)
        for i in range(3):
            self.tell("change", "PersistentVolume", f"v{i}")
        self.tell("change", "PersistentVolumeClaim", "c0", volume=1)

    @rule(change=changes(*KINDS))
    def something_comes_or_changes(self, change: Change) -> None:
        kind, name, traits = change
        self.tell("change", kind, name, **traits)

    @rule(change=changes("Node", "Pod"))
    def nodes_and_pods_come_or_change(self, change: Change) -> None:
        self.something_comes_or_changes(change)

    @precondition(lambda self: self.world.traits)
    @rule(data=st.data())
    def something_goes(self, data: st.DataObject) -> None:
        self.tell("remove", *data.draw(st.sampled_from(sorted(self.world.traits))))

    @rule(
        template=st.sampled_from(sorted(TEMPLATES.keys() - set(FAULTY))),
        profile=st.sampled_from(PROFILES),
        number=st.integers(1, 2),
    )
    def pods_arrive(self, template: str, profile: str, number: int) -> None:
        for _ in range(number):
            self.count += 1
            self.tell("see", waiting(template, f"w{self.count:02}", profile).obj())


class SlowWaking(Waking):
    """The same where pods are woken one at a time, as if very many waited."""

    def __init__(self) -> None:
        super().__init__()
        self.patch = pytest.MonkeyPatch()
        self.patch.setattr(scheduling_queue, "WOKEN_AT_ONCE", 0)
        self.patch.setattr(scheduling_queue, "MOST_WOKEN", 1)
        self.patch.setattr(scheduling_queue, "ASKED_IN_PASSING", 1)
        self.patch.setattr(queue_waiting, "ASKED_AT_ONCE", 0)

    def teardown(self) -> None:
        self.patch.undo()
        super().teardown()


TestWaking = Waking.TestCase
TestWaking.settings = SETTINGS
TestSlowWaking = SlowWaking.TestCase
TestSlowWaking.settings = SETTINGS
