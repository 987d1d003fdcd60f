"""Whether a series is flat: the median of its last quarter against that of its second.

Medians do not follow single peaks, and the first quarter, in which caches and the allocator warm
up, does not count. What grows steadily has grown by half of the whole time between the middles of
the two quarters: a leak of a byte a second is seen once half the run exceeds the allowance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median


@dataclass(frozen=True)
class Allowance:
    """How much the last quarter may be above the second."""

    share: float
    """Of the second quarter's median."""
    amount: float
    """Besides that."""

    def over(self, level: float) -> float:
        """In the unit of the series."""
        return self.share * level + self.amount


@dataclass(frozen=True)
class Trend:
    """One series at its second and in its last quarter."""

    name: str
    second: float
    last: float
    allowed: float

    @property
    def growth(self) -> float:
        """How much it has grown, not below zero."""
        return max(0.0, self.last - self.second)

    @property
    def flat(self) -> bool:
        """Whether it has grown by no more than is allowed."""
        return self.growth <= self.allowed


def trend(name: str, series: Sequence[float], allowance: Allowance, extra: float = 0.0) -> Trend:
    """The trend of at least eight samples; `extra` is allowed besides."""
    if len(series) < 8:
        raise ValueError(f"{name}: {len(series)} samples are too few")
    quarter = len(series) // 4
    second, last = median(series[quarter : 2 * quarter]), median(series[-quarter:])
    return Trend(name, second, last, allowance.over(second) + extra)
