"""What DynamicResources knows about its rejections: claims, requests, devices that would do.

Nodes whose devices a pod cannot tell apart share one answer, so devices are counted once for all of
them.
"""

from __future__ import annotations

from collections import Counter as Tally
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import NamedTuple

import numpy as np

from scheduler.devices.demand import YES, Ask
from scheduler.devices.pools import PoolStatus
from scheduler.dra.judging import DeviceJudge
from scheduler.dra.ledger import DeviceLedger
from scheduler.dra.pod_devices import PodDevices
from scheduler.model.devices import DeviceSelector, ResourceClaim
from scheduler.plugin_api.cycle import Cycle
from scheduler.plugin_api.facts import MAX_FACTS, MAX_NODES, MAX_TEXT, Fact, Told, fact, have, told
from scheduler.state.columns import Rows


class Supply(NamedTuple):
    """What a node has for one request."""

    claim: str
    request: str
    device_class: str
    asked: int
    """0: all that suit."""
    devices: int
    suited: int
    free: int
    selectors: tuple[str, ...]
    constraints: tuple[str, ...]
    """On the devices of this request, perhaps together with those of others."""

    @property
    def short(self) -> bool:
        """Whether the node has too few for this request alone."""
        return self.free < max(self.asked, 1)


class PoolTrouble(NamedTuple):
    """A pool of which a node can use nothing, because its slices are not all there or are wrong."""

    driver: str
    pool: str
    state: str
    reason: str


Way = tuple[tuple[Supply, ...], tuple[str, ...], tuple[PoolTrouble, ...]]
"""What sets rows apart: their supplies, claims whose devices cannot be used there, and pools."""

_STATES = {PoolStatus.INCOMPLETE: "incomplete", PoolStatus.INVALID: "invalid"}


def claimed(cycle: Cycle) -> list[Fact]:
    """The pod's resource claims, to which all nodes are alike."""
    names = [claim.name for claim in cycle.pod.pod.spec.resource_claims][:MAX_FACTS]
    if not names:
        names = sorted(name for name in cycle.pod.fit_requests if "/" in name)[:MAX_FACTS]
    return [fact("resourceClaim", f"claims devices: {', '.join(names)}", claims=names)]


def failures(
    ledger: DeviceLedger, judge: DeviceJudge, cycle: Cycle, devices: PodDevices | None, rows: Rows
) -> Sequence[Told]:
    """What sets rejected rows apart."""
    if devices is None or devices.left_over is not None:
        return told([()] * len(rows), lambda _: claimed(cycle))
    return told(_ways(ledger, judge, devices, rows), lambda way: _spelt(cycle, way))


def _ways(ledger: DeviceLedger, judge: DeviceJudge, devices: PodDevices, rows: Rows) -> list[Way]:
    supplies: list[tuple[Supply, ...]] = [()] * len(rows)
    troubles: list[tuple[PoolTrouble, ...]] = [()] * len(rows)
    for group, judgement in judge.judged(devices, rows):
        for number in range(len(judgement.outcomes)):
            places = group.places[judgement.codes == number]
            found = tuple(_supplies(ledger, group.claims, int(rows[places[0]])))
            for place in places.tolist():
                supplies[place] = found
            if _troubles(ledger, int(rows[places[0]])):  # then all of them have some
                for place in places[:MAX_NODES].tolist():
                    troubles[place] = _troubles(ledger, int(rows[place]))
    away = judge.claims_away(devices, rows)
    return list(zip(supplies, away, troubles, strict=True))


def _troubles(ledger: DeviceLedger, row: int) -> tuple[PoolTrouble, ...]:
    views = ledger.index.inventory.segment(row).views
    found = (
        PoolTrouble(*view.key, _STATES[view.status], view.reason)
        for view in views
        if view.status in _STATES
    )
    return tuple(islice(found, MAX_FACTS))


def _supplies(ledger: DeviceLedger, claims: Sequence[ResourceClaim], row: int) -> Iterator[Supply]:
    demand = ledger.index.demand(claims)
    board = ledger.index.board(demand, ledger.index.inventory.segment(row))
    for ask in demand.asks[:MAX_FACTS]:
        suited = [
            each.fits[ask.number].verdict == YES if each.fits else False for each in board.classes
        ]
        free = sum(
            suits and not state.exclusive and not state.elsewhere
            for suits, state in zip(suited, board.states, strict=True)
        )
        yield Supply(
            claims[ask.claim].metadata.name,
            ask.full_name,
            ask.of_class,
            0 if ask.every else ask.count,
            len(board.classes),
            sum(suited),
            free,
            _selectors(ledger, claims[ask.claim], ask),
            tuple(_constraints(claims[ask.claim], ask)),
        )


