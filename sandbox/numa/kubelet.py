"""A kubelet as far as cells are concerned: admits pods, keeps what they hold, lists them.

Synchronous and without a clock, so that simulations may drive thousands; ``tasks`` runs it for
nodes of the embedded API server.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping

import msgspec

from sandbox.numa.cpu_manager import CpuManager
from sandbox.numa.demands import PodDemand, demand_of
from sandbox.numa.device_manager import DeviceManager
from sandbox.numa.hints import HintProvider, cells_in
from sandbox.numa.machine import Machine
from sandbox.numa.memory_manager import MemoryManager
from sandbox.numa.settings import KubeletSettings, Policy, Scope
from sandbox.numa.topology_manager import AdmissionRefusal, TopologyManager
from scheduler.model.pods import Pod
from scheduler.model.resources import Amounts, pod_requests

CellAmounts = dict[int, dict[str, int]]
"""Cell id to resource to amount."""


class ListedPod(msgspec.Struct, frozen=True):
    """A pod as the kubelet's podresources API lists it."""

    namespace: str
    name: str
    held: CellAmounts = {}
    """What its app containers and sidecars hold of cells; plain init containers are left out."""
    exclusive: bool = False
    """Whether any of them holds CPUs, memory or devices of its own."""


class NumaKubelet:
    """The kubelet of one node."""

    def __init__(
        self, name: str, machine: Machine, settings: KubeletSettings | None = None
    ) -> None:
        self.name = name
        self.machine = machine
        self.settings = settings or KubeletSettings()
        self._cpus = CpuManager(machine)
        self._memory = MemoryManager(machine)
        self._devices = DeviceManager(machine)
        self._providers: list[HintProvider] = [self._devices]
        if self.settings.cpu_manager:
            self._providers.append(self._cpus)
        if self.settings.memory_manager:
            self._providers.append(self._memory)
        self._topology = self._topology_manager()
        self._active: dict[str, PodDemand] = {}
        self._requests: dict[str, Amounts] = {}
        self._ended: dict[str, PodDemand] = {}

    def __contains__(self, uid: str) -> bool:
        """Whether a pod holds its place here."""
        return uid in self._active

    def _topology_manager(self) -> TopologyManager:
        settings = self.settings
        everything = self.machine.everything
        return TopologyManager(settings.policy, settings.scope, everything, self._providers)

    def align(self, policy: Policy, scope: Scope) -> None:
        """Restart with another alignment; pods that run keep what they hold."""
        self.settings = msgspec.structs.replace(self.settings, policy=policy, scope=scope)
        self._topology = self._topology_manager()

    def admit(self, pod: Pod) -> AdmissionRefusal | None:
        """Let a pod in, or say why not. Cells are looked at before the node as a whole."""
        demand = demand_of(pod)
        if demand.uid in self._active:
            return None
        requests = pod_requests(pod, use_status=False)
        refusal = self._topology.admit(demand) or self._misfit(requests)
        if refusal is not None:
            self._topology.release(demand.uid)
            self._ended[demand.uid] = demand
            return refusal
        self._active[demand.uid] = demand
        self._requests[demand.uid] = requests
        return None

    def resize(self, pod: Pod) -> None:
        """Have a pod that was let in take what it requests now, if the node has as much.

        A pod that holds CPUs or memory of cells keeps what it has.
        """
        uid = pod.metadata.uid or pod.metadata.key
        if demand_of(pod) != self._active[uid]:
            return
        before, requests = self._requests.pop(uid), pod_requests(pod, use_status=False)
        self._requests[uid] = before if self._misfit(requests) is not None else requests

    def _misfit(self, requests: Amounts) -> AdmissionRefusal | None:
        """What the node as a whole has too little of; millis of CPU, bytes and counts."""
        offered = dict(self.machine.allocatable)
        offered["cpu"] *= 1000
        for name, wanted in {**requests, "pods": 1}.items():
            used = sum(held.get(name, 0) for held in self._requests.values())
            used += len(self._requests) if name == "pods" else 0
            if name in offered and used + wanted > offered[name]:
                return AdmissionRefusal(
                    f"OutOf{name}",
                    f"Pod was rejected: Node didn't have enough resource: {name}, "
                    f"requested: {wanted}, used: {used}, capacity: {offered[name]}",
                )
        return None

    def would_admit(self, pod: Pod, without: Mapping[str, object] | None = None) -> bool:
        """Whether a pod would be let in now, or if some pods (by uid) were not there."""
        trial = copy.deepcopy(self, {id(self.machine): self.machine})
        for uid in without or ():
            trial.release(uid)
        return trial.admit(pod) is None

    def started(self, uid: str) -> None:
        """A pod's init containers are done, its apps run."""
        if uid in self._active:
            self._memory.started(uid)

    def release(self, uid: str) -> None:
        """A pod's containers have ended: all it holds is free, before the API server shows it."""
        if uid in self._active:
            self._ended[uid] = self._active.pop(uid)
            del self._requests[uid]
            self._topology.release(uid)

    def forget(self, uid: str) -> None:
        """A pod is gone from the API server; if it still ran, it no longer does."""
        self.release(uid)
        self._ended.pop(uid, None)

    def listed(self) -> list[ListedPod]:
        """The pods that the podresources API lists now."""
        found = [self._listed(demand) for demand in self._active.values()]
        if self.settings.lists_finished:
            found.extend(ListedPod(ended.namespace, ended.name) for ended in self._ended.values())
        return found

    def _listed(self, pod: PodDemand) -> ListedPod:
        held: CellAmounts = {}
        exclusive = False
        for container in pod.containers:
            if container.role == "init":
                continue
            holdings = self._holdings(pod.uid, container.name)
            exclusive = exclusive or bool(holdings)
            for cell, name, amount in holdings:
                if cell is not None:
                    mine = held.setdefault(cell, {})
                    mine[name] = mine.get(name, 0) + amount
        return ListedPod(pod.namespace, pod.name, held, exclusive)

    def _holdings(self, uid: str, container: str) -> list[tuple[int | None, str, int]]:
        """(cell, resource, amount); memory of several cells is shown with the first of them."""
        cpus = self.machine.cpus
        found: list[tuple[int | None, str, int]] = [
            (cpus[number].cell, "cpu", 1) for number in self._cpus.of(uid, container)
        ]
        found += [
            (cells_in(mask)[0], name, size)
            for mask, name, size in self._memory.of(uid, container)
            if size
        ]
        found += [(d.cell, d.name, 1) for d in self._devices.of(uid, container)]
        return found

    def free(self) -> CellAmounts:
        """What every cell could truly give away now, whatever is listed."""
        free_cpus = self._cpus.free
        return {
            cell.id: {
                "cpu": len(self.machine.cpus_of(cell) & free_cpus),
                **self._memory.free(cell.id),
                **self._devices.free(cell.id),
            }
            for cell in self.machine.cells
        }

    @property
    def cpus_in_use(self) -> float:
        """CPUs that the pods let in have asked for, of their own or shared."""
        return sum(held.get("cpu", 0) for held in self._requests.values()) / 1000
