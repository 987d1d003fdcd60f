"""All controllers, as a playground runs them."""

from __future__ import annotations

from sandbox.controllers.daemon_sets import DaemonSets
from sandbox.controllers.deployments import Deployments
from sandbox.controllers.disruption_budgets import DisruptionBudgets
from sandbox.controllers.jobs import Jobs
from sandbox.controllers.loop import Controllers
from sandbox.controllers.ownership import Ownership
from sandbox.controllers.replica_sets import ReplicaSets
from sandbox.controllers.resource_claims import ClaimMaker, ClaimReturns
from sandbox.controllers.stateful_sets import StatefulSets
from sandbox.registry import Registry


def controller_manager(registry: Registry) -> Controllers:
    """The controllers of a registry; `async with controller_manager(registry):` runs them."""
    ownership = Ownership(registry.store)
    return Controllers(
        registry,
        ownership,
        (
            Deployments(registry, ownership),
            ReplicaSets(registry, ownership),
            StatefulSets(registry, ownership),
            DaemonSets(registry, ownership),
            Jobs(registry, ownership),
            DisruptionBudgets(registry),
            ClaimMaker(registry, ownership),
            ClaimReturns(registry),
        ),
    )
