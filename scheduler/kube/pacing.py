"""How long to wait: between retries, and for a client-side rate limit."""

from collections.abc import Callable

from scheduler import machine


class RetryDelays:
    """Delays that double from `first` up to `most`, each spread over ±50 % so clients disperse.

    Not shared between tasks: each retrying loop has its own.
    """

    def __init__(
        self, first: float, most: float, *, rng: Callable[[], float] = machine.random
    ) -> None:
        self._first = first
        self._most = most
        self._rng = rng
        self._next = first

    def next(self) -> float:
        """The delay before the next try, in seconds."""
        delay = self._next * (0.5 + self._rng())
        self._next = min(self._next * 2, self._most)
        return delay

    def reset(self) -> None:
        """Begin again at `first`, after a success."""
        self._next = self._first


class RateLimit:
    """A token bucket: `burst` at once, then `qps` each second, in order of asking."""

    def __init__(
        self, qps: float, burst: int, *, clock: Callable[[], float] = machine.monotonic
    ) -> None:
        if qps <= 0 or burst < 1:
            raise ValueError(f"a rate limit needs qps > 0 and burst >= 1, not {qps} and {burst}")
        self._interval = 1 / qps
        self._depth = self._interval * burst
        self._clock = clock
        # Up to when tokens are spent: one number in place of a token count and its time.
        self._spent_until = float("-inf")

    def reserve(self) -> float:
        """Take one token, perhaps a future one, and return how long to wait for it. O(1)."""
        now = self._clock()
        self._spent_until = max(self._spent_until, now - self._depth) + self._interval
        return max(0.0, self._spent_until - now)
