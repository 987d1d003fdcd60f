"""Defaults that depend on other fields or on the environment. Pure: returns a new struct.

Fixed defaults stand in the structs; here is what is left: the lease's namespace, the one default
profile, the default plugins and the arguments of every enabled plugin that takes any.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from msgspec.structs import replace

from scheduler.config.extenders import ignored_resources
from scheduler.config.plugin_args import (
    ARGS_TYPES,
    CPU_AND_MEMORY,
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
    ResourceSpec,
    ScoringStrategy,
)
from scheduler.config.plugins import merge_plugins
from scheduler.config.schema import (
    ClientConnection,
    KubeSchedulerConfiguration,
    LeaderElection,
    PluginConfig,
    Profile,
)

SCHEDULER_NAME = "equipoise"
NODE_RESOURCE_TOPOLOGY = "NodeResourceTopologyMatch"
RESERVE_CACHE: dict[str, Any] = {
    "name": NODE_RESOURCE_TOPOLOGY,
    "args": {"cacheResyncPeriodSeconds": 5},
}
OWN_PROFILE: dict[str, Any] = {
    "plugins": {"multiPoint": {"enabled": [{"name": NODE_RESOURCE_TOPOLOGY, "weight": 5}]}},
    "pluginConfig": [RESERVE_CACHE],
}
"""The profile where no KubeSchedulerConfiguration is given: kube-scheduler's default plugins, and
NUMA cells with the reserve cache, which do nothing where no node publishes its cells. A document
that is given means what it says."""
_FALLBACK_NAMESPACE = "kube-system"
_DEFAULT_BURST = 100


def with_defaults(
    config: KubeSchedulerConfiguration, environ: Mapping[str, str]
) -> KubeSchedulerConfiguration:
    """The effective configuration. Applying it twice changes nothing."""
    profiles = config.profiles or (Profile(),)
    if len(profiles) == 1 and not profiles[0].scheduler_name:
        profiles = (replace(profiles[0], scheduler_name=SCHEDULER_NAME),)
    return replace(
        config,
        leader_election=_leader_election(config.leader_election, environ),
        client_connection=_client_connection(config.client_connection),
        profiles=_without(ignored_resources(config.extenders), map(_profile, profiles)),
    )


def _without(ignored: tuple[str, ...], profiles: Iterable[Profile]) -> tuple[Profile, ...]:
    """Profiles whose NodeResourcesFit ignores resources that extenders manage."""
    if not ignored:
        return tuple(profiles)
    return tuple(
        replace(
            profile,
            plugin_config=tuple(
                replace(each, args=replace(each.args, ignored_resources=ignored))
                if isinstance(each.args, NodeResourcesFitArgs)
                else each
                for each in profile.plugin_config
            ),
        )
        for profile in profiles
    )


def _leader_election(given: LeaderElection, environ: Mapping[str, str]) -> LeaderElection:
    fixed = LeaderElection()
    namespace = environ.get("POD_NAMESPACE") or _FALLBACK_NAMESPACE
    return replace(
        given,
        lease_duration=given.lease_duration or fixed.lease_duration,
        renew_deadline=given.renew_deadline or fixed.renew_deadline,
        retry_period=given.retry_period or fixed.retry_period,
        resource_lock=given.resource_lock or fixed.resource_lock,
        resource_name=given.resource_name or fixed.resource_name,
        resource_namespace=given.resource_namespace or namespace,
    )


def _client_connection(given: ClientConnection) -> ClientConnection:
    if given.qps is None or given.qps <= 0:
        return replace(given, qps=None)
    return replace(given, burst=given.burst or _DEFAULT_BURST)


def _profile(given: Profile) -> Profile:
    plugins = merge_plugins(given.plugins)
    configs = [replace(c, args=_args(c.name, c.args)) for c in given.plugin_config]
    configured = {config.name for config in configs}
    enabled = {p.name for chosen in plugins.by_point().values() for p in chosen.enabled}
    configs += [
        PluginConfig(name=name, args=_args(name, ARGS_TYPES[name]()))
        for name in sorted(enabled & ARGS_TYPES.keys() - configured)
    ]
    return replace(given, plugins=plugins, plugin_config=tuple(configs))


def _args(plugin: str, given: Any) -> Any:
    fill = _FILL.get(plugin)
    return fill(given) if fill else given


def _node_resources_fit(given: NodeResourcesFitArgs) -> NodeResourcesFitArgs:
    strategy = given.scoring_strategy or ScoringStrategy(type="LeastAllocated")
    filled = replace(strategy, resources=_resources(strategy.resources))
    return replace(given, scoring_strategy=filled)


def _balanced_allocation(
    given: NodeResourcesBalancedAllocationArgs,
) -> NodeResourcesBalancedAllocationArgs:
    return replace(given, resources=_resources(given.resources))


def _resources(given: tuple[ResourceSpec, ...]) -> tuple[ResourceSpec, ...]:
    if not given:
        return CPU_AND_MEMORY
    return tuple(replace(spec, weight=spec.weight or 1) for spec in given)


_FILL: dict[str, Callable[[Any], Any]] = {
    "NodeResourcesFit": _node_resources_fit,
    "NodeResourcesBalancedAllocation": _balanced_allocation,
}
