"""Demands: the claims of a pod that have no devices yet, compiled once for all pods that equal it.

A demand classifies shapes: for each of its requests whether a device of the shape is selected,
tolerated and large enough, and the attribute values that its constraints compare. Devices of one
class are interchangeable for this demand, whatever else is written on them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import msgspec

from scheduler.devices.capacity import Amount, Asked, compile_asked, taken_of
from scheduler.devices.constraints import Value, attribute_of, covers, value_of
from scheduler.devices.faults import DeviceFault, of_claim
from scheduler.devices.selectors import KeptSelector, SelectorTable
from scheduler.devices.shapes import Consumption, DeviceShape, Facet, Read
from scheduler.model.devices import (
    ALL,
    EXACT_COUNT,
    DeviceClass,
    DeviceConstraint,
    DeviceRequest,
    DeviceSubRequest,
    DeviceTaint,
    DeviceToleration,
    ExactDeviceRequest,
    ResourceClaim,
)
from scheduler.model.quantity import QuantityError
from scheduler.slices import checkpoint

MOST_RESULTS = 32
"""How many devices a claim can hold."""

NO, YES, ERROR = 0, 1, 2


@dataclass(frozen=True, slots=True)
class PlacedSelector:
    """A selector and where it is written."""

    kept: KeptSelector
    of_class: str
    number: int


@dataclass(eq=False, slots=True)
class Ask:
    """One request, or one alternative of a request."""

    number: int
    claim: int
    name: str
    parent: str
    """The request that this is an alternative of."""
    of_class: str
    selectors: tuple[PlacedSelector, ...]
    every: bool
    """All devices that are selected, not some number of them."""
    count: int
    admin: bool
    tolerations: tuple[DeviceToleration, ...]
    asked: Asked
    fault: DeviceFault | None
    constraints: tuple[int, ...] = ()
    """Those of the claim that this request is subject to."""

    @property
    def base(self) -> str:
        """The request under whose name constraints remember values."""
        return self.parent or self.name

    @property
    def full_name(self) -> str:
        """The name that results show."""
        return f"{self.parent}/{self.name}" if self.parent else self.name


@dataclass(eq=False, slots=True)
class ClaimPlan:
    """What one claim asks for."""

    requests: tuple[tuple[Ask, ...], ...]
    """Per request its alternatives; a plain request has one, without a parent."""
    constraints: tuple[DeviceConstraint, ...]
    fault: DeviceFault | None


@dataclass(frozen=True, slots=True)
class Fit:
    """What one request says about a class of devices."""

    verdict: int = NO
    tolerated: bool = True
    taken: Mapping[str, Amount] = field(default_factory=dict)
    """What a share takes of each capacity."""
    fault: DeviceFault | None = None


_UNFIT = Fit()


@dataclass(eq=False, slots=True)
class ShapeClass:
    """Devices between which no request and no constraint of a demand sees a difference."""

    number: int
    fits: tuple[Fit, ...]
    values: tuple[Value | None, ...]
    """Per constraint, of all claims in order."""
    consumes: Consumption
    shareable: bool
    capacity: Mapping[str, int]
    terms: int
    profile: int
    """Equal for classes that take the same amounts, of whichever one set of counters."""
    counter_set: str | None
    """The one set of counters that devices of this class take of, if it is one."""
    locality: tuple[Value | None, ...] = ()
    """What says which devices are near each other, where that is asked."""


class Demand:
    """The claims of a pod that need devices, compiled."""

    def __init__(
        self,
        key: bytes,
        plans: tuple[ClaimPlan, ...],
        asks: tuple[Ask, ...],
        locality: tuple[str, ...] = (),
    ) -> None:
        self.key = key
        self.plans = plans
        self._locality = locality
        self.asks = asks
        self.class_names = frozenset(ask.of_class for ask in asks)
        self.reads = _reads(plans, asks, locality)
        self.classes: list[ShapeClass] = [
            ShapeClass(0, (_UNFIT,) * len(asks), (), (), False, {}, 1, 0, None)
        ]
        self.uses_counters = False
        """Whether a device that some request selects takes of shared counters."""
        self.literal = any(
            plan.constraints[i].match_attribute is None and (ask.every or ask.count > 1)
            for plan in plans
            for request in plan.requests
            for ask in request
            for i in ask.constraints
        )
        """The order of doings and undoings decides: `Distinct` forgets within these requests."""
        self._constraint_starts = _starts(plans)
        self._numbers: dict[object, int] = {}
        self._profiles: dict[object, int] = {}
        self._of_value: list[int] = []
        self._facet: Facet | None = None

    def constraint(self, claim: int, number: int) -> int:
        """The position of a claim's constraint among those of all claims."""
        return self._constraint_starts[claim] + number

    def classes_of(self, facet: Facet) -> Sequence[int]:
        """Per value of the facet of what the demand reads: the class of such devices."""
        if facet is not self._facet:
            self._facet, self._of_value = facet, []
        values = self._of_value  # another facet may be asked for at a checkpoint
        while (number := len(values)) < len(facet.examples):
            found = self._classify(facet.examples[number])
            if number == len(values):  # else it was found for another task, at a checkpoint
                values.append(found)
            checkpoint()
        return values

    def _classify(self, shape: DeviceShape) -> int:
        if shape.fault:  # its pool is invalid: it cannot be allocated
            return 0
        fits = tuple(_fit(ask, shape) for ask in self.asks)
        if all(fit.verdict == NO for fit in fits):
            return 0
        values = tuple(
            value_of(shape, attribute_of(raw) or "")
            for plan in self.plans
            for raw in plan.constraints
        )
        locality = tuple(_near(shape, name) for name in self._locality)
        capacity = {name: each.nanos for name, each in shape.capacity.items()}
        alike = (
            tuple((fit.verdict, fit.tolerated, _key(fit.taken), fit.fault) for fit in fits),
            values,
            shape.shareable,
            tuple(sorted(capacity.items())),
            shape.terms,
            locality,
        )
        number = self._numbers.get((alike, shape.consumes))
        if number is None:
            number = self._numbers[alike, shape.consumes] = len(self.classes)
            self.uses_counters = self.uses_counters or bool(shape.consumes)
            sets = {name for (name, _), _ in shape.consumes}
            amounts = tuple((counter, amount) for (_, counter), amount in shape.consumes)
            profile = (alike, amounts if len(sets) == 1 else shape.consumes)
            self.classes.append(
                ShapeClass(
                    number=number,
                    fits=fits,
                    values=values,
                    consumes=shape.consumes,
                    shareable=shape.shareable,
                    capacity=capacity,
                    terms=shape.terms,
                    profile=self._profiles.setdefault(profile, len(self._profiles) + 1),
                    counter_set=sets.pop() if len(sets) == 1 else None,
                    locality=locality,
                )
            )
        return number


