"""Which resources the embedded API server has: the built-in table, and what CRDs add to it.

Names, short names, categories and verbs are those of the real server: a test compares them.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from scheduler.model.objects import KINDS

KUBERNETES_VERSION = "v1.36.3+sandbox"
"""The Kubernetes whose API this is."""

STATUS = ("status",)
SCALED = ("scale", "status")
ALL = ("all",)
EXTENSIONS = ("api-extensions",)

_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")
_CREATE_ONLY = ("create",)


class PrinterColumn(NamedTuple):
    """A column of a table: its heading, its type, and the JSONPath of its value."""

    name: str
    type: str
    path: str
    priority: int = 0


class ScalePaths(NamedTuple):
    """Paths of the numbers that a scale subresource shows, as a CRD gives them."""

    spec: str = ".spec.replicas"
    status: str = ".status.replicas"
    selector: str = ""


_REPLICAS = ScalePaths()


@dataclass(frozen=True, slots=True)
class Resource:
    """One served resource: its address, and the few traits in which kinds differ.

    Resources that share a `table` show the same objects in different versions.
    """

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool
    subresources: tuple[str, ...] = ()
    counts_generations: bool = False
    """The server keeps `metadata.generation`: 1 at creation, one more per change of the spec."""
    unconditional_update: bool = True
    """A PUT may leave out `metadata.resourceVersion`."""
    create_on_update: bool = False
    """A PUT may create."""
    returns_deleted: bool = False
    """DELETE answers with the object instead of a `Status`."""
    keeps_status_on_create: bool = False
    """The creator may set the status (nodes, or kinds without a status subresource)."""
    custom: bool = False
    """Comes from a CRD."""
    short_names: tuple[str, ...] = ()
    categories: tuple[str, ...] = ()
    """Names for several resources at once: `kubectl get all`."""
    verbs: tuple[str, ...] = _VERBS
    singular: str = ""
    columns: tuple[PrinterColumn, ...] = ()
    """What a CRD says of its table; built-in kinds have theirs in `sandbox.printing`."""
    schema: Mapping[str, Any] = field(default_factory=dict, hash=False, compare=False)
    """A CRD's OpenAPI v3 schema; those of built-in kinds are in `sandbox.schemas`."""
    scale: ScalePaths | None = None
    """Where the numbers of its scale subresource are."""
    table: str = field(init=False, compare=False)
    """The name of the table that has its objects."""

    def __post_init__(self) -> None:
        table = f"{self.plural}.{self.group}" if self.group else self.plural
        if self.plural == "events" and self.group in {"", "events.k8s.io"}:
            table = "events"
        object.__setattr__(self, "table", table)

    @property
    def api_version(self) -> str:
        return f"{self.group}/{self.version}" if self.group else self.version

    @property
    def has_status(self) -> bool:
        return "status" in self.subresources

    @property
    def singular_name(self) -> str:
        return self.singular or self.kind.lower()


def _core(plural: str, kind: str, namespaced: bool = True, **traits: Any) -> Resource:
    return Resource("", "v1", plural, kind, namespaced, **traits)


def _storage(plural: str, kind: str, namespaced: bool = False, **traits: Any) -> Resource:
    return Resource("storage.k8s.io", "v1", plural, kind, namespaced, **traits)


def _workload(group: str, plural: str, kind: str, short: str = "", **traits: Any) -> Resource:
    names = (short,) if short else ()
    return Resource(
        group,
        "v1",
        plural,
        kind,
        True,
        SCALED if "scale" in traits else STATUS,
        counts_generations=True,
        short_names=names,
        categories=ALL,
        **traits,
    )


def _review(group: str, plural: str, kind: str) -> Resource:
    """Only answered, never stored: see `sandbox.reviews`."""
    return Resource(group, "v1", plural, kind, False, verbs=_CREATE_ONLY)


