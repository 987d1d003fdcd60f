"""Nodes with cells, pods that are pinned, and a scheduler that watches both."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Self

from scheduler.config.schema import KUBE_API_VERSION, KUBE_KIND
from scheduler.model.nodes import NodeResourceTopology
from scheduler.model.objects import from_dict
from scheduler.model.status import Status
from scheduler.numa.cell_cache import ReserveCache
from scheduler.numa.fingerprint import fingerprint
from scheduler.numa.ledger import Ledger
from scheduler.numa.plugin import NodeResourceTopologyMatch
from scheduler.numa.topology import Topology, topology_of
from scheduler.pipeline.evaluation import evaluate
from scheduler.plugin_api.cycle import Cycle
from tests.builders import Json, NodeBuilder, PodBuilder, Quantity, make_node, make_pod
from tests.pipeline.support import Change, Stage

PLUGIN = "NodeResourceTopologyMatch"
GIB = 2**30


class TopologyBuilder:
    """A NodeResourceTopology, cell by cell."""

    def __init__(self, name: str, policy: str, scope: str) -> None:
        self.name = name
        self._attributes = {"topologyManagerPolicy": policy, "topologyManagerScope": scope}
        self.zones: list[Json] = []
        self._annotations: dict[str, str] = {}
        self._version = 1

    def cell(
        self, cpu: Quantity, memory: Quantity = "64Gi", /, of: Quantity = 16, **more: Any
    ) -> Self:
        """A cell with so much available, of so many CPUs; ``gpu=(1, 2)``: one of two."""
        resources = {"cpu": (cpu, of), "memory": (memory, "64Gi")}
        resources |= {f"example.com/{name}": amounts for name, amounts in more.items()}
        return self.zone(f"node-{len(self.zones)}", resources)

    def zone(self, name: str, resources: Mapping[str, tuple[Any, Any]], kind: str = "Node") -> Self:
        """A zone; each resource with what is available, and what there is."""
        listed = [
            {"name": each, "capacity": all_, "allocatable": all_, "available": available}
            for each, (available, all_) in resources.items()
        ]
        self.zones.append({"name": name, "type": kind, "resources": listed})
        return self

    def attribute(self, name: str, value: str) -> Self:
        self._attributes[name] = value
        return self

    def annotate(self, key: str, value: str) -> Self:
        self._annotations[key] = value
        return self

    def knows(self, *pods: str | PodBuilder) -> Self:
        """Signed for these pods, and no others."""
        names = [("default", p) if isinstance(p, str) else _name(p) for p in pods]
        return self.attribute("nodeTopologyPodsFingerprint", fingerprint(names))

    def version(self, number: int) -> Self:
        self._version = number
        return self

    def obj(self) -> Json:
        return {
            "apiVersion": "topology.node.k8s.io/v1alpha2",
            "kind": "NodeResourceTopology",
            "metadata": {
                "name": self.name,
                "resourceVersion": str(self._version),
                "annotations": self._annotations,
            },
            "attributes": [{"name": n, "value": v} for n, v in self._attributes.items()],
            "zones": self.zones,
        }

    def struct(self) -> NodeResourceTopology:
        return from_dict(self.obj(), NodeResourceTopology)

    def read(self) -> Topology:
        return topology_of(self.struct())


def _name(pod: PodBuilder) -> tuple[str, str]:
    metadata = pod.obj()["metadata"]
    return metadata["namespace"], metadata["name"]


def make_topology(
    name: str = "n1", policy: str = "single-numa-node", scope: str = "container"
) -> TopologyBuilder:
    return TopologyBuilder(name, policy, scope)


def pinned(name: str, cpu: Quantity = 1, memory: Quantity = "1Gi", **devices: int) -> PodBuilder:
    """A Guaranteed pod with one container."""
    amounts = _amounts(cpu, memory, devices)
    pod = make_pod(name).no_containers()
    return with_container(pod, amounts)


def with_container(pod: PodBuilder, amounts: Mapping[str, Quantity], **more: Any) -> PodBuilder:
    """One more container whose limits are its requests; ``init`` or ``sidecar``: one of those."""
    body = pod.obj()["spec"]
    kind = "initContainers" if more else "containers"
    restart = {"restartPolicy": "Always"} if more.get("sidecar") else {}
    listed = body.get(kind, [])
    name = f"{kind[0]}{len(listed)}"
    resources = {"requests": dict(amounts), "limits": dict(amounts)}
    return pod.spec(**{kind: [*listed, {"name": name, "resources": resources, **restart}]})


def _amounts(cpu: Quantity, memory: Quantity, devices: Mapping[str, int]) -> dict[str, Quantity]:
    return {"cpu": cpu, "memory": memory} | {f"example.com/{n}": a for n, a in devices.items()}


def config(**args: Any) -> Json:
    """The default profile with our plugin."""
    return {
        "apiVersion": KUBE_API_VERSION,
        "kind": KUBE_KIND,
        "profiles": [
            {
                "plugins": {"multiPoint": {"enabled": [{"name": PLUGIN, "weight": 1}]}},
                "pluginConfig": [{"name": PLUGIN, "args": args}],
            }
        ],
    }


class Numa:
    """A core with the plugin, fed by hand."""

    def __init__(self, *, reserve: bool = True, **args: Any) -> None:
        period = {"cacheResyncPeriodSeconds": 5} if reserve else {}
        self.stage = Stage(config=(config(**period, **args),))
        self.state = self.stage.core.state
        self._published: dict[str, NodeResourceTopology] = {}

    @property
    def plugin(self) -> NodeResourceTopologyMatch:
        plugin = self.stage.core.frameworks["equipoise"].plugins[PLUGIN]
        assert isinstance(plugin, NodeResourceTopologyMatch)
        return plugin

    @property
    def cache(self) -> ReserveCache:
        cache = self.plugin.cache
        assert isinstance(cache, ReserveCache)
        return cache

    def ledger(self, node: str = "n1") -> Ledger:
        ledger = self.cache.ledger(node)
        assert ledger is not None
        return ledger

    def nodes(self, *names: str, cpu: Quantity = 64, memory: Quantity = "512Gi") -> Self:
        for name in names:
            self.stage.see(large_node(name, cpu, memory))
        return self

    def publish(self, *topologies: TopologyBuilder) -> Self:
        """The watch reports an object."""
        for builder in topologies:
            new = builder.struct()
            old = self._published.get(builder.name)
            handle = self.stage.core.event_handlers.handler("NodeResourceTopology")
            handle([Change(old, new)])
            self._published[builder.name] = new
        return self

    def unpublish(self, name: str) -> None:
        handle = self.stage.core.event_handlers.handler("NodeResourceTopology")
        handle([Change(self._published.pop(name), None)])

    def see(self, *pods: PodBuilder) -> Self:
        self.stage.see(*pods)
        return self

    def lose(self, *pods: PodBuilder) -> Self:
        self.stage.lose(*pods)
        return self

    def verdict(self, pod: PodBuilder, node: str = "n1") -> Status:
        """What the filters say of a node now."""
        framework = self.stage.core.frameworks["equipoise"]
        cycle, row = Cycle(pod.info(), self.state), self.state.row(node)
        assert row is not None
        diagnosis = evaluate(framework, cycle).diagnosis()
        (at,) = (diagnosis.rows == row).nonzero()
        return self.state.statuses.status(int(diagnosis.codes[at[0]]))

    def fits(self, pod: PodBuilder, node: str = "n1") -> bool:
        return self.verdict(pod, node).ok

    def assume(self, *pods: PodBuilder, node: str = "n1") -> Self:
        """Chosen by us, and not yet bound."""
        for pod in pods:
            self.state.assume(pod.info(), node)
        return self

    def runs(self, *pods: PodBuilder, node: str = "n1") -> Self:
        """The watch reports pods that the kubelet has taken."""
        return self.see(*(pod.on(node).phase("Running") for pod in pods))


def large_node(name: str, cpu: Quantity, memory: Quantity) -> NodeBuilder:
    node = make_node(name).offer("cpu", cpu).offer("memory", memory)
    for device in ("gpu", "nic"):
        node.offer(f"example.com/{device}", 64)
    return node


def fits_where(numa: Numa, pod: PodBuilder, nodes: Iterable[str]) -> list[str]:
    return [node for node in nodes if numa.fits(pod, node)]
