"""Results: what is stored in a claim when devices were chosen for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from scheduler import machine
from scheduler.devices.demand import ClaimPlan, Demand
from scheduler.devices.pools import PublishedDevice
from scheduler.devices.search import Pick
from scheduler.devices.segments import NodeSegment
from scheduler.model.devices import (
    FROM_CLAIM,
    FROM_CLASS,
    AllocationResult,
    DeviceAllocation,
    DeviceClass,
    DeviceResult,
    DeviceResultConfiguration,
    ResourceClaim,
)
from scheduler.model.nodes import NodeSelector, NodeSelectorRequirement, NodeSelectorTerm
from scheduler.model.selectors import NODE_NAME_FIELD


def allocations(
    demand: Demand,
    picks: Sequence[Sequence[Pick]],
    claims: Sequence[ResourceClaim],
    classes: Mapping[str, DeviceClass],
    segment: NodeSegment,
    node: str,
) -> tuple[AllocationResult, ...]:
    """One allocation per claim."""
    return tuple(
        _allocation(plan, picks[number], claims[number], classes, segment, node)
        for number, plan in enumerate(demand.plans)
    )


def _allocation(
    plan: ClaimPlan,
    picks: Sequence[Pick],
    claim: ResourceClaim,
    classes: Mapping[str, DeviceClass],
    segment: NodeSegment,
    node: str,
) -> AllocationResult:
    chosen = _chosen(plan, picks)
    return AllocationResult(
        devices=DeviceAllocation(
            results=tuple(_result(pick, segment) for pick in picks),
            config=(*_of_classes(chosen, classes), *_of_claim(claim, chosen)),
        ),
        node_selector=_node_selector([segment.device(pick.position)[1] for pick in picks], node),
    )


def _result(pick: Pick, segment: NodeSegment) -> DeviceResult:
    view, device = segment.device(pick.position)
    ask, raw = pick.ask, device.shape.raw
    return DeviceResult(
        request=ask.full_name,
        driver=view.key[0],
        pool=view.key[1],
        device=device.name,
        admin_access=True if ask.admin else None,
        tolerations=ask.tolerations,
        binding_conditions=raw.binding_conditions or (),
        binding_failure_conditions=raw.binding_failure_conditions or (),
        share_id=None if pick.amounts is None else str(machine.uuid4()),
        consumed_capacity={name: amount.text for name, amount in (pick.amounts or {}).items()},
    )


Chosen = tuple[str, str, str]
"""Of one request: its name, the name that results show, and the class."""


def _chosen(plan: ClaimPlan, picks: Sequence[Pick]) -> list[Chosen]:
    """Per request the alternative that was taken: every request has at least one device."""
    taken = {pick.ask.base: pick.ask for pick in picks}
    asks = (taken.get(request[0].base, request[0]) for request in plan.requests)
    return [(ask.base, ask.full_name, ask.of_class) for ask in asks]


def _of_classes(
    chosen: Sequence[Chosen], classes: Mapping[str, DeviceClass]
) -> Iterator[DeviceResultConfiguration]:
    requests: dict[str, list[str]] = {}
    for _, name, of_class in chosen:
        requests.setdefault(of_class, []).append(name)
    for of_class, names in requests.items():
        if of_class in classes:
            for config in classes[of_class].spec.config:
                yield DeviceResultConfiguration(FROM_CLASS, tuple(names), config.opaque)


def _of_claim(
    claim: ResourceClaim, chosen: Sequence[Chosen]
) -> Iterator[DeviceResultConfiguration]:
    for config in claim.spec.devices.config:
        copies = 1
        if config.requests:
            # Once for each request that it names: so does kube-scheduler.
            copies = sum(
                base in config.requests or name in config.requests for base, name, _ in chosen
            )
        for _ in range(copies):
            yield DeviceResultConfiguration(FROM_CLAIM, config.requests, config.opaque)


def _node_selector(devices: Sequence[PublishedDevice], node: str) -> NodeSelector | None:
    """Where the claim can be used: on this node if some device is only there."""
    fields: list[NodeSelectorRequirement] = []
    expressions: list[NodeSelectorRequirement] = []
    for device in devices:
        if device.placement.node_name or device.shape.raw.binds_to_node:
            only = NodeSelectorRequirement(NODE_NAME_FIELD, "In", (node,))
            return NodeSelector((NodeSelectorTerm(match_fields=(only,)),))
        selector = device.placement.selector
        for term in (selector.node_selector_terms or ()) if selector else ():
            _add_new(fields, term.match_fields)
            _add_new(expressions, term.match_expressions)
    if not fields and not expressions:
        return None
    return NodeSelector((NodeSelectorTerm(tuple(expressions), tuple(fields)),))


def _add_new(known: list[NodeSelectorRequirement], more: Sequence[NodeSelectorRequirement]) -> None:
    for new in more:
        if not any(
            (old.key, old.operator) == (new.key, new.operator)
            and set(old.values) == set(new.values)
            for old in known
        ):
            known.append(new)
