"""What is written down of a run."""

from __future__ import annotations

from dataclasses import dataclass, field

from sandbox.numa.kubelet import NumaKubelet
from sandbox.numa.topology_manager import AdmissionRefusal
from scheduler.model.pods import Pod
from tests.numa.churn.scenario import GPU, Arrival


@dataclass(slots=True)
class Story:
    """What became of one arrival, over all pods that were made for it."""

    arrival: Arrival
    tries: int = 0
    pod: str = ""
    """The key of the newest pod."""
    ran_at: float | None = None
    over: bool = False


@dataclass(slots=True)
class Error:
    """A pod of ours that a kubelet refused."""

    pod: str
    node: str
    at: float
    refusal: AdmissionRefusal
    foreign: bool
    """A binding of another scheduler, unknown to ours when it bound the pod, is to blame."""
    journal: tuple[str, ...]
    """What had happened on the node."""


@dataclass(slots=True)
class Tally:
    """What is counted during a run."""

    errors: list[Error] = field(default_factory=list)
    foreign_refused: int = 0
    cpu_seconds: float = 0.0
    created: int = 0


def free(kubelet: NumaKubelet) -> str:
    """What is free in every cell."""
    cells = kubelet.free().values()
    amounts = (f"{c['cpu']}cpu/{c['memory'] >> 30}Gi/{c.get(GPU, 0)}gpu" for c in cells)
    return f"free {' '.join(amounts)}"


def summary(pod: Pod) -> str:
    """What a pod's containers ask for."""
    spec = pod.spec
    listed = [(f"{c.restart_policy or 'init'}:", c) for c in spec.init_containers]
    listed += [("", c) for c in spec.containers]
    return ", ".join(
        role + "/".join(str(amount) for amount in container.resources.requests.values())
        for role, container in listed
    )
