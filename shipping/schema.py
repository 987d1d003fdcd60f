"""``values.schema.json``: types from the defaults, the configuration's from the program's structs.

A section of the values takes no keys but its own; a documented object is passed on as it is, and so
takes any.
"""

import json
import types
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import msgspec

from scheduler.config.durations import Duration
from scheduler.config.schema import (
    KUBE_API_VERSION,
    KUBE_KIND,
    OWN_API_VERSION,
    OWN_KIND,
    BatchSettings,
    DeviceSettings,
    EquipoiseConfiguration,
    KubeSchedulerConfiguration,
    LoggingSettings,
    PluginConfig,
    PluginSet,
)
from scheduler.config.validation import MIN_RECORDING_BYTES
from shipping.values import Value, ValuesFile

Json = dict[str, Any]

DURATION: Json = {
    "type": "string",
    "pattern": r"^[0-9]+(\.[0-9]+)?(ns|us|ms|s|m|h)([0-9.]+[a-z]+)*$",
}
PORT: Json = {"type": "integer", "minimum": 1, "maximum": 65535}
DNS_NAME: Json = {
    "type": "string",
    "pattern": "^([a-z0-9]([-a-z0-9.]*[a-z0-9])?)?$",
    "maxLength": 253,
}
CIDR: Json = {
    "type": "string",
    "pattern": r"^([0-9]{1,3}(\.[0-9]{1,3}){3}|[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*)/[0-9]{1,3}$",
}
COUNT: Json = {"type": "integer", "minimum": 0}
STRINGS: Json = {"type": "array", "items": {"type": "string"}}
OBJECTS: Json = {"type": "array", "items": {"type": "object"}}
TEXTS: Json = {"type": "object", "additionalProperties": {"type": "string"}}
NAMED: Json = {
    "type": "array",
    "items": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}},
}
_SCALARS: dict[Any, Json] = {
    str: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    Duration: DURATION,
    Any: {},
}


def struct_schema(kind: type[msgspec.Struct], /, **more: Json) -> Json:
    """What a document may say that is decoded to this struct."""
    fields = {field.encode_name: _of(field.type) for field in msgspec.structs.fields(kind)}
    return {"type": "object", "additionalProperties": False, "properties": {**more, **fields}}


def _of(kind: Any) -> Json:
    if kind in _SCALARS:
        return _SCALARS[kind]
    origin, arguments = get_origin(kind), get_args(kind)
    if origin is Annotated:
        return _of(arguments[0])
    if origin in (Union, types.UnionType):
        (inner,) = (each for each in arguments if each is not type(None))
        return _of(inner)
    if origin is tuple:
        return {"type": "array", "items": _of(arguments[0])}
    if origin is dict:
        return {"type": "object", "additionalProperties": _of(arguments[1])}
    if origin is Literal:
        return {"enum": list(arguments)}
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return struct_schema(kind)
    raise TypeError(f"no schema for {kind}")


def _document(kind: type[msgspec.Struct], version: str, name: str) -> Json:
    return struct_schema(kind, apiVersion={"const": version}, kind={"const": name})


def _of_field(kind: type[msgspec.Struct], name: str) -> Json:
    properties: Json = struct_schema(kind)["properties"]
    schema: Json = properties[name]
    return schema


