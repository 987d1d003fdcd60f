"""The faults, one function each: what is done to processes and connections, and when it is over.

A function is called while pods are being created; it does its worst and returns when the fault is
over, with the time at which it was. `running` judges what became of the pods.
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from itertools import cycle

from e2e.faults.scene import LEASE_SECONDS, PODS_THAT_FIT, Replica, Scene
from e2e.faults.wire import Request, Stage, Wanted
from e2e.harness.patience import PATIENCE

MIDDLE = PODS_THAT_FIT // 4
"""How many bindings go well before a fault in the middle of them."""


@dataclass(frozen=True)
class Fault:
    """One row of the table."""

    name: str
    what: str
    promised: str
    strike: Callable[[Scene], Awaitable[float]]
    rounds: int = 1
    quick: bool = False
    """Whether it is a test as well."""
    claims: bool = False
    """Whether each pod has a claim for a device."""
    beside_kube_scheduler: bool = False
    """Whether the real kube-scheduler places every second pod, on the same nodes."""


# The leader is killed


def killed_at(stage: Stage, wanted: Wanted, skip: int) -> Callable[[Scene], Awaitable[float]]:
    """SIGKILL of the leader when a request has come so far."""

    async def strike(scene: Scene) -> float:
        lost = stage is not Stage.SENT
        return (await scene.spring(wanted, stage, Replica.kill, skip=skip, cut=lost)).at

    return strike


async def killed_while_listing(scene: Scene) -> float:
    """The leader is killed while the other replica, which has just started, lists pods."""
    leader, other = await scene.lead()
    # Half of the bindings wait, so that there are pods to bind when the leader is gone.
    leader.wire.hold = _every_second_binding()
    await scene.bound(MIDDLE)
    await other.end()
    _, struck = await asyncio.gather(
        other.start(), scene.spring(_lists, Stage.ANSWERED, lambda _: leader.kill())
    )
    return struck.at


async def killed_both(scene: Scene) -> float:
    """Both replicas are killed in the middle of bindings, and started again."""

    def kill(_: Replica) -> None:
        for each in scene.replicas:
            each.kill()

    return (await scene.spring(_binds, Stage.SENT, kill, skip=MIDDLE)).at


# The leader is stopped


def suspended_at(stage: Stage, wanted: Wanted, skip: int) -> Callable[[Scene], Awaitable[float]]:
    """SIGSTOP of the leader when a request has come so far, for longer than its lease."""

    async def strike(scene: Scene) -> float:
        struck = await scene.spring(wanted, stage, Replica.suspend, skip=skip)
        await scene.taken_over(struck.replica)
        struck.replica.resume()
        await _ended(scene, struck.replica)
        return struck.at

    return strike


async def suspended_shortly(scene: Scene) -> float:
    """The leader is stopped for a third of its lease: it goes on, and stays leader."""
    struck = await scene.spring(_binds, Stage.SENT, Replica.suspend, skip=MIDDLE)
    await asyncio.sleep(LEASE_SECONDS / 3)  # the fault itself: so long it is stopped
    struck.replica.resume()
    return time.monotonic()


async def _ended(scene: Scene, leader: Replica) -> None:
    """A leader that lost its lease has to end."""
    scene.seen.append(f"the old leader exited with {await leader.ended()}")


# Connections


def partitioned(*, answers_only: bool) -> Callable[[Scene], Awaitable[float]]:
    """Nothing passes between the leader and the API server until another replica leads."""

    def part(replica: Replica) -> None:
        replica.wire.partition(answers_only=answers_only)

    async def strike(scene: Scene) -> float:
        struck = await scene.spring(_binds, Stage.BEFORE, part, skip=MIDDLE)
        await scene.taken_over(struck.replica)
        struck.replica.wire.heal(cut=True)
        await _ended(scene, struck.replica)
        return struck.at

    return strike


async def lease_answers_lost(scene: Scene) -> float:
    """Renewals reach the API server, and their answers never come back."""
    leader, _ = await scene.lead()
    leader.wire.cut_answer = lambda request: 0 if request.renews else None
    scene.count_in_flight()
    await scene.bound(PODS_THAT_FIT)
    await _ended(scene, leader)
    return time.monotonic()


def answers_cut(wanted: Wanted) -> Callable[[Scene], Awaitable[float]]:
    """Answers end in the middle: each at another byte, from the first to past the head."""

    async def strike(scene: Scene) -> float:
        leader, _ = await scene.lead()
        cut = 0

        def bytes_of(request: Request) -> int | None:
            nonlocal cut
            if not wanted(request) or cut >= 4 * MIDDLE:
                return None
            cut += 7
            return cut

        leader.wire.cut_answer = bytes_of
        scene.count_in_flight()
        async with asyncio.timeout(PATIENCE):
            while cut < 4 * MIDDLE:  # noqa: ASYNC110  # the wire sets no event for it
                await asyncio.sleep(0.05)
        leader.wire.cut_answer = lambda request: None
        return time.monotonic()

    return strike


async def watches_cut(scene: Scene) -> float:
    """Every connection of both replicas is cut, ten times in the middle of bindings."""
    leader, other = await scene.lead()
    scene.count_in_flight()
    for number in range(1, 11):
        await scene.bound(number * PODS_THAT_FIT // 20)
        for each in (leader, other):
            each.wire.cut_all()
    return time.monotonic()


async def lists_cut(scene: Scene) -> float:
    """A replica starts while its lists of pods end after 500, 1,000, 1,500 … bytes."""
    leader, other = await scene.lead()
    leader.wire.hold = _every_second_binding()
    await scene.bound(MIDDLE)
    await other.end()
    cut = 0

    def bytes_of(request: Request) -> int | None:
        nonlocal cut
        if not request.lists_pods or cut >= 2_500:
            return None
        cut += 500
        return cut

    other.wire.cut_answer = bytes_of
    leader.kill()
    scene.count_in_flight()
    began = time.monotonic()
    await other.start()
    other.wire.cut_answer = lambda request: None
    return began


async def answers_late(scene: Scene) -> float:
    """Every answer and every event comes half a second late."""
    leader, _ = await scene.lead()
    leader.wire.answer_delay = 0.5
    scene.count_in_flight()
    await scene.bound(PODS_THAT_FIT // 2)
    leader.wire.answer_delay = 0.0
    return time.monotonic()


# The control plane


def server_killed(name: str) -> Callable[[Scene], Awaitable[float]]:
    """SIGKILL of etcd or the API server after a binding was sent; it is restarted."""

    async def strike(scene: Scene) -> float:
        plane = scene.plane
        victim = plane.process(name)
        await scene.spring(_binds, Stage.SENT, lambda _: victim.send(signal.SIGKILL), skip=MIDDLE)
        again = plane.restart_etcd if name == "etcd" else plane.restart_apiserver
        await asyncio.to_thread(again)
        return time.monotonic()

    return strike


def server_suspended(name: str, seconds: float) -> Callable[[Scene], Awaitable[float]]:
    """SIGSTOP of etcd or the API server after a binding was sent."""

    async def strike(scene: Scene) -> float:
        victim = scene.plane.process(name)
        await scene.spring(_binds, Stage.SENT, lambda _: victim.send(signal.SIGSTOP), skip=MIDDLE)
        try:
            await asyncio.sleep(seconds)  # the fault itself: so long it is stopped
        finally:
            victim.send(signal.SIGCONT)
        return time.monotonic()

    return strike


def _every_second_binding() -> Wanted:
    turn = cycle((False, True))
    return lambda request: request.binds and next(turn)


def _lists(request: Request) -> bool:
    return request.lists_pods


def _binds(request: Request) -> bool:
    return request.binds


def _renews(request: Request) -> bool:
    return request.renews


def _allocates(request: Request) -> bool:
    return request.allocates


_TAKEN_OVER = (
    "the other replica takes over when the lease has expired, and binds the remaining pods"
)
_ENDS = "another replica binds the remaining pods; the old leader writes nothing more, and exits"
_GOES_ON = "the leader continues"

ALL = (
    Fault(
        "kill-before-binding",
        "SIGKILL of the leader before a binding request arrives",
        _TAKEN_OVER,
        killed_at(Stage.BEFORE, _binds, MIDDLE),
    ),
    Fault(
        "kill-binding-sent",
        "SIGKILL of the leader after a binding request was sent, before the response",
        _TAKEN_OVER,
        killed_at(Stage.SENT, _binds, MIDDLE),
        quick=True,
    ),
    Fault(
        "kill-binding-answered",
        "SIGKILL of the leader after the response to a binding, before it is read",
        _TAKEN_OVER,
        killed_at(Stage.ANSWERED, _binds, MIDDLE),
    ),
    Fault(
        "kill-renewing",
        "SIGKILL of the leader while it renews the lease",
        _TAKEN_OVER,
        killed_at(Stage.SENT, _renews, 0),
    ),
    Fault(
        "kill-claim-allocated",
        "SIGKILL of the leader after it allocated a claim, before the binding",
        f"{_TAKEN_OVER}; no device is allocated twice, no claim stays reserved without a pod",
        killed_at(Stage.ANSWERED, _allocates, 20),
        claims=True,
    ),
    Fault(
        "kill-listing",
        "SIGKILL of the leader while the other replica starts and lists pods",
        _TAKEN_OVER,
        killed_while_listing,
    ),
    Fault(
        "kill-both",
        "SIGKILL of both replicas; both are restarted",
        "a restarted replica binds the remaining pods when the lease has expired",
        killed_both,
    ),
    Fault(
        "kill-beside-kube-scheduler",
        "SIGKILL of the leader while kube-scheduler places every second pod on the same nodes",
        f"{_TAKEN_OVER}; over-committed nodes are counted separately",
        killed_at(Stage.SENT, _binds, MIDDLE // 2),
        beside_kube_scheduler=True,
    ),
    Fault(
        "stop-before-binding",
        "SIGSTOP of the leader beyond its lease, with a binding in progress",
        _ENDS,
        suspended_at(Stage.BEFORE, _binds, MIDDLE),
    ),
    Fault(
        "stop-binding-sent",
        "SIGSTOP of the leader beyond its lease, before it has the response to a binding",
        _ENDS,
        suspended_at(Stage.SENT, _binds, MIDDLE),
        quick=True,
    ),
    Fault(
        "stop-renewing",
        "SIGSTOP of the leader beyond its lease, while it renews",
        _ENDS,
        suspended_at(Stage.SENT, _renews, 0),
    ),
    Fault(
        "stop-shortly",
        "SIGSTOP of the leader for 4 s, a third of its lease",
        _GOES_ON,
        suspended_shortly,
    ),
    Fault(
        "partition",
        "no data passes between the leader and the API server, for longer than its lease",
        _ENDS,
        partitioned(answers_only=False),
        quick=True,
    ),
    Fault(
        "partition-answers",
        "requests of the leader arrive, responses do not, for longer than its lease",
        f"{_ENDS}; requests that arrived take effect",
        partitioned(answers_only=True),
    ),
    Fault(
        "renewals-unanswered",
        "renewals of the lease arrive, their responses do not",
        "the leader exits when its lease is uncertain; the other replica takes over",
        lease_answers_lost,
    ),
    Fault(
        "answers-cut",
        "responses to bindings are cut off after 7, 14, 21 … bytes",
        f"{_GOES_ON}: it reads the pods whose response was lost",
        answers_cut(_binds),
        quick=True,
    ),
    Fault(
        "connections-cut",
        "all connections of both replicas are cut, ten times",
        f"{_GOES_ON}: watches continue where they were",
        watches_cut,
    ),
    Fault(
        "lists-cut",
        "the leader is killed, and lists of the next one are cut off after 500, 1,000 … bytes",
        _TAKEN_OVER,
        lists_cut,
    ),
    Fault(
        "answers-late",
        "every response and every event is half a second late",
        _GOES_ON,
        answers_late,
    ),
    Fault(
        "kill-apiserver",
        "SIGKILL of the API server after a binding was sent; it is restarted",
        f"{_GOES_ON}, or the other replica takes over",
        server_killed("kube-apiserver"),
        quick=True,
    ),
    Fault(
        "kill-etcd",
        "SIGKILL of etcd after a binding was sent; it is restarted",
        f"{_GOES_ON}, or the other replica takes over",
        server_killed("etcd"),
    ),
    Fault(
        "stop-apiserver",
        "SIGSTOP of the API server for 3 s",
        f"{_GOES_ON}, or the other replica takes over",
        server_suspended("kube-apiserver", 3.0),
    ),
    Fault(
        "stop-apiserver-long",
        "SIGSTOP of the API server for 25 s, longer than the lease",
        "replicas that cannot renew the lease exit; restarted replicas bind the remaining pods",
        server_suspended("kube-apiserver", 25.0),
    ),
    Fault(
        "stop-etcd",
        "SIGSTOP of etcd for 3 s",
        f"{_GOES_ON}, or the other replica takes over",
        server_suspended("etcd", 3.0),
    ),
    Fault(
        "stop-etcd-long",
        "SIGSTOP of etcd for 25 s, longer than the lease",
        "replicas that cannot renew the lease exit; restarted replicas bind the remaining pods",
        server_suspended("etcd", 25.0),
    ),
)
BY_NAME: Mapping[str, Fault] = {each.name: each for each in ALL}
