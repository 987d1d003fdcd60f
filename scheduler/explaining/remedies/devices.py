"""Ask for less of devices: other names, fewer, without a selector or constraint, with a toleration.

What is changed is a claim, of which others may have a copy: its template, or pods that share it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

from scheduler.dra.extended_resources import extended_resources
from scheduler.dra.ledger import DeviceLedger
from scheduler.dra.names import PLUGIN
from scheduler.dra.pod_claims import claim_keys
from scheduler.explaining.remedies.costs import cost, repeated
from scheduler.explaining.remedies.patches import Object, at, nanos_of, put
from scheduler.explaining.remedies.requests import lowered
from scheduler.explaining.remedies.scene import Scene, Step
from scheduler.explaining.remedies.spelling import close_to
from scheduler.model.devices import ALL, EXACT_COUNT, DeviceClass, DeviceTaint, ResourceClaim
from scheduler.model.quantity import QuantityError
from scheduler.plugins.names import NODE_RESOURCES_FIT

CLAIM = "correct-claim"
CLASS = "correct-device-class"
FEWER = "fewer-devices"
SMALLER = "smaller-share"
TOLERATE = "tolerate-device"
UNCONSTRAIN = "drop-device-constraint"
UNSELECT = "drop-device-selector"
MOST_ATOMS = 10
"""So many selectors, constraints or taints are tried one by one, and all of them together."""
MOST_REQUESTS = 4
"""So many requests are tried with fewer devices, or a smaller share."""
MOST_SHARES = 2
MOST_COUNT = 32
MOST_READ = 4096
MOST_TEXT = 80
_NANO = 10**9
_DEVICES = frozenset({PLUGIN})
_COUNTED = frozenset({PLUGIN, NODE_RESOURCES_FIT})

Path = tuple[str | int, ...]
_REQUESTS: Path = ("spec", "devices", "requests")
_CONSTRAINTS: Path = ("spec", "devices", "constraints")


class _WrittenRequest(NamedTuple):
    """A request of a claim that holds nothing yet, or one of its alternatives."""

    claim: str
    name: str
    path: Path
    raw: Object

    @property
    def text(self) -> str:
        return f"request {self.name} of claim {self.claim.partition('/')[2]}"


class _ClaimEdit(NamedTuple):
    """The smallest part of a change of claims."""

    claim: str
    path: Path
    """The list that changes."""
    place: int | None
    """What goes from it; None: something is added."""
    new: Object
    text: str


def correct_names(scene: Scene, names: list[str]) -> Iterator[Step]:
    """Use the claim or the class with the closest name, where there is none of the name given."""
    namespace = scene.info.pod.metadata.namespace
    claims = scene.state.objects.all(ResourceClaim)
    prefix = f"{namespace}/"
    known = sorted(key.removeprefix(prefix) for key in claims if key.startswith(prefix))[:MOST_READ]
    for index, entry in enumerate((at(scene.raw, "spec", "resourceClaims") or [])[:MOST_ATOMS]):
        name = entry.get("resourceClaimName")
        if name is None or f"{prefix}{name}" in claims:
            continue
        for close in close_to(name, known, 2, 0.6):
            path = ("spec", "resourceClaims", index, "resourceClaimName")
            yield Step(
                CLAIM,
                f"use the claim {close} in place of {name}, which does not exist",
                cost(CLAIM),
                partial(put, path=path, new=close),
                parts=frozenset({(index, close)}),
            )
    classes = scene.state.objects.all(DeviceClass)
    for ask in _asks(scene)[:MOST_ATOMS]:
        name = str(ask.raw.get("deviceClassName") or "")
        if name in classes:
            continue
        for close in close_to(name, sorted(classes)[:MOST_READ], 2, 0.6):
            yield _changing(
                scene,
                CLASS,
                f"use the device class {close} in place of {name}, which does not exist,"
                f" in {ask.text}",
                cost(CLASS),
                {ask.claim: partial(put, path=(*ask.path, "deviceClassName"), new=close)},
                frozenset({(ask.claim, ask.path, close)}),
            )


def fewer(scene: Scene, names: list[str]) -> Iterator[Step]:
    """Ask for as many devices as there are: the largest number that some node has."""
    for ask in _asks(scene)[:MOST_REQUESTS]:
        every = ask.raw.get("allocationMode") == ALL
        asked = MOST_COUNT + 1 if every else int(ask.raw.get("count") or 1)
        if step := _largest(partial(_of_fewer, scene, ask), asked - 1, scene, names):
            yield step
    # What a class serves may be asked for by name, without a claim.
    for resource in list(extended_resources(scene.state).served(scene.info))[:MOST_REQUESTS]:
        most = min(scene.info.fit_requests[resource] - 1, MOST_COUNT)
        if step := _largest(partial(_of_resource, scene, resource), most, scene, names):
            yield step


def _of_resource(scene: Scene, resource: str, number: int) -> Step | None:
    return lowered(scene, {resource: number})


def _largest(
    make: Callable[[int], Step | None], most: int, scene: Scene, names: list[str]
) -> Step | None:
    """The step for the largest number that helps, if more is harder; None if none does."""
    low, high, best = 0, most, None
    while low < high:
        middle = (low + high + 1) // 2
        step = make(middle)
        if step is not None and scene.then(step).passes(_COUNTED, names):
            low, best = middle, step
        else:
            high = middle - 1
    return best


def _of_fewer(scene: Scene, ask: _WrittenRequest, number: int) -> Step:
    every = ask.raw.get("allocationMode") == ALL
    asked = int(ask.raw.get("count") or 1)
    share = 1.0 if every else (asked - number) / asked
    devices = "1 device" if number == 1 else f"{number} devices"
    return _changing(
        scene,
        FEWER,
        f"ask for {devices} in place of {'all' if every else asked}, in {ask.text}",
        cost(FEWER, share),
        {ask.claim: partial(_counted, path=ask.path, number=number)},
        frozenset({(ask.claim, ask.path)}),
    )


def _counted(raw: Object, path: Path, number: int) -> Object:
    raw = put(raw, (*path, "allocationMode"), EXACT_COUNT)
    return put(raw, (*path, "count"), number)


def smaller(scene: Scene, names: list[str]) -> Iterator[Step]:
    """Ask for as much of a shared device as there is: the largest share that some node has."""
    places = [
        (ask, str(name), str(amount))
        for ask in _asks(scene)
        for name, amount in (at(ask.raw, "capacity", "requests") or {}).items()
    ]
    for ask, name, amount in places[:MOST_SHARES]:
        try:
            asked = nanos_of(amount)
        except QuantityError:
            continue
        most = -(-asked // _unit(asked)[0]) - 1
        make = partial(_of_smaller, scene, ask, name, amount, asked)
        if step := _largest(make, most, scene, names):
            yield step


def _unit(nanos: int) -> tuple[int, str]:
    """In what an amount is counted when it is lowered: finer than it is written."""
    for suffix, bits in (("Gi", 40), ("Mi", 30), ("Ki", 20)):
        if nanos and not nanos % (_NANO << bits):
            return _NANO << (bits - 10), suffix
    return _NANO, ""


def _of_smaller(
    scene: Scene, ask: _WrittenRequest, name: str, before: str, asked: int, number: int
) -> Step:
    unit, suffix = _unit(asked)
    amount = f"{number}{suffix}"
    return _changing(
        scene,
        SMALLER,
        f"ask for {amount} of {name} in place of {before}, in {ask.text}",
        cost(SMALLER, 1 - number * unit / asked),
        {ask.claim: partial(put, path=(*ask.path, "capacity", "requests", name), new=amount)},
        frozenset({(ask.claim, ask.path, name)}),
    )


def tolerate(scene: Scene, names: list[str]) -> Iterator[Step]:
    """Tolerate taints of devices."""
    taints = _taints(scene)
    atoms = [
        _ClaimEdit(
            ask.claim, (*ask.path, "tolerations"), None, _toleration(taint), _words(taint, ask)
        )
        for ask in _asks(scene)
        for taint in taints
        if not any(_covers(each, taint) for each in ask.raw.get("tolerations") or ())
    ]
    yield from _smallest(scene, names, TOLERATE, "tolerate", atoms)


def _words(taint: DeviceTaint, ask: _WrittenRequest) -> str:
    value = f"={taint.value}" if taint.value else ""
    return f"the device taint {taint.key}{value}:{taint.effect} in {ask.text}"


def _taints(scene: Scene) -> list[DeviceTaint]:
    """The taints that keep claims off devices, those of the most devices first."""
    ledger = scene.state.shared.get(DeviceLedger)
    if ledger is None:
        return []
    found = ledger.index.inventory.shapes.taints()
    ranked = sorted(found, key=lambda each: (-found[each], each.key, each.value, each.effect))
    return ranked[:MOST_ATOMS]


def _covers(raw: Object, taint: DeviceTaint) -> bool:
    operator, value = raw.get("operator") or "Equal", raw.get("value") or ""
    return (
        (raw.get("effect") or taint.effect) == taint.effect
        and (raw.get("key") or taint.key) == taint.key
        and (operator == "Exists" or value == taint.value)
    )


def _toleration(taint: DeviceTaint) -> dict[str, str]:
    if not taint.value:
        return {"key": taint.key, "operator": "Exists", "effect": taint.effect}
    return {"key": taint.key, "operator": "Equal", "value": taint.value, "effect": taint.effect}


def unconstrain(scene: Scene, names: list[str]) -> Iterator[Step]:
    """Drop constraints between devices."""
    atoms = []
    for claim, raw in _claims(scene):
        for place, each in enumerate(at(raw, *_CONSTRAINTS) or []):
            word = "matchAttribute" if each.get("matchAttribute") else "distinctAttribute"
            text = f"the constraint {word} {each.get(word)} of claim {claim.partition('/')[2]}"
            atoms.append(_ClaimEdit(claim, _CONSTRAINTS, place, {}, text))
    yield from _smallest(scene, names, UNCONSTRAIN, "drop", atoms)


def unselect(scene: Scene, names: list[str]) -> Iterator[Step]:
    """Drop selectors of requests; those of classes are their administrators'."""
    atoms = []
    for ask in _asks(scene):
        for place, each in enumerate(ask.raw.get("selectors") or []):
            expression = str(at(each, "cel", "expression") or "")
            shown = expression if len(expression) <= MOST_TEXT else f"{expression[:MOST_TEXT]}…"
            text = f"the selector {shown} of {ask.text}"
            atoms.append(_ClaimEdit(ask.claim, (*ask.path, "selectors"), place, {}, text))
    yield from _smallest(scene, names, UNSELECT, "drop", atoms)


