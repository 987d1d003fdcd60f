"""The keyed heap."""

from __future__ import annotations

import weakref

from hypothesis import given
from hypothesis import strategies as st

from scheduler.queueing.heap import KeyedHeap

Item = tuple[int, str]


def make_heap() -> KeyedHeap[Item]:
    return KeyedHeap(lambda item: item[0])


def drain(heap: KeyedHeap[Item], keys: dict[Item, str]) -> list[Item]:
    drained = []
    while (item := heap.peek()) is not None:
        drained.append(item)
        heap.remove(keys[item])
    return drained


def test_equal_items_leave_in_the_order_of_arrival() -> None:
    heap = make_heap()
    for name in "abc":
        heap.put(name, (1, name))
    assert [item[1] for item in heap] == ["a", "b", "c"]


def test_an_item_put_again_with_the_same_order_keeps_its_turn() -> None:
    heap = make_heap()
    first = (1, "a")
    heap.put("a", first)
    heap.put("b", (1, "b"))
    heap.put("a", first)
    assert heap.peek() == first


def test_a_replaced_item_is_never_seen_again() -> None:
    heap = make_heap()
    heap.put("a", (1, "old"))
    heap.put("a", (5, "new"))
    heap.put("b", (3, "b"))
    assert [item[1] for item in heap] == ["b", "new"]
    assert heap.peek() == (3, "b")
    assert len(heap) == 2


def test_removing_an_unknown_key_changes_nothing() -> None:
    heap = make_heap()
    heap.put("a", (1, "a"))
    heap.remove("b")
    assert "a" in heap
    assert "b" not in heap
    assert len(heap) == 1


def test_one_can_be_left_out_without_losing_its_turn() -> None:
    heap = make_heap()
    for name in "abc":
        heap.put(name, (1, name))
    heap.put("b", (9, "b"))
    assert heap.peek(without="a") == (1, "c")
    assert heap.peek(without="c") == (1, "a")
    assert heap.peek() == (1, "a")
    heap.remove("b")
    heap.remove("c")
    assert heap.peek(without="a") is None


def test_dead_entries_do_not_pile_up() -> None:
    heap = make_heap()
    heap.put("stays", (0, "stays"))
    for i in range(10_000):
        heap.put("moves", (10_000 - i, "moves"))
    assert len(heap._entries) < 200


@given(st.lists(st.tuples(st.sampled_from("abcdefgh"), st.none() | st.integers(0, 5))))
def test_it_agrees_with_sorting(steps: list[tuple[str, int | None]]) -> None:
    heap = make_heap()
    expected: dict[str, Item] = {}
    for key, order in steps:
        if order is None:
            heap.remove(key)
            expected.pop(key, None)
        else:
            expected[key] = (order, key)
            heap.put(key, expected[key])
        smallest = min((item[0] for item in expected.values()), default=None)
        top = heap.peek()
        assert (None if top is None else top[0]) == smallest
    drained = drain(heap, {item: key for key, item in expected.items()})
    assert [item[0] for item in drained] == sorted(item[0] for item in expected.values())


class Thing:
    """An item that can be referred to weakly."""

    def __init__(self, rank: int) -> None:
        self.rank = rank


def test_an_item_that_was_taken_out_is_held_no_longer() -> None:
    heap: KeyedHeap[Thing] = KeyedHeap(lambda thing: thing.rank)
    gone = Thing(1)
    heap.put("gone", gone)
    held = weakref.ref(gone)
    del gone
    heap.remove("gone")
    assert held() is None
