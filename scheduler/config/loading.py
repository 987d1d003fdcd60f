"""From a file to a `Configuration`: read, decode, default, validate; all problems in one go."""

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from msgspec.structs import replace

from scheduler.config.cautions import cautions, idle_webhooks
from scheduler.config.codec import decode, encode_struct
from scheduler.config.defaults import NODE_RESOURCE_TOPOLOGY, OWN_PROFILE, with_defaults
from scheduler.config.documents import parse_documents, split_documents
from scheduler.config.plugin_args import ARGS_TYPES, NodeResourceTopologyMatchArgs
from scheduler.config.plugins import Available
from scheduler.config.problems import ConfigError, ConfigProblem
from scheduler.config.schema import (
    KUBE_API_VERSION,
    KUBE_KIND,
    OWN_API_VERSION,
    OWN_KIND,
    EquipoiseConfiguration,
    KubeSchedulerConfiguration,
    PluginConfig,
)
from scheduler.config.validation import validate
from scheduler.config.webhooks import with_webhooks

_LARGEST_FILE = 1 << 20
_REDACTED = "--- REDACTED ---"


@dataclass(frozen=True, slots=True)
class Configuration:
    """The effective, valid configuration. Two are equal when they mean the same."""

    scheduler: KubeSchedulerConfiguration
    equipoise: EquipoiseConfiguration
    warnings: tuple[ConfigProblem, ...] = field(default=(), compare=False)
    found: tuple[Any, ...] = field(default=(), compare=False, repr=False)
    """Plugins from outside the tree, with which it was checked, as `assembly` has found them."""

    def to_dicts(self) -> list[dict[str, Any]]:
        """Both documents as plain data; `from_dicts` of it is equal to this configuration."""
        return [
            {"apiVersion": KUBE_API_VERSION, "kind": KUBE_KIND, **encode_struct(self.scheduler)},
            {"apiVersion": OWN_API_VERSION, "kind": OWN_KIND, **encode_struct(self.equipoise)},
        ]

    def for_others(self) -> list[dict[str, Any]]:
        """The same without secrets, for ``/configz``."""
        scheduler, own = self.to_dicts()
        for extender in scheduler.get("extenders", ()):
            if (tls := extender.get("tlsConfig")) and tls["keyData"]:
                tls["keyData"] = _REDACTED
        return [scheduler, own]

    def to_yaml(self) -> str:
        """Both documents as YAML text."""
        return yaml.safe_dump_all(self.to_dicts(), sort_keys=False, allow_unicode=True)


def load(
    path: str | Path,
    available: Available | None = None,
    environ: Mapping[str, str] = os.environ,
) -> Configuration:
    """Read a file of one or two YAML or JSON documents. Raises `ConfigError`, or OSError."""
    return from_dicts(documents_of(path), available, environ)


def documents_of(path: str | Path) -> list[dict[str, Any]]:
    """The documents of a file, of which there is at least one. Raises `ConfigError`, or OSError."""
    with Path(path).open("rb") as file:
        content = file.read(_LARGEST_FILE + 1)
    if len(content) > _LARGEST_FILE:
        raise ConfigError([ConfigProblem("", f"the file is larger than {_LARGEST_FILE} bytes")])
    try:
        return _documents(content.decode())
    except UnicodeDecodeError as fault:
        raise ConfigError([ConfigProblem("", f"the file is not UTF-8: {fault}")]) from fault


def loads(
    text: str,
    available: Available | None = None,
    environ: Mapping[str, str] = os.environ,
) -> Configuration:
    """Like `load`, from a text, which must hold at least one document."""
    return from_dicts(_documents(text), available, environ)


def _documents(text: str) -> list[dict[str, Any]]:
    documents = parse_documents(text)
    if not documents:
        raise ConfigError([ConfigProblem("", f"no document found, expected a {KUBE_KIND}")])
    return documents


def from_dicts(
    documents: Sequence[Mapping[str, Any]],
    available: Available | None = None,
    environ: Mapping[str, str] = os.environ,
) -> Configuration:
    """The configuration that plain documents stand for; no documents are the defaults.

    `available` names the plugins that exist; without it every plugin of kube-scheduler counts
    as existing and extension points are not checked. Raises `ConfigError` with every problem.
    """
    problems: list[ConfigProblem] = []
    kube, own = split_documents(documents, problems)
    if kube is None:
        kube = {"profiles": [OWN_PROFILE]} if NODE_RESOURCE_TOPOLOGY in (available or ()) else {}
    given: KubeSchedulerConfiguration = decode(KubeSchedulerConfiguration, kube, "", problems)
    given = _decode_args(given, problems)
    equipoise: EquipoiseConfiguration = decode(EquipoiseConfiguration, own, "", problems)
    effective = with_defaults(given, environ)

    # A default stands where a value could not be read; complaining about that too would mislead.
    unreadable = {problem.path for problem in problems}
    invalid = validate(given, effective, equipoise, available)
    problems += [problem for problem in invalid if unreadable.isdisjoint(_ancestry(problem.path))]
    if problems:
        raise ConfigError(problems)
    available = with_webhooks(available, equipoise.webhooks)
    warnings = (
        *cautions(given, effective, available),
        *idle_webhooks(effective, equipoise),
    )
    return Configuration(effective, equipoise, warnings)


def own_settings(documents: Sequence[Mapping[str, Any]]) -> EquipoiseConfiguration:
    """Our own document as far as it can be read: `from_dicts` reports the problems."""
    _, own = split_documents(documents, [])
    settings: EquipoiseConfiguration = decode(EquipoiseConfiguration, own, "", [])
    return settings


def _ancestry(path: str) -> list[str]:
    """The path and those of the objects and lists it lies in."""
    return [path, *(path[: mark.start()] for mark in re.finditer(r"[.\[]", path))]


def _decode_args(
    config: KubeSchedulerConfiguration, problems: list[ConfigProblem]
) -> KubeSchedulerConfiguration:
    profiles = []
    for i, profile in enumerate(config.profiles):
        configs = []
        for j, plugin in enumerate(profile.plugin_config):
            path = f"profiles[{i}].pluginConfig[{j}].args"
            configs.append(_typed(plugin, path, problems))
        profiles.append(replace(profile, plugin_config=tuple(configs)))
    return replace(config, profiles=tuple(profiles))


def _typed(config: PluginConfig, path: str, problems: list[ConfigProblem]) -> PluginConfig:
    kind = ARGS_TYPES.get(config.name)
    args: dict[str, Any] = decode(
        dict[str, Any], {} if config.args is None else config.args, path, problems
    )
    if kind is None:
        return replace(config, args=args)
    args = dict(args)
    if kind is NodeResourceTopologyMatchArgs and args.get("cache") in (False, "Off"):
        args["cache"] = {"mode": "Off"}  # YAML reads a plain Off as false
    for key, expected in (("apiVersion", KUBE_API_VERSION), ("kind", f"{config.name}Args")):
        stated = args.pop(key, expected)
        if stated != expected:
            problems.append(ConfigProblem(f"{path}.{key}", f'must be "{expected}", not "{stated}"'))
    return replace(config, args=decode(kind, args, path, problems))