_LISTED: tuple[Resource, ...] = (
    _core(
        "namespaces",
        "Namespace",
        False,
        subresources=STATUS,
        returns_deleted=True,
        short_names=("ns",),
        verbs=tuple(verb for verb in _VERBS if verb != "deletecollection"),
    ),
    _core(
        "nodes",
        "Node",
        False,
        subresources=STATUS,
        keeps_status_on_create=True,
        short_names=("no",),
    ),
    _core(
        "pods",
        "Pod",
        subresources=(
            "attach",
            "binding",
            "ephemeralcontainers",
            "eviction",
            "exec",
            "log",
            "portforward",
            "status",
        ),
        counts_generations=True,
        returns_deleted=True,
        short_names=("po",),
        categories=ALL,
    ),
    _core(
        "services",
        "Service",
        subresources=STATUS,
        create_on_update=True,
        returns_deleted=True,
        short_names=("svc",),
        categories=ALL,
    ),
    _core("configmaps", "ConfigMap", short_names=("cm",)),
    _core("secrets", "Secret"),
    _core("serviceaccounts", "ServiceAccount", returns_deleted=True, short_names=("sa",)),
    _core("endpoints", "Endpoints", short_names=("ep",), singular="endpoints"),
    _core("limitranges", "LimitRange", short_names=("limits",)),
    _core(
        "resourcequotas",
        "ResourceQuota",
        subresources=STATUS,
        returns_deleted=True,
        short_names=("quota",),
    ),
    _core(
        "persistentvolumes",
        "PersistentVolume",
        False,
        subresources=STATUS,
        returns_deleted=True,
        short_names=("pv",),
    ),
    _core(
        "persistentvolumeclaims",
        "PersistentVolumeClaim",
        subresources=STATUS,
        returns_deleted=True,
        short_names=("pvc",),
    ),
    _core(
        "replicationcontrollers",
        "ReplicationController",
        subresources=SCALED,
        counts_generations=True,
        short_names=("rc",),
        categories=ALL,
        scale=_REPLICAS,
    ),
    _core("events", "Event", create_on_update=True, short_names=("ev",)),
    Resource(
        "events.k8s.io", "v1", "events", "Event", True, create_on_update=True, short_names=("ev",)
    ),
    _workload("apps", "deployments", "Deployment", "deploy", scale=_REPLICAS),
    _workload("apps", "replicasets", "ReplicaSet", "rs", scale=_REPLICAS),
    _workload("apps", "statefulsets", "StatefulSet", "sts", scale=_REPLICAS),
    _workload("apps", "daemonsets", "DaemonSet", "ds"),
    Resource("apps", "v1", "controllerrevisions", "ControllerRevision", True),
    _workload("batch", "jobs", "Job"),
    _workload("batch", "cronjobs", "CronJob", "cj"),
    Resource(
        "policy",
        "v1",
        "poddisruptionbudgets",
        "PodDisruptionBudget",
        True,
        STATUS,
        counts_generations=True,
        unconditional_update=False,
        short_names=("pdb",),
    ),
    Resource(
        "scheduling.k8s.io",
        "v1",
        "priorityclasses",
        "PriorityClass",
        False,
        counts_generations=True,
        short_names=("pc",),
    ),
    Resource(
        "coordination.k8s.io",
        "v1",
        "leases",
        "Lease",
        True,
        unconditional_update=False,
        create_on_update=True,
    ),
    Resource("discovery.k8s.io", "v1", "endpointslices", "EndpointSlice", True),
    Resource(
        "networking.k8s.io",
        "v1",
        "ingresses",
        "Ingress",
        True,
        STATUS,
        counts_generations=True,
        short_names=("ing",),
    ),
    _storage("storageclasses", "StorageClass", returns_deleted=True, short_names=("sc",)),
    _storage("csinodes", "CSINode", unconditional_update=False, returns_deleted=True),
    _storage("csidrivers", "CSIDriver", unconditional_update=False, returns_deleted=True),
    _storage("csistoragecapacities", "CSIStorageCapacity", True, unconditional_update=False),
    _storage(
        "volumeattachments",
        "VolumeAttachment",
        subresources=STATUS,
        unconditional_update=False,
        returns_deleted=True,
    ),
    Resource(
        "resource.k8s.io",
        "v1",
        "resourceclaims",
        "ResourceClaim",
        True,
        STATUS,
        returns_deleted=True,
    ),
    Resource(
        "resource.k8s.io",
        "v1",
        "resourceclaimtemplates",
        "ResourceClaimTemplate",
        True,
        returns_deleted=True,
    ),
    Resource(
        "resource.k8s.io",
        "v1",
        "resourceslices",
        "ResourceSlice",
        False,
        counts_generations=True,
        returns_deleted=True,
    ),
    Resource(
        "resource.k8s.io",
        "v1",
        "deviceclasses",
        "DeviceClass",
        False,
        counts_generations=True,
        returns_deleted=True,
    ),
    Resource(
        "apiextensions.k8s.io",
        "v1",
        "customresourcedefinitions",
        "CustomResourceDefinition",
        False,
        STATUS,
        counts_generations=True,
        short_names=("crd", "crds"),
        categories=EXTENSIONS,
    ),
    _review("authentication.k8s.io", "selfsubjectreviews", "SelfSubjectReview"),
    _review("authentication.k8s.io", "tokenreviews", "TokenReview"),
    _review("authorization.k8s.io", "selfsubjectaccessreviews", "SelfSubjectAccessReview"),
    _review("authorization.k8s.io", "selfsubjectrulesreviews", "SelfSubjectRulesReview"),
    _review("authorization.k8s.io", "subjectaccessreviews", "SubjectAccessReview"),
)


