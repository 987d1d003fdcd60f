"""The search for devices: kube-scheduler's depth-first order, without its exponential detours.

Requests are served in order; a request takes its devices in order, each after the one before it;
the first whole solution wins. Failure goes back to the last choice. `pruning` says which choices
cannot lead anywhere; leaving these out changes neither the verdict nor the devices.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from scheduler.devices.board import Board, Holdings, Taken
from scheduler.devices.budget import MOST_WORK, OutOfWorkError, WorkBudget
from scheduler.devices.capacity import Amount
from scheduler.devices.demand import ERROR, MOST_RESULTS, YES, Ask, Demand
from scheduler.devices.faults import TIMED_OUT, DeviceFault, Of, Ref, of_claim
from scheduler.devices.lookahead import Lookahead
from scheduler.devices.pools import PoolStatus
from scheduler.devices.pruning import Pruning


@dataclass(frozen=True, slots=True)
class Pick:
    """A device that was chosen: where it is, and for which request of which claim."""

    ask: Ask
    position: int
    amounts: Mapping[str, Amount] | None
    """What a share takes of each capacity; None if the device is taken as a whole."""


@dataclass(frozen=True, slots=True)
class SearchOutcome:
    """What a search found: devices, nothing, or a fault."""

    picks: tuple[tuple[Pick, ...], ...] | None = None
    """Per claim, in the order of results."""
    fault: DeviceFault | None = None
    invalid: bool = False
    """Nothing fits, and some pool is invalid."""
    steps: int = 0
    score: int = 0
    """What the chosen alternatives are worth: 8 for a first choice, 7 for a second."""
    fit: int = 0
    """0 to 100: how little the devices leave stranded, where that is requested."""

    @property
    def fits(self) -> bool:
        """Whether all claims get their devices."""
        return self.picks is not None


Order = Callable[[Ask, Sequence[int]], Sequence[int]]
"""In which order the candidates of a request are tried."""


class _End(Enum):
    """How a branch ended."""

    FAILED = 1
    TOO_MANY = 2
    """More results than a claim can hold: other devices do not help, fewer may."""


class _StopError(Exception):
    def __init__(self, fault: DeviceFault) -> None:
        super().__init__()
        self.fault = fault


class _NothingError(Exception):
    """Nothing can be found, whatever is tried."""


@dataclass(eq=False, slots=True)
class _ClaimEnd:
    """The end of a claim: what follows belongs to the next one."""


@dataclass(eq=False, slots=True)
class _Alternatives:
    claim: int
    request: int
    at: int = 0
    all_too_many: bool = True


@dataclass(eq=False, slots=True)
class _Every:
    """All devices of a request, taken together."""

    ask: Ask


@dataclass(eq=False, slots=True)
class _One:
    """The choice of one device."""

    ask: Ask
    request: int
    level: int
    at: int
    """Where the next candidate is looked for."""
    tried: set[object] = field(default_factory=set)
    memo: object = None


_Frame = _ClaimEnd | _Alternatives | _Every | _One


class DeviceSearch:
    """One search on one board."""

    def __init__(
        self,
        demand: Demand,
        board: Board,
        order: Order | None = None,
        most_work: int = MOST_WORK,
    ) -> None:
        self._demand = demand
        self._board = board
        self._order = order
        self._budget = WorkBudget(most_work)
        self._held = Holdings(demand, board)
        self._candidates: dict[int, Sequence[int]] = {}
        self._every: dict[int, list[int]] = {}
        self._stack: list[_Frame] = []
        self._errors = self._has_errors()
        self._pruning = Pruning(demand, board, self._held, self._budget, self._errors)
        self._lookahead = Lookahead(demand, board, self._held, self._candidates_of, self._every)

    def run(self) -> SearchOutcome:
        """Search; the outcome says what was found."""
        try:
            self._prepare()
            found = self._descend_and_return()
        except _StopError as stop:
            return SearchOutcome(fault=stop.fault, steps=self._budget.steps)
        except _NothingError:
            found = False
        except OutOfWorkError:
            return SearchOutcome(fault=TIMED_OUT, steps=self._budget.steps)
        if not found:
            invalid = PoolStatus.INVALID in self._board.statuses
            return SearchOutcome(invalid=invalid, steps=self._budget.steps)
        fault = self._unsupported_selector()
        if fault is not None:
            return SearchOutcome(fault=fault, steps=self._budget.steps)
        picks = tuple(tuple(_pick(taken) for taken in claim) for claim in self._held.results)
        return SearchOutcome(picks, steps=self._budget.steps, score=self._score())

    # --- Before the search: what all requests ask for -----------------------------------------

    def _prepare(self) -> None:
        for number, plan in enumerate(self._demand.plans):
            least = 0
            for request in plan.requests:
                least += min(self._size(ask) for ask in request)
            if least > MOST_RESULTS:
                raise _StopError(
                    of_claim(
                        number,
                        f": number of requested devices {least} exceeds the claim limit of "
                        f"{MOST_RESULTS}",
                    )
                )
            if plan.fault is not None:
                raise _StopError(plan.fault)

    def _size(self, ask: Ask) -> int:
        if ask.fault is not None:
            raise _StopError(ask.fault)
        if not ask.every:
            return ask.count
        every = self._every[ask.number] = self._collect(ask)
        return len(every)

    def _collect(self, ask: Ask) -> list[int]:
        """All devices that a request selects, whether in use or not."""
        board, found, position = self._board, [], 0
        for view, status in enumerate(board.statuses):
            if status is not PoolStatus.USABLE:
                raise _StopError(_unusable(ask, view, status))
            while position < len(board.views) and board.views[position] == view:
                fit = board.classes[position].fits[ask.number]
                if fit.verdict == ERROR and fit.fault is not None:
                    raise _StopError(fit.fault)
                selected = fit.verdict == YES and not board.states[position].elsewhere
                if selected and self._held.has_room(ask, position):
                    found.append(position)
                position += 1
        return found

    def _has_errors(self) -> bool:
        """Whether some search order may meet an error: then no choice is left out by symmetry."""
        asks = self._demand.asks
        if any(ask.every and ask.constraints for ask in asks):
            return True
        return any(
            fit.verdict == ERROR for device in set(self._board.classes) for fit in device.fits
        )

    def _unsupported_selector(self) -> DeviceFault | None:
        for number, claim in enumerate(self._held.results):
            for taken in claim:
                terms = self._board.classes[taken.position].terms
                if not terms:  # the node itself is what the claim selects
                    break
                if terms > 1:
                    text = f": unsupported ResourceSlice.NodeSelector with {terms} terms"
                    name = Ref(Of.CLAIM_NAME, number)
                    return DeviceFault(("create NodeSelector for claim ", name, text))
        return None

    def _score(self) -> int:
        return sum(8 - frame.at for frame in self._stack if isinstance(frame, _Alternatives))

    # --- The search -----------------------------------------------------------------------------

    def _descend_and_return(self) -> bool:
        """Go down until all claims are served, or up until nothing is left to try."""
        end = self._enter(0, 0)
        while end is not None or not self._done:
            if end is None:
                end = self._advance()
            elif not self._stack:
                if end is _End.TOO_MANY:
                    raise _StopError(DeviceFault(("allocation max size exceeded",)))
                return False
            else:
                end = self._back(end)
        return True

    _done = False
    _looked = False

    def _enter(self, claim: int, request: int) -> _End | None:
        """Begin a request; None: a frame was pushed, or everything is served."""
        plans = self._demand.plans
        while claim < len(plans) and request >= len(plans[claim].requests):
            self._stack.append(_ClaimEnd())
            claim, request = claim + 1, 0
        if claim == len(plans):
            self._done = True
            return None
        asks = plans[claim].requests[request]
        if asks[0].parent:
            self._stack.append(_Alternatives(claim, request))
        return self._enter_ask(asks[0], request)

    def _enter_ask(self, ask: Ask, request: int) -> _End | None:
        self._budget.step()
        every = self._every.get(ask.number)
        if every is not None and not every:
            return _End.FAILED
        needed = ask.count if every is None else len(every)
        if needed <= 0:
            return self._enter(ask.claim, request + 1)
        if len(self._held.results[ask.claim]) + needed > MOST_RESULTS:
            return _End.TOO_MANY
        if every is not None:
            return self._take_every(ask, request, every)
        return self._push_one(ask, request, 0, 0)

    def _take_every(self, ask: Ask, request: int, every: list[int]) -> _End | None:
        for number, position in enumerate(every):
            self._budget.step()
            taken = self._held.take(ask, position)
            if taken:
                continue
            for _ in range(number):
                self._held.give_back(ask.claim)
            if taken is None:
                raise _StopError(_constrained(ask, position))
            return _End.FAILED
        self._stack.append(_Every(ask))
        return self._enter(ask.claim, request + 1)

    def _push_one(self, ask: Ask, request: int, level: int, at: int) -> _End | None:
        candidates = self._candidates_of(ask)
        frame = _One(ask, request, level, at)
        if self._pruning.hopeless(ask, candidates, at, ask.count - level):
            return _End.FAILED
        if self._budget.hard:
            self._look_from_the_start()
            if self._nothing_ahead(ask.claim, request, level):
                return _End.FAILED
            frame.memo = self._pruning.memo_key(ask, request, level, candidates, at)
            if self._pruning.known_to_fail(frame.memo):
                return _End.FAILED
        self._stack.append(frame)
        return None

    def _look_from_the_start(self) -> None:
        """Once, when the search turns out hard: whether all requests could ever be served."""
        if self._looked or self._errors:
            return
        self._looked = True
        held = Holdings(self._demand, self._board)
        pruning = Pruning(self._demand, self._board, held, self._budget, self._errors)
        lookahead = Lookahead(self._demand, self._board, held, self._candidates_of, self._every)
        if not lookahead.enough_devices() or lookahead.hopeless(0, 0, pruning.most):
            raise _NothingError

    def _nothing_ahead(self, claim: int, request: int, level: int) -> bool:
        """Whether some request from here on cannot be served, whatever is chosen.

        Between two devices of a request only those are asked that a single device can spoil.
        """
        if self._errors:  # kube-scheduler may meet an error before it finds that out
            return False
        if level:
            self._budget.spend(self._lookahead.cost_of_all(claim, request))
            return self._lookahead.all_lost(claim, request)
        self._budget.spend(self._lookahead.cost(claim, request))
        return self._lookahead.hopeless(claim, request, self._pruning.most)

    def _candidates_of(self, ask: Ask) -> Sequence[int]:
        found = self._candidates.get(ask.number)
        if found is None:
            board = self._board
            found = [
                position
                for position, device in enumerate(board.classes)
                if device.number and self._may_be_tried(ask, position)
            ]
            if self._order is not None:
                found = self._order(ask, found)
            self._candidates[ask.number] = found
        return found

    def _may_be_tried(self, ask: Ask, position: int) -> bool:
        """What does not change during the search: in use, selected, here, large enough."""
        fit = self._board.classes[position].fits[ask.number]
        state = self._board.states[position]
        if not fit.verdict or (state.exclusive and not ask.admin):
            return False
        if fit.verdict == ERROR:
            return True
        if state.elsewhere:
            return False
        return self._held.had_room(ask, position)

    def _advance(self) -> _End | None:
        """Try the next candidate of the frame on top."""
        frame = self._stack[-1]
        assert isinstance(frame, _One)  # nothing else waits for a choice
        ask, held = frame.ask, self._held
        candidates = self._candidates_of(ask)
        while frame.at < len(candidates):
            position = candidates[frame.at]
            frame.at += 1
            if held.in_use(ask, position):
                continue
            fit = self._board.classes[position].fits[ask.number]
            if fit.verdict == ERROR and fit.fault is not None:
                raise _StopError(fit.fault)
            if not held.has_room(ask, position):
                continue
            like = self._pruning.alike(position)
            if like in frame.tried:
                continue
            if like is not None:
                frame.tried.add(like)
            self._budget.step()
            if not held.take(ask, position):
                continue
            if frame.level + 1 == ask.count:
                return self._enter(ask.claim, frame.request + 1)
            return self._push_one(ask, frame.request, frame.level + 1, frame.at)
        self._stack.pop()
        self._pruning.failed(frame.memo)
        return _End.FAILED

    def _back(self, end: _End) -> _End | None:
        """A branch ended: undo the choice on top and say what comes next."""
        frame = self._stack[-1]
        if isinstance(frame, _One):
            self._held.give_back(frame.ask.claim)
            if end is _End.FAILED:
                return None
            self._stack.pop()
            return end
        if isinstance(frame, _Alternatives):
            return self._next_alternative(frame, end)
        self._stack.pop()
        if isinstance(frame, _ClaimEnd):
            # Other devices for earlier claims may leave room for a smaller alternative here.
            return _End.FAILED
        for _ in self._every[frame.ask.number]:
            self._held.give_back(frame.ask.claim)
        return end

    def _next_alternative(self, frame: _Alternatives, end: _End) -> _End | None:
        if end is _End.FAILED:
            frame.all_too_many = False
        frame.at += 1
        asks = self._demand.plans[frame.claim].requests[frame.request]
        if frame.at == len(asks):
            self._stack.pop()
            return _End.TOO_MANY if frame.all_too_many else _End.FAILED
        return self._enter_ask(asks[frame.at], frame.request)


def _pick(taken: Taken) -> Pick:
    return Pick(taken.ask, taken.position, taken.amounts)


def _unusable(ask: Ask, view: int, status: PoolStatus) -> DeviceFault:
    how = "being updated" if status is PoolStatus.INCOMPLETE else "invalid"
    asks = f", request {ask.name}: asks for all devices, but resource pool "
    return DeviceFault(
        ("claim ", Ref(Of.CLAIM, ask.claim), asks, Ref(Of.POOL, view), f" is currently {how}")
    )


def _constrained(ask: Ask, position: int) -> DeviceFault:
    return DeviceFault(
        (
            "claim ",
            Ref(Of.CLAIM, ask.claim),
            f", request {ask.name}: cannot add device ",
            Ref(Of.DEVICE, position),
            " because a claim constraint would not be satisfied",
        )
    )
