"""Nodes and what runs on them: kubelets, agents that publish NRTs, drivers, the other scheduler."""

from __future__ import annotations

import asyncio
import copy
from collections import defaultdict
from collections.abc import Callable, Coroutine
from functools import singledispatchmethod
from random import Random

from sandbox.errors import ApiFailure
from sandbox.kubelets import Kubelets
from sandbox.numa.tasks import NumaNodes
from sandbox.patching import MERGE
from sandbox.registry import Registry
from sandbox.store import Body, Key
from tests.sim import objects
from tests.sim.invariants import allocatable, ended, requests, takes
from tests.sim.plan import (
    AddNode,
    ContradictSlice,
    ContradictTopology,
    CordonNode,
    DropSlice,
    DropTopology,
    FailPod,
    FlapNode,
    GroundAction,
    NodePlan,
    PauseForeign,
    PauseKubelets,
    PauseTopologies,
    RemoveNode,
    ResizeNode,
    ShrinkSlice,
    TaintNode,
)

START_SECONDS, STOP_SECONDS = 0.3, 0.5
PUBLISH_SECONDS = 5.0
ORPHANED_SECONDS = 5.0
"""How long pods of a node that is gone stay, until the pod garbage collector deletes them."""
_FOREVER = 1e6
_CELL_AMOUNT = "1000"


