"""Validation of objects, as far as a scheduler or its tests depend on it.

Far from all rules of the real server, but each one here is a real one. Shapes that do not decode
are a 400, rules on values a 422. `ApiServer(validate=False)` skips this module, so that tests can
feed a client what no real server would.
"""

import re
from collections.abc import Iterator
from typing import Any

from sandbox.devices import rules as device_rules
from sandbox.errors import ApiFailure, FieldError, bad_request, invalid
from sandbox.field_errors import barred, required, wrong
from sandbox.resources import Resource
from sandbox.store import Body
from scheduler.model.quantity import QuantityError, parse

_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_LABEL_VALUE = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?")
_MICRO_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}(Z|[+-]\d\d:\d\d)")
_NOTE_LIMIT = 1024
_REPLICATED = frozenset(
    {"daemonsets.apps", "deployments.apps", "replicasets.apps", "statefulsets.apps"}
)
_NAME_LIMIT = 253


def check(resource: Resource, body: Body) -> None:
    """Raise what the real server would answer to this (complete, stored-form) body."""
    _check_shape(resource, body)
    errors = list(_metadata_errors(resource, body["metadata"]))
    match resource.table:
        case "pods":
            errors += _pod_errors(body.get("spec") or {})
        case "events":
            errors += _event_errors(resource, body)
        case table if table in _REPLICATED:
            errors += _workload_errors(body.get("spec") or {})
        case "leases.coordination.k8s.io":
            errors += _lease_errors(body.get("spec") or {})
        case "customresourcedefinitions.apiextensions.k8s.io":
            errors += _crd_errors(body)
        case table if table in device_rules.KINDS:
            errors += device_rules.errors(resource, body)
    if errors:
        raise invalid(resource.kind, body["metadata"].get("name", ""), errors, resource.group)


# Shapes: what does not even decode in the real server.


def _check_shape(resource: Resource, body: Body) -> None:
    for path, text in _quantities(resource, body):
        try:
            parse(text)
        except QuantityError as error:
            raise _undecodable(resource, f"{path}: {error}") from error
    for text in _micro_times(resource, body):
        if text is not None and not (isinstance(text, str) and _MICRO_TIME.fullmatch(text)):
            layout = "2006-01-02T15:04:05.000000Z07:00"
            raise _undecodable(resource, f'parsing time "{text}" as "{layout}": cannot parse')


def _undecodable(resource: Resource, why: str) -> ApiFailure:
    kind = resource.kind
    return bad_request(
        f'{kind} in version "{resource.version}" cannot be handled as a {kind}: {why}'
    )


def _quantities(resource: Resource, body: Body) -> Iterator[tuple[str, Any]]:
    if resource.table == "pods":
        for path, container in _containers(body.get("spec") or {}):
            for part in ("requests", "limits"):
                amounts = (container.get("resources") or {}).get(part) or {}
                for name, text in amounts.items():
                    yield f"{path}.resources.{part}[{name}]", text
        for name, text in ((body.get("spec") or {}).get("overhead") or {}).items():
            yield f"spec.overhead[{name}]", text
    elif resource.table == "nodes":
        for part in ("capacity", "allocatable"):
            for name, text in ((body.get("status") or {}).get(part) or {}).items():
                yield f"status.{part}[{name}]", text
    elif resource.table in device_rules.KINDS:
        yield from device_rules.quantities(resource, body)


def _micro_times(resource: Resource, body: Body) -> Iterator[Any]:
    if resource.table == "events":
        yield body.get("eventTime")
        yield (body.get("series") or {}).get("lastObservedTime")
    elif resource.table == "leases.coordination.k8s.io":
        spec = body.get("spec") or {}
        yield spec.get("acquireTime")
        yield spec.get("renewTime")


# Rules on values.


def _metadata_errors(resource: Resource, metadata: Body) -> Iterator[FieldError]:
    name = metadata.get("name")
    if not name:
        yield required("metadata.name", "name or generateName is required")
    elif resource.api_version == "v1" and resource.table == "events":
        return
    elif len(name) > _NAME_LIMIT or not _SUBDOMAIN.fullmatch(name):
        yield wrong(
            "metadata.name",
            name,
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, "
            "'-' or '.', and must start and end with an alphanumeric character",
        )
    for value in (metadata.get("labels") or {}).values():
        if len(value) > 63 or not _LABEL_VALUE.fullmatch(value):
            yield wrong(
                "metadata.labels",
                value,
                "a valid label must be an empty string or consist of alphanumeric characters, "
                "'-', '_' or '.', and must start and end with an alphanumeric character",
            )


def _containers(spec: Body) -> Iterator[tuple[str, Body]]:
    for field in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(field) or ()):
            yield f"spec.{field}[{index}]", container


