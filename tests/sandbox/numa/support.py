"""Machines and pods for tests of the NUMA kubelets."""

from __future__ import annotations

from typing import Any

from sandbox.numa.kubelet import NumaKubelet
from sandbox.numa.machine import uniform
from sandbox.numa.settings import KubeletSettings
from scheduler.model.objects import from_dict
from scheduler.model.pods import Pod

GIB = 1 << 30
GPU = "example.com/gpu"


def kubelet(cells: int = 2, cpus: int = 8, gpus: int = 2, **settings: Any) -> NumaKubelet:
    """A node of equal cells with 16 GiB each, one CPU and one GiB of the first reserved."""
    machine = uniform(cells, cpus, 16 * GIB, {GPU: gpus} if gpus else {}, reserved_memory=GIB)
    return NumaKubelet("n1", machine, KubeletSettings(**settings))


def container(name: str, cpu: str = "", gib: int = 1, gpus: int = 0, **more: Any) -> dict[str, Any]:
    """A container whose limits are its requests; without cpu it asks for nothing but devices."""
    amounts: dict[str, str] = {"cpu": cpu, "memory": f"{gib}Gi"} if cpu else {}
    if gpus:
        amounts[GPU] = str(gpus)
    return {"name": name, "resources": {"requests": amounts, "limits": dict(amounts)}, **more}


def body(name: str, *apps: dict[str, Any], init: tuple[dict[str, Any], ...] = ()) -> dict[str, Any]:
    """A pod as the API has it."""
    spec: dict[str, Any] = {"containers": list(apps)}
    if init:
        spec["initContainers"] = list(init)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"},
        "spec": spec,
    }


def pod(name: str, *apps: dict[str, Any], init: tuple[dict[str, Any], ...] = ()) -> Pod:
    """A pod as the emulator reads it."""
    return from_dict(body(name, *apps, init=init), Pod)


def single(name: str, cpu: str, gib: int = 1, gpus: int = 0) -> Pod:
    """A Guaranteed pod of one container."""
    return pod(name, container("app", cpu, gib, gpus))
