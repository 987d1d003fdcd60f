"""A message is as long as people read, however long what it quotes."""

from __future__ import annotations

from scheduler.pipeline.failure import MAX_MESSAGE, brief
from tests.builders import make_pod, make_worker
from tests.pipeline.support import Stage


def test_short_messages_stay_as_they_are() -> None:
    assert brief("x" * MAX_MESSAGE) == "x" * MAX_MESSAGE
    assert len(brief("x" * (MAX_MESSAGE + 1))) == MAX_MESSAGE


async def test_a_pod_that_asks_for_thousands_of_things_gets_a_short_word() -> None:
    stage = Stage()
    pod = make_pod("p")
    for number in range(2_000):
        pod.request(f"example.com/thing-{number}", 1)
    stage.see(make_worker("n"), pod)
    await stage.run()
    (decision,) = stage.core.decisions.latest(1)
    assert len(decision.message) == MAX_MESSAGE
    assert decision.message.startswith("0/1 nodes are available: 1 Insufficient example.com/thing-")
