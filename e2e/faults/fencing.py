"""A leader that is stopped between the check of its lease and the write of a binding, many times.

The worst case: the next leader has the lease and has bound nothing yet, since its own bindings are
held on the wire, when the old one goes on in front of its system call.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import NamedTuple

from e2e.faults.running import create_in_the_end, judge, recover
from e2e.faults.scene import Scene
from e2e.harness.objects import pod
from e2e.harness.patience import PATIENCE
from scheduler.kube.process_deadline import EXIT_CODE
from tests.reliability.outcomes import Fencing

# Shorter than others, since a round takes as long as the lease.
ELECTION = (
    "--leader-elect-lease-duration=10s",
    "--leader-elect-renew-deadline=8s",
    "--leader-elect-retry-period=300ms",
)
PODS = 20


async def measure(scene: Scene, rounds: int, *, deadline: bool) -> Fencing:
    """So many rounds, with the timer that ends a suspended process, or without it."""
    for each in scene.replicas:
        await each.end()
        each.arguments = ELECTION
        each.environment = {} if deadline else {"EQUIPOISE_NO_DEADLINE": "1"}
    seen: list[_Round] = []
    while len(seen) < rounds:
        # On a busy machine a replica may lose the lease before it is stopped: that does not count.
        if (done := await _once(scene)) is not None:
            seen.append(done)
    for each in scene.replicas:
        await each.end()
        each.arguments, each.environment = (), {}
    return Fencing(
        deadline=deadline,
        rounds=rounds,
        ended_by_timer=sum(each.code == EXIT_CODE for each in seen),
        sent=sum(each.sent for each in seen),
        late=sum(each.late for each in seen),
    )


class _Round(NamedTuple):
    code: int
    """With which the old leader ended."""
    sent: int
    """Bindings that it sent after another replica had the lease."""
    late: int
    """Those that took effect."""


async def _once(scene: Scene) -> _Round | None:
    """One time; None if the leader ended before it was stopped."""
    await scene.clear()
    leader, other = await scene.lead()
    scene.history.begin()
    other.wire.hold = lambda request: request.binds
    leader.trigger.touch()
    await create_in_the_end(scene, (pod(f"pod-{each}", "10m", "1Mi") for each in range(PODS)))
    await _until(lambda: not leader.alive or leader.suspended)
    if not leader.alive:
        return None
    await scene.taken_over(leader)
    before = leader.wire.bindings
    leader.resume()
    code = await leader.ended()
    await _until(lambda: not leader.wire.connections)
    sent = leader.wire.bindings - before
    other.wire.heal()
    await recover(scene, time.monotonic(), PODS)
    verdict = await judge(scene, PODS)
    assert not verdict.lost, "every pod has a node"
    return _Round(code, sent, verdict.unentitled)


async def _until(holds: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not holds():  # noqa: ASYNC110  # processes and wires set no event of ours
            await asyncio.sleep(0.02)
