"""What of an object is written to files: what some plugin reads.

Left out are other annotations, and what claims and classes tell drivers (`parameters`).
"""

from __future__ import annotations

from typing import Any, TypeVar

from msgspec import structs

from scheduler.model.devices import (
    DeviceClaimConfiguration,
    DeviceClass,
    DeviceClassConfiguration,
    DeviceResultConfiguration,
    ResourceClaim,
)
from scheduler.model.meta import AnnotatedMeta
from scheduler.model.volumes import (
    BETA_CLASS,
    BIND_COMPLETED,
    BOUND_BY_CONTROLLER,
    SELECTED_NODE,
)

C = TypeVar("C", DeviceClaimConfiguration, DeviceClassConfiguration, DeviceResultConfiguration)

READ_ANNOTATIONS = frozenset(
    {
        *(BETA_CLASS, BIND_COMPLETED, BOUND_BY_CONTROLLER, SELECTED_NODE),
        # Of CSINodes and NodeResourceTopologies; their modules load NumPy.
        "storage.alpha.kubernetes.io/migrated-plugins",
        "topology.node.k8s.io/fingerprint",
        # Of ResourceClaims that a scheduler made; `dra` is above this package.
        "resource.kubernetes.io/extended-resource-claim",
    }
)
"""The annotations that some plugin of the scheduler reads."""


def trimmed(kept: Any) -> Any:
    """The object without what no plugin reads."""
    if isinstance(kept, ResourceClaim):
        kept = _claim(kept)
    elif isinstance(kept, DeviceClass) and kept.spec.config:
        config = _without_parameters(kept.spec.config)
        kept = structs.replace(kept, spec=structs.replace(kept.spec, config=config))
    return _without_annotations(kept)


def _without_annotations(kept: Any) -> Any:
    metadata = kept.metadata
    if not isinstance(metadata, AnnotatedMeta) or metadata.annotations.keys() <= READ_ANNOTATIONS:
        return kept
    read = {k: v for k, v in metadata.annotations.items() if k in READ_ANNOTATIONS}
    return structs.replace(kept, metadata=structs.replace(metadata, annotations=read))


def _claim(claim: ResourceClaim) -> ResourceClaim:
    wanted, allocation = claim.spec.devices, claim.status.allocation
    if wanted.config:
        wanted = structs.replace(wanted, config=_without_parameters(wanted.config))
        claim = structs.replace(claim, spec=structs.replace(claim.spec, devices=wanted))
    if allocation is not None and allocation.devices.config:
        config = _without_parameters(allocation.devices.config)
        given = structs.replace(allocation.devices, config=config)
        allocation = structs.replace(allocation, devices=given)
        status = structs.replace(claim.status, allocation=allocation)
        claim = structs.replace(claim, status=status)
    return claim


def _without_parameters(config: tuple[C, ...]) -> tuple[C, ...]:
    """The same for the same drivers; they alone read the parameters, which may be any JSON."""
    return tuple(
        each
        if each.opaque is None
        else structs.replace(each, opaque=structs.replace(each.opaque, parameters=None))
        for each in config
    )
