"""Which taints a pod tolerates."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property

from scheduler.model.nodes import Taint
from scheduler.model.pods import Toleration

HARD_EFFECTS = ("NoSchedule", "NoExecute")
SOFT_EFFECT = "PreferNoSchedule"


def tolerates(toleration: Toleration, taint: Taint) -> bool:
    """Whether one toleration covers one taint; an empty key or effect covers all of them."""
    if toleration.effect and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    if toleration.operator in ("", "Equal"):
        return toleration.value == taint.value
    return toleration.operator == "Exists"


def tolerates_any(tolerations: Iterable[Toleration], taint: Taint) -> bool:
    """Whether some toleration covers the taint."""
    return any(tolerates(toleration, taint) for toleration in tolerations)


class Cover:
    """What some tolerations cover. A taint costs a few lookups, however many of them there are."""

    def __init__(self, tolerations: Sequence[Toleration]) -> None:
        self._tolerations = tolerations

    @cached_property
    def _covered(self) -> set[tuple[str, str, str | None]]:
        return {
            (each.key, each.effect, None if each.operator == "Exists" else each.value)
            for each in self._tolerations
            if each.operator in ("", "Equal", "Exists")
        }

    def covers(self, taint: Taint) -> bool:
        """Whether some toleration covers the taint."""
        covered = self._covered
        return any(
            (key, effect, value) in covered
            for key in ("", taint.key)
            for effect in ("", taint.effect)
            for value in (None, taint.value)
        )

    def repelled(self, taints: Iterable[Taint]) -> bool:
        """Whether some taint that forbids scheduling is not tolerated."""
        return any(taint.effect in HARD_EFFECTS and not self.covers(taint) for taint in taints)

    def disliked(self, taints: Iterable[Taint]) -> int:
        """How many taints that discourage scheduling are not tolerated."""
        return sum(taint.effect == SOFT_EFFECT and not self.covers(taint) for taint in taints)


def repelled(tolerations: Sequence[Toleration], taints: Sequence[Taint]) -> bool:
    """Whether some taint that forbids scheduling is not tolerated."""
    return bool(taints) and Cover(tolerations).repelled(taints)
