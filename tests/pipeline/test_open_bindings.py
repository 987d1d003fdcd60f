"""Bindings are counted by namespace; those of slow namespaces do not block others."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from scheduler.pipeline.open_bindings import SLOW_LIMIT, SLOW_SECONDS, OpenBindings
from tests.pipeline.support import FakeClock


def test_a_namespace_is_slow_from_its_first_request_that_hangs_until_that_has_ended() -> None:
    clock = FakeClock()
    bindings = OpenBindings(10_000, clock)
    for number in range(SLOW_LIMIT):
        bindings.begin("bad")
        bindings.sent(f"bad-{number}", "bad")
    bindings.begin("good")
    assert bindings.counted() == SLOW_LIMIT + 1
    assert not bindings.is_full("bad")
    clock.advance(SLOW_SECONDS)
    assert bindings.counted() == 1
    assert bindings.is_full("bad")
    assert not bindings.is_full("good")
    assert bindings.oldest() == SLOW_SECONDS
    for number in range(SLOW_LIMIT):
        bindings.end(f"bad-{number}", "bad")
    assert bindings.counted() == 1
    assert not bindings.is_full("bad")
    assert bindings.oldest() == 0


def test_waiting_for_a_turn_is_not_slow() -> None:
    clock = FakeClock()
    bindings = OpenBindings(10_000, clock)
    for _ in range(SLOW_LIMIT):
        bindings.begin("busy")
    clock.advance(100)
    assert not bindings.is_full("busy")
    assert bindings.counted() == SLOW_LIMIT


class OpenBindingsLaw(RuleBasedStateMachine):
    """Against counting everything anew."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = FakeClock()
        self.bindings = OpenBindings(20, self.clock)
        self.open: dict[str, tuple[str, bool, float | None]] = {}
        self.number = 0

    @rule(namespace=st.sampled_from("abc"))
    def begin(self, namespace: str) -> None:
        self.number += 1
        self.bindings.begin(namespace)
        self.open[str(self.number)] = (namespace, True, None)

    @rule(which=st.integers(0, 30))
    def prepare(self, which: int) -> None:
        for uid, (namespace, binding, sent) in list(self.open.items())[which : which + 1]:
            if sent is None:
                self.open[uid] = (namespace, not binding, sent)
                (self.bindings.prepare if binding else self.bindings.prepared)(namespace)

    @rule(which=st.integers(0, 30))
    def send(self, which: int) -> None:
        for uid, (namespace, binding, sent) in list(self.open.items())[which : which + 1]:
            if binding:
                self.bindings.sent(uid, namespace)
                self.open[uid] = (namespace, binding, self.clock.now if sent is None else sent)

    @rule(which=st.integers(0, 30))
    def end(self, which: int) -> None:
        for uid, (namespace, binding, _) in list(self.open.items())[which : which + 1]:
            if binding:
                self.bindings.end(uid, namespace)
                del self.open[uid]

    @rule(seconds=st.sampled_from([0.1, 0.6, 1.0]))
    def later(self, seconds: float) -> None:
        self.clock.advance(seconds)

    @invariant()
    def counts_are_right(self) -> None:
        slow = {
            namespace
            for namespace, _, sent in self.open.values()
            if sent is not None and self.clock.now - sent >= SLOW_SECONDS
        }
        counted = sum(
            binding and namespace not in slow for namespace, binding, _ in self.open.values()
        )
        assert self.bindings.counted() == counted
        assert self.bindings.binding == sum(binding for _, binding, _ in self.open.values())
        since = [sent for _, _, sent in self.open.values() if sent is not None]
        assert self.bindings.oldest() == (self.clock.now - min(since) if since else 0.0)


TestOpenBindingsLaw = OpenBindingsLaw.TestCase
