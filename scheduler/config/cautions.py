"""Warnings: what a valid configuration says without effect, or at a risk."""

from collections.abc import Iterator

from scheduler.config.plugins import ALL, KNOWN_PLUGINS, Available, resolve_plugins
from scheduler.config.problems import ConfigProblem
from scheduler.config.schema import (
    PLACEMENT_POINTS,
    EquipoiseConfiguration,
    KubeSchedulerConfiguration,
    Profile,
)
from scheduler.config.validation import unknown_plugin

_LAST_SORT = "PrioritySort"
_JSON = "application/json"
_PROFILING = "has no effect: profiles of the process are not served"


def cautions(
    given: KubeSchedulerConfiguration,
    effective: KubeSchedulerConfiguration,
    available: Available | None,
) -> Iterator[ConfigProblem]:
    """Warnings about what the file says, in the order of the document's fields."""
    default = KubeSchedulerConfiguration()
    if given.parallelism != default.parallelism:
        yield ConfigProblem("parallelism", "has no effect: one thread evaluates all nodes")
    election = given.leader_election
    if election.leader_elect and election.resource_name == "kube-scheduler":
        message = "is the lease of kube-scheduler: only one of the two would schedule"
        yield ConfigProblem("leaderElection.resourceName", message)
    for name, value in (
        ("acceptContentTypes", given.client_connection.accept_content_types),
        ("contentType", given.client_connection.content_type),
    ):
        if value and _JSON not in value:
            yield ConfigProblem(
                f"clientConnection.{name}", f'"{value}" has no effect: JSON is used'
            )
    if given.enable_profiling:
        yield ConfigProblem("enableProfiling", _PROFILING)
    if given.enable_contention_profiling:
        yield ConfigProblem("enableContentionProfiling", _PROFILING)
    yield from _percentage("percentageOfNodesToScore", given.percentage_of_nodes_to_score)
    if given.delay_cache_until_active:
        yield ConfigProblem(
            "delayCacheUntilActive", "has no effect: standbys keep their caches up to date"
        )
    for i, profile in enumerate(given.profiles):
        yield from _profile(f"profiles[{i}]", profile, available)
    for i, profile in enumerate(effective.profiles if available is not None else ()):
        yield from _sorting(f"profiles[{i}].plugins.queueSort", profile, available or {})


def _sorting(path: str, profile: Profile, available: Available) -> Iterator[ConfigProblem]:
    """Plugins after the default QueueSort are never called: it leaves no two pods equal."""
    names = [plugin.name for plugin in resolve_plugins(profile, available)["queueSort"]]
    if _LAST_SORT in names[:-1]:
        unheard = ", ".join(names[names.index(_LAST_SORT) + 1 :])
        message = f"{unheard} has no effect after {_LAST_SORT}, which leaves no two pods equal"
        yield ConfigProblem(path, message)


def idle_webhooks(
    effective: KubeSchedulerConfiguration, own: EquipoiseConfiguration
) -> Iterator[ConfigProblem]:
    """Webhooks that no profile enables, and tokens that are sent without TLS."""
    sets = [profile.plugins.by_point() for profile in effective.profiles]
    sets += [points.by_point() for points in own.extension_points]
    enabled = {p.name for points in sets for chosen in points.values() for p in chosen.enabled}
    for i, webhook in enumerate(own.webhooks):
        if webhook.name not in enabled:
            message = f'is never called: no profile enables the plugin "{webhook.name}"'
            yield ConfigProblem(f"webhooks[{i}]", message)
        if webhook.token_file and webhook.url.startswith("http://"):
            yield ConfigProblem(f"webhooks[{i}].tokenFile", "is sent unencrypted over http://")


def _percentage(path: str, value: int | None) -> Iterator[ConfigProblem]:
    if value:
        yield ConfigProblem(path, "has no effect: all nodes are scored")


def _profile(path: str, profile: Profile, available: Available | None) -> Iterator[ConfigProblem]:
    if profile.scheduler_name == "default-scheduler":
        message = "is kube-scheduler's name: both would schedule the same pods"
        yield ConfigProblem(f"{path}.schedulerName", message)
    yield from _percentage(f"{path}.percentageOfNodesToScore", profile.percentage_of_nodes_to_score)
    for point, chosen in profile.plugins.by_point().items():
        where = f"{path}.plugins.{point}"
        if point in PLACEMENT_POINTS and chosen.enabled:
            yield ConfigProblem(
                where, "has no effect: placements of whole groups are not generated"
            )
            continue
        for i, plugin in enumerate(chosen.enabled):
            yield from _unbuilt(f"{where}.enabled[{i}].name", plugin.name, available)
            yield from _idle(f"{where}.enabled[{i}].name", plugin.name, point, available)
        for i, plugin in enumerate(chosen.disabled):
            unknown = unknown_plugin(plugin.name, available) if plugin.name != ALL else ""
            if unknown:
                yield ConfigProblem(f"{where}.disabled[{i}].name", unknown)
    for i, config in enumerate(profile.plugin_config):
        yield from _unbuilt(f"{path}.pluginConfig[{i}].name", config.name, available)


def _idle(path: str, name: str, point: str, available: Available | None) -> Iterator[ConfigProblem]:
    if (
        available is not None
        and name in available
        and point not in {*available[name], "multiPoint"}
    ):
        yield ConfigProblem(path, f"{name} has no effect at {point}: it does not implement it")


def _unbuilt(path: str, name: str, available: Available | None) -> Iterator[ConfigProblem]:
    if available is not None and name in KNOWN_PLUGINS and name not in available:
        yield ConfigProblem(path, f"{name} is not available, and has no effect")
