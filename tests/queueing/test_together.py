"""Pods that are popped together, wherever they wait, and go back together."""

from __future__ import annotations

from tests.queueing.support import NODE_ADD, POD_DELETE, Bench, make_pod, park

GROUP = ("group", "default/g")
KEYS = tuple(f"default/{name}" for name in ("a", "b", "c", "d", "e", "stranger"))


def scattered() -> Bench:
    """Five pods in five tiers, and one of another profile."""
    bench = Bench()
    error = bench.popped(make_pod("c"))
    bench.queue.requeue_error(error, "boom")
    bench.rejected(make_pod("b"), "Fit")
    waking = bench.rejected(make_pod("a"), "Taints")
    assert waking.tier is not None
    bench.queue.on_event(NODE_ADD)
    bench.rejected(make_pod("d", priority=5), "Fit")
    bench.queue.add(make_pod("e", gates=["later"]))
    bench.queue.add(make_pod("stranger", profile="another"))
    return bench


def test_all_that_wait_are_popped_but_those_behind_a_gate() -> None:
    bench = scattered()
    assert set(bench.tiers().values()) >= {"error-backoff", "backoff", "unschedulable", "gated"}
    popped = bench.queue.pop_together(KEYS, "equipoise")
    assert popped[0].key == "default/d", "the order is that of the queue"
    assert {queued.key for queued in popped} == {f"default/{name}" for name in "abcd"}
    assert bench.tiers() == {"e": "gated", "stranger": "active"}
    assert bench.queue.view.counts()["in-flight"] == 4
    for queued in popped:
        bench.queue.done(queued.info.uid)
    assert bench.queue.view.counts()["in-flight"] == 0


def test_unknown_pods_are_left_out() -> None:
    bench = Bench()
    assert bench.queue.pop_together(["default/nobody"], "equipoise") == []


def test_they_wait_as_one_and_one_is_sent_for_all() -> None:
    bench = Bench()
    for name in "abc":
        bench.queue.add(make_pod(name))
    popped = bench.queue.pop_together(KEYS, "equipoise")
    bench.queue.requeue_together(popped, {"Fit"}, (), "no room", GROUP)
    assert set(bench.tiers().values()) == {"unschedulable"}
    bench.queue.on_event(POD_DELETE)
    assert sorted(bench.tiers().values()) == ["backoff", "unschedulable", "unschedulable"]
    first = bench.pop()
    others = bench.queue.pop_together(KEYS, "equipoise")
    assert {first.key, *(queued.key for queued in others)} == set(KEYS[:3])


def test_they_back_off_alike_and_no_shorter_than_asked() -> None:
    bench = Bench()
    # One has failed often before, the others are new.
    old = bench.rejected(make_pod("a"), "Fit")
    for _ in range(3):
        bench.queue.activate(["default/a"])
        assert bench.queue.pop() is old
        bench.queue.requeue_rejected(old, ("Fit",), (), "no")
    bench.queue.add(make_pod("b"))
    popped = bench.queue.pop_together(KEYS, "equipoise")
    bench.queue.requeue_together(popped, {"Fit"}, (), "no room", GROUP)
    assert len({queued.backoff_until for queued in popped}) == 1
    popped = bench.queue.pop_together(KEYS, "equipoise")
    bench.queue.requeue_together(popped, {"Fit"}, (), "no room", GROUP, pause=100.0)
    assert {queued.backoff_until for queued in popped} == {bench.clock() + 100.0}


def test_those_that_were_not_tried_to_the_end_back_off_as_before() -> None:
    bench = Bench()
    for name in "ab":
        bench.queue.add(make_pod(name))
    popped = bench.queue.pop_together(KEYS, "equipoise")
    bench.queue.requeue_together(popped, {"Fit"}, (), "no room", GROUP)
    before = [(each.attempts, each.failures, each.backoff_until) for each in popped]
    for _ in range(3):
        bench.queue.on_event(NODE_ADD)
        again = [bench.pop(), *bench.queue.pop_together(KEYS, "equipoise")]
        bench.queue.requeue_together(again, {"Fit"}, (), "asking", GROUP, tried=False)
        assert [(each.attempts, each.failures, each.backoff_until) for each in popped] == before
        bench.clock.advance(0.1)
        bench.queue.activate(["default/a"])


def test_what_they_missed_in_flight_counts_for_all() -> None:
    bench = Bench()
    for name in "ab":
        bench.queue.add(make_pod(name))
    popped = bench.queue.pop_together(KEYS, "equipoise")
    bench.queue.on_event(NODE_ADD)
    bench.queue.requeue_together(popped, {"Fit"}, (), "no room", GROUP, pause=30.0)
    assert "backoff" in bench.tiers().values()
    bench.clock.advance(29.0)
    bench.queue.flush()
    assert "active" not in bench.tiers().values()
    bench.clock.advance(2.0)
    bench.queue.flush()
    assert "active" in bench.tiers().values()


def test_others_do_not_wait_for_their_back_off() -> None:
    bench = Bench()
    for name in "ab":
        bench.queue.add(make_pod(name))
    popped = bench.queue.pop_together(KEYS, "equipoise")
    bench.queue.on_event(NODE_ADD)
    bench.queue.requeue_together(popped, {"Fit"}, (), "no room", GROUP)
    early = [bench.pop(), *bench.queue.pop_together(KEYS, "equipoise")]
    bench.queue.on_event(NODE_ADD)
    bench.queue.requeue_together(early, {"Fit"}, (), "no room", GROUP, pause=30.0)
    assert "error-backoff" in bench.tiers().values(), "one that was tried early"
    bench.clock.advance(5.0)
    bench.queue.requeue_error(bench.popped(make_pod("other")), "boom")
    bench.clock.advance(5.0)
    bench.queue.flush()
    assert bench.tiers()["other"] == "active"


def test_a_scout_of_equal_pods_may_be_popped_along() -> None:
    bench = Bench()
    park(bench, "abc", "Fit")
    bench.clock.advance(60)
    bench.queue.on_event(POD_DELETE)
    popped = bench.queue.pop_together(["default/a", "default/b"], "equipoise")
    assert {queued.key for queued in popped} == {"default/a", "default/b"}
    for queued in popped:
        bench.queue.done(queued.info.uid)
    # The third has no scout any more, so it is attempted itself.
    assert bench.tiers() == {"c": "active"}


def test_nothing_is_requeued_that_was_deleted_meanwhile() -> None:
    bench = Bench()
    for name in "ab":
        bench.queue.add(make_pod(name))
    popped = bench.queue.pop_together(KEYS, "equipoise")
    bench.queue.delete(make_pod("a"))
    bench.queue.requeue_together(popped, {"Fit"}, (), "no room", GROUP)
    assert bench.tiers() == {"b": "unschedulable"}