def _watched() -> Iterator[Resource]:
    """Kinds that the scheduler watches and that have no entry above, with the usual traits."""
    listed = {resource.kind for resource in _LISTED}
    for kind in KINDS.values():
        if not kind.optional and kind.name not in listed:
            *group, version, plural = kind.path.removeprefix("/").split("/")
            yield Resource("".join(group[1:]), version, plural, kind.name, kind.namespaced, STATUS)


BUILT_IN: tuple[Resource, ...] = (*_LISTED, *_watched())


def defined_by(crd: dict[str, Any]) -> list[Resource]:
    """The resources a CustomResourceDefinition serves, one per served version."""
    return [_custom(crd["spec"], each) for each in crd["spec"]["versions"] if each.get("served")]


def _custom(spec: dict[str, Any], version: dict[str, Any]) -> Resource:
    names, subresources = spec["names"], version.get("subresources") or {}
    scale = subresources.get("scale")
    return Resource(
        spec["group"],
        version["name"],
        names["plural"],
        names["kind"],
        spec.get("scope") == "Namespaced",
        tuple(name for name in SCALED if name in subresources),
        counts_generations=True,
        unconditional_update=False,
        custom=True,
        short_names=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        singular=names.get("singular") or "",
        columns=tuple(
            PrinterColumn(each["name"], each["type"], each["jsonPath"], each.get("priority", 0))
            for each in version.get("additionalPrinterColumns") or ()
        ),
        schema=(version.get("schema") or {}).get("openAPIV3Schema") or {},
        scale=scale
        and ScalePaths(
            scale["specReplicasPath"],
            scale["statusReplicasPath"],
            scale.get("labelSelectorPath") or "",
        ),
    )


class Catalog:
    """The served resources by address. Lookups are one dictionary access."""

    def __init__(self, resources: Iterable[Resource] = BUILT_IN) -> None:
        self._by_address: dict[tuple[str, str, str], Resource] = {}
        for resource in resources:
            self.add(resource)

    def add(self, resource: Resource) -> None:
        """Serve a resource from now on, replacing one at the same address."""
        self._by_address[resource.group, resource.version, resource.plural] = resource

    def withdraw(self, table: str) -> None:
        """Serve no version of this table any more."""
        self._by_address = {
            address: resource
            for address, resource in self._by_address.items()
            if resource.table != table
        }

    def find(self, group: str, version: str, plural: str) -> Resource | None:
        """The resource at this address, if there is one."""
        return self._by_address.get((group, version, plural))

    def __iter__(self) -> Iterator[Resource]:
        return iter(self._by_address.values())