# Parts


def _smallest(
    scene: Scene, names: list[str], kind: str, verb: str, atoms: Sequence[_ClaimEdit]
) -> Iterator[Step]:
    """The changes of a kind that help: each part alone, or as few of all as help together."""
    atoms, alone = atoms[:MOST_ATOMS], False
    for atom in atoms:
        step = _of_atoms(scene, kind, verb, (atom,))
        if _helps(scene, step, names):
            alone = True
            yield step
    if alone or len(atoms) < 2:
        return
    needed = list(atoms)
    if not _helps(scene, _of_atoms(scene, kind, verb, needed), names):
        return
    for atom in atoms:
        fewer = [each for each in needed if each is not atom]
        if len(fewer) > 1 and _helps(scene, _of_atoms(scene, kind, verb, fewer), names):
            needed = fewer
    yield _of_atoms(scene, kind, verb, needed)


def _helps(scene: Scene, step: Step, names: list[str]) -> bool:
    """Whether there are devices for the pod on one of some nodes, whatever others say."""
    return scene.then(step).passes(_DEVICES, names)


def _of_atoms(scene: Scene, kind: str, verb: str, atoms: Sequence[_ClaimEdit]) -> Step:
    by_claim: dict[str, list[_ClaimEdit]] = {}
    for atom in atoms:
        by_claim.setdefault(atom.claim, []).append(atom)
    return _changing(
        scene,
        kind,
        f"{verb} {' and '.join(atom.text for atom in atoms)}",
        repeated(kind, len(atoms)),
        {claim: partial(_edited, atoms=tuple(each)) for claim, each in by_claim.items()},
        frozenset((atom.claim, atom.path, atom.place, atom.text) for atom in atoms),
    )


