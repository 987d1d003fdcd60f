"""Following numbered decisions through a window on the latest."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice

from scheduler.cli.decisions_command import USUALLY, Latest, News, follow
from scheduler.cli.options import AT_MOST


class Ring:
    """Decisions up to a number, of which the last few are remembered."""

    def __init__(self, capacity: int = AT_MOST) -> None:
        self.capacity = capacity
        self.process = "first"
        self.newest = 0
        self.asked: list[int] = []

    def latest(self, count: int) -> Latest | None:
        self.asked.append(count)
        if not self.process:
            return None
        oldest = max(0, self.newest - min(count, self.capacity))
        return Latest(self.process, [{"seq": n} for n in range(self.newest, oldest, -1)])


Step = int | tuple[str, int]


def followed(ring: Ring, start: int, *steps: Step) -> Iterator[News]:
    """What is seen when the newest decision is each of these in turn, of a process if it says."""
    story = iter(steps)
    first = Latest(ring.process, [{"seq": start}] if start else [])

    def pause() -> None:
        step = next(story)
        ring.process, ring.newest = step if isinstance(step, tuple) else (ring.process, step)

    return islice(follow(first, ring.latest, pause), len(steps))


def numbers(news: News) -> list[int]:
    return [decision["seq"] for decision in news.decisions]


def test_each_decision_comes_once_in_order() -> None:
    news = list(followed(Ring(), 3, 5, 6))
    assert [numbers(each) for each in news] == [[4, 5], [6]]
    assert not any(each.missed for each in news)


def test_a_burst_is_asked_for_again_with_a_larger_window() -> None:
    ring = Ring()
    [news] = followed(ring, 0, USUALLY + 50)
    assert numbers(news) == list(range(1, USUALLY + 51))
    assert (news.missed, ring.asked) == (0, [USUALLY, AT_MOST])


def test_a_quiet_scheduler_is_asked_for_little() -> None:
    ring = Ring()
    ring.newest = 4000
    list(followed(ring, 4000, 4001))
    assert ring.asked == [USUALLY]


def test_what_the_ring_has_forgotten_is_counted() -> None:
    [news] = followed(Ring(capacity=200), 0, 1000)
    assert (numbers(news)[0], news.missed) == (801, 800)


def test_another_process_is_followed_from_its_beginning() -> None:
    [news] = followed(Ring(), 900, ("second", 2))
    assert (numbers(news), news.missed) == ([1, 2], 0)


def test_another_process_may_have_decided_more_than_the_one_before() -> None:
    [news] = followed(Ring(), 1, ("second", 3))
    assert (numbers(news), news.missed) == ([1, 2, 3], 0)


def test_processes_without_a_name_differ_by_numbers_that_fall_back() -> None:
    [news] = followed(Ring(), 900, 2)
    assert (numbers(news), news.missed) == ([1, 2], 0)


def test_nothing_is_lost_while_nobody_leads() -> None:
    ring = Ring()
    pauses = iter([("", 0), ("first", 5)])
    news = follow(Latest("first", []), ring.latest, lambda: become(ring, next(pauses)))
    assert numbers(next(news)) == [1, 2, 3, 4, 5]


def become(ring: Ring, state: tuple[str, int]) -> None:
    ring.process, ring.newest = state
