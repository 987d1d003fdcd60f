"""Pods and nodes for tests, said in one line: ``make_pod("a").cpu("250m").label(app="x").obj()``.

A builder collects plain API JSON. ``obj()`` gives it as a dict, as the API server would send it,
``struct()`` as the scheduler decodes it, and ``info()`` (pods only) with all that is derived.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any, Self

from scheduler.config.defaults import SCHEDULER_NAME
from scheduler.model.nodes import Node
from scheduler.model.objects import from_dict
from scheduler.model.podinfo import PodInfo
from scheduler.model.pods import Pod

Json = dict[str, Any]
Quantity = str | int | float


class _Builder:
    """What pods and nodes share: metadata."""

    def __init__(self, kind: str, metadata: Json) -> None:
        self._raw: Json = {"apiVersion": "v1", "kind": kind, "metadata": metadata}
        self._spec: Json = self._raw.setdefault("spec", {})
        self._status: Json = self._raw.setdefault("status", {})

    def obj(self) -> Json:
        """The object as API JSON, independent of what is built on from here."""
        return copy.deepcopy(self._raw)

    def label(self, **labels: str) -> Self:
        self._raw["metadata"].setdefault("labels", {}).update(labels)
        return self

    def version(self, resource_version: int) -> Self:
        self._raw["metadata"]["resourceVersion"] = str(resource_version)
        return self

    def meta(self, **fields: Any) -> Self:
        """Fields of the metadata, as the API names them."""
        self._raw["metadata"] |= fields
        return self

    def spec(self, **fields: Any) -> Self:
        """Fields of the spec, as the API names them."""
        self._spec |= fields
        return self

    def status(self, **fields: Any) -> Self:
        """Fields of the status, as the API names them."""
        self._status |= fields
        return self


class PodBuilder(_Builder):
    """A pod with one container, which waits for our scheduler unless told otherwise."""

    def __init__(self, name: str, namespace: str) -> None:
        super().__init__("Pod", {"name": name, "namespace": namespace, "uid": f"uid-{name}"})
        self._spec |= {"schedulerName": SCHEDULER_NAME, "containers": [{"name": "main"}]}

    def struct(self) -> Pod:
        return from_dict(self.obj(), Pod)

    def info(self) -> PodInfo:
        return PodInfo(self.struct())

    def uid(self, uid: str) -> Self:
        self._raw["metadata"]["uid"] = uid
        return self

    def scheduler(self, name: str) -> Self:
        self._spec["schedulerName"] = name
        return self

    def priority(self, priority: int) -> Self:
        self._spec["priority"] = priority
        return self

    def on(self, node: str) -> Self:
        self._spec["nodeName"] = node
        return self

    def phase(self, phase: str) -> Self:
        self._status["phase"] = phase
        return self

    def owner(self, kind: str, name: str, version: str = "apps/v1") -> Self:
        """The controller that made the pod."""
        reference = {"apiVersion": version, "kind": kind, "name": name, "controller": True}
        self._raw["metadata"].setdefault("ownerReferences", []).append(reference)
        return self

    def deleting(self) -> Self:
        self._raw["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        return self

    def gate(self, name: str) -> Self:
        self._spec.setdefault("schedulingGates", []).append({"name": name})
        return self

    # What it needs

    def request(self, resource: str, amount: Quantity) -> Self:
        """A request of the first container."""
        main = self._spec["containers"][0]
        main.setdefault("resources", {}).setdefault("requests", {})[resource] = amount
        return self

    def cpu(self, amount: Quantity) -> Self:
        return self.request("cpu", amount)

    def memory(self, amount: Quantity) -> Self:
        return self.request("memory", amount)

    def image(self, image: str) -> Self:
        self._spec["containers"][0]["image"] = image
        return self

    def host_port(self, port: int, protocol: str = "TCP", ip: str = "") -> Self:
        wanted = {"hostPort": port, "containerPort": port, "protocol": protocol, "hostIP": ip}
        self._spec["containers"][0].setdefault("ports", []).append(wanted)
        return self

    def container(self, requests: Mapping[str, Quantity], image: str = "") -> Self:
        """One more container."""
        self._add("containers", requests, image, {})
        return self

    def init_container(self, requests: Mapping[str, Quantity], image: str = "") -> Self:
        self._add("initContainers", requests, image, {})
        return self

    def sidecar(self, requests: Mapping[str, Quantity], image: str = "") -> Self:
        self._add("initContainers", requests, image, {"restartPolicy": "Always"})
        return self

    def no_containers(self) -> Self:
        self._spec["containers"] = []
        return self

    def overhead(self, **amounts: Quantity) -> Self:
        self._spec["overhead"] = amounts
        return self

    def pod_level(self, requests: Mapping[str, Quantity]) -> Self:
        self._spec["resources"] = {"requests": dict(requests)}
        return self

    def _add(self, kind: str, requests: Mapping[str, Quantity], image: str, more: Json) -> None:
        containers = self._spec.setdefault(kind, [])
        name = f"{'c' if kind == 'containers' else 'i'}{len(containers)}"
        resources = {"requests": dict(requests)}
        containers.append({"name": name, "image": image, "resources": resources, **more})

    # Where it may go

    def toleration(
        self, key: str = "", operator: str = "", value: str = "", effect: str = ""
    ) -> Self:
        toleration = {"key": key, "operator": operator, "value": value, "effect": effect}
        self._spec.setdefault("tolerations", []).append(toleration)
        return self

    def node_selector(self, **labels: str) -> Self:
        self._spec.setdefault("nodeSelector", {}).update(labels)
        return self

    def required(self, *terms: Json) -> Self:
        """Required node affinity: any one of the terms, each made by ``term``."""
        self._affinity()["requiredDuringSchedulingIgnoredDuringExecution"] = {
            "nodeSelectorTerms": list(terms)
        }
        return self

    def preferred(self, weight: int, term: Json) -> Self:
        preferences = self._affinity().setdefault(
            "preferredDuringSchedulingIgnoredDuringExecution", []
        )
        preferences.append({"weight": weight, "preference": term})
        return self

    def spread(self, *constraints: Json) -> Self:
        """Topology spread constraints, each made by ``constraint``."""
        self._spec.setdefault("topologySpreadConstraints", []).extend(constraints)
        return self

    def near(self, *terms: Json) -> Self:
        """Required pod affinity: all of the terms, each made by ``pod_term``."""
        self._pod_rules("podAffinity", "required").extend(terms)
        return self

    def apart(self, *terms: Json) -> Self:
        """Required pod anti-affinity."""
        self._pod_rules("podAntiAffinity", "required").extend(terms)
        return self

    def rather_near(self, weight: int, term: Json) -> Self:
        """A preferred pod affinity term."""
        preferred = self._pod_rules("podAffinity", "preferred")
        preferred.append({"weight": weight, "podAffinityTerm": term})
        return self

    def rather_apart(self, weight: int, term: Json) -> Self:
        """A preferred pod anti-affinity term."""
        preferred = self._pod_rules("podAntiAffinity", "preferred")
        preferred.append({"weight": weight, "podAffinityTerm": term})
        return self

    def _pod_rules(self, kind: str, strength: str) -> list[Json]:
        affinity: Json = self._spec.setdefault("affinity", {})
        rules: list[Json] = affinity.setdefault(kind, {}).setdefault(
            f"{strength}DuringSchedulingIgnoredDuringExecution", []
        )
        return rules

    def _affinity(self) -> Json:
        affinity: Json = self._spec.setdefault("affinity", {})
        node_affinity: Json = affinity.setdefault("nodeAffinity", {})
        return node_affinity


class NodeBuilder(_Builder):
    """A node with room for 110 pods and nothing else, unless told otherwise."""

    def __init__(self, name: str) -> None:
        super().__init__("Node", {"name": name})
        self._status["allocatable"] = {"pods": "110"}

    def struct(self) -> Node:
        return from_dict(self.obj(), Node)

    def offer(self, resource: str, amount: Quantity) -> Self:
        """Allocatable amount of a resource."""
        self._status["allocatable"][resource] = amount
        return self

    def cpu(self, amount: Quantity) -> Self:
        return self.offer("cpu", amount)

    def memory(self, amount: Quantity) -> Self:
        return self.offer("memory", amount)

    def pods(self, limit: Quantity) -> Self:
        return self.offer("pods", limit)

    def taint(self, key: str, value: str = "", effect: str = "NoSchedule") -> Self:
        taint = {"key": key, "value": value, "effect": effect}
        self._spec.setdefault("taints", []).append(taint)
        return self

    def cordoned(self) -> Self:
        self._spec["unschedulable"] = True
        return self

    def image(self, *names: str, size: int) -> Self:
        image = {"names": list(names), "sizeBytes": size}
        self._status.setdefault("images", []).append(image)
        return self


def make_pod(name: str, namespace: str = "default") -> PodBuilder:
    """A pod that asks for nothing."""
    return PodBuilder(name, namespace)


def make_node(name: str) -> NodeBuilder:
    """A node that offers nothing but room for pods."""
    return NodeBuilder(name)


def make_worker(name: str) -> NodeBuilder:
    """An ordinary node: 4 CPUs, 16 GiB."""
    return NodeBuilder(name).cpu("4").memory("16Gi")


def requirement(key: str, operator: str, *values: str) -> Json:
    """A node selector requirement."""
    return {"key": key, "operator": operator, "values": list(values)}


def term(*expressions: Json, fields: tuple[Json, ...] = ()) -> Json:
    """A node selector term: requirements on labels, and on fields."""
    return {"matchExpressions": list(expressions), "matchFields": list(fields)}


def pod_term(topology_key: str, labels: Mapping[str, str] | None = None, **fields: Any) -> Json:
    """A pod affinity term: pods with these labels, and other fields as the API names them."""
    selector = {} if labels is None else {"labelSelector": {"matchLabels": dict(labels)}}
    return {"topologyKey": topology_key, **selector, **fields}


def constraint(key: str, max_skew: int = 1, *, hard: bool = True, **fields: Any) -> Json:
    """A topology spread constraint; more fields as the API names them."""
    action = "DoNotSchedule" if hard else "ScheduleAnyway"
    return {"topologyKey": key, "maxSkew": max_skew, "whenUnsatisfiable": action, **fields}
