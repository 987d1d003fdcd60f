"""The pods that wait, each for another cause."""

from typing import Any, NamedTuple

from e2e.harness.groups import LABEL
from e2e.harness.objects import HOSTNAME, Json, pod
from e2e.harness.storage import uses
from e2e.pending_causes.scene import GPU, TRADING_TAINT

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
TOLERATES_GPUS = [{"key": GPU, "operator": "Exists"}]


class Cause(NamedTuple):
    """What a pod asks for that it cannot have; ``replicas`` pods like it are created."""

    name: str
    title: str
    """What the user did, as the table has it."""
    asks: Json
    """Arguments of `pod` in e2e/harness/objects.py."""
    replicas: int = 1
    stranger: bool = False
    """Whether it asks for a scheduler that does not exist."""
    preempts: bool = False
    """Whether what is said of preemption belongs into the table: elsewhere it says nothing more."""

    def pods(self, scheduler: str) -> list[Json]:
        """The pods of this cause for a scheduler."""
        named = f"{scheduler}s" if self.stranger else scheduler
        return [pod(name, schedulerName=named, **self.asks) for name in self.names]

    @property
    def names(self) -> list[str]:
        """The names of its pods."""
        if self.replicas == 1:
            return [self.name]
        return [f"{self.name}-{number}" for number in range(self.replicas)]


def _container(requests: Json, **fields: Any) -> Json:
    resources = {"requests": requests, "limits": requests}
    main = {"name": "main", "image": "registry.invalid/pause", "resources": resources, **fields}
    return {"containers": [main]}


def _pod_affinity(app: str) -> Json:
    term = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": HOSTNAME}
    return {"affinity": {"podAffinity": {REQUIRED: [term]}}}


def _spread(key: str) -> Json:
    constraint = {
        "labelSelector": {"matchLabels": {"app": "spread"}},
        "topologyKey": key,
        "maxSkew": 1,
        "whenUnsatisfiable": "DoNotSchedule",
    }
    return {"labels": {"app": "spread"}, "topologySpreadConstraints": [constraint]}


CAUSES = (
    Cause("several", "several causes at once: requests 8 CPUs", {"cpu": "8"}),
    Cause(
        "resource-name",
        f"a resource by the wrong name: `{GPU}s` for `{GPU}`",
        {"tolerations": TOLERATES_GPUS, **_container({f"{GPU}s": "1"})},
    ),
    Cause(
        "taint-and-size",
        "a taint, and too large as well: requests 70 CPUs of the pool `gpu`",
        {"cpu": "70", "nodeSelector": {"pool": "gpu"}},
    ),
    Cause("selector", "a typo: selects `pool: wbe`", {"nodeSelector": {"pool": "wbe"}}),
    Cause(
        "affinity",
        "pod affinity to nothing: no pod has the label `app=cache`",
        _pod_affinity("cache"),
    ),
    Cause("topology", "a topology key that no node has: spread by `rack`", _spread("rack")),
    Cause(
        "gate",
        "a scheduling gate: `example.com/quota`",
        {"schedulingGates": [{"name": "example.com/quota"}]},
    ),
    Cause(
        "gang",
        "a gang of four with room for two: 3 CPUs each",
        {"cpu": "3", "labels": {LABEL: "quartet"}},
        replicas=4,
    ),
    Cause(
        "cell",
        "a NUMA cell: requests 10 CPUs; 15 are free, 7 in one cell and 8 in the other",
        {
            "nodeSelector": {"pool": "numa"},
            "tolerations": [{**TRADING_TAINT, "operator": "Equal"}],
            **_container({"cpu": "10", "memory": "1Gi"}),
        },
    ),
    Cause("claim", "a claim that does not exist: `data`", uses("data")),
    Cause("volume-zone", "a volume in a zone without nodes", uses("elsewhere")),
    Cause(
        "port",
        "a host port that is taken: 443 in the pool `web`",
        {
            "nodeSelector": {"pool": "web"},
            **_container({"cpu": "100m"}, ports=[{"containerPort": 443, "hostPort": 443}]),
        },
    ),
    Cause(
        "places", "no place for another pod: the pool `edge`", {"nodeSelector": {"pool": "edge"}}
    ),
    Cause(
        "budget",
        "no room that preemption could make: the pool `db` runs a pod of the same priority, "
        "which a PodDisruptionBudget protects",
        {"cpu": "2", "nodeSelector": {"pool": "db"}},
        preempts=True,
    ),
    Cause("stranger", "a scheduler that does not exist, by a typo", {}, stranger=True),
)
