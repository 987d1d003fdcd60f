"""The world around the replicas: performs a plan against the API server of a simulation."""

from __future__ import annotations

import asyncio
from functools import cache

from sandbox.controllers.loop import Controllers
from sandbox.controllers.ownership import Ownership
from sandbox.controllers.resource_claims import ClaimMaker, ClaimReturns
from sandbox.errors import ApiFailure
from sandbox.numa.tasks import CRD as TOPOLOGIES
from scheduler.config.loading import Configuration
from tests.builders import Json
from tests.daemon.support import configuration
from tests.operators.support import DEFINITION as POD_GROUPS
from tests.sim import hooks, objects
from tests.sim.ground import Ground
from tests.sim.plan import (
    LEADER,
    AddPod,
    AddVolume,
    AnyAction,
    FaultAction,
    GroundAction,
    Plan,
    UserAction,
)
from tests.sim.simulation import Simulation
from tests.sim.solver import Solver
from tests.sim.trouble import Trouble
from tests.sim.users import Users
from tests.sim.volumes import VolumeController

HOST = "world"
MIN_PENDING = 5
"""Few enough that backlogs of plans are placed at once."""


class World:
    """Everything but the replicas and the API server, of one plan."""

    def __init__(self, simulation: Simulation, plan: Plan, solver: Solver) -> None:
        self._simulation = simulation
        self._plan = plan
        self._registry = simulation.registry
        self._webhook = hooks.Webhook()
        self._switch = hooks.Switch()
        self._define()
        self._users = Users(self._registry)
        self._ground = Ground(self._registry, plan.nodes, simulation.fork("ground"))
        self._trouble = Trouble(simulation, self._webhook, self._switch, solver)
        self._tasks: list[asyncio.Task[None]] = []

    def _define(self) -> None:
        """What a cluster has before anybody uses it."""
        made: list[tuple[str, str, Json]] = [
            ("customresourcedefinitions", "apiextensions.k8s.io", POD_GROUPS),
            ("customresourcedefinitions", "apiextensions.k8s.io", TOPOLOGIES),
            ("deviceclasses", "resource.k8s.io", objects.device_class()),
            *(("storageclasses", "storage.k8s.io", each) for each in objects.storage_classes()),
            *(("priorityclasses", "scheduling.k8s.io", e) for e in objects.priority_classes()),
        ]
        for plural, group, body in made:
            resource = self._registry.builtin(plural, group)
            self._registry.create(resource, "", objects.copied(body))

    async def start(self) -> None:
        """Let kubelets and controllers begin, and the replicas start."""
        ownership = Ownership(self._registry.store)
        claims = (ClaimMaker(self._registry, ownership), ClaimReturns(self._registry))
        await Controllers(self._registry, ownership, claims).__aenter__()
        added = [each.action for each in self._plan.actions]
        await self._ground.start(
            foreign=any(isinstance(each, AddPod) and each.pod.foreign for each in added)
        )
        if any(isinstance(each, AddVolume) for each in added):
            run = VolumeController(self._registry).run()
            self._tasks.append(asyncio.get_running_loop().create_task(run))
        if self._plan.webhook:
            await self._simulation.host(hooks.HOST).task(self._webhook.start())
        registry = hooks.with_plugin(self._switch) if self._plan.plugin else None
        config = replicated(self._plan)
        for name in self._plan.replicas:
            self._simulation.replica(name, config, registry=registry, supervised=True).start()

    async def perform(self) -> None:
        """All actions, each at its time; when this returns, all faults are over."""
        for each in self._plan.actions:
            await self._until(each.seconds)
            self._attempt(each.action)
        await self._until(self._plan.seconds)
        await self._trouble.end()

    async def _until(self, seconds: float) -> None:
        await asyncio.sleep(max(0.0, seconds - self._simulation.now))

    def _attempt(self, action: AnyAction) -> None:
        try:
            if isinstance(action, UserAction):
                self._users.do(action)
            elif isinstance(action, GroundAction):
                self._ground.do(action)
            elif isinstance(action, FaultAction) and self._concerns(action):
                self._simulation.history.note(HOST, f"fault: {action}")
                self._trouble.do(action)
        except ApiFailure as refusal:
            self._simulation.history.note(HOST, f"{action}: {refusal}")

    def _concerns(self, action: FaultAction) -> bool:
        """Whether the replica exists: a plan that was shrunk has fewer."""
        replica = getattr(action, "replica", None)
        return replica in (None, LEADER, *self._plan.replicas)


def replicated(plan: Plan) -> Configuration:
    """How the replicas are configured: gangs, cells, and what the plan plugs in."""
    return _configured(plan.webhook, plan.plugin, plan.batch)


@cache
def _configured(webhook: bool, plugin: bool, batch: bool) -> Configuration:
    names = ["Coscheduling", "NodeResourceTopologyMatch"]
    names += [hooks.WEBHOOK] if webhook else []
    names += [hooks.PLUGIN] if plugin else []
    enabled = [{"name": name} for name in names]
    cells = {"name": "NodeResourceTopologyMatch", "args": {"cacheResyncPeriodSeconds": 5}}
    profile: Json = {"plugins": {"multiPoint": {"enabled": enabled}}, "pluginConfig": [cells]}
    kube: Json = {"leaderElection": {"leaderElect": True}, "profiles": [profile]}
    own: Json = {"webhooks": [hooks.webhook_settings()]} if webhook else {}
    if batch:
        own["batch"] = {"enabled": True, "minPending": MIN_PENDING, "compare": False}
    registry = hooks.with_plugin(hooks.Switch())
    return configuration(
        kube=kube, own={**own, "binding": {"timeoutSeconds": 10}}, registry=registry
    )
