"""Wires the core from a configuration: the one place that imports all parts.

The daemon and the simulation both start here; they differ only in the outlet they hand in and in
who feeds ``event_handlers``.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from scheduler import machine
from scheduler.config.loading import Configuration, documents_of, from_dicts, own_settings
from scheduler.config.plugins import Available, Enabled, resolve_plugins
from scheduler.config.problems import ConfigError, ConfigProblem
from scheduler.config.schema import EquivalenceSettings as EquivalenceConfig
from scheduler.config.schema import Profile
from scheduler.config.webhooks import with_webhooks
from scheduler.equivalence import debug_view
from scheduler.equivalence.cache import EquivalenceCache
from scheduler.flow.process import SolverProcess
from scheduler.framework.discovery import DiscoveryError, discover, registry_of
from scheduler.framework.faults import PluginFault, PluginFaultReporter
from scheduler.framework.registry import Registry, merge, points_of
from scheduler.framework.runtime import Framework
from scheduler.framework.simple import completed
from scheduler.model.journal import Journal
from scheduler.model.objects import KINDS
from scheduler.model.podinfo import PodInfo
from scheduler.model.status import Status, error
from scheduler.observe.decisions import Decisions
from scheduler.observe.logs import get_logger
from scheduler.observe.metrics import Metrics
from scheduler.pipeline import evaluation, pod_groups
from scheduler.pipeline.attempt import Attempt
from scheduler.pipeline.background import Background
from scheduler.pipeline.batch.stage import BatchConfig
from scheduler.pipeline.binding import Bindings
from scheduler.pipeline.confirmation import Unconfirmed
from scheduler.pipeline.event_handlers import EventHandlers
from scheduler.pipeline.failure import FailureHandler
from scheduler.pipeline.headroom import Headroom
from scheduler.pipeline.permits import Permits
from scheduler.pipeline.plugin_handle import HandlePermits, HandleQueue, HandleRun
from scheduler.pipeline.refusals import Refusals
from scheduler.pipeline.scheduler import Scheduler
from scheduler.plugin_api import Handle, Outlet, Plugin, PluginFactory
from scheduler.plugin_api.memory import Memories
from scheduler.plugin_api.waiting import Waits
from scheduler.plugins.table import IN_TREE
from scheduler.queueing.queued_pod import QueuedPod, SortKey
from scheduler.queueing.scheduling_queue import SchedulingQueue
from scheduler.state.cache import ClusterState
from scheduler.webhooks import suspension
from scheduler.webhooks.building import RemotePlugins
from scheduler.webhooks.recorded import RecordedAnswers

log = get_logger(__name__)

OWN_HINTS = {**evaluation.HINTS, **pod_groups.HINTS, **suspension.HINTS}
"""The events that may cure rejections that no plugin signs."""
_GATED = "the pod stays out of the queue until an event that the plugin listens to"


@dataclass(frozen=True, slots=True)
class Core:
    """A scheduler without its edges: give it changes, and it gives decisions to its outlet."""

    config: Configuration
    metrics: Metrics
    decisions: Decisions
    state: ClusterState
    frameworks: Mapping[str, Framework]
    queue: SchedulingQueue
    event_handlers: EventHandlers
    bindings: Bindings
    unconfirmed: Unconfirmed
    headroom: Headroom
    scheduler: Scheduler
    suspension: suspension.Suspension[Attempt]
    permits: Permits
    background: Background
    remotes: RemotePlugins
    equivalence: EquivalenceCache | None
    memories: Memories
    """What is kept of pods, and goes with them."""
    solver: SolverProcess | None
    """The process that solves batches, to be closed at the end; None if there are none."""

    def kinds(self) -> list[str]:
        """The kinds to watch: nodes and pods, and what some plugin looks up or listens to."""
        observed = {kind for f in self.frameworks.values() for kind in f.observed_kinds()}
        return ["Node", "Pod", *sorted(observed)]

    def cancel(self) -> None:
        """Drop attempts, calls, bindings and background work at once."""
        self.scheduler.stop()
        self.bindings.cancel()
        self.background.cancel()

    async def stop(self) -> None:
        """Drop all work and wait for its end; nothing is written or called after this."""
        await self.suspension.stop()
        await self.bindings.stop()
        await self.background.stop()
        await self.remotes.close()
        if self.solver is not None:
            await self.solver.close()

    @property
    def seed(self) -> int:
        """What breaks ties between equal nodes, besides their names."""
        return self.config.equipoise.tie_break_seed


def available(registry: Registry = IN_TREE) -> Available:
    """The plugins that exist and the points each implements, for checking a configuration."""
    return {name: points_of(factory) for name, factory in registry.items()}


def load(path: str | Path, environ: Mapping[str, str] = os.environ) -> Configuration:
    """Read a configuration file and the plugins it names. Raises ``ConfigError``, or OSError."""
    return configure(documents_of(path), environ)


def configure(
    documents: Sequence[Mapping[str, Any]], environ: Mapping[str, str] = os.environ
) -> Configuration:
    """The configuration that documents stand for, checked against all plugins there are.

    Plugins from outside the tree are loaded for it: their code runs. Raises ``ConfigError``.
    """
    try:
        found = discover(own_settings(documents).plugins.directory, IN_TREE)
    except DiscoveryError as fault:
        raise ConfigError(ConfigProblem("plugins", text) for text in fault.problems) from fault
    config = from_dicts(documents, available(registry_of(found, IN_TREE)), environ)
    return replace(config, found=tuple(found))


def assemble(
    config: Configuration,
    outlet: Outlet,
    metrics: Metrics,
    *,
    registry: Registry | None = None,
    without: Collection[str] = (),
    only_in_tree: Collection[str] = (),
    dry: bool = False,
    clock: Callable[[], float] | None = None,
    journal: Journal | None = None,
    recorded: RecordedAnswers | None = None,
) -> Core:
    """Build the core of a configuration, except for the extension points ``without``.

    At the points ``only_in_tree`` no plugins from outside the tree run.

    A ``dry`` one calls webhooks and extenders for verdicts only, and never to reserve or bind.
    Without a registry, the plugins are those of the tree and those the configuration came with.
    A ``journal`` records each step, and is the clock of plugins. With ``recorded`` answers,
    no webhook or extender is called.
    Raises ``ConfigError`` if one of them cannot be made.
    """
    if registry is None:
        registry = registry_of(config.found, IN_TREE)
    if clock is None:
        clock = machine.clock()
    state = ClusterState()
    state.journal = journal
    decisions = Decisions()
    background = Background()
    frameworks: dict[str, Framework] = {}
    memories = Memories()
    memories.adopt(decisions.history.kept)
    waits = Waits(outlet)
    handle_queue = HandleQueue()
    remotes = RemotePlugins(config, metrics, clock, journal, recorded)
    registry = merge(registry, remotes.factories)
    fault_reporter = PluginFaultReporter(
        metrics, partial(_warn, outlet), clock, config.equipoise.plugins.slow_after
    )
    for profile in config.scheduler.profiles:
        name = profile.scheduler_name
        handle = Handle(
            profile=name,
            state=state,
            queue=handle_queue,
            run=HandleRun(frameworks, name, background, journal.clock if journal else clock),
            permits=HandlePermits(waits),
            write=outlet,
            memories=memories,
            metrics=metrics,
            settings=config.equipoise,
        )
        enabled = _enabled(config, profile, remotes, registry)
        if dry:
            enabled = remotes.without_mutating(enabled)
        running = {
            point: _in_tree(entries, registry) if point in only_in_tree else entries
            for point, entries in enabled.items()
            if point not in without
        }
        frameworks[name] = _framework(
            profile, registry, running, enabled, handle, remotes, fault_reporter, waits
        )
    queue = _queue(config, frameworks, state, metrics, clock)
    handle_queue.connect(queue)
    equivalence = _equivalence(config.equipoise.equivalence, frameworks, state)
    if equivalence is not None:
        metrics.readings.follow(partial(debug_view.readings, equivalence))
    _follow_caches(metrics, state, queue, memories, remotes, decisions, equivalence)
    metrics.tables.follow(*state.tables(), *decisions.history.kept.tables())
    batch = _batch(config, clock)
    failures = FailureHandler(queue, outlet, metrics, decisions, clock)
    memories.adopt(failures.told)
    unconfirmed = Unconfirmed(config.equipoise.binding.confirm_seconds, clock)
    headroom = Headroom(
        state, frameworks, metrics, config.equipoise.binding.headroom_seconds, clock
    )
    bindings = Bindings(
        queue, outlet, failures, metrics, decisions, unconfirmed, waits, headroom, clock=clock
    )
    metrics.waiting_pods.follow("plugins", lambda: len(waits.by_plugins))
    metrics.waiting_pods.follow("outside", lambda: len(waits.held))
    metrics.waiting_pods.follow("headroom", lambda: len(headroom))
    limit = config.equipoise.max_suspended_pods
    suspended = suspension.Suspension[Attempt](queue, metrics, limit, journal)
    scheduler = Scheduler(
        frameworks,
        state,
        queue,
        bindings,
        failures,
        metrics,
        suspended,
        equivalence=equivalence,
        batch=batch,
        tie_break_seed=config.equipoise.tie_break_seed,
        clock=clock,
    )
    limits = config.equipoise.limits
    event_handlers = EventHandlers(
        state,
        queue,
        frameworks,
        metrics,
        suspended,
        memories,
        unconfirmed,
        waits,
        headroom,
        Refusals(frameworks, metrics, decisions, clock),
        limits,
    )
    return Core(
        config=config,
        metrics=metrics,
        decisions=decisions,
        state=state,
        frameworks=frameworks,
        queue=queue,
        event_handlers=event_handlers,
        bindings=bindings,
        unconfirmed=unconfirmed,
        headroom=headroom,
        scheduler=scheduler,
        suspension=suspended,
        permits=Permits(bindings, waits, metrics),
        background=background,
        remotes=remotes,
        equivalence=equivalence,
        memories=memories,
        solver=batch.solver if batch else None,
    )


def _follow_caches(
    metrics: Metrics,
    state: ClusterState,
    queue: SchedulingQueue,
    memories: Memories,
    remotes: RemotePlugins,
    decisions: Decisions,
    equivalence: EquivalenceCache | None,
) -> None:
    """Show in metrics what is kept; plugins and the edges do so themselves."""
    metrics.caches.follow("state", state.usage)
    metrics.caches.follow("queue", queue.view.usage)
    metrics.caches.follow("memories", memories.usage)
    metrics.caches.follow(
        "decisions",
        lambda: {"decisions": decisions.usage(), "verdict_history": decisions.history.usage()},
    )
    if remotes.originals is not None:
        metrics.caches.follow("originals", remotes.originals.usage)
    if equivalence is not None:
        metrics.caches.follow("equivalence", equivalence.usage)


def _batch(config: Configuration, clock: Callable[[], float]) -> BatchConfig | None:
    settings = config.equipoise.batch
    if not settings.enabled:
        return None
    return BatchConfig(settings, SolverProcess(settings.solver_timeout, clock=clock))


def _equivalence(
    config: EquivalenceConfig, frameworks: Mapping[str, Framework], state: ClusterState
) -> EquivalenceCache | None:
    if not config.enabled:
        return None
    declared = {name: framework.declarations() for name, framework in frameworks.items()}
    silent = {
        each.plugin
        for points in declared.values()
        for plugins in points.values()
        for each in plugins
        if each.reads is None
    }
    for plugin in sorted(silent):
        log.warning(
            "Plugin does not declare what it reads: its results are not cached", plugin=plugin
        )
    return EquivalenceCache(
        state,
        declared,
        by_controller=config.key == "ControllerRef",
        budget=config.budget_mebibytes * 2**20,
    )


def _warn(outlet: Outlet, pod: PodInfo, reason: str, note: str) -> None:
    outlet.record_event(pod, "Warning", reason, "Scheduling", note)


def _enabled(
    config: Configuration,
    profile: Profile,
    remotes: RemotePlugins,
    registry: Registry,
) -> dict[str, list[Enabled]]:
    """The plugins at each extension point of a profile, in order."""
    exist = with_webhooks(available(registry), config.equipoise.webhooks) or {}
    own = config.equipoise.own_points(profile.scheduler_name)
    return remotes.joined(resolve_plugins(profile, exist, own))


def _in_tree(entries: Sequence[Enabled], registry: Registry) -> list[Enabled]:
    return [entry for entry in entries if registry[entry.name] is IN_TREE.get(entry.name)]


def _framework(
    profile: Profile,
    registry: Registry,
    running: Mapping[str, Sequence[Enabled]],
    enabled: Mapping[str, Sequence[Enabled]],
    handle: Handle,
    remotes: RemotePlugins,
    fault_reporter: PluginFaultReporter,
    waits: Waits,
) -> Framework:
    # PostFilter plugins can still preview what they would do.
    post_filters = [entry.name for entry in enabled.get("postFilter", ())]
    names = [entry.name for entries in running.values() for entry in entries] + post_filters
    plugins = {
        name: _made(name, registry[name], profile, handle)
        for name in dict.fromkeys([*names, *remotes.trimmers()])
    }
    external = [name for name in plugins if registry[name] is not IN_TREE.get(name)]
    try:
        framework = Framework(
            profile.scheduler_name,
            plugins,
            running,
            handle.metrics,
            fault_reporter,
            external,
            post_filters,
            remotes.trimmers(),
            waits.by_plugins,
        )
        observed = framework.observed()
    except ValueError as fault:
        raise ConfigError([ConfigProblem("plugins", str(fault))]) from fault
    unknown = [
        ConfigProblem("plugins", f"plugin {name!r} observes {kind!r}, which is not a known kind")
        for name, kinds in observed.items()
        for kind in sorted(kinds - KINDS.keys())
    ]
    if unknown:
        raise ConfigError(unknown)
    return framework


def _made(name: str, factory: PluginFactory, profile: Profile, handle: Handle) -> Plugin:
    try:
        return completed(factory)(profile.args(name), handle)
    except Exception as fault:
        # Its arguments are the likely reason, and only the plugin can check them.
        problem = f"plugin {name!r} cannot be made: {type(fault).__name__}: {fault}"
        raise ConfigError([ConfigProblem("profiles.pluginConfig", problem)]) from fault


class _ProfilePlugins:
    """The plugins that the queue calls (see `QueuePlugins`)."""

    def __init__(self, frameworks: Mapping[str, Framework], state: ClusterState) -> None:
        self._frameworks = frameworks
        self._state = state
        # The configuration ensures that every profile has the same QueueSort plugins.
        self.sort_key: SortKey = next(iter(frameworks.values())).sort_key

    def pre_enqueue(self, info: PodInfo) -> Status:
        framework = self._frameworks[info.pod.spec.scheduler_name]
        try:
            return framework.run_pre_enqueue(info)
        except PluginFault as fault:
            framework.fault_reporter.report(info, fault, _GATED)
            return error(str(fault)).by(fault.plugin)

    def still_rejected(self, queued: QueuedPod) -> bool:
        if self._state.nominations.node_of(queued.info.uid):
            return False  # only an attempt finds out whether victims are leaving
        framework = self._frameworks[queued.profile]
        return framework.filters.still_reject(queued.rejectors, queued.info, self._state.rows())


def _queue(
    config: Configuration,
    frameworks: Mapping[str, Framework],
    state: ClusterState,
    metrics: Metrics,
    clock: Callable[[], float],
) -> SchedulingQueue:
    return SchedulingQueue(
        _ProfilePlugins(frameworks, state),
        hints={name: {**framework.hints(), **OWN_HINTS} for name, framework in frameworks.items()},
        metrics=metrics,
        clock=clock,
        initial_backoff=config.scheduler.pod_initial_backoff_seconds,
        max_backoff=config.scheduler.pod_max_backoff_seconds,
    )
