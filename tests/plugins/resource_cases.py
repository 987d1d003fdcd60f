"""Small clusters with resources, as plain integers that naive oracles can calculate with."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import strategies as st

from tests.builders import NodeBuilder, PodBuilder, make_node, make_pod

MI = 2**20
UNITS = {"cpu": "m", "memory": "", "example.com/gpu": "", "ephemeral-storage": ""}
RESOURCES = tuple(UNITS)
DEFAULTS = {"cpu": 100, "memory": 200 * MI}
"""What scoring assumes of a container that asks for nothing."""

Amounts = dict[str, int]


@dataclass
class NodeCase:
    """What a node offers, and what each pod on it asks for."""

    offered: Amounts
    limit: int
    pods: list[Amounts] = field(default_factory=list)

    def taken(self, resource: str, *, assumed: bool) -> int:
        """The sum over its pods; ``assumed`` counts the defaults for those that ask for nothing."""
        default = DEFAULTS.get(resource, 0) if assumed else 0
        return sum(pod.get(resource, default) for pod in self.pods)


@dataclass
class ClusterCase:
    nodes: list[NodeCase]
    asked: Amounts

    def named(self) -> dict[str, NodeCase]:
        return {f"n{i}": node for i, node in enumerate(self.nodes)}

    def pending(self) -> PodBuilder:
        return _pod("pending", self.asked)

    def builders(self) -> list[NodeBuilder]:
        return [_node(name, node) for name, node in self.named().items()]

    def pods(self) -> list[PodBuilder]:
        return [
            _pod(f"{name}-{i}", asked).on(name)
            for name, node in self.named().items()
            for i, asked in enumerate(node.pods)
        ]


def _pod(name: str, asked: Amounts) -> PodBuilder:
    pod = make_pod(name)
    for resource, amount in asked.items():
        pod.request(resource, f"{amount}{UNITS[resource]}")
    return pod


def _node(name: str, case: NodeCase) -> NodeBuilder:
    node = make_node(name).pods(case.limit)
    for resource, amount in case.offered.items():
        node.offer(resource, f"{amount}{UNITS[resource]}")
    return node


def amounts(scale: int) -> st.SearchStrategy[Amounts]:
    """Few distinct values, so that exact fits and empty nodes come up."""
    steps = st.integers(0, 4).map(lambda n: n * scale)
    return st.fixed_dictionaries(
        {},
        optional={
            "cpu": steps.map(lambda n: n * 100),
            "memory": steps.map(lambda n: n * 128 * MI),
            "example.com/gpu": steps,
            "ephemeral-storage": steps.map(lambda n: n * MI),
        },
    )


clusters = st.builds(
    ClusterCase,
    st.lists(
        st.builds(NodeCase, amounts(2), st.integers(0, 4), st.lists(amounts(1), max_size=2)),
        min_size=1,
        max_size=5,
    ),
    amounts(1),
)
