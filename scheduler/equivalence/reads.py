"""What a plugin's answers depend on, as the plugin declares it."""

from __future__ import annotations

from collections.abc import Callable, Hashable

import msgspec

from scheduler.model.podinfo import PodInfo
from scheduler.state.aspects import Aspects

NOTHING: Aspects = frozenset()


class Reads(msgspec.Struct, frozen=True, kw_only=True):
    """The aspects of the cluster that an answer depends on, besides the pod.

    An answer for a row also depends on which node is there; that goes without saying.
    """

    rows: Aspects = NOTHING
    """A change on a row concerns the answer for that row, and no other."""
    cluster: Aspects = NOTHING
    """A change anywhere concerns the answers for all rows."""
    keys: Aspects = NOTHING
    """What the plugin's *key* for a pod is derived from, besides the pod."""
    own: bool = False
    """The key is made for each pod, also for pods of one template: it reads what these differ in,
    such as their claims for devices, which they name or which were made for each of them. Not for
    pods that do not concern the plugin, if it says so (`Declaration.concerns`)."""
    claims: bool = True
    """The key may depend on which claims the pod's volumes name, or on these claims. It is then
    made for each pod that has any. If not, pods that differ in these names alone share a key."""
    kept: bool = True
    """Answers are kept per row. Otherwise they are computed for each pod, because almost every
    placement changes almost all of them; they still are the same for all pods of a class."""

    @property
    def all(self) -> Aspects:
        """Everything that may change an answer."""
        return self.rows | self.cluster | self.keys


Key = Hashable | None
"""What a plugin reads of a pod. None: it has nothing to say about such a pod, and is not asked."""


class Declaration(msgspec.Struct, frozen=True):
    """A plugin at one point of a profile, and what it declares."""

    plugin: str
    reads: Reads | None
    """None if it declares nothing: it is then asked anew for every pod."""
    key: Callable[[PodInfo], Key]
    weight: int = 1
    absolute: bool = False
    """Its raw scores are final: they are not normalised over the feasible rows."""

    concerns: Callable[[PodInfo], bool] | None = None
    """For keys that are made for each pod: the key of all pods of a template is None if this says
    no of one of them. It reads what templates have in common, and what ``keys`` names."""

    @property
    def own(self) -> bool:
        """Whether its keys are made for each pod."""
        return self.reads is not None and self.reads.own

    @property
    def reads_claims(self) -> bool:
        """Whether its keys may depend on the claims of a pod's volumes."""
        return self.reads is None or self.reads.claims

    @property
    def kept(self) -> bool:
        """Whether its answers are kept."""
        return self.reads is not None and self.reads.kept
