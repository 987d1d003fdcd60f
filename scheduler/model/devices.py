"""Devices (resource.k8s.io/v1) as a scheduler reads them: claims, what drivers publish, classes.

Quantities and counts stay as written. What cannot be understood is found by the reader of the
field, and becomes a message of the pod that meets it: a slice or a claim is never refused here.
"""

from __future__ import annotations

import msgspec

from scheduler.model.meta import (
    AnnotatedMeta,
    Condition,
    Kind,
    ObjectMeta,
    RawQuantity,
    Struct,
)
from scheduler.model.nodes import NodeSelector

EXACT_COUNT = "ExactCount"
ALL = "All"
"""Allocation modes. Where absent, the API server fills in ``ExactCount`` and a count of 1."""

FROM_CLASS = "FromClass"
FROM_CLAIM = "FromClaim"

QuantityList = dict[str, RawQuantity]
"""Amounts by qualified name: a bare name is one of the driver's own domain."""


# --- What drivers publish -------------------------------------------------------------------------


class DeviceAttribute(Struct, frozen=True):
    """One value of one type; the lists are those of a gate that is off by default."""

    int_: int | None = msgspec.field(default=None, name="int")
    bool_: bool | None = msgspec.field(default=None, name="bool")
    string: str | None = None
    version: str | None = None
    ints: tuple[int, ...] | None = None
    bools: tuple[bool, ...] | None = None
    strings: tuple[str, ...] | None = None
    versions: tuple[str, ...] | None = None


class CapacityRange(Struct, frozen=True):
    min: RawQuantity | None = None
    max: RawQuantity | None = None
    step: RawQuantity | None = None


class CapacityRequestPolicy(Struct, frozen=True):
    """Which amounts of a shared device may be asked for, and how others are rounded."""

    default: RawQuantity | None = None
    valid_values: tuple[RawQuantity, ...] = ()
    valid_range: CapacityRange | None = None


class DeviceCapacity(Struct, frozen=True):
    value: RawQuantity = 0
    request_policy: CapacityRequestPolicy | None = None


class SharedCounter(Struct, frozen=True):
    value: RawQuantity = 0


class CounterSet(Struct, frozen=True):
    name: str = ""
    counters: dict[str, SharedCounter] = {}


class CounterConsumption(Struct, frozen=True):
    counter_set: str = ""
    counters: dict[str, SharedCounter] = {}


class DeviceTaint(Struct, frozen=True):
    key: str = ""
    value: str = ""
    effect: str = ""


class SliceDevice(Struct, frozen=True):
    name: str = ""
    attributes: dict[str, DeviceAttribute] = {}
    capacity: dict[str, DeviceCapacity] = {}
    consumes_counters: tuple[CounterConsumption, ...] = ()
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool = False
    taints: tuple[DeviceTaint, ...] = ()
    binds_to_node: bool = False
    binding_conditions: tuple[str, ...] | None = None
    binding_failure_conditions: tuple[str, ...] | None = None
    allow_multiple_allocations: bool = False


class ResourcePool(Struct, frozen=True):
    name: str = ""
    generation: int = 0
    resource_slice_count: int = 0


class ResourceSliceSpec(Struct, frozen=True):
    driver: str = ""
    pool: ResourcePool = ResourcePool()
    node_name: str | None = None
    node_selector: NodeSelector | None = None
    all_nodes: bool = False
    per_device_node_selection: bool = False
    devices: tuple[SliceDevice, ...] = ()
    shared_counters: tuple[CounterSet, ...] = ()


