"""The cluster of the table: six nodes, what runs on them, and what claims and budgets there are."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from e2e.harness.client import ApiClient
from e2e.harness.definitions import define
from e2e.harness.groups import define_podgroups, group
from e2e.harness.manifests import path_of
from e2e.harness.objects import Json, condition, is_bound, node, pod
from e2e.harness.storage import claim, storage_class
from sandbox.numa.kubelet import NumaKubelet
from sandbox.numa.machine import uniform
from sandbox.numa.publishing import topology
from sandbox.numa.settings import PublisherSettings
from shipping.helm import PROJECT

NAMESPACE = "pending"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
TOPOLOGIES = "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies"
ZONE_LABEL = "topology.kubernetes.io/zone"
GPU = "nvidia.com/gpu"
GPU_TAINT = {"key": GPU, "value": "present", "effect": "NoSchedule"}
TRADING_TAINT = {"key": "dedicated", "value": "trading", "effect": "NoSchedule"}
GIB = 1 << 30
NUMA_NODE = "numa-0"
CLASS = "pending-disks"


def numa_kubelet() -> NumaKubelet:
    """The kubelet of the node with two cells, of seven and of eight free CPUs."""
    return NumaKubelet(NUMA_NODE, uniform(2, 8, 16 * GIB, reserved_memory=GIB))


def nodes() -> list[Json]:
    """All nodes; each has the label ``pool``."""
    machine = numa_kubelet().machine
    return [
        node("web-0", cpu="4", zone="a", pool="web"),
        node("web-1", cpu="4", zone="b", pool="web"),
        node("edge-0", cpu="2", pods="2", zone="a", pool="edge"),
        node("db-0", cpu="4", zone="b", pool="db"),
        _tainted(_with_gpus(node("gpu-0", cpu="64", zone="a", pool="gpu")), GPU_TAINT),
        _tainted(
            node(NUMA_NODE, cpu=str(machine.allocatable["cpu"]), zone="b", pool="numa"),
            TRADING_TAINT,
        ),
    ]


def _tainted(obj: Json, taint: Json) -> Json:
    return {**obj, "spec": {"taints": [taint]}}


def _with_gpus(obj: Json) -> Json:
    amounts = {**obj["status"]["allocatable"], GPU: "4"}
    return {**obj, "status": {"allocatable": amounts, "capacity": amounts}}


def residents() -> list[Json]:
    """What runs already: it holds ports, CPUs, places and the room that a budget protects."""
    port = {"ports": [{"containerPort": 443, "hostPort": 443}]}
    return [
        _with_container(pod("proxy-0", cpu="500m", nodeName="web-0"), port),
        _with_container(pod("proxy-1", cpu="500m", nodeName="web-1"), port),
        pod("sensor-0", nodeName="edge-0"),
        pod("sensor-1", nodeName="edge-0"),
        pod("db", cpu="3", labels={"app": "db"}, nodeName="db-0"),
        pod("trainer", cpu="1", nodeName="gpu-0"),
    ]


def _with_container(obj: Json, fields: Json) -> Json:
    (container,) = obj["spec"]["containers"]
    container.update(fields)
    return obj


def others() -> list[Json]:
    """The group that is too large, the claim whose volume is elsewhere, a class, the budget."""
    elsewhere = claim("elsewhere", "")
    elsewhere["spec"]["volumeName"] = "pending-elsewhere"
    return [
        group("quartet", 4),
        storage_class(CLASS, provisioner="example.com/disks", default=True),
        _volume("pending-elsewhere", "c"),
        elsewhere,
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "db"},
            "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "db"}}},
        },
    ]


def _volume(name: str, zone: str) -> Json:
    """A volume that its label ties to a zone."""
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "labels": {ZONE_LABEL: zone}},
        "spec": {
            "storageClassName": "",
            "capacity": {"storage": "10Gi"},
            "accessModes": ["ReadWriteOnce"],
            "hostPath": {"path": f"/mnt/{name}"},
            "claimRef": {"namespace": NAMESPACE, "name": "elsewhere"},
        },
    }


@asynccontextmanager
async def scene(api: ApiClient) -> AsyncIterator[None]:
    """Set it all up; when the block ends it is gone from the cluster."""
    await define_podgroups(api)
    await define(api, PROJECT / "deploy" / "crds" / "noderesourcetopologies.yaml")
    try:
        await _set_up(api)
        yield
    finally:
        await _remove(api)


async def _set_up(api: ApiClient) -> None:
    await api.create("/api/v1/namespaces", {"metadata": {"name": NAMESPACE}})
    account = f"/api/v1/namespaces/{NAMESPACE}/serviceaccounts/default"
    await api.wait_until(account, lambda _: True)
    await api.create_all("/api/v1/nodes", nodes())
    for each in nodes():
        wanted = each.get("spec", {}).get("taints", [])
        await api.wait_until(f"/api/v1/nodes/{each['metadata']['name']}", _is_ready(wanted))
    published = topology(numa_kubelet(), PublisherSettings())
    await api.apply(f"{TOPOLOGIES}/{NUMA_NODE}", published)
    for obj in others():
        await api.apply(path_of(obj, NAMESPACE), obj)
    await api.create_all(PODS, residents())
    await api.wait_until(PODS, lambda pods: all(map(_runs, pods["items"])))
    budget = f"/apis/policy/v1/namespaces/{NAMESPACE}/poddisruptionbudgets/db"
    await api.wait_until(budget, lambda seen: seen["status"].get("expectedPods") == 1)
    claimed = f"/api/v1/namespaces/{NAMESPACE}/persistentvolumeclaims/elsewhere"
    await api.wait_until(claimed, lambda seen: seen["status"].get("phase") == "Bound")


def _is_ready(taints: list[Json]) -> Callable[[Json], bool]:
    def ready(seen: Json) -> bool:
        return (
            condition(seen, "Ready").get("status") == "True"
            and seen["spec"].get("taints", []) == taints
        )

    return ready


def _runs(each: Json) -> bool:
    return is_bound(each) and bool(condition(each, "Ready").get("status") == "True")


async def _remove(api: ApiClient) -> None:
    await api.delete(f"/api/v1/namespaces/{NAMESPACE}")
    await api.delete(PODS, gracePeriodSeconds="0")
    await api.wait_until(PODS, lambda pods: not pods["items"])
    for each in nodes():
        await api.delete(f"/api/v1/nodes/{each['metadata']['name']}")
    await api.delete(f"{TOPOLOGIES}/{NUMA_NODE}")
    await api.wait_until_gone(f"/api/v1/namespaces/{NAMESPACE}")
    await api.delete("/api/v1/persistentvolumes/pending-elsewhere")
    await api.delete(f"/apis/storage.k8s.io/v1/storageclasses/{CLASS}")
