"""Other names for everything in a snapshot: who got it can simulate, and recognise nothing.

Every text is replaced unless its place or its kind is listed here as one that says nothing about
its owner: kinds, operators, phases, amounts, what Kubernetes itself names. Equal texts get equal
names, so selectors still match what they matched. A name is a keyed hash; the key is made anew for
each snapshot and thrown away, so names cannot be guessed and compared.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from scheduler.cli.workloads import Body
from scheduler.model.csi_migration import BETA_ZONE, ZONE, ZONE_SEPARATOR

_DIGITS = 15

_KEPT_FIELDS = frozenset(
    {
        *("apiVersion", "kind", "operator", "effect", "phase", "type", "status", "protocol"),
        *("whenUnsatisfiable", "nodeAffinityPolicy", "nodeTaintsPolicy", "preemptionPolicy"),
        *("restartPolicy", "action", "volumeMode", "accessModes", "volumeBindingMode"),
        *("completionMode", "creationTimestamp", "deletionTimestamp", "startTime"),
        *("scheduleStartTime", "topologyPolicies", "schedulerName", "declaredFeatures"),
        *("capacity", "allocatable", "available", "maximumVolumeSize"),
        *("completedIndexes", "provisioner", "driver", "attacher"),
        *("expression", "allocationMode", "matchAttribute", "distinctAttribute", "resource"),
        *("version", "versions", "source", "allocationTimestamp", "apiGroup"),
    }
)
"""Members whose values are words of Kubernetes, amounts or times."""
_AMOUNTS = frozenset(
    {
        "requests",
        "limits",
        "allocatable",
        "capacity",
        "overhead",
        "minResources",
        "allocatedResources",
    }
)
"""Members that map resources to amounts."""
_MEASURED = frozenset({"capacity", "counters", "consumedCapacity"})
"""Amounts of devices, by names that expressions read."""
_REQUESTS = frozenset({"request", "requests"})
"""Requests of a claim, by name; one of several alternatives is ``request/alternative``."""
_CELLS = frozenset({"zones", "costs"})
"""Members that hold the cells of a node, by name."""
_NAMES = frozenset({"name", "parent"})
"""Members that name what holds them, and the cell around that."""
_OF_KUBELETS = "topologyManager"
"""How attributes of a NodeResourceTopology begin that say how the kubelet is configured."""
_CLASS_RESOURCE = "deviceclass.resource.kubernetes.io/"
"""Before the name of a DeviceClass in the name of the resource that it serves implicitly."""
_DROPPED = frozenset({"message"})
_FINGERPRINTS = frozenset({"topology.node.k8s.io/fingerprint", "nodeTopologyPodsFingerprint"})
"""Hashes of the names of a node's pods; they match no anonymised names."""
_KEYS_REPLACED = frozenset({"labels", "matchLabels", "nodeSelector", "selector", "annotations"})
"""Members that map keys of labels to values."""
_WELL_KNOWN = re.compile(
    r"^([a-z0-9.-]+\.)?(kubernetes\.io|(x-)?k8s\.io|equipoise\.dev)/"
    r"|^(pod-template-hash|controller-revision-hash|job-name)$"
)
_ROLE = "node-role.kubernetes.io/"
_ROLES = frozenset({"control-plane", "master", "worker", "node", "etcd", "infra"})
"""The roles of nodes that installers give; others are named by owners."""
_NUMBER = re.compile(r"^[+-]?[0-9]{1,9}$")
"""Longer ones are numbers of accounts and the like, unless some pod compares them."""
_LONG_NUMBER = re.compile(r"^[+-]?[0-9]+$")
_COMPARING = ("Gt", "Lt")
_GROUP_OF_KUBERNETES = re.compile(r"^(v1|[a-z]+/v[0-9a-z]+|([a-z0-9.-]+\.)?(x-)?k8s\.io/.*)$")
_WORDS = frozenset(
    {
        "metadata.name",
        "0.0.0.0",
        "::",
        "127.0.0.1",
        "",
        "yes",
        "true",
        "false",
        "amd64",
        "arm64",
        "linux",
        "windows",
        "default",
    }
)
_CONDITIONS = frozenset(
    {
        *("Ready", "MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable"),
        *("PodScheduled", "Initialized", "ContainersReady", "PodReadyToStartContainers"),
        *("DisruptionTarget", "PodResizePending", "PodResizeInProgress"),
        *("Complete", "Failed", "Suspended", "FailureTarget", "SuccessCriteriaMet"),
        *("Unschedulable", "SchedulingGated", "PreemptionByScheduler", "TerminationByKubelet"),
        *("EvictionByEvictionAPI", "DeletionByTaintManager", "DeletionByPodGC", "Evicted"),
        *("NodeLost", "Deferred", "Infeasible", "OutOfcpu", "OutOfmemory", "OutOfpods"),
        *("KubeletReady", "KubeletNotReady", "NodeStatusUnknown", "NodeStatusNeverUpdated"),
        *("KubeletHasSufficientMemory", "KubeletHasNoDiskPressure", "KubeletHasSufficientPID"),
        *("KubeletHasInsufficientMemory", "KubeletHasDiskPressure", "NodeAffinity"),
    }
)
"""Types and reasons of conditions that Kubernetes writes; operators write their own."""
_IMAGES = frozenset({"image", "names", "reference"})
_CELL = re.compile(r"^node-[0-9]+$")
"""Cells are numbered, and their costs name each other."""
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class Anonymiser:
    """Gives each text one other name."""

    def __init__(self, objects: Iterable[Body], key: bytes | None = None) -> None:
        self._key = key or secrets.token_bytes(32)
        self._known: dict[str, str] = {}
        objects = list(objects)
        self._read = {word for text in _expressions(objects) for word in _IDENTIFIER.findall(text)}
        """What expressions name: whatever may be an attribute that they read."""
        self._keep_compared(objects)
        self._keep_compositions(objects)

    def object(self, body: Body) -> Body:
        """The object with other names."""
        result: Body = self._value(body, "")
        if body["kind"] == "CSIDriver":
            result["metadata"]["name"] = body["metadata"]["name"]
        return result

    def name(self, text: str) -> str:
        """Another name, of letters and digits, valid wherever the text was.

        A domain and the name after its slash are replaced each by itself.
        """
        if text in _WORDS or _NUMBER.match(text):
            return text
        if text.startswith(_CLASS_RESOURCE):
            return _CLASS_RESOURCE + self.name(text.removeprefix(_CLASS_RESOURCE))
        if _WELL_KNOWN.match(text):
            role = text.removeprefix(_ROLE)
            return text if role == text or role in _ROLES else _ROLE + self._digest(role)
        known = self._known.get(text)
        if known is None:
            if ZONE_SEPARATOR in text:
                return ZONE_SEPARATOR.join(map(self.name, text.split(ZONE_SEPARATOR)))
            domain, slash, rest = text.rpartition("/")
            front = f"{self._digest(domain)}.example/" if slash else ""
            known = self._known[text] = front + self._digest(rest)
        return known

    def _keep_compared(self, objects: Sequence[Body]) -> None:
        """Numbers that a pod compares (``Gt``, ``Lt``) stay, as do labels of such a key."""
        compared = [each for each in _requirements(objects) if each.get("operator") in _COMPARING]
        keys = {each.get("key") for each in compared}
        texts = [str(value) for each in compared for value in each.get("values") or ()]
        for body in objects if keys else ():
            labels = body["metadata"].get("labels", {})
            texts += [str(labels[key]) for key in keys & labels.keys()]
        self._known |= {text: text for text in texts if _LONG_NUMBER.match(text)}

    def _keep_compositions(self, objects: Sequence[Body]) -> None:
        """Names that are made of others stay so: of a StatefulSet's pods, and of their claims."""
        for body in objects:
            self._keep_zones(body["metadata"].get("labels", {}))
            if body["kind"] != "Pod":
                continue
            name = body["metadata"]["name"]
            for owner in body["metadata"].get("ownerReferences", ()):
                stem, _, ordinal = name.rpartition("-")
                if owner.get("kind") == "StatefulSet" and stem == owner.get("name"):
                    self._known[name] = f"{self.name(stem)}-{ordinal}"
            for volume in body.get("spec", {}).get("volumes", ()):
                if "ephemeral" in volume:
                    made = f"{name}-{volume['name']}"
                    self._known[made] = f"{self.name(name)}-{self.name(volume['name'])}"
                claim = volume.get("persistentVolumeClaim", {}).get("claimName", "")
                if claim.endswith(f"-{name}"):
                    template = claim.removesuffix(f"-{name}")
                    self._known[claim] = f"{self.name(template)}-{self.name(name)}"

    def _keep_zones(self, labels: Mapping[str, str]) -> None:
        """The region can be read from the name of a zone, such as europe-west1-b."""
        for label in (ZONE, BETA_ZONE):
            for zone in labels.get(label, "").split(ZONE_SEPARATOR):
                if zone.count("-") == 2:
                    self._known[zone] = "-".join(map(self._digest, zone.split("-")))

    def _value(self, value: Any, field: str) -> Any:
        if field in _KEPT_FIELDS and not isinstance(value, Mapping):
            return value
        if field == "reason" and value in _CONDITIONS:
            return value
        if isinstance(value, Mapping):
            return self._mapping(value, field)
        if isinstance(value, list | tuple):
            return [self._value(each, field) for each in value if not _is_fingerprint(each)]
        if not isinstance(value, str):
            return value
        if field in _REQUESTS:
            return "/".join(map(self.name, value.split("/")))
        return self._image(value) if field in _IMAGES else self.name(value)

    def _mapping(self, value: Mapping[str, Any], field: str) -> dict[str, Any]:
        plain = all(isinstance(each, str | int | float) for each in value.values())
        if field in _AMOUNTS and plain:
            return {self._resource(name): amount for name, amount in value.items()}
        if field in _MEASURED:
            return dict(value)
        if field == "attributes" and plain and str(value.get("name", "")).startswith(_OF_KUBELETS):
            return dict(value)
        if field == "attributes" and not plain:
            return {name: self._attribute(name, each) for name, each in value.items()}
        if field in _KEYS_REPLACED and plain:
            kept = {key: each for key, each in value.items() if key not in _FINGERPRINTS}
            return {self.name(key): self._value(each, "") for key, each in kept.items()}
        if (field == "ownerReferences" and _foreign(value)) or (
            field == "reservedFor" and _foreign_consumer(value)
        ):
            return {key: self._name_or_value(each) for key, each in value.items()}
        if field == "conditions" and value.get("type") not in _CONDITIONS:
            value = {**value, "type": self.name(str(value.get("type", "")))}
        if field == "disruptedPods":
            return {self.name(pod): each for pod, each in value.items()}
        return {
            key: self._member(value, field, each) if key in _NAMES else self._value(each, key)
            for key, each in value.items()
            if key not in _DROPPED
        }

    def _name_or_value(self, value: Any) -> Any:
        return self.name(value) if isinstance(value, str) else value

    def _attribute(self, name: str, value: Any) -> Any:
        """An attribute of a device: as it is if an expression may read it, for it may do anything
        with the text."""
        return value if name.rpartition("/")[2] in self._read else self._value(value, "")

    def _member(self, holder: Mapping[str, Any], field: str, name: Any) -> Any:
        """A name: of a cell's resource, a cell or what is around it, a CSI driver, or any other."""
        if "available" in holder or ("allocatable" in holder and "nodeID" not in holder):
            return self._resource(str(name))
        if "nodeID" in holder or (field in _CELLS and _CELL.match(str(name))):
            return name
        return self._value(name, "")

    def _resource(self, name: str) -> str:
        """A resource; those of Kubernetes keep their names."""
        return self.name(name) if "/" in name else name

    def _image(self, text: str) -> str:
        """An image: repository and tag each by itself, for a missing tag means ``latest``."""
        repository, at, digest = text.partition("@")
        path, slash, last = repository.rpartition("/")
        base, colon, tag = last.partition(":")
        front = f"{self._digest(path)}.example/" if slash else ""
        tag = tag if tag == "latest" else tag and self._digest(tag)
        # A colon has to stay: an image without one is taken to be of the tag ``latest``.
        exact = at and f"@sha256:{self._digest(digest)}"
        return front + self._digest(base) + colon + tag + exact

    def _digest(self, text: str) -> str:
        digest = hashlib.blake2b(text.encode(), key=self._key, digest_size=16).hexdigest()
        return "x" + digest[:_DIGITS]