def _key(taken: Mapping[str, Amount]) -> object:
    return tuple(sorted(taken.items()))


def _fit(ask: Ask, shape: DeviceShape) -> Fit:
    for selector in ask.selectors:
        answer = selector.kept.answer(shape)
        if isinstance(answer, str):
            return Fit(ERROR, fault=_selector_fault(ask, selector, answer))
        if not answer:
            return _UNFIT
    taken = taken_of(shape.capacity, ask.asked)
    if taken is None:
        return _UNFIT
    tolerated = all(_tolerated(ask.tolerations, taint) for taint in shape.taints)
    if not tolerated and not ask.every:
        return _UNFIT
    return Fit(YES, tolerated, taken)


def _selector_fault(ask: Ask, selector: PlacedSelector, text: str) -> DeviceFault:
    if selector.of_class:
        return DeviceFault((f"class {selector.of_class}: selector #{selector.number}: {text}",))
    return of_claim(ask.claim, f": selector #{selector.number}: {text}")


def _tolerated(tolerations: Sequence[DeviceToleration], taint: DeviceTaint) -> bool:
    return any(
        each.effect in ("", taint.effect)
        and each.key in ("", taint.key)
        and (
            each.operator == "Exists"
            or (each.operator in ("", "Equal") and each.value == taint.value)
        )
        for each in tolerations
    )


def _near(shape: DeviceShape, name: str) -> Value | None:
    return value_of(shape, name if "/" in name else f"{shape.driver}/{name}")


def _reads(
    plans: Sequence[ClaimPlan], asks: Sequence[Ask], locality: Sequence[str]
) -> frozenset[Read] | None:
    reads: set[Read] = set()
    for ask in asks:
        for selector in ask.selectors:
            of_selector = selector.kept.reads
            if of_selector is None:
                return None
            reads |= of_selector
    for plan in plans:
        for raw in plan.constraints:
            domain, slash, name = (attribute_of(raw) or "").partition("/")
            if not slash:
                return None
            reads.add(("attribute", domain, name))
    for each in locality:
        domain, _, name = each.rpartition("/")
        reads.add(("attribute", domain, name))
    return frozenset(read for read in reads if read[0] == "attribute")