KNOWN: dict[str, Json] = {
    "nameOverride": DNS_NAME,
    "fullnameOverride": DNS_NAME,
    "namespaceOverride": DNS_NAME,
    "commonLabels": TEXTS,
    "schedulerName": {"type": "string", "pattern": "^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"},
    "plugins.enabled": _of_field(PluginSet, "enabled"),
    "plugins.disabled": _of_field(PluginSet, "disabled"),
    "pluginConfig": _of(tuple[PluginConfig, ...]),
    "pluginFiles": {
        "type": "object",
        "patternProperties": {r"^[A-Za-z0-9_-][A-Za-z0-9_.-]*\.py$": {"type": "string"}},
        "additionalProperties": False,
    },
    "existingPluginsConfigMap": DNS_NAME,
    "config": _document(KubeSchedulerConfiguration, KUBE_API_VERSION, KUBE_KIND),
    "equipoiseConfig": _document(EquipoiseConfiguration, OWN_API_VERSION, OWN_KIND),
    "batch.enabled": _of_field(BatchSettings, "enabled"),
    "devices.selection": _of_field(DeviceSettings, "selection"),
    "logging.level": _of_field(LoggingSettings, "level"),
    "logging.format": _of_field(LoggingSettings, "format"),
    "existingConfigMap": DNS_NAME,
    "recording.maxBytes": {"type": "integer", "minimum": MIN_RECORDING_BYTES},
    "recording.existingClaim": DNS_NAME,
    "replicaCount": COUNT,
    "leaderElection.leaseDuration": DURATION,
    "leaderElection.renewDeadline": DURATION,
    "leaderElection.retryPeriod": DURATION,
    "leaderElection.resourceName": DNS_NAME,
    "image.repository": {"type": "string", "minLength": 1},
    "image.digest": {"type": "string", "pattern": "^(sha256:[0-9a-f]{64})?$"},
    "image.pullPolicy": {"enum": ["Always", "IfNotPresent", "Never"]},
    "imagePullSecrets": NAMED,
    "terminationGracePeriodSeconds": COUNT,
    "serviceAccount.name": DNS_NAME,
    "serviceAccount.annotations": TEXTS,
    "rbac.plugins": STRINGS,
    "rbac.metricsReaders": NAMED,
    "rbac.viewers": NAMED,
    "rbac.permitApprovers": NAMED,
    "tls.secretName": DNS_NAME,
    "service.port": PORT,
    "service.annotations": TEXTS,
    "serviceMonitor.interval": DURATION,
    "serviceMonitor.labels": TEXTS,
    "podMonitor.interval": DURATION,
    "podMonitor.labels": TEXTS,
    "prometheusRule.runbookBaseUrl": {"type": "string", "pattern": r"^(https?://[^\s?#]+)?$"},
    "prometheusRule.labels": TEXTS,
    "metrics.dashboards.namespace": DNS_NAME,
    "metrics.dashboards.labels": TEXTS,
    "metrics.dashboards.annotations": TEXTS,
    "podDisruptionBudget.maxUnavailable": {
        "oneOf": [COUNT, {"type": "string", "pattern": "^[0-9]{1,2}%$|^100%$"}]
    },
    "verticalPodAutoscaler.updateMode": {
        "enum": ["Off", "Initial", "Recreate", "InPlaceOrRecreate"]
    },
    "networkPolicy.apiServerPorts": {"type": "array", "items": PORT, "minItems": 1},
    "networkPolicy.apiServerCIDRs": {"type": "array", "items": CIDR},
    "flowSchema.matchingPrecedence": {"type": "integer", "minimum": 1, "maximum": 10000},
    "flowSchema.nominalConcurrencyShares": COUNT,
    "nodeSelector": TEXTS,
    "dnsPolicy": {"enum": ["", "ClusterFirst", "ClusterFirstWithHostNet", "Default", "None"]},
    "podAnnotations": TEXTS,
    "podLabels": TEXTS,
    "extraArgs": STRINGS,
    "extraEnv": NAMED,
    "extraVolumes": NAMED,
    "extraVolumeMounts": NAMED,
    "extraObjects": {"type": "array", "items": {"type": ["object", "string"]}},
    "helmTest.deadlineSeconds": {"type": "integer", "minimum": 1},
    "helmTest.nodeSelector": TEXTS,
}
"""Types that the default alone does not show."""


def value_schema(value: Value) -> Json:
    """What one key of the values may be."""
    if value.children:
        return _section(value.children)
    schema = KNOWN.get(value.name) or _like(value.default)
    return {"description": value.description, **schema}


def _section(values: tuple[Value, ...]) -> Json:
    properties = {value.path[-1]: value_schema(value) for value in values}
    return {"type": "object", "additionalProperties": False, "properties": properties}


def _like(default: Any) -> Json:
    if isinstance(default, dict):
        return {"type": "object"}
    if isinstance(default, list):
        return OBJECTS
    return _SCALARS[type(default)]


def chart_schema(file: ValuesFile) -> Json:
    """The whole schema; ``global`` is what Helm passes to a chart that is part of another."""
    schema = _section(file.values)
    schema["properties"]["global"] = {"type": "object"}
    return {"$schema": "https://json-schema.org/draft-07/schema#", "title": "Values", **schema}


def schema_text(file: ValuesFile) -> str:
    """As a file."""
    return json.dumps(chart_schema(file), indent=2) + "\n"