class Ground:
    """Performs what happens on nodes; `start` it in a task of the world's host."""

    def __init__(self, registry: Registry, nodes: tuple[NodePlan, ...], rng: Random) -> None:
        self._registry = registry
        self._nodes = registry.builtin("nodes")
        self._pods = registry.builtin("pods")
        self._slices = registry.builtin("resourceslices", "resource.k8s.io")
        kubelets = [objects.kubelet(node) for node in nodes if node.cells]
        self._cells = NumaNodes(registry, kubelets)
        self._kubelets: Kubelets | None = None
        self._publishing = asyncio.Event()
        self._publishing.set()
        self.foreign = ForeignScheduler(registry, {n.name for n in nodes if n.shared}, rng)
        self._tasks: set[asyncio.Task[None]] = set()
        for node in nodes:
            self._join(node)

    async def start(self, *, foreign: bool) -> None:
        """Let kubelets and agents begin, and the other scheduler if it has something to do."""
        await self._start_kubelets()
        if self._cells.kubelets:
            self._later(0.0, self._publish_all)
        if foreign:
            self._keep(self.foreign.run())

    async def _start_kubelets(self) -> None:
        self._kubelets = Kubelets(
            self._registry,
            admission=self._cells,
            start_seconds=START_SECONDS,
            stop_seconds=STOP_SECONDS,
            finish_seconds=_FOREVER,
            heartbeat_seconds=_FOREVER,
        )
        await self._kubelets.__aenter__()

    @singledispatchmethod
    def do(self, action: GroundAction) -> None:
        raise NotImplementedError(type(action).__name__)

    # Nodes

    @do.register
    def _(self, action: AddNode) -> None:
        self._leave(action.node.name)
        self._join(action.node)

    @do.register
    def _(self, action: RemoveNode) -> None:
        self._leave(action.name)
        self._later(ORPHANED_SECONDS, self._collect_orphans)

    def _join(self, node: NodePlan) -> None:
        self._registry.create(self._nodes, "", objects.node(node))
        if node.devices:
            body = objects.device_slice(node.name, node.devices)
            self._registry.create(self._slices, "", body)
        if node.cells:
            self._cells.kubelets[node.name] = objects.kubelet(node)
            self._cells.publish(node.name)

    def _leave(self, name: str) -> None:
        self._cells.kubelets.pop(name, None)
        for table, key in (
            ("nodes", name),
            ("resourceslices.resource.k8s.io", f"{name}-gpus"),
            ("noderesourcetopologies.topology.node.k8s.io", name),
        ):
            if self._registry.store.table(table).get(("", key)) is not None:
                self._registry.store.table(table).remove(("", key))

    def _collect_orphans(self) -> None:
        nodes = self._registry.table(self._nodes)
        for key, pod in list(self._registry.table(self._pods).current.items()):
            node = pod.body["spec"].get("nodeName")
            if node and nodes.get(("", node)) is None:
                self._registry.delete(self._pods, key, {"gracePeriodSeconds": 0})

    @do.register
    def _(self, action: ResizeNode) -> None:
        def resize(body: Body) -> None:
            for amounts in (body["status"]["capacity"], body["status"]["allocatable"]):
                amounts["cpu"] = str(action.cpu)

        if action.name not in self._cells.kubelets:
            self._change(action.name, resize, "status")

    @do.register
    def _(self, action: CordonNode) -> None:
        self._change(action.name, lambda body: body["spec"].update(unschedulable=action.on))

    @do.register
    def _(self, action: TaintNode) -> None:
        self._taint(action.name, objects.TAINT, action.on)

    @do.register
    def _(self, action: FlapNode) -> None:
        self._set_ready(action.name, False)
        self._later(action.seconds, lambda: self._set_ready(action.name, True))

    def _set_ready(self, name: str, ready: bool) -> None:
        condition = {"type": "Ready", "status": str(ready)}
        self._change(name, lambda body: body["status"].update(conditions=[condition]), "status")
        self._taint(name, objects.FLAPPED, not ready)

    def _taint(self, name: str, taint: dict[str, str], on: bool) -> None:
        def change(body: Body) -> None:
            others = [e for e in body["spec"].get("taints") or () if e["key"] != taint["key"]]
            body["spec"]["taints"] = [*others, taint] if on else others

        self._change(name, change)

    def _change(self, name: str, change: Callable[[Body], None], subresource: str = "") -> None:
        body = copy.deepcopy(self._registry.get(self._nodes, ("", name)).body)
        change(body)
        self._registry.update(self._nodes, ("", name), body, subresource)

    # Kubelets

    @do.register
    def _(self, action: PauseKubelets) -> None:
        kubelets, self._kubelets = self._kubelets, None
        if kubelets is not None:
            self._keep(self._pause_kubelets(kubelets, action.seconds))

    async def _pause_kubelets(self, kubelets: Kubelets, seconds: float) -> None:
        await kubelets.__aexit__(None, None, None)
        await asyncio.sleep(seconds)
        await self._start_kubelets()

    @do.register
    def _(self, action: FailPod) -> None:
        key = (action.namespace, action.name)
        pod = self._registry.get(self._pods, key).body
        if pod["spec"].get("nodeName") and not ended(pod):
            failed = {"status": {"phase": "Failed", "reason": "Evicted"}}
            self._registry.patch(self._pods, key, MERGE, failed, "status")

    # NRTs

    def _publish_all(self) -> None:
        if self._publishing.is_set():
            for name in list(self._cells.kubelets):
                self._cells.publish(name)
        self._later(PUBLISH_SECONDS, self._publish_all)

    @do.register
    def _(self, action: PauseTopologies) -> None:
        self._publishing.clear()
        self._later(action.seconds, self._publishing.set)

    @do.register
    def _(self, action: DropTopology) -> None:
        table = self._registry.store.table("noderesourcetopologies.topology.node.k8s.io")
        if table.get(("", action.node)) is not None:
            table.remove(("", action.node))

    @do.register
    def _(self, action: ContradictTopology) -> None:
        table = self._registry.store.table("noderesourcetopologies.topology.node.k8s.io")
        if (found := table.get(("", action.node))) is not None:
            body = copy.deepcopy(found.body)
            for zone in body["zones"]:
                for resource in zone.get("resources") or ():
                    resource["available"] = _CELL_AMOUNT
            table.put(("", action.node), body)

    # Devices

    @do.register
    def _(self, action: DropSlice) -> None:
        table, key = self._registry.table(self._slices), ("", f"{action.node}-gpus")
        if (found := table.get(key)) is not None:
            table.remove(key)
            self._later(action.seconds, lambda: self._bring_back(key, found.body))

    def _bring_back(self, key: Key, body: Body) -> None:
        nodes = self._registry.table(self._nodes)
        there = nodes.get(("", str(body["spec"]["nodeName"]))) is not None
        if there and self._registry.table(self._slices).get(key) is None:
            self._registry.table(self._slices).put(key, body)

    @do.register
    def _(self, action: ShrinkSlice) -> None:
        table, key = self._registry.table(self._slices), ("", f"{action.node}-gpus")
        if (found := table.get(key)) is not None:
            generation = int(found.body["spec"]["pool"]["generation"]) + 1
            body = objects.device_slice(action.node, action.devices, generation)
            table.put(key, {**found.body, "spec": body["spec"]})

    @do.register
    def _(self, action: ContradictSlice) -> None:
        table, key = self._registry.table(self._slices), ("", f"{action.node}-gpus")
        second = ("", f"{key[1]}-2")
        if (found := table.get(key)) is not None and table.get(second) is None:
            body = objects.device_slice(action.node, 1 + len(found.body["spec"]["devices"]))
            spec = {**body["spec"], "pool": found.body["spec"]["pool"]}
            self._registry.create(self._slices, "", {"metadata": {"name": second[1]}, "spec": spec})
            self._later(action.seconds, lambda: self._withdraw(second))

    def _withdraw(self, key: Key) -> None:
        table = self._registry.table(self._slices)
        if table.get(key) is not None:
            table.remove(key)

    @do.register
    def _(self, action: PauseForeign) -> None:
        self.foreign.pause(action.seconds)

    # Later

    def _later(self, seconds: float, act: Callable[[], None]) -> None:
        async def wait() -> None:
            await asyncio.sleep(seconds)
            try:
                act()
            except ApiFailure:
                return  # what it was about is gone

        self._keep(wait())

    def _keep(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


class ForeignScheduler:
    """Binds its pods to shared nodes: looks, thinks for a moment, and binds."""

    LOOK_SECONDS = 0.2
    THINK_SECONDS = 0.3

    def __init__(self, registry: Registry, nodes: set[str], rng: Random) -> None:
        self._registry = registry
        self._names = sorted(nodes)
        self._rng = rng
        self._resume = 0.0
        self._fruitless = (-1, -1)
        """Positions of the tables of pods and nodes at which there was nothing to bind."""

    def pause(self, seconds: float) -> None:
        self._resume = asyncio.get_running_loop().time() + seconds

    async def run(self) -> None:
        """Until cancelled."""
        clock = asyncio.get_running_loop().time
        while True:
            await asyncio.sleep(self.LOOK_SECONDS)
            if clock() >= self._resume and (choice := self._choose()):
                await asyncio.sleep(self._rng.uniform(0.0, self.THINK_SECONDS))
                key, node = choice
                target = {"metadata": {"name": key[1]}, "target": {"kind": "Node", "name": node}}
                try:
                    self._registry.bind(key[0], target)
                except ApiFailure:
                    continue  # deleted meanwhile

    def _choose(self) -> tuple[Key, str] | None:
        pods, nodes = (self._registry.store.table(name) for name in ("pods", "nodes"))
        if (pods.end, nodes.end) == self._fruitless:
            return None
        on: defaultdict[str, list[dict[str, float]]] = defaultdict(list)
        waiting: list[tuple[Key, Body]] = []
        for key, pod in pods.current.items():
            spec = pod.body["spec"]
            if (node := spec.get("nodeName")) in self._names and not ended(pod.body):
                on[node].append(requests(pod.body))
            elif spec.get("schedulerName") == objects.FOREIGN and not node:
                waiting.append((key, pod.body))
        for key, body in waiting:
            if fitting := [name for name in self._names if self._fits(name, body, on[name])]:
                return key, self._rng.choice(fitting)
        self._fruitless = pods.end, nodes.end
        return None

    def _fits(self, name: str, pod: Body, others: list[dict[str, float]]) -> bool:
        node = self._registry.store.table("nodes").get(("", name))
        if node is None or not takes(node.body, pod):
            return False
        offered, wanted = allocatable(node.body), requests(pod)
        return all(
            sum((other.get(resource, 0.0) for other in others), amount)
            <= offered.get(resource, 0.0)
            for resource, amount in wanted.items()
        )