def _starts(plans: Sequence[ClaimPlan]) -> list[int]:
    starts, start = [], 0
    for plan in plans:
        starts.append(start)
        start += len(plan.constraints)
    return starts


# --- Compiling ------------------------------------------------------------------------------------


def demand_key(claims: Sequence[ResourceClaim]) -> bytes:
    """Equal for claims that ask for the same, whatever their names and configurations."""
    return msgspec.json.encode(
        [(claim.spec.devices.requests, claim.spec.devices.constraints) for claim in claims]
    )


def compile_demand(
    claims: Sequence[ResourceClaim],
    classes: Mapping[str, DeviceClass],
    selectors: SelectorTable,
    locality: tuple[str, ...] = (),
) -> Demand:
    """Compile claims. Nothing raises: what is wrong becomes the fault of a request or a claim."""
    asks: list[Ask] = []
    plans = []
    for number, claim in enumerate(claims):
        raw = claim.spec.devices
        requests = []
        for request in raw.requests or ():
            alternatives = tuple(_asks(number, request, classes, selectors, len(asks)))
            asks.extend(alternatives)
            requests.append(alternatives)
            for ask in alternatives:
                ask.constraints = tuple(
                    i
                    for i, constraint in enumerate(raw.constraints)
                    if covers(constraint, ask.base, ask.name if ask.parent else "")
                )
        plans.append(ClaimPlan(tuple(requests), raw.constraints, _constraint_fault(number, claim)))
    return Demand(demand_key(claims), tuple(plans), tuple(asks), locality)


def _constraint_fault(number: int, claim: ResourceClaim) -> DeviceFault | None:
    for i, constraint in enumerate(claim.spec.devices.constraints):
        if attribute_of(constraint) is None:
            text = f", constraint #{i}: empty constraint (unsupported constraint type?)"
            return of_claim(number, text)
    return None


def _asks(
    claim: int,
    request: DeviceRequest,
    classes: Mapping[str, DeviceClass],
    selectors: SelectorTable,
    first: int,
) -> Iterator[Ask]:
    if request.first_available:
        for i, alternative in enumerate(request.first_available):
            yield _ask(
                claim, first + i, alternative.name, request.name, alternative, classes, selectors
            )
    else:
        raw = request.exactly or ExactDeviceRequest()
        yield _ask(claim, first, request.name, "", raw, classes, selectors)


def _ask(
    claim: int,
    number: int,
    name: str,
    parent: str,
    raw: ExactDeviceRequest | DeviceSubRequest,
    classes: Mapping[str, DeviceClass],
    selectors: SelectorTable,
) -> Ask:
    of_class = raw.device_class_name
    fault = ""
    asked: Asked = {}
    try:
        asked = compile_asked(raw.capacity.requests if raw.capacity else {})
    except QuantityError as error:
        fault = f": capacity {error}"
    mode = raw.allocation_mode or EXACT_COUNT
    if mode not in (EXACT_COUNT, ALL):
        fault = f": unsupported count mode {mode}"
    if mode == EXACT_COUNT and raw.count < 0:  # no API server accepts it, but files may have it
        fault = f": count {raw.count} is less than 1"
    if not of_class:
        fault = ": missing device class name (unsupported request type?)"
    elif of_class not in classes:
        fault = f": could not retrieve device class {of_class}"
    for i, selector in enumerate(raw.selectors):
        if selector.cel is None:
            fault = f", selector #{i}: CEL expression empty (unsupported selector type?)"
    class_selectors = classes[of_class].spec.selectors if of_class in classes else ()
    placed = (
        *(
            PlacedSelector(selectors.get(each.cel.expression if each.cel else ""), of_class, i)
            for i, each in enumerate(class_selectors)
        ),
        *(
            PlacedSelector(selectors.get(each.cel.expression), "", i)
            for i, each in enumerate(raw.selectors)
            if each.cel is not None
        ),
    )
    return Ask(
        number=number,
        claim=claim,
        name=name,
        parent=parent,
        of_class=of_class,
        selectors=placed,
        every=mode == ALL,
        count=raw.count or 1,
        admin=isinstance(raw, ExactDeviceRequest) and bool(raw.admin_access),
        tolerations=raw.tolerations,
        asked=asked,
        fault=of_claim(claim, f", request {name}{fault}") if fault else None,
    )
