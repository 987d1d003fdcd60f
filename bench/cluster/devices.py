"""Devices of workloads: what drivers publish on each node, and the claim of each pod.

Upstream runs the controller that makes claims from templates. Here there are no controllers, so a
pod names a claim that was made before, with what the template would say: schedulers read the same
of both, and write the same to both.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from bench.cluster.templates import DEVICE_CLASS, EXTENDED_RESOURCE, node_name
from e2e.harness.objects import Json

PER_NODE = 10
"""Devices of a node, or pods that its devices suffice for."""
DRIVER = "test-driver.cdi.k8s.io"
CLASSES = "/apis/resource.k8s.io/v1/deviceclasses"
SLICES = "/apis/resource.k8s.io/v1/resourceslices"
FINALIZER = "resource.kubernetes.io/delete-protection"

_SHARE = "aaaaaaaa-0000-4000-8000-"


def claims_path(namespace: str) -> str:
    """Where claims of a namespace are."""
    return f"/apis/resource.k8s.io/v1/namespaces/{namespace}/resourceclaims"


@dataclass(frozen=True)
class Devices:
    """One way in which nodes have devices and pods ask for them."""

    slices: Callable[[str], list[Json]]
    """What the driver publishes for a node."""
    asks: Json
    """The request of a claim, besides its name."""
    result: Callable[[int], Json]
    """What the n-th claim of a node gets, besides request, driver and pool."""
    taken: int = 0
    """How many devices of each node claims have that are there already."""
    extended: bool = False
    """Whether pods ask by an extended resource, so that the scheduler makes the claims."""

    @property
    def room(self) -> int:
        """For how many pods the devices of a node suffice."""
        return PER_NODE - self.taken

    def claim(self, name: str) -> Json:
        """The claim of the pod of that name."""
        return {"metadata": {"name": name}, "spec": self.spec("gpu")}

    def spec(self, request: str) -> Json:
        """What a claim asks for."""
        return {"devices": {"requests": [{"name": request, **self.asks}]}}

    def allocation(self, node: str, number: int, request: str = "gpu") -> Json:
        """What the n-th claim of a node has in its status."""
        term = {"key": "metadata.name", "operator": "In", "values": [node]}
        alternative = f"{request}/best" if "firstAvailable" in self.asks else request
        pool = {"request": alternative, "driver": DRIVER, "pool": node}
        return {
            "devices": {"results": [{**pool, **self.result(self.taken + number)}]},
            "nodeSelector": {"nodeSelectorTerms": [{"matchFields": [term]}]},
        }

    def taken_claims(self, nodes: int) -> Iterator[tuple[Json, Json]]:
        """Claims that are there already, and the status of each."""
        for number in range(nodes):
            for device in range(self.taken):
                name = f"taken-{number}-{device}"
                result = {"request": "gpu", "driver": DRIVER, "pool": node_name(number)}
                results = [{**result, **self.result(device)}]
                yield self.claim(name), {"allocation": {"devices": {"results": results}}}


def device_class() -> Json:
    """The class of all devices of the driver; it serves the extended resource as well."""
    return {
        "metadata": {"name": DEVICE_CLASS},
        "spec": {
            "extendedResourceName": EXTENDED_RESOURCE,
            "selectors": [{"cel": {"expression": f'device.driver == "{DRIVER}"'}}],
        },
    }


def _slice(node: str, part: str, count: int, **spec: Any) -> Json:
    pool = {"name": node, "generation": 1, "resourceSliceCount": count}
    return {
        "metadata": {"name": f"{node}-{part}"},
        "spec": {"driver": DRIVER, "nodeName": node, "pool": pool, **spec},
    }


def _plain(node: str) -> list[Json]:
    devices = [
        {
            "name": f"device-{number}",
            "attributes": {"model": {"string": "a100"}, "index": {"int": number}},
            "capacity": {"memory": {"value": "40Gi"}},
        }
        for number in range(PER_NODE)
    ]
    return [_slice(node, "devices", 1, devices=devices)]


def _parted(node: str) -> list[Json]:
    """Boards of which a whole, two halves or four quarters can be taken, all by counters."""
    boards = -(-PER_NODE // 4)
    counters = [
        {"name": f"board-{number}", "counters": {"parts": {"value": "4"}}}
        for number in range(boards)
    ]
    devices = [
        {
            "name": f"board-{number}-{profile}-{part}",
            "attributes": {"profile": {"string": profile}},
            "consumesCounters": [
                {"counterSet": f"board-{number}", "counters": {"parts": {"value": str(size)}}}
            ],
        }
        for number in range(boards)
        for profile, size in (("whole", 4), ("half", 2), ("quarter", 1))
        for part in range(4 // size)
    ]
    return [
        _slice(node, "counters", 2, sharedCounters=counters),
        _slice(node, "devices", 2, devices=devices),
    ]


def _shared(node: str) -> list[Json]:
    policy = {"default": "1Gi", "validRange": {"min": "1Gi"}}
    device = {
        "name": "shareable-device",
        "allowMultipleAllocations": True,
        "capacity": {"memory": {"value": f"{8 * PER_NODE}Gi", "requestPolicy": policy}},
    }
    return [_slice(node, "devices", 1, devices=[device])]


def _one(**more: Any) -> Json:
    return {"exactly": {"deviceClassName": DEVICE_CLASS, **more}}


def _device(number: int) -> Json:
    return {"device": f"device-{number}"}


def _quarter(number: int) -> Json:
    return {"device": f"board-{number // 4}-quarter-{number % 4}"}


def _share(number: int) -> Json:
    return {
        "device": "shareable-device",
        "shareID": f"{_SHARE}{number:012}",
        "consumedCapacity": {"memory": "8Gi"},
    }


def _selected(expression: str) -> Json:
    return {"selectors": [{"cel": {"expression": expression}}]}


_OF_MODEL = f'device.attributes["{DRIVER}"].model == '
_QUARTERS = f'device.attributes["{DRIVER}"].profile == "quarter"'

PLAIN = Devices(_plain, _one(), _device)
HALF_TAKEN = Devices(_plain, _one(), _device, taken=PER_NODE // 2)
EXTENDED = Devices(_plain, _one(), _device, extended=True)
PARTITIONS = Devices(_parted, _one(**_selected(_QUARTERS)), _quarter)
SHARES = Devices(_shared, _one(capacity={"requests": {"memory": "8Gi"}}), _share)
ALTERNATIVES = Devices(
    _plain,
    {
        "firstAvailable": [
            {
                "name": name,
                "deviceClassName": DEVICE_CLASS,
                **_selected(f'{_OF_MODEL}"{model}"'),
            }
            for name, model in (("dream", "h200"), ("best", "a100"), ("last", "l4"))
        ]
    },
    _device,
)
