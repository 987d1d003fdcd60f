"""Pod, as a scheduler reads it."""

from __future__ import annotations

import msgspec

from scheduler.model.disks import InTreeSources, ISCSITarget, RBDImage
from scheduler.model.meta import Condition, Kind, LabelSelector, ObjectMeta, ResourceList, Struct
from scheduler.model.nodes import NodeSelector, NodeSelectorTerm


class ResourceRequirements(Struct, frozen=True):
    requests: ResourceList = {}
    limits: ResourceList = {}


class ContainerPort(Struct, frozen=True):
    host_port: int = 0
    container_port: int = 0
    protocol: str = "TCP"
    host_ip: str = msgspec.field(default="", name="hostIP")


class RestartRule(Struct, frozen=True):
    action: str = ""


class Container(Struct, frozen=True):
    name: str = ""
    image: str = ""
    resources: ResourceRequirements = ResourceRequirements()
    ports: tuple[ContainerPort, ...] = ()
    restart_policy: str = ""
    restart_policy_rules: tuple[RestartRule, ...] = ()


class Toleration(Struct, frozen=True):
    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None
    """No filter reads it. But patches carry tolerations whole, and would take it away."""


class PreferredSchedulingTerm(Struct, frozen=True):
    weight: int = 0
    preference: NodeSelectorTerm = NodeSelectorTerm()


class NodeAffinitySpec(Struct, frozen=True):
    required: NodeSelector | None = msgspec.field(
        default=None, name="requiredDuringSchedulingIgnoredDuringExecution"
    )
    preferred: tuple[PreferredSchedulingTerm, ...] = msgspec.field(
        default=(), name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class PodAffinityTerm(Struct, frozen=True):
    topology_key: str = ""
    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()


class WeightedPodAffinityTerm(Struct, frozen=True):
    weight: int = 0
    pod_affinity_term: PodAffinityTerm = PodAffinityTerm()


class PodAffinity(Struct, frozen=True):
    """The shape of both ``podAffinity`` and ``podAntiAffinity``."""

    required: tuple[PodAffinityTerm, ...] = msgspec.field(
        default=(), name="requiredDuringSchedulingIgnoredDuringExecution"
    )
    preferred: tuple[WeightedPodAffinityTerm, ...] = msgspec.field(
        default=(), name="preferredDuringSchedulingIgnoredDuringExecution"
    )


class Affinity(Struct, frozen=True):
    node_affinity: NodeAffinitySpec | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class TopologySpreadConstraint(Struct, frozen=True):
    max_skew: int = 1
    topology_key: str = ""
    when_unsatisfiable: str = "DoNotSchedule"
    label_selector: LabelSelector | None = None
    min_domains: int | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: tuple[str, ...] = ()


class SchedulingGate(Struct, frozen=True):
    name: str = ""


class ClaimVolume(Struct, frozen=True):
    claim_name: str = ""
    read_only: bool = False


_BETA_CLASS = "volume.beta.kubernetes.io/storage-class"


class ClaimTemplateAnnotations(Struct, frozen=True, rename={"beta_class": _BETA_CLASS}):
    """The one that is read: the class, as it was written before there was a field."""

    beta_class: str | None = None


class ClaimTemplateMeta(Struct, frozen=True):
    labels: dict[str, str] = {}
    annotations: ClaimTemplateAnnotations = ClaimTemplateAnnotations()


class VolumeClaimTemplate(Struct, frozen=True):
    metadata: ClaimTemplateMeta = ClaimTemplateMeta()
    spec: dict[str, object] = {}
    """That of a PersistentVolumeClaim, read when a claim is made of it (`own_claims`)."""


class EphemeralVolume(Struct, frozen=True):
    volume_claim_template: VolumeClaimTemplate | None = None


class ImageVolume(Struct, frozen=True):
    reference: str = ""


class Volume(InTreeSources, frozen=True):
    name: str = ""
    persistent_volume_claim: ClaimVolume | None = None
    ephemeral: EphemeralVolume | None = None
    image: ImageVolume | None = None
    rbd: RBDImage | None = None
    iscsi: ISCSITarget | None = None


class PodResourceClaim(Struct, frozen=True):
    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class PodSpec(Struct, frozen=True):
    node_name: str = ""
    scheduler_name: str = ""
    priority: int = 0
    preemption_policy: str = ""
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    overhead: ResourceList = {}
    resources: ResourceRequirements | None = None
    node_selector: dict[str, str] = {}
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()
    topology_spread_constraints: tuple[TopologySpreadConstraint, ...] = ()
    scheduling_gates: tuple[SchedulingGate, ...] = ()
    volumes: tuple[Volume, ...] = ()
    resource_claims: tuple[PodResourceClaim, ...] = ()
    host_network: bool = False
    host_users: bool | None = None


class ContainerStatus(Struct, frozen=True):
    name: str = ""
    allocated_resources: ResourceList = {}
    resources: ResourceRequirements | None = None


class PodResourceClaimStatus(Struct, frozen=True):
    """The claim that was made from a template for an entry of ``spec.resourceClaims``."""

    name: str = ""
    resource_claim_name: str | None = None
    """None: there is intentionally no claim."""


class PodStatus(Struct, frozen=True):
    phase: str = ""
    reason: str = ""
    nominated_node_name: str = ""
    start_time: str | None = None
    conditions: tuple[Condition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    allocated_resources: ResourceList = {}
    resources: ResourceRequirements | None = None
    resource_claim_statuses: tuple[PodResourceClaimStatus, ...] = ()


class Pod(Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def key(self) -> str:
        """``namespace/name``."""
        return self.metadata.key

    @property
    def finished(self) -> bool:
        """Whether all containers have ended: such a pod no longer holds anything on its node."""
        return self.status.phase in ("Succeeded", "Failed")

    @property
    def deleting(self) -> bool:
        """Whether the pod is being deleted."""
        return self.metadata.deletion_timestamp is not None

    def condition(self, kind: str) -> Condition | None:
        """The status condition of this type, if the pod has one."""
        for condition in self.status.conditions:  # asked some times for each pod: no generator
            if condition.type == kind:
                return condition
        return None


def named_node(pod: Pod) -> str:
    """The node that a DaemonSet's controller made a pod for; empty if it names none."""
    affinity = pod.spec.affinity
    required = affinity and affinity.node_affinity and affinity.node_affinity.required
    for term in (required.node_selector_terms or ()) if required else ():
        for each in term.match_fields:
            if each.key == "metadata.name" and each.operator == "In" and len(each.values) == 1:
                return each.values[0]
    return ""


_REASONS = frozenset(
    {
        "TopologyAffinityError",
        "UnexpectedAdmissionError",
        "OutOfcpu",
        "OutOfmemory",
        "OutOfpods",
        "OutOfephemeral-storage",
        "NodeAffinity",
        "NodePorts",
        "NodeName",
        "InvalidNodeInfo",
        "PodFeatureUnsupported",
        "PodOSNotSupported",
        "PodOSSelectorNodeLabelDoesNotMatch",
    }
)


def admission_error(pod: Pod) -> str:
    """The kubelet's reason for refusing a pod, "" if it did not; one of a fixed set of words."""
    if pod.status.phase != "Failed" or not pod.spec.node_name:
        return ""
    reason = pod.status.reason
    if reason in _REASONS:
        return reason
    return "OutOfOther" if reason.startswith("OutOf") else ""


KINDS = (Kind("Pod", Pod, "/api/v1/pods", namespaced=True),)
