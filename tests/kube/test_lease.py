"""Leader election on a manual clock, against a lease that lives in memory."""

import asyncio
from datetime import datetime

import pytest

from scheduler.kube.errors import Ambiguous, Unreachable
from scheduler.kube.lease import LeaderElector
from scheduler.observe.metrics import Metrics
from tests.patience import PATIENCE

from .lease_support import Candidate, LeaseServer, moment
from .support import ManualClock, ScriptedClient, promptly


async def end(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


async def test_an_absent_lease_is_created_and_led(clock: ManualClock) -> None:
    server = LeaseServer(clock)
    candidate = Candidate(server, clock)
    task = await candidate.lead()
    assert server.spec == {
        "holderIdentity": "me",
        "leaseDurationSeconds": 15,
        "acquireTime": "2026-01-01T00:16:40.000000Z",
        "renewTime": "2026-01-01T00:16:40.000000Z",
        "leaseTransitions": 0,
    }
    assert candidate.status == 1
    await end(task)


async def test_a_released_lease_is_taken_at_once_and_counted_as_a_transition(
    clock: ManualClock,
) -> None:
    server = LeaseServer(
        clock, holderIdentity="", leaseDurationSeconds=1, leaseTransitions=4, strategy="Oldest"
    )
    task = await Candidate(server, clock).lead()
    assert clock.slept == []
    assert server.spec["leaseTransitions"] == 5
    assert server.lease is not None
    assert server.lease["metadata"]["labels"] == {"keep": "me"}, "what is not ours is kept"
    assert server.spec["strategy"] == "Oldest"
    await end(task)


async def test_a_foreign_lease_is_taken_when_it_has_not_changed_for_its_duration(
    clock: ManualClock,
) -> None:
    # Its time stamps are ancient; only what we observe counts.
    server = LeaseServer(
        clock,
        holderIdentity="other",
        leaseDurationSeconds=20,
        renewTime="2001-01-01T00:00:00.000000Z",
        leaseTransitions=1,
    )
    candidate = Candidate(server, clock)
    task = candidate.start()
    await promptly(candidate.elector.leading.is_set)
    taken = datetime.fromisoformat(server.spec["acquireTime"]) - moment(1000.0)
    assert 20 <= taken.total_seconds() < 20 + 2 * (1 + 1.2)
    assert server.spec["holderIdentity"] == "me"
    assert server.spec["leaseTransitions"] == 2
    await end(task)


async def test_a_foreign_lease_that_is_renewed_is_respected(clock: ManualClock) -> None:
    server = LeaseServer(clock, holderIdentity="other", leaseDurationSeconds=15)
    candidate = Candidate(server, clock)
    began = clock.now
    task = candidate.start()
    while clock.now < began + 200:
        server.renew_by_other()
        await asyncio.sleep(0)
    assert not candidate.elector.leading.is_set()
    assert candidate.elector.holder == "other"
    assert candidate.status == 0
    await end(task)
    assert server.spec["holderIdentity"] == "other", "a standby releases nothing"


async def test_standbys_spread_their_tries(clock: ManualClock) -> None:
    server = LeaseServer(clock, holderIdentity="other", leaseDurationSeconds=15)
    task = Candidate(server, clock).start()
    await promptly(lambda: len(clock.slept) > 2)
    await end(task)
    assert clock.slept[0] == pytest.approx(2.0 * (1 + 1.2 * 0.5))


async def test_our_own_lease_of_before_is_continued(clock: ManualClock) -> None:
    server = LeaseServer(
        clock,
        holderIdentity="me",
        leaseDurationSeconds=15,
        acquireTime="2026-01-01T00:00:00.000000Z",
        leaseTransitions=3,
    )
    task = await Candidate(server, clock).lead()
    assert server.spec["acquireTime"] == "2026-01-01T00:00:00.000000Z"
    assert server.spec["leaseTransitions"] == 3
    await end(task)


async def test_a_leader_renews_with_one_request_every_two_seconds(clock: ManualClock) -> None:
    server = LeaseServer(clock)
    candidate = Candidate(server, clock)
    task = candidate.start()
    await promptly(lambda: clock.now >= 1100)
    assert candidate.elector.leading.is_set()
    assert set(server.requests[2:]) == {"PUT"}
    assert set(clock.slept) == {2.0}
    assert candidate.elector.overdue() == 0
    await end(task)


async def test_a_leader_that_cannot_renew_gives_up_before_the_lease_expires(
    clock: ManualClock,
) -> None:
    server = LeaseServer(clock)
    candidate = Candidate(server, clock)
    task = await candidate.lead()
    renewed = clock.now
    server.broken = Unreachable("down")
    candidate.paused.set()
    await asyncio.wait_for(task, PATIENCE)
    assert candidate.lost == 1
    assert 10 <= clock.now - renewed < 15
    assert candidate.status == 0


async def test_calls_that_hang_do_not_stretch_the_deadline(clock: ManualClock) -> None:
    server = LeaseServer(clock)
    candidate = Candidate(server, clock)
    task = await candidate.lead()
    renewed = clock.now
    server.broken = Ambiguous("timeout")  # takes all the time that it is given
    candidate.paused.set()
    await asyncio.wait_for(task, PATIENCE)
    assert candidate.lost == 1
    assert clock.now - renewed == pytest.approx(10, abs=0.01)


async def test_trouble_shorter_than_the_deadline_is_survived(clock: ManualClock) -> None:
    server = LeaseServer(clock)
    candidate = Candidate(server, clock)
    task = await candidate.lead()
    server.broken = Unreachable("down")
    candidate.paused.set()
    began = clock.now
    await promptly(lambda: clock.now >= began + 6)
    server.broken = None
    await promptly(lambda: clock.now >= began + 60)
    assert candidate.elector.leading.is_set()
    await end(task)


async def test_a_renewal_whose_answer_was_lost_is_recognised_as_ours(clock: ManualClock) -> None:
    server = LeaseServer(clock)
    candidate = Candidate(server, clock)
    task = await candidate.lead()
    server.lose_answers = True
    version = server.version
    candidate.paused.set()
    await promptly(lambda: server.version > version)
    server.lose_answers = False
    began = clock.now
    await promptly(lambda: clock.now >= began + 60)
    assert candidate.elector.leading.is_set()
    assert server.spec["leaseTransitions"] == 0
    await end(task)


async def test_another_holder_in_our_lease_is_the_end_at_once(clock: ManualClock) -> None:
    server = LeaseServer(clock)
    candidate = Candidate(server, clock)
    task = await candidate.lead()
    server.seize("other")
    renewed = clock.now
    candidate.paused.set()
    await asyncio.wait_for(task, PATIENCE)
    assert candidate.lost == 1
    assert clock.now - renewed == 2.0
    assert server.spec["holderIdentity"] == "other"


async def test_a_process_that_slept_too_long_does_not_go_on_leading(clock: ManualClock) -> None:
    server = LeaseServer(clock)
    candidate = Candidate(server, clock)
    task = await candidate.lead()
    clock.now += 100
    assert candidate.elector.overdue() == pytest.approx(85)
    candidate.paused.set()
    await asyncio.wait_for(task, PATIENCE)
    assert candidate.lost == 1


async def test_a_deleted_lease_is_made_again(clock: ManualClock) -> None:
    server = LeaseServer(clock)
    candidate = Candidate(server, clock)
    task = await candidate.lead()
    server.lease = None
    candidate.paused.set()
    await promptly(lambda: server.lease is not None)
    assert server.spec["holderIdentity"] == "me"
    assert candidate.elector.leading.is_set()
    await end(task)


async def test_a_cancelled_leader_releases_the_lease(clock: ManualClock) -> None:
    server = LeaseServer(clock)
    candidate = Candidate(server, clock)
    await end(await candidate.lead())
    assert server.spec["holderIdentity"] == ""
    assert server.spec["leaseDurationSeconds"] == 1
    assert not candidate.elector.leading.is_set()
    assert candidate.status == 0
    assert candidate.lost == 0


async def test_a_release_that_fails_does_not_hinder_the_end(clock: ManualClock) -> None:
    server = LeaseServer(clock)
    task = await Candidate(server, clock).lead()
    server.broken = Unreachable("down")
    await end(task)
    assert task.cancelled()
    assert server.spec["holderIdentity"] == "me"


async def test_of_two_candidates_one_leads_and_the_other_follows_its_release(
    clock: ManualClock,
) -> None:
    server = LeaseServer(clock)
    one, two = Candidate(server, clock, "one"), Candidate(server, clock, "two")
    first = await one.lead()
    second = two.start()
    await promptly(lambda: two.elector.holder == "one")
    assert not two.elector.leading.is_set()
    await end(first)
    await promptly(two.elector.leading.is_set)
    assert server.spec["holderIdentity"] == "two"
    await end(second)


@pytest.mark.parametrize(
    ("lease_duration", "renew_deadline", "retry_period"),
    [(10.0, 10.0, 2.0), (15.0, 2.0, 2.0), (15.0, 10.0, 0.0)],
)
def test_durations_that_cannot_work_are_refused(
    lease_duration: float, renew_deadline: float, retry_period: float
) -> None:
    with pytest.raises(ValueError, match="leaseDuration > renewDeadline"):
        LeaderElector(
            ScriptedClient(),
            Metrics(),
            namespace="a",
            name="b",
            identity="c",
            on_lost=lambda: None,
            lease_duration=lease_duration,
            renew_deadline=renew_deadline,
            retry_period=retry_period,
        )


@pytest.mark.parametrize(
    "spec", [{"leaseTransitions": "many"}, "a lease"], ids=["a wrong field", "no spec at all"]
)
async def test_an_answer_that_is_no_lease_is_trouble_like_any_other(
    clock: ManualClock, spec: object
) -> None:
    server = LeaseServer(clock)
    candidate = Candidate(server, clock)
    server.put({"metadata": {"name": "equipoise"}, "spec": spec})
    task = candidate.start()
    await promptly(lambda: len(clock.slept) > 2)
    assert not candidate.elector.leading.is_set()
    server.lease = None
    await promptly(candidate.elector.leading.is_set)
    await end(task)