def _selectors(ledger: DeviceLedger, claim: ResourceClaim, ask: Ask) -> tuple[str, ...]:
    """The expressions that devices have to meet."""
    device_class = ledger.device_class(ask.of_class)
    written: list[DeviceSelector] = list(device_class.spec.selectors if device_class else ())
    for request in claim.spec.devices.requests or ():
        if request.exactly is not None and request.name == ask.full_name:
            written += request.exactly.selectors
        for each in request.first_available:
            if f"{request.name}/{each.name}" == ask.full_name:
                written += each.selectors
    return tuple(each.cel.expression[:MAX_TEXT] for each in written if each.cel is not None)


def _constraints(claim: ResourceClaim, ask: Ask) -> Iterator[str]:
    """``matchAttribute example.com/board``, for each constraint that a request is under."""
    for each in islice(claim.spec.devices.constraints or (), MAX_FACTS):
        if each.requests and not {ask.full_name, ask.parent} & {*each.requests}:
            continue
        if each.match_attribute is not None:
            yield f"matchAttribute {each.match_attribute}"[:MAX_TEXT]
        elif each.distinct_attribute is not None:
            yield f"distinctAttribute {each.distinct_attribute}"[:MAX_TEXT]


def _spelt(cycle: Cycle, way: Way) -> list[Fact]:
    supplies, away, troubles = way
    short = [each for each in supplies if each.short]
    facts = [_shortage(each) for each in short or supplies]
    facts += [
        fact("resourceClaim", f"claim {name} holds devices that cannot be used here", claims=[name])
        for name in away
    ]
    facts += [_pool_fact(each) for each in troubles]
    return facts or claimed(cycle)


def _pool_fact(trouble: PoolTrouble, **more: object) -> Fact:
    driver, pool, state, reason = trouble
    message = f"resource pool {driver}/{pool} is {state}: {reason}"[:MAX_TEXT]
    return fact("devicePool", message, driver=driver, pool=pool, state=state, **more)


def _asked(supply: Supply) -> str:
    number = str(supply.asked) if supply.asked else "all"
    things = "device" if supply.asked == 1 else "devices"
    return (
        f"{supply.claim}/{supply.request} requests {number} {things} of class {supply.device_class}"
    )


def _shortage(supply: Supply) -> Fact:
    if not supply.devices:
        message = f"{_asked(supply)}, the node has none"
    elif not supply.suited:
        which = " && ".join(supply.selectors) or "any"
        message = f"{_asked(supply)}, 0 of {supply.devices} suit: {which}"
    else:
        message = f"{_asked(supply)}, {supply.free} free of {supply.suited} that suit"
        if not supply.short and supply.constraints:
            message += f", but not enough that meet {' and '.join(supply.constraints)}"
        elif not supply.short:
            message += ", but parts of them are taken, or other requests need them"
    return _device_fact(supply, message)


def _device_fact(supply: Supply, message: str, **more: object) -> Fact:
    return fact(
        "device",
        message[:MAX_TEXT],
        claim=supply.claim,
        request=supply.request,
        deviceClass=supply.device_class,
        asked=supply.asked,
        free=supply.free,
        suited=supply.suited,
        devices=supply.devices,
        **more,
    )


def cluster_facts(
    ledger: DeviceLedger, judge: DeviceJudge, cycle: Cycle, devices: PodDevices | None, rows: Rows
) -> list[Fact]:
    """For each request that some node has too few for: how many there are where most are."""
    if devices is None or devices.left_over is not None:
        return [{**each, "nodes": len(rows)} for each in claimed(cycle)]
    ways = _ways(ledger, judge, devices, rows)
    facts: list[Fact] = []
    for number in range(max((len(supplies) for supplies, _, _ in ways), default=0)):
        here = [supplies[number] if number < len(supplies) else None for supplies, _, _ in ways]
        short = sum(each is not None and each.short for each in here)
        if short:
            facts.append(_of_cluster(cycle, here, rows, short))
    seen = Tally(each for _, _, troubles in ways for each in troubles)
    worst = seen.most_common(MAX_FACTS)
    facts += [_pool_fact(each, nodes=count) for each, count in worst]
    return facts or [{**each, "nodes": len(rows)} for each in claimed(cycle)]


def _of_cluster(cycle: Cycle, here: Sequence[Supply | None], rows: Rows, short: int) -> Fact:
    best = int(np.argmax([-1 if each is None else each.free for each in here]))
    most = here[best]
    assert most is not None, "some row is short"
    node = cycle.state.name(int(rows[best]))
    total = sum(each.devices for each in here if each is not None)
    suited = sum(each.suited for each in here if each is not None)
    if not suited:
        which = " && ".join(most.selectors) or "any"
        message = f"{_asked(most)}, 0 of {total} devices suit: {which}"
    elif short < len(rows):
        message = f"{_asked(most)}, {have(short, len(rows))} fewer free"
    else:
        message = f"{_asked(most)}, at most {most.free} free, on {node}"
    return _device_fact(most, message, node=node, nodes=short)
