"""The Topology Manager: merges all managers' hints for a container or a pod, and admits it or not.

The kubelet tries every combination of one hint per resource. What it keeps of a combination is the
cells common to all, and whether all hints were preferred and named the same cells; and which of
two combinations is better does not depend on the order of trying. So it is enough to carry along
the distinct outcomes, of which there are at most two per set of cells.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import msgspec

from sandbox.numa.demands import PodDemand
from sandbox.numa.hints import AllocationError, CellHint, HintProvider, Hints
from sandbox.numa.settings import Policy, Scope

_ANYWHERE = CellHint(None, True)
_NOWHERE = CellHint(None, False)


class AdmissionRefusal(msgspec.Struct, frozen=True):
    """Why a pod was not let in: the reason and message of its Failed status."""

    reason: str
    message: str


MISALIGNED = AdmissionRefusal(
    "TopologyAffinityError",
    "Pod was rejected: Resources cannot be allocated with Topology locality",
)


class TopologyManager:
    """Admits pods to a machine whose cells are the bits of ``everything``."""

    def __init__(
        self, policy: Policy, scope: Scope, everything: int, providers: Sequence[HintProvider]
    ) -> None:
        self._policy = policy
        self._scope = scope
        self._everything = everything
        self._providers = providers

    def admit(self, pod: PodDemand) -> AdmissionRefusal | None:
        """Give the pod all it needs, or refuse it; what a refused pod got is taken back."""
        try:
            refusal = self._admit(pod)
        except AllocationError as fault:
            refusal = AdmissionRefusal(fault.reason, f"Pod was rejected: {fault}")
        if refusal is not None:
            self.release(pod.uid)
        return refusal

    def release(self, uid: str) -> None:
        """Take back all the pod has."""
        for provider in self._providers:
            provider.release(uid)

    def _admit(self, pod: PodDemand) -> AdmissionRefusal | None:
        if self._policy == "none":
            # No provider has hints, which counts as one that is not preferred.
            return self._allocate(pod, lambda _: _NOWHERE)
        if self._scope == "pod":
            hint = self._merge(provider.pod_hints(pod) for provider in self._providers)
            return self._allocate(pod, lambda _: hint)
        return self._allocate(
            pod,
            lambda i: self._merge(each.hints(pod, pod.containers[i]) for each in self._providers),
        )

    def _allocate(
        self, pod: PodDemand, hint_for: Callable[[int], CellHint]
    ) -> AdmissionRefusal | None:
        """Container after container: what one gets, the next finds gone."""
        for i, container in enumerate(pod.containers):
            hint = hint_for(i)
            if not hint.preferred and self._policy in ("restricted", "single-numa-node"):
                return MISALIGNED
            for provider in self._providers:
                provider.allocate(pod, container, hint)
        return None

    def _merge(self, heard: Iterable[Hints]) -> CellHint:
        lists = [hints for provider in heard for hints in _lists(provider)]
        if self._policy != "single-numa-node":
            return merge(lists, self._everything)
        single = [[h for h in hints if h.preferred and _narrow(h)] for hints in lists]
        best = merge(single, self._everything)
        return CellHint(None, best.preferred) if best.mask == self._everything else best


def _narrow(hint: CellHint) -> bool:
    return hint.mask is None or hint.mask.bit_count() == 1


def _lists(hints: Hints) -> list[Sequence[CellHint]]:
    """A manager's hints, one list per resource, never empty."""
    if not hints:
        return [[_ANYWHERE]]
    return [[_ANYWHERE] if each is None else (each or [_NOWHERE]) for each in hints.values()]


def merge(lists: Sequence[Sequence[CellHint]], everything: int) -> CellHint:
    """The best combination of one hint from every list."""
    agreed: set[int | None] = {None}
    mixed: set[int] = set()
    for hints in lists:
        agreed, mixed = _combine(agreed, mixed, hints, everything)
    named = {everything if mask is None else mask for mask in agreed}
    if named:
        return CellHint(min(named, key=_width), True)
    if not mixed:
        return CellHint(everything, False)
    wide = _widest_need(lists)
    return CellHint(min(mixed, key=lambda mask: _unpreferred_rank(mask, wide)), False)


def _combine(
    agreed: set[int | None], mixed: set[int], hints: Sequence[CellHint], everything: int
) -> tuple[set[int | None], set[int]]:
    """All outcomes with one more hint: cells that all name, and cells common to different hints."""
    still: set[int | None] = set()
    differ: set[int] = set()
    for hint in hints:
        mask = everything if hint.mask is None else hint.mask
        differ.update(common & mask for common in mixed)
        for before in agreed:
            together = hint.mask if before is None else before
            if hint.preferred and (hint.mask is None or hint.mask == together):
                still.add(together)
            else:
                differ.add((everything if before is None else before) & mask)
    differ.discard(0)
    return still, differ


def _width(mask: int) -> tuple[int, int]:
    return mask.bit_count(), mask


def _widest_need(lists: Sequence[Sequence[CellHint]]) -> int:
    """The number of cells of the resource that needs the most."""
    narrowest = (
        min((hint.mask.bit_count() for hint in hints if hint.mask is not None), default=0)
        for hints in lists
    )
    return max(narrowest, default=0)


def _unpreferred_rank(mask: int, wide: int) -> tuple[int, int, int]:
    """As many cells as the largest need; else just fewer; else as few as possible."""
    count = mask.bit_count()
    if count == wide:
        return 0, 0, mask
    return (1, -count, mask) if count < wide else (2, count, mask)