class ResourceSlice(Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: ResourceSliceSpec = ResourceSliceSpec()


# --- Classes and requests -------------------------------------------------------------------------


class CELSelector(Struct, frozen=True):
    expression: str = ""


class DeviceSelector(Struct, frozen=True):
    cel: CELSelector | None = None


class OpaqueConfiguration(Struct, frozen=True):
    driver: str = ""
    parameters: object = None
    """Whatever JSON the driver understands: it is copied into results, and never read."""


class DeviceClassConfiguration(Struct, frozen=True):
    opaque: OpaqueConfiguration | None = None


class DeviceClassSpec(Struct, frozen=True):
    selectors: tuple[DeviceSelector, ...] = ()
    config: tuple[DeviceClassConfiguration, ...] = ()
    extended_resource_name: str | None = None


class DeviceClass(Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: DeviceClassSpec = DeviceClassSpec()


class DeviceToleration(Struct, frozen=True):
    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None
    """No allocator reads it: it is copied into results, for who evicts pods."""


class CapacityRequirements(Struct, frozen=True):
    requests: QuantityList = {}


class ExactDeviceRequest(Struct, frozen=True):
    device_class_name: str = ""
    selectors: tuple[DeviceSelector, ...] = ()
    allocation_mode: str = ""
    count: int = 0
    admin_access: bool | None = None
    tolerations: tuple[DeviceToleration, ...] = ()
    capacity: CapacityRequirements | None = None


class DeviceSubRequest(Struct, frozen=True):
    """One alternative of a request; the first that leads to a whole solution is taken."""

    name: str = ""
    device_class_name: str = ""
    selectors: tuple[DeviceSelector, ...] = ()
    allocation_mode: str = ""
    count: int = 0
    tolerations: tuple[DeviceToleration, ...] = ()
    capacity: CapacityRequirements | None = None


class DeviceRequest(Struct, frozen=True):
    name: str = ""
    exactly: ExactDeviceRequest | None = None
    first_available: tuple[DeviceSubRequest, ...] = ()


class DeviceConstraint(Struct, frozen=True):
    requests: tuple[str, ...] = ()
    match_attribute: str | None = None
    distinct_attribute: str | None = None


class DeviceClaimConfiguration(Struct, frozen=True):
    requests: tuple[str, ...] = ()
    opaque: OpaqueConfiguration | None = None


class DeviceClaim(Struct, frozen=True):
    requests: tuple[DeviceRequest, ...] | None = None
    constraints: tuple[DeviceConstraint, ...] = ()
    config: tuple[DeviceClaimConfiguration, ...] = ()


class ResourceClaimSpec(Struct, frozen=True):
    devices: DeviceClaim = DeviceClaim()


# --- What claims were given -----------------------------------------------------------------------


class DeviceResult(Struct, frozen=True):
    """One device that a claim has: DeviceRequestAllocationResult in the API."""

    request: str = ""
    driver: str = ""
    pool: str = ""
    device: str = ""
    admin_access: bool | None = None
    tolerations: tuple[DeviceToleration, ...] = ()
    binding_conditions: tuple[str, ...] = ()
    binding_failure_conditions: tuple[str, ...] = ()
    share_id: str | None = msgspec.field(default=None, name="shareID")
    consumed_capacity: QuantityList = {}


class DeviceResultConfiguration(Struct, frozen=True):
    source: str = ""
    requests: tuple[str, ...] = ()
    opaque: OpaqueConfiguration | None = None


class DeviceAllocation(Struct, frozen=True):
    results: tuple[DeviceResult, ...] = ()
    config: tuple[DeviceResultConfiguration, ...] = ()


class AllocationResult(Struct, frozen=True):
    devices: DeviceAllocation = DeviceAllocation()
    node_selector: NodeSelector | None = None
    allocation_timestamp: str | None = None


class ConsumerReference(Struct, frozen=True):
    api_group: str = ""
    resource: str = ""
    name: str = ""
    uid: str = ""


class AllocatedDeviceStatus(Struct, frozen=True):
    """What a driver reports of a device that a claim has. Its data are not read."""

    driver: str = ""
    pool: str = ""
    device: str = ""
    share_id: str | None = msgspec.field(default=None, name="shareID")
    conditions: tuple[Condition, ...] | None = None


class ResourceClaimStatus(Struct, frozen=True):
    allocation: AllocationResult | None = None
    reserved_for: tuple[ConsumerReference, ...] = ()
    devices: tuple[AllocatedDeviceStatus, ...] = ()


class ClaimMeta(AnnotatedMeta, frozen=True):
    finalizers: tuple[str, ...] = ()


class ResourceClaim(Struct, frozen=True):
    metadata: ClaimMeta = ClaimMeta()
    spec: ResourceClaimSpec = ResourceClaimSpec()
    status: ResourceClaimStatus = ResourceClaimStatus()


KINDS = (
    Kind(
        "ResourceClaim",
        ResourceClaim,
        "/apis/resource.k8s.io/v1/resourceclaims",
        optional=True,
        namespaced=True,
    ),
    Kind("ResourceSlice", ResourceSlice, "/apis/resource.k8s.io/v1/resourceslices", optional=True),
    Kind("DeviceClass", DeviceClass, "/apis/resource.k8s.io/v1/deviceclasses", optional=True),
)
