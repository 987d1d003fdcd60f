"""A naive allocator: kube-scheduler's rules read out plainly, one node and one device at a time.

It shares nothing with the product but the structs of objects, quantities, node selectors and CEL.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from scheduler.cel import CelDevice, CelRuntimeError, compile_selector
from scheduler.model.devices import (
    AllocationResult,
    DeviceAttribute,
    DeviceCapacity,
    DeviceClass,
    DeviceConstraint,
    DeviceSelector,
    DeviceSubRequest,
    ExactDeviceRequest,
    ResourceClaim,
    ResourceSlice,
    SliceDevice,
)
from scheduler.model.meta import RawQuantity
from scheduler.model.nodes import Node, NodeSelector
from scheduler.model.quantity import parse
from scheduler.model.selectors import compile_node_selector

DeviceId = tuple[str, str, str]
Choice = tuple[int, str, DeviceId]
"""Claim, name of the request, device."""

LIMIT = 32


class AttemptError(Exception):
    """The attempt fails."""


class TooManyResultsError(Exception):
    """More than a claim can hold."""


class GivenUpError(Exception):
    """The search takes too long for a test."""


@dataclass
class Cluster:
    """All that an allocator reads."""

    slices: list[ResourceSlice]
    classes: dict[str, DeviceClass]
    allocated: list[AllocationResult]


@dataclass
class Candidate:
    id: DeviceId
    device: SliceDevice
    slice: ResourceSlice
    pool: Pool


@dataclass
class Pool:
    driver: str
    name: str
    state: str = "usable"
    slices: list[ResourceSlice] = field(default_factory=list)
    elsewhere: list[ResourceSlice] = field(default_factory=list)
    counters: dict[tuple[str, str], int] = field(default_factory=dict)

    def candidates(self) -> list[Candidate]:
        """Its devices, in order."""
        return [
            Candidate((self.driver, self.name, device.name), device, each, self)
            for each in self.slices
            for device in each.spec.devices
        ]


def nanos(raw: RawQuantity) -> int:
    return parse(raw).nanos


def selects(node: Node, name: str | None, everywhere: bool, selector: NodeSelector | None) -> bool:
    if name:
        return node.name == name
    if everywhere:
        return True
    terms = compile_node_selector(selector, "") or ()
    return any(term.matches(node) for term in terms)


def relevant(each: ResourceSlice, node: Node) -> bool:
    spec = each.spec
    if spec.shared_counters:
        return True
    if spec.node_name or spec.all_nodes or spec.node_selector is not None:
        return selects(node, spec.node_name, spec.all_nodes, spec.node_selector)
    return spec.per_device_node_selection and any(
        selects(node, device.node_name, device.all_nodes, device.node_selector)
        for device in spec.devices
    )


def pools_of(node: Node, slices: Sequence[ResourceSlice]) -> list[Pool]:
    found: dict[tuple[str, str], list[ResourceSlice]] = {}
    local = [s for s in slices if s.spec.node_name and not s.spec.shared_counters]
    shared = [s for s in slices if not (s.spec.node_name and not s.spec.shared_counters)]
    for each in (*local, *shared):
        if relevant(each, node):
            found.setdefault((each.spec.driver, each.spec.pool.name), []).append(each)
    pools = []
    for (driver, name), members in found.items():
        pool = _pool(driver, name, members, slices)
        if pool is not None:
            pools.append(pool)
    return sorted(pools, key=lambda pool: (_binding(pool), pool.driver, pool.name))


def _binding(pool: Pool) -> bool:
    return any(c.device.binding_conditions is not None for c in pool.candidates())


def _pool(
    driver: str, name: str, members: list[ResourceSlice], slices: Sequence[ResourceSlice]
) -> Pool | None:
    newest = max(each.spec.pool.generation for each in members)
    members = [each for each in members if each.spec.pool.generation == newest]
    elsewhere: list[ResourceSlice] = []
    # kube-scheduler asks only the slice that it happens to list first.
    for count in {each.spec.pool.resource_slice_count for each in members}:
        if len(members) == count:
            continue
        same = [s for s in slices if (s.spec.driver, s.spec.pool.name) == (driver, name)]
        if any(each.spec.pool.generation > newest for each in same):
            return None
        current = [each for each in same if each.spec.pool.generation == newest]
        if len(current) != count:
            return Pool(driver, name, "incomplete")
        elsewhere = [each for each in current if each not in members]
    members.sort(key=lambda each: each.metadata.name)
    with_devices = [each for each in members if not each.spec.shared_counters]
    names = [device.name for each in with_devices for device in each.spec.devices]
    if len(set(names)) != len(names):
        return Pool(driver, name, "invalid")
    counters: dict[tuple[str, str], int] = {}
    sets: set[str] = set()
    for each in members:
        for counter_set in each.spec.shared_counters:
            if counter_set.name in sets:
                return Pool(driver, name, "invalid")
            sets.add(counter_set.name)
            for key, counter in counter_set.counters.items():
                counters[counter_set.name, key] = nanos(counter.value)
    for each in (*members, *elsewhere):
        for device in each.spec.devices:
            for consumption in device.consumes_counters:
                for key in consumption.counters:
                    if (consumption.counter_set, key) not in counters:
                        return Pool(driver, name, "invalid")
    return Pool(driver, name, "usable", with_devices, elsewhere, counters)


def lookup(device: SliceDevice, driver: str, name: str) -> DeviceAttribute | None:
    if name in device.attributes:
        return device.attributes[name]
    domain, _, bare = name.partition("/")
    return device.attributes.get(bare) if domain == driver else None


def value(attribute: DeviceAttribute) -> tuple[str, object] | None:
    for kind, found in (
        ("string", attribute.string),
        ("int", attribute.int_),
        ("bool", attribute.bool_),
        ("version", attribute.version),
    ):
        if found is not None:
            return kind, found
    return None


@dataclass
class ConstraintState:
    raw: DeviceConstraint
    count: int = 0
    first: DeviceAttribute | None = None
    values: dict[str, DeviceAttribute] = field(default_factory=dict)

    def applies(self, request: str, sub: str) -> bool:
        names = self.raw.requests
        return not names or request in names or (bool(sub) and f"{request}/{sub}" in names)

    def add(self, request: str, sub: str, device: SliceDevice, driver: str) -> bool:
        if not self.applies(request, sub):
            return True
        name = self.raw.match_attribute or self.raw.distinct_attribute or ""
        attribute = lookup(device, driver, name)
        if attribute is None:
            return False
        if self.raw.match_attribute:
            if self.count == 0:
                self.first = attribute
            elif (
                self.first is None
                or value(attribute) is None
                or value(attribute) != value(self.first)
            ):
                return False
        else:
            if self.count:
                for other in self.values.values():
                    if value(attribute) is None or value(attribute) == value(other):
                        return False
            self.values[request] = attribute
        self.count += 1
        return True

    def remove(self, request: str, sub: str) -> None:
        if self.applies(request, sub):
            self.values.pop(request, None)
            self.count -= 1


Request = ExactDeviceRequest | DeviceSubRequest


@dataclass
class Part:
    """One request or alternative."""

    claim: int
    base: str
    sub: str
    raw: Request
    size: int = 0
    every: list[Candidate] | None = None

    @property
    def name(self) -> str:
        return f"{self.base}/{self.sub}" if self.sub else self.base

    @property
    def admin(self) -> bool:
        return isinstance(self.raw, ExactDeviceRequest) and bool(self.raw.admin_access)


class Reference:
    """One attempt on one node."""

    def __init__(
        self, cluster: Cluster, claims: Sequence[ResourceClaim], node: Node, steps: int
    ) -> None:
        self.cluster, self.claims, self.node, self.left = cluster, claims, node, steps
        self.pools = pools_of(node, cluster.slices)
        self.exclusive: set[DeviceId] = set()
        self.shared: set[DeviceId] = set()
        self.taken: dict[DeviceId, dict[str, int]] = {}
        for allocation in cluster.allocated:
            for result in allocation.devices.results:
                key = (result.driver, result.pool, result.device)
                if result.admin_access:
                    continue
                if result.share_id is None:
                    self.exclusive.add(key)
                else:
                    self.shared.add(key)
                    if result.consumed_capacity:
                        amounts = self.taken.setdefault(key, {})
                        for name, raw in result.consumed_capacity.items():
                            amounts[name] = amounts.get(name, 0) + nanos(raw)
        self.marks: dict[DeviceId, set[int]] = {}
        self.shares: dict[DeviceId, list[dict[str, int]]] = {}
        self.consumed: dict[tuple[str, str], dict[tuple[str, str], int]] = {}
        self.results: list[list[tuple[str, DeviceId]]] = [[] for _ in claims]
        self.constraints = [
            [ConstraintState(raw) for raw in claim.spec.devices.constraints] for claim in claims
        ]
        self.parts: list[list[list[Part]]] = []

    def run(self) -> list[Choice] | None:
        """The devices in order, None if there are none."""
        for number, claim in enumerate(self.claims):
            requests = []
            total = 0
            for request in claim.spec.devices.requests or ():
                if request.first_available:
                    parts = [
                        Part(number, request.name, raw.name, raw) for raw in request.first_available
                    ]
                else:
                    assert request.exactly is not None
                    parts = [Part(number, request.name, "", request.exactly)]
                for part in parts:
                    self.prepare(part)
                total += min(part.size for part in parts)
                requests.append(parts)
            if total > LIMIT:
                raise AttemptError("limit")
            self.parts.append(requests)
        if not self.claim_from(0):
            return None
        return [
            (number, name, device)
            for number, results in enumerate(self.results)
            for name, device in results
        ]

    def prepare(self, part: Part) -> None:
        part.size = part.raw.count or 1
        if part.raw.allocation_mode != "All":
            return
        part.every = []
        for pool in self.pools:
            if pool.state != "usable":
                raise AttemptError(pool.state)
            for candidate in pool.candidates():
                if self.selectable(part, candidate) and self.room(part, candidate):
                    part.every.append(candidate)
        part.size = len(part.every)

    def selectable(self, part: Part, candidate: Candidate) -> bool:
        of_class = self.cluster.classes[part.raw.device_class_name]
        for selector in (*of_class.spec.selectors, *part.raw.selectors):
            if not self.matches(selector, candidate):
                return False
        spec = candidate.slice.spec
        device = candidate.device
        return not spec.per_device_node_selection or selects(
            self.node, device.node_name, device.all_nodes, device.node_selector
        )

    def matches(self, selector: DeviceSelector, candidate: Candidate) -> bool:
        assert selector.cel is not None
        device = candidate.device
        try:
            return compile_selector(selector.cel.expression).evaluate(
                CelDevice(
                    candidate.pool.driver,
                    device.attributes,
                    device.capacity,
                    device.allow_multiple_allocations,
                )
            )
        except CelRuntimeError:
            raise AttemptError("cel") from None

    def amounts(self, part: Part, candidate: Candidate) -> dict[str, int] | None:
        asked = part.raw.capacity.requests if part.raw.capacity else {}
        capacity = candidate.device.capacity
        if any(name not in capacity for name in asked):
            return None
        result = {}
        for name, each in capacity.items():
            amount = _rounded(asked.get(name), each)
            if amount is None:
                return None
            result[name] = amount
        return result

    def room(self, part: Part, candidate: Candidate) -> bool:
        amounts = self.amounts(part, candidate)
        if amounts is None:
            return False
        for name, amount in amounts.items():
            total = amount + self.taken.get(candidate.id, {}).get(name, 0)
            total += sum(share[name] for share in self.shares.get(candidate.id, ()))
            if total > nanos(candidate.device.capacity[name].value):
                return False
        return True

    # --- The recursion ----------------------------------------------------------------------

    def claim_from(self, claim: int) -> bool:
        return True if claim == len(self.parts) else self.request_from(claim, 0)

    def request_from(self, claim: int, request: int) -> bool:
        if request == len(self.parts[claim]):
            try:
                return self.claim_from(claim + 1)
            except TooManyResultsError:
                return False
        parts = self.parts[claim][request]
        if not parts[0].sub:
            return self.device_from(parts[0], request, 0, 0)
        all_too_many = True
        for part in parts:
            try:
                if self.device_from(part, request, 0, 0):
                    return True
                all_too_many = False
            except TooManyResultsError:
                continue
        if all_too_many:
            raise TooManyResultsError
        return False

    def device_from(self, part: Part, request: int, number: int, start: int) -> bool:
        self.left -= 1
        if self.left < 0:
            raise GivenUpError
        if part.every is not None and not part.every:
            return False
        if number >= part.size:
            return self.request_from(part.claim, request + 1)
        if len(self.results[part.claim]) + part.size - number > LIMIT:
            raise TooManyResultsError
        if part.every is not None:
            return self.attempt(part, request, number, part.every[number], 0, must=True)
        candidates = [c for pool in self.pools for c in pool.candidates()]
        for at in range(start, len(candidates)):
            candidate = candidates[at]
            if self.in_use(part, candidate.id) or not self.selectable(part, candidate):
                continue
            if not self.room(part, candidate):
                continue
            if self.attempt(part, request, number, candidate, at + 1, must=False):
                return True
        return False

    def in_use(self, part: Part, device: DeviceId) -> bool:
        marks = self.marks.get(device, set())
        return part.claim in marks if part.admin else bool(marks) or device in self.exclusive

    def attempt(
        self,
        part: Part,
        request: int,
        number: int,
        candidate: Candidate,
        start: int,
        must: bool,
    ) -> bool:
        undo = self.take(part, candidate, must)
        if undo is None:
            return False
        try:
            done = self.device_from(part, request, number + 1, start)
        except TooManyResultsError:
            undo()
            raise
        if not done:
            undo()
        return done

    def take(self, part: Part, candidate: Candidate, must: bool) -> Callable[[], None] | None:
        device, key, pool = candidate.device, candidate.id, candidate.pool
        if self.in_use(part, key):
            return None
        undone: list[Callable[[], None]] = []

        def undo() -> None:
            for each in reversed(undone):
                each()

        in_shares = key in self.taken or key in self.shares
        if device.consumes_counters and not (device.allow_multiple_allocations and in_shares):
            self.charge(pool, device, 1)
            undone.append(lambda: self.charge(pool, device, -1))
            if self.overdrawn(pool):
                undo()
                return None
        if not tolerated(part.raw, device):
            undo()
            return None
        for state in self.constraints[part.claim]:
            if not state.add(part.base, part.sub, device, pool.driver):
                undo()
                if must:
                    raise AttemptError("constraint")
                return None
            undone.append(lambda state=state: state.remove(part.base, part.sub))  # type: ignore[misc]
        if not self.room(part, candidate):
            undo()
            return None
        if device.allow_multiple_allocations:
            amounts = self.amounts(part, candidate) or {}
            self.shares.setdefault(key, []).append(amounts)
            undone.append(lambda: self.unshare(key))
        else:
            self.marks.setdefault(key, set()).add(part.claim)
            undone.append(lambda: self.marks[key].discard(part.claim))
        self.results[part.claim].append((part.name, key))
        undone.append(lambda: self.forget(part.claim))
        return undo

    def forget(self, claim: int) -> None:
        self.results[claim].pop()

    def unshare(self, key: DeviceId) -> None:
        self.shares[key].pop()
        if not self.shares[key]:
            del self.shares[key]

    def charge(self, pool: Pool, device: SliceDevice, sign: int) -> None:
        consumed = self.consumed.setdefault((pool.driver, pool.name), {})
        for consumption in device.consumes_counters:
            for name, counter in consumption.counters.items():
                key = (consumption.counter_set, name)
                consumed[key] = consumed.get(key, 0) + sign * nanos(counter.value)

    def overdrawn(self, pool: Pool) -> bool:
        left = dict(pool.counters)
        for each in (*pool.slices, *pool.elsewhere):
            for device in each.spec.devices:
                key = (pool.driver, pool.name, device.name)
                if key in self.exclusive or key in self.shared or key in self.taken:
                    for consumption in device.consumes_counters:
                        for name, counter in consumption.counters.items():
                            left[consumption.counter_set, name] -= nanos(counter.value)
        consumed = self.consumed.get((pool.driver, pool.name), {})
        return any(amount < consumed.get(key, 0) for key, amount in left.items())


def tolerated(raw: Request, device: SliceDevice) -> bool:
    return all(
        taint.effect not in ("NoSchedule", "NoExecute")
        or any(
            toleration.effect in ("", taint.effect)
            and toleration.key in ("", taint.key)
            and (
                toleration.operator == "Exists"
                or (toleration.operator in ("", "Equal") and toleration.value == taint.value)
            )
            for toleration in raw.tolerations
        )
        for taint in device.taints
    )


def _rounded(asked: RawQuantity | None, capacity: DeviceCapacity) -> int | None:
    policy = capacity.request_policy
    if asked is None:
        default = policy.default if policy is not None else None
        amount = nanos(capacity.value if default is None else default)
    else:
        amount = nanos(asked)
        if policy is not None and policy.valid_range is not None and policy.valid_range.min:
            least = nanos(policy.valid_range.min)
            amount = max(amount, least)
            if policy.valid_range.step and amount > least:
                step = nanos(policy.valid_range.step)
                amount = least + -(-(amount - least) // step) * step
        elif policy is not None and policy.valid_values:
            amount = min(
                (nanos(v) for v in policy.valid_values if nanos(v) >= amount), default=amount
            )
    if policy is None or (policy.default is not None and amount == nanos(policy.default)):
        return amount
    if policy.valid_range is not None:
        bounds = policy.valid_range
        if bounds.max is not None and amount > nanos(bounds.max):
            return None
        if bounds.step and (amount - nanos(bounds.min or 0)) % nanos(bounds.step):
            return None
    elif policy.valid_values and amount not in [nanos(v) for v in policy.valid_values]:
        return None
    return amount
