"""Shares of a scarce resource by namespace: no owner takes all of it.

The rule is that of shared buffers in network switches (dynamic thresholds): an owner may hold up to
three times what is left over. Alone it gets `each`; with others the limit falls by itself, so that
the share of one whose requests hang is bounded by what others request. For example,
with `each` = 12 there are 16: one owner alone stops at 12, since 4 are left; two stop at 7 each,
three at 5, and something is left for the next owner. That holds for up to `each` / 3 owners.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")

_TIMES_WHAT_IS_LEFT = 3


class Shares:
    """How much each owner holds. One alone may hold `each`; a third more is there for others."""

    def __init__(self, each: int) -> None:
        self.each = each
        self.size = each - -each // _TIMES_WHAT_IS_LEFT
        self.held = 0
        self._by_owner: dict[str, int] = {}

    @property
    def full(self) -> bool:
        """Whether nothing is left."""
        return self.held >= self.size

    def of(self, owner: str) -> int:
        """How much an owner holds."""
        return self._by_owner.get(owner, 0)

    def may_take(self, owner: str) -> bool:
        """Whether an owner may have one more now; the first one of each owner always, if any."""
        left = self.size - self.held - 1
        mine = self._by_owner.get(owner, 0)
        return left >= 0 and (not mine or mine < _TIMES_WHAT_IS_LEFT * left)

    def take(self, owner: str) -> None:
        """Count one more."""
        self.held += 1
        self._by_owner[owner] = self._by_owner.get(owner, 0) + 1

    def give_back(self, owner: str) -> int:
        """Count one less; how much the owner still holds."""
        self.held -= 1
        left = self._by_owner[owner] - 1
        if left:
            self._by_owner[owner] = left
        else:
            del self._by_owner[owner]
        return left


class Turns(Generic[T]):
    """What waits, by owner: owners take turns, and what one owner has goes in order."""

    def __init__(self) -> None:
        self._waiting: dict[str, deque[T]] = {}

    def __bool__(self) -> bool:
        """Whether anything waits."""
        return bool(self._waiting)

    def waits(self, owner: str) -> bool:
        """Whether something of this owner waits."""
        return owner in self._waiting

    def add(self, owner: str, item: T) -> None:
        """Put an item behind those of its owner."""
        waiting = self._waiting.get(owner)
        if waiting is None:
            self._waiting[owner] = deque((item,))
        else:
            waiting.append(item)

    def add_first(self, owner: str, item: T) -> None:
        """Put an item before those of its owner."""
        self._waiting.setdefault(owner, deque()).appendleft(item)

    def remove(self, owner: str, item: T) -> None:
        """Forget an item that waits no longer; one that is not here is fine."""
        waiting = self._waiting.get(owner)
        if waiting is None or item not in waiting:
            return
        waiting.remove(item)
        if not waiting:
            del self._waiting[owner]

    def next(self, may: Callable[[str], bool]) -> tuple[str, T] | None:
        """The next item of the next owner that may have one; its owner goes behind all others.

        Looks at as many owners as hold their share: at most as many as there are shares.
        """
        owner = next(filter(may, self._waiting), None)
        if owner is None:
            return None
        waiting = self._waiting.pop(owner)
        item = waiting.popleft()
        if waiting:
            self._waiting[owner] = waiting
        return owner, item


class FairQueue(Generic[T]):
    """A bounded queue with workers, both shared by owner. `done` must follow each `get`."""

    def __init__(self, capacity: int, workers: int) -> None:
        self.capacity = capacity
        self._waiting = Shares(capacity)
        self._working = Shares(workers)
        self._turns: Turns[T] = Turns()
        self._idle: deque[asyncio.Future[tuple[str, T]]] = deque()
        self._empty = asyncio.Event()
        self._empty.set()

    @property
    def unfinished(self) -> int:
        """How many items wait or are being dealt with."""
        return self._waiting.held + self._working.held

    @property
    def workers(self) -> int:
        """How many workers there should be."""
        return self._working.size

    def __len__(self) -> int:
        """How many items wait for a worker."""
        return self._waiting.held

    def waiting(self, owner: str) -> int:
        """How many items of an owner wait for a worker."""
        return self._waiting.of(owner)

    def put(self, owner: str, item: T) -> bool:
        """Queue an item; False if there is no room for its owner."""
        if not self._waiting.may_take(owner):
            return False
        self._waiting.take(owner)
        self._turns.add(owner, item)
        self._empty.clear()
        self._hand_out()
        return True

    async def get(self) -> tuple[str, T]:
        """The next item, and its owner."""
        found = self._next()
        if found is not None:
            return found
        turn: asyncio.Future[tuple[str, T]] = asyncio.get_running_loop().create_future()
        self._idle.append(turn)
        try:
            return await turn
        except asyncio.CancelledError:
            if not turn.cancelled():  # it had just got an item
                self._put_back(*turn.result())
            raise

    def done(self, owner: str) -> None:
        """An item of this owner is dealt with."""
        self._working.give_back(owner)
        self._hand_out()
        if not self.unfinished:
            self._empty.set()

    async def join(self) -> None:
        """Return when nothing waits and no work is under way."""
        await self._empty.wait()

    def _put_back(self, owner: str, item: T) -> None:
        self._working.give_back(owner)
        self._waiting.take(owner)
        self._turns.add_first(owner, item)
        self._hand_out()

    def _next(self) -> tuple[str, T] | None:
        found = self._turns.next(self._working.may_take)
        if found is not None:
            self._waiting.give_back(found[0])
            self._working.take(found[0])
        return found

    def _hand_out(self) -> None:
        while self._idle:
            if self._idle[0].done():  # cancelled while it waited
                self._idle.popleft()
            elif (found := self._next()) is not None:
                self._idle.popleft().set_result(found)
            else:
                return
