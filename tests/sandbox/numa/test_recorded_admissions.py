"""Everything the kubelet's own managers decided is what the emulator decides."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sandbox.numa.cpu_manager import CpuManager
from sandbox.numa.demands import demand_of
from sandbox.numa.device_manager import DeviceManager
from sandbox.numa.hints import HintProvider
from sandbox.numa.machine import Machine, MachineCell
from sandbox.numa.memory_manager import MemoryManager
from sandbox.numa.topology_manager import TopologyManager
from scheduler.model.objects import from_dict
from scheduler.model.pods import Pod

RECORDED = Path(__file__).parents[2] / "data" / "kubelet" / "admissions.jsonl"
SCENARIOS = [json.loads(line) for line in RECORDED.read_text().splitlines()]
HUGE = "hugepages-2Mi"


def machine_of(scenario: dict[str, Any]) -> Machine:
    cells = (
        MachineCell(
            cell["id"],
            cell["cpus"],
            cell["memory"],
            {HUGE: cell["huge2mi"]} if cell["huge2mi"] else {},
            cell["devices"],
        )
        for cell in scenario["cells"]
    )
    return Machine(
        tuple(cells),
        threads_per_core=scenario["threads"],
        reserved_cpus=len(scenario["reserved"]),
        reserved_memory=scenario["reservedMemory"],
        loose_devices=scenario["loose"],
    )


class Managers:
    """The emulator's managers, looked into the way the recording looked into the kubelet's."""

    def __init__(self, scenario: dict[str, Any]) -> None:
        self.machine = machine_of(scenario)
        self.cpus = CpuManager(self.machine)
        self.memory = MemoryManager(self.machine)
        self.devices = DeviceManager(self.machine)
        providers: list[HintProvider] = [self.devices]
        self._pins_cpus, self._pins_memory = scenario["cpu"], scenario["mem"]
        if self._pins_cpus:
            providers.append(self.cpus)
        if self._pins_memory:
            providers.append(self.memory)
        self._topology = TopologyManager(
            scenario["policy"], scenario["scope"], self.machine.everything, providers
        )

    def step(self, op: dict[str, Any]) -> dict[str, Any]:
        """Do one step; answers what the recording says of it."""
        result: dict[str, Any] = {}
        match op["op"]:
            case "admit":
                demand = demand_of(from_dict(op["pod"], Pod))
                refusal = self._topology.admit(demand)
                result["reason"] = "" if refusal is None else refusal.reason
                names = [each.name for each in demand.containers] if refusal is None else []
                result["held"] = {name: self._held(demand.uid, name) for name in names}
            case "started":
                self.memory.started(op["uid"])
            case "release":
                self._topology.release(op["uid"])
        if self._pins_cpus:
            result["cpus"] = sorted(self.cpus.free | self.machine.reserved)
        if self._pins_memory:
            result["mem"] = self._free_memory()
        return result

    def _held(self, uid: str, container: str) -> dict[str, list[int]]:
        held: dict[str, list[int]] = {}
        if given := self.cpus.of(uid, container):
            held["cpu"] = sorted(given)
        counts: dict[tuple[str, int], int] = {}
        for device in self.devices.of(uid, container):
            key = (device.name, -1 if device.cell is None else device.cell)
            counts[key] = counts.get(key, 0) + 1
        for (name, cell), count in sorted(counts.items()):
            held.setdefault(name, []).extend((cell, count))
        return held

    def _free_memory(self) -> dict[str, dict[str, int]]:
        free: dict[str, dict[str, int]] = {}
        for cell in self.machine.cells:
            for name, amount in self.memory.free(cell.id).items():
                free.setdefault(name, {})[str(cell.id)] = amount
        return free


@pytest.mark.parametrize("number", range(len(SCENARIOS)))
def test_every_step_ends_as_in_the_kubelet(number: int) -> None:
    scenario = SCENARIOS[number]
    managers = Managers(scenario)
    assert sorted(managers.machine.reserved) == scenario["reserved"]
    for step, (op, recorded) in enumerate(zip(scenario["ops"], scenario["results"], strict=True)):
        mine = managers.step(op)
        mine["held"] = {name: held for name, held in mine.get("held", {}).items() if held}
        assert {k: v for k, v in mine.items() if v} == recorded, f"step {step}: {op}"


def test_the_recording_has_all_there_is_to_get_wrong() -> None:
    reasons = {r.get("reason", "") for s in SCENARIOS for r in s["results"]}
    assert reasons == {"", "TopologyAffinityError", "UnexpectedAdmissionError"}
    assert {s["policy"] for s in SCENARIOS} == {
        "none",
        "best-effort",
        "restricted",
        "single-numa-node",
    }
    assert {(s["scope"], s["threads"]) for s in SCENARIOS} == {
        (scope, threads) for scope in ("container", "pod") for threads in (1, 2)
    }
