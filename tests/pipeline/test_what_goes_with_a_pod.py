"""What is kept of a waiting pod is shared with its equals, and gone when the pod is."""

from __future__ import annotations

from scheduler.queueing.queued_pod import PluginSets
from tests.builders import make_pod, make_worker
from tests.pipeline.support import Stage


async def test_what_was_said_about_a_pod_goes_with_it() -> None:
    stage = Stage()
    stage.see(make_worker("node"))
    pod = make_pod("large").cpu("999")
    stage.see(pod)
    await stage.run()
    told = stage.core.scheduler._failures.told
    assert len(told) == 1
    stage.lose(pod)
    assert len(told) == 0


async def test_equal_pods_share_the_verdict_and_the_key_of_their_cohort() -> None:
    stage = Stage()
    stage.see(make_worker("node"))
    stage.see(make_pod("one").cpu("999"), make_pod("other").cpu("999"))
    await stage.run()
    one, other = (stage.core.queue._pods.get(f"default/{name}") for name in ("one", "other"))
    assert one is not None
    assert other is not None
    assert one.cohort is not None
    assert one.cohort is other.cohort
    assert one.unschedulable_plugins == {"NodeResourcesFit"}
    assert one.unschedulable_plugins is other.unschedulable_plugins
    assert one.pending_plugins is other.pending_plugins


def test_sets_of_plugins_are_bounded() -> None:
    sets = PluginSets()
    for number in range(PluginSets.MOST + 5):
        sets.shared({f"plugin-{number}"})
    assert len(sets._sets) == 5
    assert sets.shared(["a", "b"]) is sets.shared(("b", "a"))
    assert sets.shared([]) is sets.shared(frozenset())