def _pod_errors(spec: Body) -> Iterator[FieldError]:
    if not spec.get("containers"):
        yield required("spec.containers")
    for path, container in _containers(spec):
        for field in ("name", "image"):
            if not container.get(field):
                yield required(f"{path}.{field}")
        yield from _resource_errors(f"{path}.resources", container.get("resources") or {})
    if spec.get("schedulingGates") and spec.get("nodeName"):
        yield barred("spec.nodeName", "cannot be set until all schedulingGates have been cleared")


def _workload_errors(spec: Body) -> Iterator[FieldError]:
    replicas = spec.get("replicas")
    if isinstance(replicas, int) and replicas < 0:
        yield wrong("spec.replicas", replicas, "must be greater than or equal to 0")
    template = spec.get("template") or {}
    selector = (spec.get("selector") or {}).get("matchLabels") or {}
    labels = (template.get("metadata") or {}).get("labels") or {}
    if not spec.get("selector"):
        yield required("spec.selector")
    elif not selector.items() <= labels.items():
        shown = ", ".join(f'"{key}":"{value}"' for key, value in sorted(labels.items()))
        text = "`selector` does not match template `labels`"
        yield FieldError(
            "FieldValueInvalid",
            "spec.template.metadata.labels",
            f"Invalid value: {{{shown}}}: {text}",
        )
    for error in _pod_errors(template.get("spec") or {}):
        yield error._replace(field=f"spec.template.{error.field}")


def _resource_errors(path: str, resources: Body) -> Iterator[FieldError]:
    limits = resources.get("limits") or {}
    requests = resources.get("requests") or {}
    for part, amounts in (("limits", limits), ("requests", requests)):
        for name, text in amounts.items():
            if parse(text).nanos < 0:
                yield wrong(
                    f"{path}.{part}[{name}]", str(text), "must be greater than or equal to 0"
                )
    for name, text in requests.items():
        if name in limits and parse(text).nanos > parse(limits[name]).nanos:
            yield wrong(
                f"{path}.requests",
                str(text),
                f"must be less than or equal to {name} limit of {limits[name]}",
            )


def _event_errors(resource: Resource, event: Body) -> Iterator[FieldError]:
    """Rules of both forms; without eventTime a core event only has to name its own namespace."""
    namespace = event["metadata"].get("namespace", "")
    regarding = (event.get("regarding") or {}).get("namespace", "")
    dated = event.get("eventTime") is not None
    agrees = namespace in {"default", "kube-system"} if dated else namespace == "default"
    if regarding:
        agrees = dated or regarding == namespace
    if not agrees:
        yield wrong("involvedObject.namespace", regarding, "does not match event.namespace")
    if not dated:
        if resource.group:
            yield required("eventTime")
        return
    for field in ("reportingController", "reportingInstance", "action", "reason"):
        if not event.get(field):
            yield required(field)
    for field, limit in (("reportingInstance", 128), ("action", 128), ("reason", 128)):
        if len(event.get(field) or "") > limit:
            yield wrong(field, "", f"can have at most {limit} characters")
    if len(event.get("note") or "") > _NOTE_LIMIT:
        yield wrong("message", "", f"can have at most {_NOTE_LIMIT} characters")
    if resource.group and event.get("type") not in {"Normal", "Warning"}:
        yield wrong("type", "", f"has invalid value: {event.get('type', '')}")
    if resource.group and (series := event.get("series")):
        if series.get("count", 0) < 2:
            yield wrong("series.count", "", "should be at least 2")
        if not series.get("lastObservedTime"):
            yield required("series.lastObservedTime")


def _lease_errors(spec: Body) -> Iterator[FieldError]:
    duration = spec.get("leaseDurationSeconds")
    if duration is not None and duration <= 0:
        yield wrong("spec.leaseDurationSeconds", duration, "must be greater than 0")
    transitions = spec.get("leaseTransitions")
    if transitions is not None and transitions < 0:
        yield wrong("spec.leaseTransitions", transitions, "must be greater than or equal to 0")


def _crd_errors(crd: Body) -> Iterator[FieldError]:
    spec = crd.get("spec") or {}
    names = spec.get("names") or {}
    for field, value in (
        ("spec.group", spec.get("group")),
        ("spec.names.plural", names.get("plural")),
        ("spec.names.kind", names.get("kind")),
        ("spec.scope", spec.get("scope")),
        ("spec.versions", spec.get("versions")),
    ):
        if not value:
            yield required(field)
    expected = f"{names.get('plural')}.{spec.get('group')}"
    if crd["metadata"].get("name") != expected:
        yield wrong(
            "metadata.name", crd["metadata"].get("name"), 'must be spec.names.plural+"."+spec.group'
        )
