"""Validation of a decoded configuration. Pure: returns every problem.

Plugin sets are checked as the author wrote them, so that paths point into the file; all else is
checked with its defaults in place.
"""

from collections.abc import Collection, Iterator
from typing import Annotated, get_args, get_origin

import msgspec

from scheduler.config.args_validation import validate_args
from scheduler.config.plugins import ALL, KNOWN_PLUGINS, Available, resolve_plugins
from scheduler.config.problems import ConfigProblem, suggest
from scheduler.config.remote_validation import validate_extenders, validate_webhooks
from scheduler.config.schema import (
    EXTENSION_POINTS,
    OWN_POINTS,
    PLACEMENT_POINTS,
    Bound,
    ClientConnection,
    EquipoiseConfiguration,
    KubeSchedulerConfiguration,
    LeaderElection,
    PluginSet,
    Profile,
    RecordingSettings,
)
from scheduler.config.webhooks import with_webhooks

_MAX_INT32 = 2**31 - 1
MAX_WINDOW_SECONDS = 10.0
MAX_POINTS = 100_000.0
MIN_RECORDING_BYTES = 2**20
"""Less has no room for the state of a cluster, with which each segment begins."""


def validate(
    given: KubeSchedulerConfiguration,
    effective: KubeSchedulerConfiguration,
    own: EquipoiseConfiguration,
    available: Available | None,
) -> list[ConfigProblem]:
    """Every problem of both documents; `given` is what the file says, `effective` the result."""
    in_process, available = available, with_webhooks(available, own.webhooks)
    problems = [
        *_scheduler(effective),
        *_leader_election(effective.leader_election),
        *_client_connection(effective.client_connection),
        *_profile_names(effective.profiles),
        *_plugins(given, available),
        *_own_points(own, effective.profiles, available),
        *_plugin_config(effective.profiles, available),
        *validate_extenders(effective.extenders),
        *validate_webhooks(own.webhooks, in_process),
        *_own(own),
    ]
    if available is not None and not any(_about_plugins(problem) for problem in problems):
        problems += _resolved(effective.profiles, own, available)
    return problems


def _about_plugins(problem: ConfigProblem) -> bool:
    return ".plugins." in problem.path or problem.path.startswith("extensionPoints")


def _scheduler(config: KubeSchedulerConfiguration) -> Iterator[ConfigProblem]:
    if config.parallelism <= 0:
        yield ConfigProblem("parallelism", f"must be greater than 0, not {config.parallelism}")
    yield from _percentage("percentageOfNodesToScore", config.percentage_of_nodes_to_score)
    initial, longest = config.pod_initial_backoff_seconds, config.pod_max_backoff_seconds
    if initial <= 0:
        yield ConfigProblem("podInitialBackoffSeconds", f"must be greater than 0, not {initial}")
    if longest < initial:
        message = f"must not be less than podInitialBackoffSeconds ({initial}), not {longest}"
        yield ConfigProblem("podMaxBackoffSeconds", message)


def _percentage(path: str, value: int | None) -> Iterator[ConfigProblem]:
    if value is not None and not 0 <= value <= 100:
        yield ConfigProblem(path, f"must be between 0 and 100, not {value}")


def _leader_election(config: LeaderElection) -> Iterator[ConfigProblem]:
    if not config.leader_elect:
        return
    durations = {
        "leaseDuration": config.lease_duration,
        "renewDeadline": config.renew_deadline,
        "retryPeriod": config.retry_period,
    }
    for name, seconds in durations.items():
        if seconds <= 0:
            yield ConfigProblem(
                f"leaderElection.{name}", f"must be greater than 0, not {seconds:g}s"
            )
    if config.lease_duration <= config.renew_deadline:
        message = (
            f"must be greater than renewDeadline ({config.renew_deadline:g}s), "
            f"not {config.lease_duration:g}s"
        )
        yield ConfigProblem("leaderElection.leaseDuration", message)
    if config.renew_deadline <= config.retry_period:
        message = (
            f"must be greater than retryPeriod ({config.retry_period:g}s), "
            f"not {config.renew_deadline:g}s"
        )
        yield ConfigProblem("leaderElection.renewDeadline", message)
    if config.resource_lock != "leases":
        message = f'must be "leases", not "{config.resource_lock}"'
        yield ConfigProblem("leaderElection.resourceLock", message)