def _requirements(value: Any) -> Iterator[Mapping[str, Any]]:
    """Everything that has an operator."""
    if isinstance(value, Mapping):
        if "operator" in value:
            yield value
        value = value.values()
    elif not isinstance(value, list | tuple):
        return
    for each in value:
        yield from _requirements(each)


def _expressions(value: Any) -> Iterator[str]:
    """Every expression that chooses devices."""
    if isinstance(value, Mapping):
        if isinstance(found := value.get("expression"), str):
            yield found
        value = value.values()
    elif not isinstance(value, list | tuple):
        return
    for each in value:
        yield from _expressions(each)


def _foreign(owner: Mapping[str, Any]) -> bool:
    """Whether an owner is of a kind that Kubernetes does not have."""
    return _GROUP_OF_KUBERNETES.match(str(owner.get("apiVersion") or "v1")) is None


def _foreign_consumer(consumer: Mapping[str, Any]) -> bool:
    """Whether what a claim is reserved for is of a kind that Kubernetes does not have."""
    group = consumer.get("apiGroup")
    return bool(group) and _foreign({"apiVersion": f"{group}/v1"})


def _is_fingerprint(value: Any) -> bool:
    return isinstance(value, Mapping) and value.get("name") in _FINGERPRINTS


def anonymised(objects: Sequence[Body], key: bytes | None = None) -> list[Body]:
    """All objects with other names."""
    anonymiser = Anonymiser(objects, key)
    return [anonymiser.object(body) for body in objects]
