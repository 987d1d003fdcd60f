"""NodeResourcesBalancedAllocation against the textbook standard deviation."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from scheduler.config.plugin_args import NodeResourcesBalancedAllocationArgs, ResourceSpec
from scheduler.plugins.balanced_allocation import NodeResourcesBalancedAllocation
from tests.builders import make_pod, make_worker
from tests.plugins.resource_cases import RESOURCES, ClusterCase, NodeCase, clusters
from tests.plugins.support import Bench

resources = st.lists(st.sampled_from(RESOURCES), min_size=1, unique=True)


def evenness(shares: list[float]) -> int:
    if len(shares) < 2:
        deviation = 0.0
    elif len(shares) == 2:
        deviation = abs((shares[0] - shares[1]) / 2)
    else:
        mean = sum(shares) / len(shares)
        deviation = math.sqrt(sum((share - mean) ** 2 for share in shares) / len(shares))
    return int((1 - deviation) * 100)


def score(node: NodeCase, asked: dict[str, int], resources: list[str]) -> int:
    counted = [
        resource
        for resource in resources
        if node.offered.get(resource) and (resource != "example.com/gpu" or asked.get(resource))
    ]

    def shares(extra: dict[str, int]) -> list[float]:
        return [
            min(1.0, (node.taken(r, assumed=False) + extra.get(r, 0)) / node.offered[r])
            for r in counted
        ]

    return 50 + (50 + evenness(shares(asked)) - evenness(shares({}))) // 2


@given(clusters, resources)
def test_every_score(case: ClusterCase, resources: list[str]) -> None:
    args = NodeResourcesBalancedAllocationArgs(tuple(ResourceSpec(name) for name in resources))
    bench = Bench(NodeResourcesBalancedAllocation, case.builders(), case.pods(), args)
    want = {name: score(node, case.asked, resources) for name, node in case.named().items()}
    asks = any(case.asked.get(resource) for resource in resources)
    assert bench.scores(case.pending()) == (want if asks else None)


def test_three_resources() -> None:
    # shares with the pod: 2/4 cpu, 4/16 GiB, 1/4 GPUs: mean 1/3, deviation 0.1178, evenness 88;
    # without it all are 0, evenness 100; 50 + (50 - 12) / 2 = 69
    args = NodeResourcesBalancedAllocationArgs(
        (ResourceSpec("cpu"), ResourceSpec("memory"), ResourceSpec("example.com/gpu"))
    )
    node = make_worker("n").offer("example.com/gpu", 4)
    pod = make_pod("p").cpu("2").memory("4Gi").request("example.com/gpu", 1)
    assert Bench(NodeResourcesBalancedAllocation, [node], args=args).scores(pod) == {"n": 69}
