"""What all Kubernetes objects share: metadata, selectors as written, and the struct base.

Structs carry only the fields that a scheduler reads; everything else on the wire is skipped by the
decoder. They are frozen and untracked by the garbage collector (``gc=False``): safe, as decoded
JSON cannot hold cycles, and full collections stay short with 100k pods in memory.
"""

from __future__ import annotations

import msgspec


class Struct(msgspec.Struct, frozen=True, gc=False, rename="camel", omit_defaults=True):
    """Base of all object structs: immutable, camelCase on the wire, defaults left out."""


NOT_SENT = " "
"""The name of a field that no object has on the wire."""


class OwnerReference(Struct, frozen=True):
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False
    api_version: str = ""


class ObjectMeta(Struct, frozen=True):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: dict[str, str] = {}
    owner_references: tuple[OwnerReference, ...] = ()
    json_bytes: int = msgspec.field(default=0, name=NOT_SENT)
    """The length of the object's JSON, noted by the decoder; 0 if it was not sent."""

    @property
    def key(self) -> str:
        """``namespace/name``, or the bare name of a cluster-scoped object."""
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    @property
    def controller(self) -> OwnerReference | None:
        """The owner that manages this object, if any."""
        for owner in self.owner_references:
            if owner.controller:
                return owner
        return None


class AnnotatedMeta(ObjectMeta, frozen=True):
    """Metadata of the few kinds whose annotations a scheduler reads."""

    annotations: dict[str, str] = {}


class LabelSelectorRequirement(Struct, frozen=True):
    key: str = ""
    operator: str = ""
    values: tuple[str, ...] = ()


class LabelSelector(Struct, frozen=True):
    match_labels: dict[str, str] = {}
    match_expressions: tuple[LabelSelectorRequirement, ...] = ()


class Condition(Struct, frozen=True):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""


# A quantity as written: the API server sends strings, manifests may hold plain numbers.
RawQuantity = str | int | float
ResourceList = dict[str, RawQuantity]


class Kind(Struct, frozen=True):
    """A watched kind: its struct, the path that lists it, and whether a cluster may lack it."""

    name: str
    type: type
    path: str
    optional: bool = False
    namespaced: bool = False
