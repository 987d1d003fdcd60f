"""What goes wrong, said once for all nodes and pods that share an answer.

An answer is kept for nodes that differ in names only, and for claims that differ in names only. So
a fault keeps the places of names, and its text is made for the node and the claims at hand.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from scheduler.devices.segments import NodeSegment
from scheduler.model.devices import ResourceClaim


class Of(Enum):
    """What a name in a text names."""

    CLAIM = "claim"
    CLAIM_NAME = "claim name"
    POOL = "pool"
    DEVICE = "device"
    NODE = "node"


@dataclass(frozen=True, slots=True)
class Ref:
    """A name that differs from pod to pod or from node to node."""

    of: Of
    number: int = 0


@dataclass(frozen=True, slots=True)
class DeviceFault:
    """A text with names to fill in. Upstream calls it an error: the whole attempt fails."""

    parts: tuple[str | Ref, ...]
    unproven: bool = False
    """The search was given up: it is not known whether the node fits."""

    def text(self, claims: Sequence[ResourceClaim], segment: NodeSegment, node: str) -> str:
        """The text for a node and claims."""
        return "".join(
            part if isinstance(part, str) else _name(part, claims, segment, node)
            for part in self.parts
        )


TIMED_OUT = DeviceFault(
    ("node ", Ref(Of.NODE), ": timed out trying to allocate devices"), unproven=True
)


def of_claim(claim: int, text: str) -> DeviceFault:
    """A fault whose text begins with the claim."""
    return DeviceFault(("claim ", Ref(Of.CLAIM, claim), text))


def _name(ref: Ref, claims: Sequence[ResourceClaim], segment: NodeSegment, node: str) -> str:
    if ref.of is Of.NODE:
        return node
    if ref.of is Of.CLAIM:
        return claims[ref.number].metadata.key
    if ref.of is Of.CLAIM_NAME:
        return claims[ref.number].metadata.name
    if ref.of is Of.POOL:
        return "/".join(segment.views[ref.number].key)
    view, device = segment.device(ref.number)
    return "/".join((*view.key, device.name))


class DeviceError(Exception):
    """An attempt fails, whatever other nodes say; the text is upstream's."""