def _edited(raw: Object, atoms: Sequence[_ClaimEdit]) -> Object:
    for path in dict.fromkeys(atom.path for atom in atoms):
        here = [atom for atom in atoms if atom.path == path]
        gone = {atom.place for atom in here}
        kept = [each for place, each in enumerate(at(raw, *path) or []) if place not in gone]
        raw = put(raw, path, [*kept, *(atom.new for atom in here if atom.place is None)])
    return raw


def _changing(
    scene: Scene,
    kind: str,
    summary: str,
    asked: float,
    edits: dict[str, Callable[[Object], Object]],
    parts: frozenset[Any],
) -> Step:
    """The step that changes claims."""
    changed, affects = [], []
    for claim, edit in edits.items():
        raw = scene.other(ResourceClaim.__name__, claim)
        if raw is not None:
            changed.append(edit(raw))
            affects.append(_whose(scene, claim))
    return Step(kind, summary, asked, changed=tuple(changed), affects=tuple(affects), parts=parts)


def _whose(scene: Scene, claim: str) -> str:
    """What to know about a change of a claim."""
    name = claim.partition("/")[2]
    pod = scene.info.pod
    made = {each.resource_claim_name: each.name for each in pod.status.resource_claim_statuses}
    template = next(
        (
            each.resource_claim_template_name
            for each in pod.spec.resource_claims
            if each.name == made.get(name) and each.resource_claim_template_name
        ),
        None,
    )
    if template is not None:
        return f"ResourceClaimTemplate {template}: change it, and delete the pod"
    return f"ResourceClaim {name}: its spec cannot be changed, so create it anew"


def _claims(scene: Scene) -> list[tuple[str, Object]]:
    """The claims of the pod that hold nothing, as they would be."""
    ledger = scene.state.shared.get(DeviceLedger)
    if ledger is None:
        return []
    found = []
    for key in claim_keys(scene.info)[:MOST_COUNT]:
        raw = scene.other(ResourceClaim.__name__, key) if ledger.settled(key) else None
        if raw is not None and not at(raw, "status", "allocation"):
            found.append((key, raw))
    return found


def _asks(scene: Scene) -> list[_WrittenRequest]:
    """All requests of these claims, and their alternatives."""
    found = []
    for claim, raw in _claims(scene):
        for i, request in enumerate(at(raw, *_REQUESTS) or []):
            name, path = str(request.get("name") or ""), (*_REQUESTS, i)
            if isinstance(request.get("exactly"), dict):
                found.append(_WrittenRequest(claim, name, (*path, "exactly"), request["exactly"]))
            for j, each in enumerate(request.get("firstAvailable") or []):
                text = f"{name}/{each.get('name') or ''}"
                found.append(_WrittenRequest(claim, text, (*path, "firstAvailable", j), each))
    return found
