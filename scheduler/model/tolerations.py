"""Which taints a pod puts up with."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

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


def repelled(tolerations: Sequence[Toleration], taints: Iterable[Taint]) -> bool:
    """Whether some taint that forbids scheduling is not tolerated."""
    return any(
        taint.effect in HARD_EFFECTS and not tolerates_any(tolerations, taint) for taint in taints
    )


def disliked(tolerations: Sequence[Toleration], taints: Iterable[Taint]) -> int:
    """How many taints that discourage scheduling are not tolerated."""
    return sum(
        taint.effect == SOFT_EFFECT and not tolerates_any(tolerations, taint) for taint in taints
    )