def _client_connection(config: ClientConnection) -> Iterator[ConfigProblem]:
    if config.burst is not None and config.burst < 0:
        yield ConfigProblem("clientConnection.burst", f"must not be negative, not {config.burst}")


def _profile_names(profiles: tuple[Profile, ...]) -> Iterator[ConfigProblem]:
    first: dict[str, int] = {}
    for i, profile in enumerate(profiles):
        path = f"profiles[{i}].schedulerName"
        name = profile.scheduler_name
        if not name:
            yield ConfigProblem(path, "is required when there is more than one profile")
        elif name in first:
            yield ConfigProblem(path, f'"{name}" is already used by profiles[{first[name]}]')
        else:
            first[name] = i
        yield from _percentage(
            f"profiles[{i}].percentageOfNodesToScore", profile.percentage_of_nodes_to_score
        )


def _plugins(
    given: KubeSchedulerConfiguration, available: Available | None
) -> Iterator[ConfigProblem]:
    for i, profile in enumerate(given.profiles):
        for point, chosen in profile.plugins.by_point().items():
            yield from _plugin_set(f"profiles[{i}].plugins.{point}", point, chosen, available)


def _plugin_set(
    path: str, point: str, chosen: PluginSet, available: Available | None
) -> Iterator[ConfigProblem]:
    seen = set()
    for i, plugin in enumerate(chosen.enabled):
        where = f"{path}.enabled[{i}]"
        unknown = unknown_plugin(plugin.name, available)
        if unknown:
            yield ConfigProblem(f"{where}.name", unknown)
        if plugin.name in seen:
            yield ConfigProblem(f"{where}.name", f'"{plugin.name}" is enabled twice')
        seen.add(plugin.name)
        if plugin.weight is not None and not 0 <= plugin.weight <= _MAX_INT32:
            message = f"must be between 0 and {_MAX_INT32}, not {plugin.weight}"
            yield ConfigProblem(f"{where}.weight", message)
        points = {*KNOWN_PLUGINS.get(plugin.name, ()), *(available or {}).get(plugin.name, ())}
        if points and point not in {"multiPoint", *points}:
            message = f'"{plugin.name}" does not implement {point}, only {_listed(points)}'
            yield ConfigProblem(f"{where}.name", message)
    for i, plugin in enumerate(chosen.disabled):
        if not plugin.name:
            yield ConfigProblem(f"{path}.disabled[{i}].name", f'is required ("{ALL}" for all)')


def _listed(points: Collection[str]) -> str:
    return ", ".join(p for p in (*EXTENSION_POINTS, *OWN_POINTS, *PLACEMENT_POINTS) if p in points)


def unknown_plugin(name: str, available: Available | None) -> str:
    """Why the name is no plugin's, with the nearest that is; empty if it is one."""
    names = KNOWN_PLUGINS.keys() | (available or {}).keys()
    if not name:
        return "is required"
    return "" if name in names else f'unknown plugin "{name}"{suggest(name, names)}'


def _plugin_config(
    profiles: tuple[Profile, ...], available: Available | None
) -> Iterator[ConfigProblem]:
    for i, profile in enumerate(profiles):
        seen = set()
        for j, config in enumerate(profile.plugin_config):
            path = f"profiles[{i}].pluginConfig[{j}]"
            unknown = unknown_plugin(config.name, available)
            if unknown:
                yield ConfigProblem(f"{path}.name", unknown)
            if config.name in seen:
                yield ConfigProblem(f"{path}.name", f'a second configuration of "{config.name}"')
            seen.add(config.name)
            yield from validate_args(f"{path}.args", config.args)


def _own_points(
    own: EquipoiseConfiguration, profiles: tuple[Profile, ...], available: Available | None
) -> Iterator[ConfigProblem]:
    names = [profile.scheduler_name for profile in profiles]
    seen = set()
    for i, points in enumerate(own.extension_points):
        path, name = f"extensionPoints[{i}]", points.scheduler_name
        if not name and len(names) > 1:
            yield ConfigProblem(f"{path}.schedulerName", "is required: there are several profiles")
        elif name and name not in names:
            message = f'there is no profile of this name{suggest(name, names)}, got "{name}"'
            yield ConfigProblem(f"{path}.schedulerName", message)
        name = name or names[0]
        if name in seen:
            yield ConfigProblem(f"{path}.schedulerName", f'"{name}" is listed twice')
        seen.add(name)
        for point, chosen in points.by_point().items():
            yield from _plugin_set(f"{path}.{point}", point, chosen, available)


