"""A failing plan made small: fewer actions, nodes and replicas, as long as it fails alike.

Delta debugging: leave a part of the actions out, then smaller parts, until none can go. Plans are
made so that any action may be missing. Every candidate is run; `MOST_RUNS` bounds that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

import msgspec

from tests.sim.drawing import QUIET_SECONDS
from tests.sim.plan import NodePlan, Plan
from tests.sim.run import run

T = TypeVar("T")

MOST_RUNS = 400


class Shrinking:
    """One search. ``fails`` says whether a plan still shows what is sought."""

    def __init__(self, fails: Callable[[Plan], bool], most_runs: int = MOST_RUNS) -> None:
        self._fails = fails
        self.left = most_runs

    def shrink(self, plan: Plan) -> Plan:
        """The smallest plan that was found; the same if none is smaller."""
        before = None
        while before != plan and self.left > 0:
            before = plan
            plan = self._fewer_actions(plan)
            plan = self._fewer_nodes(plan)
            for simplify in _SIMPLER:
                plan = self._better(simplify(plan), plan)
            plan = self._fewer_replicas(plan)
        return plan

    def _better(self, candidate: Plan, plan: Plan) -> Plan:
        if candidate == plan or self.left <= 0:
            return plan
        self.left -= 1
        return candidate if self._fails(candidate) else plan

    def _fewer_actions(self, plan: Plan) -> Plan:
        def with_actions(actions: Sequence[object]) -> Plan:
            return msgspec.structs.replace(plan, actions=tuple(actions))

        return with_actions(self._fewer(list(plan.actions), with_actions))

    def _fewer_nodes(self, plan: Plan) -> Plan:
        def with_nodes(nodes: Sequence[NodePlan]) -> Plan:
            return msgspec.structs.replace(plan, nodes=tuple(nodes))

        return with_nodes(self._fewer(list(plan.nodes), with_nodes))

    def _fewer_replicas(self, plan: Plan) -> Plan:
        for count in range(1, len(plan.replicas)):
            fewer = msgspec.structs.replace(plan, replicas=plan.replicas[:count])
            if self._better(fewer, plan) == fewer:
                return fewer
        return plan

    def _fewer(self, parts: list[T], make: Callable[[Sequence[T]], Plan]) -> list[T]:
        size = len(parts) // 2
        while size > 0:
            start = 0
            while start < len(parts):
                rest = parts[:start] + parts[start + size :]
                if self._better(make(rest), make(parts)) == make(rest):
                    parts = rest
                else:
                    start += size
            size //= 2
        return parts


def _without_webhook(plan: Plan) -> Plan:
    return msgspec.structs.replace(plan, webhook=False)


def _without_plugin(plan: Plan) -> Plan:
    return msgspec.structs.replace(plan, plugin=False)


def _without_batches(plan: Plan) -> Plan:
    return msgspec.structs.replace(plan, batch=False)


def _shorter(plan: Plan) -> Plan:
    last = max((each.seconds for each in plan.actions), default=0.0)
    return msgspec.structs.replace(plan, seconds=min(plan.seconds, last + 1.0))


def _less_quiet(plan: Plan) -> Plan:
    return msgspec.structs.replace(plan, quiet=min(plan.quiet, QUIET_SECONDS))


def shrink(plan: Plan, most_runs: int = MOST_RUNS) -> Plan:
    """The smallest plan found that breaks one of the rules that this one breaks."""
    sought = run(plan).rules

    def fails(candidate: Plan) -> bool:
        return bool(run(candidate).rules & sought)

    return Shrinking(fails, most_runs).shrink(plan) if sought else plan


_SIMPLER = (_without_webhook, _without_plugin, _without_batches, _shorter, _less_quiet)
