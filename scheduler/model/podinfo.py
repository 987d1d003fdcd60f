"""A pod with everything a scheduler derives from it, computed once."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice

import msgspec

from scheduler.model.affinity import (
    NO_TERMS,
    AffinityTerms,
    SpreadConstraint,
    affinity_terms,
    bounded_terms,
    spread_constraints,
)
from scheduler.model.derived import derived
from scheduler.model.limits import DEFAULT_LIMITS, PodLimits, excess, rules_of
from scheduler.model.pinning import Pinning, pinning_of
from scheduler.model.pods import Container, Pod
from scheduler.model.resources import (
    CPU,
    DEFAULT_REQUESTS,
    MEMORY,
    AmountError,
    Amounts,
    nonzero_requests,
    pod_requests,
    reports_sizes,
    sizes_reported,
)
from scheduler.model.selectors import (
    NodeMatcher,
    SelectorError,
    WeightedTerm,
    compile_node_selector,
    compile_preferences,
    compile_set,
)
from scheduler.model.sharing import share_spec, share_template
from scheduler.model.volumes import PodVolumes, pod_volumes
from scheduler.slices import checkpoint, paced

_NODE_AFFINITY = "spec.affinity.nodeAffinity"


class HostPort(msgspec.Struct, frozen=True, gc=False):
    """A port of the node that a container claims; ``ip`` 0.0.0.0 claims it on every address."""

    ip: str
    protocol: str
    port: int


ANY_PORT = HostPort("0.0.0.0", "", 0)
"""Stands for further ports that were not counted: it takes all ports of its node."""

_FEW_PARTS = 128
"""So many containers, volumes, tolerations, ports or requests are read at once."""
_FEW_RULES = 8
"""So many constraints, and terms and requirements of affinity, are evaluated at once."""
_ORDINARY_ENTRIES = 16
"""As many tolerations, ports and requests as an ordinary pod has at most."""
_ENTRIES_OF_A_RULE = 3
"""A volume, constraint or term takes as long as so many of them."""


class PodInfo:
    """A pod, its requests, ports and compiled selectors. Never changes; a new version is a new one.

    Derived values are computed when first read, because most pods are only ever accounted for
    and never placed by us. A field that cannot be understood never raises from here: it is listed
    in ``faults`` and counts as absent, so a pod's author can only harm that pod.

    A pod beyond the limits (``excess``) is never placed, so nothing that only placing it asks for
    is compiled. If it is on a node already, its requests count in full; of its host ports, volumes
    and affinity terms as many as the limits allow. Further host ports count as all ports of the
    node, and further required anti-affinity as keeping all pods of its namespaces off the node.
    """

    def __init__(self, pod: Pod, limits: PodLimits = DEFAULT_LIMITS) -> None:
        self.pod = pod
        self.limits = limits
        self.key = pod.metadata.key
        self.uid = pod.metadata.uid or self.key
        self.priority = pod.spec.priority
        self.node_name = pod.spec.node_name
        self._faults: Mapping[str, str] = _NO_FAULTS
        """By the name of what could not be derived."""
        self._shared: Mapping[str, object] = _NOTHING

    def __repr__(self) -> str:
        return f"PodInfo({self.key!r}, node={self.node_name!r})"

    def bound_to(self, node_name: str) -> PodInfo:
        """The same pod as it will be once bound; what was derived already is shared."""
        bound = PodInfo.__new__(PodInfo)  # several times as fast as copy.copy
        bound.__dict__ = self.__dict__.copy()
        bound.node_name = node_name
        return bound

    def renewed(self, pod: Pod) -> PodInfo:
        """A new version of the pod; most updates only bind it or touch status.

        What was derived is shared, except for what the kubelet's word on sizes may change, and
        labels: the API server itself labels a pod with its zone when it is bound.
        """
        node_name, spec = pod.spec.node_name, self.pod.spec
        if node_name != spec.node_name:
            spec = msgspec.structs.replace(spec, node_name=node_name)
        if pod.metadata.uid != self.pod.metadata.uid or pod.spec != spec:
            return PodInfo(pod, self.limits)
        share_spec(pod, spec)
        # Those that wait are kept, by the thousand; the others are soon renewed once more.
        renewed = self.bound_to(node_name) if node_name else self._copy()
        renewed.pod, renewed.node_name = pod, node_name
        if pod.metadata.labels != self.pod.metadata.labels:
            renewed._forget(*_BY_LABELS)
            kept = {name: each for name, each in self._faults.items() if name not in _BY_LABELS}
            renewed._shared, renewed._faults = _NOTHING, kept
        if sizes_reported(pod) != sizes_reported(self.pod):
            renewed._shared = _NOTHING
            renewed._forget("requests", "nonzero")
        return renewed

    def _copy(self) -> PodInfo:
        """A copy with no dictionary of its own, which takes a little longer than `bound_to`."""
        copy = PodInfo.__new__(PodInfo)
        for name, value in self.__dict__.items():
            setattr(copy, name, value)
        return copy

    def _forget(self, *names: str) -> None:
        """Derive these again when they are read."""
        for name in names:
            self.__dict__.pop(name, None)

    def derive_held(self) -> None:
        """Derive what counts on a node now, with checkpoints: for large pods, before any change."""
        checkpoint()
        for name in ("requests", "nonzero", "host_ports", "volumes", "affinity"):
            getattr(self, name)
            checkpoint()

    def derive_compared(self) -> None:
        """Derive what versions of a long pod that waits are compared by, with checkpoints."""
        checkpoint()
        _ = self.requests
        checkpoint()

    @derived
    def long(self) -> bool:
        """Whether it takes some milliseconds to derive all that an attempt asks for."""
        spec = self.pod.spec
        if len(spec.containers) + len(spec.volumes) + len(spec.tolerations) > _FEW_PARTS:
            return True
        if len(spec.topology_spread_constraints) + len(spec.node_selector) > _FEW_RULES:
            return True
        if spec.affinity is not None and rules_of(spec.affinity) > _FEW_RULES:
            return True
        for each in spec.containers:  # of every pod, and `any` takes twice as long
            if len(each.ports) > _FEW_PARTS or len(each.resources.requests) > _FEW_PARTS:
                return True
        return False

    @derived
    def weight(self) -> int:
        """How many ordinary pods could be compared with an event while this one is."""
        spec = self.pod.spec
        rules = len(spec.volumes) + len(spec.topology_spread_constraints)
        if spec.affinity is not None:
            rules += rules_of(spec.affinity)
        entries = len(spec.tolerations) + _ENTRIES_OF_A_RULE * rules
        for each in spec.containers:
            entries += len(each.ports) + len(each.resources.requests)
        return 1 + entries // _ORDINARY_ENTRIES

    def derive_asked(self) -> None:
        """Derive what an attempt asks for, with checkpoints: for long pods, before the attempt."""
        for name in ("excess", "requests", "fit_requests", "score_requests", "nonzero", "pinning"):
            getattr(self, name)
            checkpoint()
        for name in ("host_ports", "images", "volumes", "node_matcher", "node_preferences"):
            getattr(self, name)
            checkpoint()
        for name in ("affinity", "spread", "faults"):
            getattr(self, name)
            checkpoint()

    def adopt(self, twin: PodInfo) -> None:
        """Share what a twin has derived, which differs in nothing but its name.

        Sizes that a kubelet reported are a pod's own: neither of them may have any.
        """
        if not twin._shared:
            known = {name: getattr(twin, name) for name in _DERIVED}
            twin._shared = {**known, "_faults": twin._faults}
        self.__dict__.update(twin._shared)
        share_template(self.pod, twin.pod)

    def adopt_but_claims(self, kin: PodInfo) -> None:
        """Share what another pod has derived that differs in its name and those of its claims.

        Neither may be beyond the limits: how long names are counts towards these.
        """
        volumes = self.volumes
        self.adopt(kin)
        self.volumes = volumes

    def takes_like(self, other: PodInfo) -> bool:
        """Whether both take and ask the same of the same node; their labels may differ."""
        return (
            self.node_name == other.node_name
            and self.requests == other.requests
            and self.nonzero == other.nonzero
            and self.host_ports == other.host_ports
            and self.volumes == other.volumes
            and self.affinity == other.affinity
        )

    @derived
    def excess(self) -> tuple[str, ...]:
        """Everything that is beyond the limits, each text starting with its field."""
        return excess(self.pod, self.limits)

    @derived
    def requests(self) -> Amounts:
        """What the pod takes from its node, including what the kubelet has given it by resizing."""
        if reports_sizes(self.pod):
            return self._requests("requests", use_status=True)
        return self.fit_requests

    @derived
    def fit_requests(self) -> Amounts:
        """What must be free on a node for the pod to fit."""
        return self._requests("fit_requests", use_status=False)

    @derived
    def score_requests(self) -> Amounts:
        """What resource scoring assumes: container sums with defaults for the missing ones."""
        return self._requests(
            "score_requests", use_status=False, pod_level=False, defaults=DEFAULT_REQUESTS
        )

    @derived
    def nonzero(self) -> tuple[int, int]:
        """Milli-CPUs and bytes that scoring books for this pod once it is on a node."""
        if self._asks_for_both():
            return self.requests.get(CPU, 0), self.requests.get(MEMORY, 0)
        try:
            return nonzero_requests(self.pod)
        except AmountError as fault:
            self._fault("nonzero", fault)
            return 0, 0

    def _asks_for_both(self) -> bool:
        """Whether every container asks for CPU and memory, so that nothing has to be assumed."""
        spec = self.pod.spec
        if reports_sizes(self.pod):
            return False
        for each in (*spec.containers, *spec.init_containers):
            if CPU not in each.resources.requests or MEMORY not in each.resources.requests:
                return False
        return bool(spec.containers)

    def _requests(self, name: str, **options: object) -> Amounts:
        try:
            return pod_requests(self.pod, **options)  # type: ignore[arg-type]  # passed through
        except AmountError as fault:
            self._fault(name, fault)
            return {}

    @derived
    def pinning(self) -> Pinning:
        """What a kubelet takes from single NUMA cells for this pod."""
        return pinning_of(self.pod)

    @derived
    def host_ports(self) -> tuple[HostPort, ...]:
        """The node's ports that containers (sidecars included) claim."""
        claimed = (
            HostPort(port.host_ip or "0.0.0.0", port.protocol or "TCP", port.host_port)
            for container in paced((*self._sidecars(), *self.pod.spec.containers))
            for port in paced(container.ports)
            if port.host_port > 0
        )
        ports = tuple(islice(claimed, self.limits.ports))
        more = len(ports) == self.limits.ports and next(claimed, None) is not None
        return (*ports, ANY_PORT) if more else ports

    def _sidecars(self) -> tuple[Container, ...]:
        return tuple(c for c in self.pod.spec.init_containers if c.restart_policy == "Always")

    @derived
    def images(self) -> tuple[str, ...]:
        """Names of all images the pod pulls, with their tags, one entry per use."""
        spec = self.pod.spec
        names = [container.image for container in (*spec.init_containers, *spec.containers)]
        names += [volume.image.reference for volume in spec.volumes if volume.image]
        return tuple(with_tag(name) for name in names)

    @derived
    def volumes(self) -> PodVolumes:
        """The claims and disks that matter for where the pod can run."""
        return pod_volumes(self.pod, self.limits.volumes)

    @derived
    def node_matcher(self) -> NodeMatcher:
        """nodeSelector and required node affinity."""
        if self.excess:
            return _NOWHERE
        affinity = self.pod.spec.affinity
        required = affinity.node_affinity.required if affinity and affinity.node_affinity else None
        try:
            terms = compile_node_selector(
                required, f"{_NODE_AFFINITY}.requiredDuringSchedulingIgnoredDuringExecution"
            )
        except SelectorError as fault:
            self._fault("node_matcher", fault)
            terms = ()
        return NodeMatcher(compile_set(self.pod.spec.node_selector), terms)

    @derived
    def node_preferences(self) -> tuple[WeightedTerm, ...]:
        """Preferred node affinity terms that can add to a score."""
        if self.excess:
            return ()
        affinity = self.pod.spec.affinity
        preferred = affinity.node_affinity.preferred if affinity and affinity.node_affinity else ()
        try:
            return compile_preferences(
                preferred, f"{_NODE_AFFINITY}.preferredDuringSchedulingIgnoredDuringExecution"
            )
        except SelectorError as fault:
            self._fault("node_preferences", fault)
            return ()

    @derived
    def affinity(self) -> AffinityTerms:
        """Inter-pod affinity and anti-affinity terms."""
        try:
            if self.excess:
                return bounded_terms(
                    self.pod, self.limits.pod_affinity_terms, self.limits.selector_entries
                )
            return affinity_terms(self.pod)
        except SelectorError as fault:
            self._fault("affinity", fault)
            return NO_TERMS

    @derived
    def spread(self) -> tuple[SpreadConstraint, ...]:
        """The pod's own topology spread constraints."""
        if self.excess:
            return ()
        try:
            return spread_constraints(self.pod)
        except SelectorError as fault:
            self._fault("spread", fault)
            return ()

    @derived
    def faults(self) -> tuple[str, ...]:
        """Everything in the spec that cannot be understood, each text starting with its field.

        What is too long is not even read. The order does not depend on what was read before.
        """
        if self.excess:
            return self.excess
        for name in _SAID:
            getattr(self, name)
        found = [self._faults[name] for name in _SAID if name in self._faults]
        if not self.pod.spec.containers:
            found.append("spec.containers: missing")
        return tuple(dict.fromkeys(found))

    def _fault(self, name: str, fault: Exception) -> None:
        self._faults = {**self._faults, name: str(fault)}


_SAID = ("fit_requests", "score_requests", "node_matcher", "node_preferences", "affinity", "spread")
"""What is derived from the spec alone; what of it cannot be derived is said in this order."""
_BY_LABELS = ("excess", "faults", "node_matcher", "node_preferences", "affinity", "spread")
"""What depends on labels: they count towards the limits, and pods beyond these match nowhere."""
_NOTHING: Mapping[str, object] = {}
_NO_FAULTS: Mapping[str, str] = {}
_NOWHERE = NodeMatcher(terms=())
_DERIVED = {name for name, value in vars(PodInfo).items() if isinstance(value, derived)}


def _learn_names() -> None:
    """Have the first of all pods derive everything.

    Objects of a class share one table of the names of their attributes, but only of those that the
    first few objects have had. Else each pod that adopts what was derived has a table of its own.
    """
    first = PodInfo(Pod())
    for name in sorted(_DERIVED):
        getattr(first, name)


_learn_names()


def with_tag(image: str) -> str:
    """An image name as nodes report it: without a tag it is ``:latest``."""
    return image if image.rfind(":") > image.rfind("/") else f"{image}:latest"