def _resolved(
    profiles: tuple[Profile, ...], own: EquipoiseConfiguration, available: Available
) -> Iterator[ConfigProblem]:
    resolved = [
        resolve_plugins(profile, available, own.own_points(profile.scheduler_name))
        for profile in profiles
    ]
    for i, points in enumerate(resolved):
        path = f"profiles[{i}].plugins"
        if not points["queueSort"]:
            yield ConfigProblem(f"{path}.queueSort", "at least one plugin must sort the queue")
        elif points["queueSort"] != resolved[0]["queueSort"]:
            yield ConfigProblem(f"{path}.queueSort", "must be the same for all profiles")
        if not points["bind"]:
            yield ConfigProblem(f"{path}.bind", "at least one plugin must bind pods")


def _own(config: EquipoiseConfiguration) -> Iterator[ConfigProblem]:
    server = config.server
    if not 0 <= server.port <= 65535:
        yield ConfigProblem("server.port", f"must be between 0 and 65535, not {server.port}")
    if bool(server.tls_cert_file) != bool(server.tls_private_key_file):
        missing = "tlsPrivateKeyFile" if server.tls_cert_file else "tlsCertFile"
        yield ConfigProblem(f"server.{missing}", "set both certificate and private key, or neither")
    for i, path in enumerate(server.always_allow_paths):
        if not path.startswith("/") or "*" in path[:-1]:
            message = f'must begin with "/" and may have a "*" at its end only, not "{path}"'
            yield ConfigProblem(f"server.alwaysAllowPaths[{i}]", message)
    yield from _bounds(config, "")
    for field in msgspec.structs.fields(config.limits):
        value = getattr(config.limits, field.name)
        if not value > 0:
            message = f"{Bound.POSITIVE.value}, not {value:g}"
            yield ConfigProblem(f"limits.{field.encode_name}", message)
    yield from _batch(config)
    yield from _recording(config.recording)
    if not 0 <= config.tie_break_seed < 2**63:
        yield ConfigProblem("tieBreakSeed", f"must not be negative, not {config.tie_break_seed}")


def _recording(settings: RecordingSettings) -> Iterator[ConfigProblem]:
    """Recording would end where not even one segment has room."""
    if 0 < settings.max_bytes < MIN_RECORDING_BYTES:
        message = f"must be at least {MIN_RECORDING_BYTES} (1 MiB), not {settings.max_bytes}"
        yield ConfigProblem("recording.maxBytes", message)
    elif 0 < settings.max_bytes < settings.segment_bytes:
        least = f"recording.segmentBytes ({settings.segment_bytes})"
        message = f"must not be less than {least}, not {settings.max_bytes}"
        yield ConfigProblem("recording.maxBytes", message)


def _bounds(section: msgspec.Struct, path: str) -> Iterator[ConfigProblem]:
    """Numbers that the annotation of their field does not allow, in this section and below it."""
    for field in msgspec.structs.fields(section):
        value = getattr(section, field.name)
        if isinstance(value, msgspec.Struct):
            yield from _bounds(value, f"{path}{field.encode_name}.")
        elif get_origin(field.type) is Annotated:
            bound = get_args(field.type)[1]
            if not (value > 0 if bound is Bound.POSITIVE else value >= 0):
                message = f"{bound.value}, not {value:g}"
                yield ConfigProblem(f"{path}{field.encode_name}", message)


def _batch(config: EquipoiseConfiguration) -> Iterator[ConfigProblem]:
    batch = config.batch
    if batch.enabled and not config.equivalence.enabled:
        message = "needs equivalence.enabled: batches are made of classes of equal pods"
        yield ConfigProblem("batch.enabled", message)
    if batch.max_pods < batch.min_pending:
        message = f"must not be less than minPending ({batch.min_pending}), not {batch.max_pods}"
        yield ConfigProblem("batch.maxPods", message)
    if not 0 <= batch.window <= MAX_WINDOW_SECONDS:
        message = f"must be between 0s and {MAX_WINDOW_SECONDS:g}s, not {batch.window:g}s"
        yield ConfigProblem("batch.window", message)
    cost = batch.unscheduled_cost
    prices = {"points": cost.points, "pointsPerSecond": cost.points_per_second}
    for name, value in prices.items():
        if not 0 <= value <= MAX_POINTS:
            message = f"must be between 0 and {MAX_POINTS:g}, not {value:g}"
            yield ConfigProblem(f"batch.unscheduledCost.{name}", message)
