"""The OpenAPI document of the serving API, made from one table of its operations.

What a path does not have in the table does not exist for callers: parameters that are not listed
are refused by name (`check_parameters`), and a test compares the routes with the table.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import msgspec
from aiohttp import web

from scheduler.config.problems import suggest
from scheduler.explaining.queries import MAX_REPLICAS, TIERS
from scheduler.model.resources import CPU
from scheduler.serve import answers, view_answers
from scheduler.serve.access import DECISIONS
from scheduler.serve.guards import BadRequest
from scheduler.serve.parameters import DEFAULT_LIMIT, MAX_LIMIT, MAX_SELECTOR_LENGTH

PATH = "/openapi/v3"
STREAM = "/api/v1/stream"
EVENT_STREAM = "text/event-stream"
JSON = "application/json"
TEXT = "text/plain"
HTML = "text/html"

_POLICY = (
    "Paths below /api/v1 are versioned: within a version, fields, parameters and values of state, "
    "tier and code are added, never removed or renamed; incompatible changes get /api/v2. Texts "
    "for people (message, reasons, summary) may change. Other paths are not versioned."
)


class Parameter(NamedTuple):
    """A parameter of a path or a query."""

    name: str
    description: str
    schema: Mapping[str, Any] = {"type": "string"}
    required: bool = False


class Operation(NamedTuple):
    """What one method of one path does."""

    method: str
    path: str
    summary: str
    answer: Any = None
    """The type of the JSON that is answered; None: text, or JSON that is described elsewhere."""
    parameters: tuple[Parameter, ...] = ()
    """Of the query; those of the path are found in it."""
    body: str = ""
    """What the JSON body is; empty: there is none."""
    media: str = JSON


_LIMIT = Parameter(
    "limit",
    "Maximum number of entries.",
    {"type": "integer", "minimum": 1, "maximum": MAX_LIMIT, "default": DEFAULT_LIMIT},
)
_POD = Parameter("pod", "namespace/name of a pod.", {"type": "string", "pattern": "^[^/]+/[^/]+$"})
_COUNT = Parameter(
    "count",
    "How many identical pods to place together.",
    {"type": "integer", "minimum": 1, "maximum": MAX_REPLICAS},
)
_VERBOSE = Parameter("verbose", "List the checks.")
_EXCLUDE = Parameter("exclude", "Leave this check out; may be repeated.")
_PROBES = (
    ("livez", "Liveness: fails if the process should be restarted."),
    ("readyz", "Readiness: fails if the replica cannot schedule, or take over, now."),
    ("healthz", "The deprecated name of /livez."),
)
_DECIDE = (
    Parameter("plugin", "Decide for this plugin only."),
    Parameter("reason", "Why, for the log and the pod's condition."),
    Parameter("uid", "Decide only if the pod has this uid."),
)

OPERATIONS: tuple[Operation, ...] = (
    *(
        Operation("get", f"/{name}", text, None, (_VERBOSE, _EXCLUDE), media=TEXT)
        for name, text in _PROBES
    ),
    *(
        Operation("get", f"/{name}/{{check}}", f"One check of /{name}.", media=TEXT)
        for name, _ in _PROBES
    ),
    Operation(
        "get",
        "/metrics",
        "Metrics for Prometheus; OpenMetrics if the client accepts it.",
        media=TEXT,
    ),
    Operation("get", "/version", "The version of the scheduler.", answers.ServedVersion),
    Operation("get", "/configz", "The effective configuration, without private keys."),
    Operation("get", PATH, "This document."),
    Operation("get", "/", "Redirects to the web page.", media=HTML),
    Operation("get", "/ui", "Redirects to the web page.", media=HTML),
    Operation("get", "/ui/{file}", "The web page and its files.", media=HTML),
    Operation(
        "get",
        "/api/v1/queue",
        "Pending pods: how many are in each tier, and the first of them in the order of the queue.",
        answers.QueueAnswer,
        (
            _LIMIT,
            Parameter("namespace", "Only pods of this namespace."),
            Parameter("tier", "Only pods in this tier.", {"type": "string", "enum": [*TIERS]}),
            Parameter(
                "labelSelector",
                "Only pods that match this label selector, in the syntax of kubectl.",
                {"type": "string", "maxLength": MAX_SELECTOR_LENGTH},
            ),
            Parameter(
                "group",
                "Whether identical pods share an entry, the largest group first.",
                {"type": "boolean", "default": False},
            ),
        ),
    ),
    Operation(
        "get",
        "/api/v1/nodes",
        "Nodes: allocatable and requested resources, taints.",
        answers.NodesAnswer,
        (
            _LIMIT,
            Parameter(
                "view",
                "A list, or a map: columns for one resource, of up to 20,000 nodes.",
                {"type": "string", "enum": ["list", "map"], "default": "list"},
            ),
            Parameter(
                "resource",
                "The resource of a map; `device:DRIVER` for the devices of a driver.",
                {"type": "string", "default": CPU},
            ),
        ),
    ),
    Operation(
        "get",
        "/api/v1/node",
        "One node: its resources and pods, its NUMA cells and devices as reserved and as reported.",
        view_answers.NodeAnswer,
        (Parameter("name", "Name of the node.", required=True),),
    ),
    Operation(
        "get",
        "/api/v1/pod",
        "The manifest of a pod, as far as the scheduler reads it, to change and explain with POST.",
        view_answers.PodAnswer,
        (_POD._replace(required=True),),
    ),
    Operation(
        "get",
        "/api/v1/overview",
        "Throughput, latency and queue of the last half hour, and the most frequent reasons.",
        view_answers.OverviewAnswer,
    ),
    Operation(
        "get",
        "/api/v1/classes",
        "Classes of identical pods, and the hit rates of plugins.",
        view_answers.ClassesAnswer,
    ),
    Operation(
        "get",
        "/api/v1/groups",
        "Gangs, and the latest batches.",
        view_answers.GroupsAnswer,
        (_LIMIT,),
    ),
    Operation(
        "get",
        STREAM,
        "Decisions as they are made (event: decision), the newest sample of /api/v1/overview "
        "(event: overview), and how many decisions were left out (event: skipped). Ends after "
        "five minutes, or if the client is too slow.",
        media=EVENT_STREAM,
    ),
    Operation(
        "get",
        "/api/v1/decisions",
        "The latest decisions, newest first.",
        answers.DecisionsAnswer,
        (_LIMIT, _POD._replace(description="Only decisions about this pod, namespace/name.")),
    ),
    Operation(
        "get",
        "/api/v1/waiting",
        "Pods that have a node reserved and wait at Permit, the oldest first.",
        answers.WaitingAnswer,
        (_LIMIT,),
    ),
    Operation(
        "get",
        "/api/v1/explain",
        "Why a pod is on its node, or pending: its state, and the result of every node.",
        answers.Explanation,
        (_POD._replace(required=True), _COUNT),
    ),
    Operation(
        "post",
        "/api/v1/explain",
        "The same for the pod of a manifest, instead of an existing pod of that name. Nothing is "
        "created.",
        answers.Explanation,
        (_COUNT,),
        body="A Pod (v1) in JSON, or a List of it and its PersistentVolumeClaims.",
    ),
    *(
        Operation(
            "post",
            f"{DECISIONS}{{namespace}}/{{name}}/{verb}",
            f"{verb.capitalize()} a pod that waits at Permit. Requires the verb {verb} for "
            "waitingpods.equipoise.dev in the pod's namespace.",
            answers.PermitDecided,
            _DECIDE,
        )
        for verb in ("approve", "reject")
    ),
    Operation(
        "get",
        "/debug/equivalence",
        "Cached results of classes of identical pods.",
        None,
        (
            _LIMIT,
            Parameter("class", "The equivalenceHash of a class.", {"type": "integer"}),
            Parameter("node", "Only this node; needs class."),
        ),
    ),
)
"""Everything that is served."""

_BY_ROUTE = {(each.method, each.path): each for each in OPERATIONS}


def check_parameters(method: str, path: str, given: Collection[str]) -> None:
    """Raise BadRequest for a parameter that an operation does not have; it would have no effect."""
    operation = _BY_ROUTE.get((method.lower().replace("head", "get"), path))
    if operation is None:
        return
    known = [parameter.name for parameter in operation.parameters]
    for name in given:
        if name not in known:
            hint = suggest(name, known) or " (there are none here)"
            raise BadRequest(f"unknown parameter {name!r}{hint}")


def document(version: str, routes: Collection[tuple[str, str]]) -> dict[str, Any]:
    """The OpenAPI document of the operations that exist: (method, path) in lower case."""
    found = [each for each in OPERATIONS if (each.method, each.path) in routes]
    types = [answers.ErrorAnswer, *(each.answer for each in found if each.answer is not None)]
    distinct = list(dict.fromkeys(types))
    template = "#/components/schemas/{name}"
    schemas, components = msgspec.json.schema_components(distinct, ref_template=template)
    reference = dict(zip(distinct, schemas, strict=True))
    paths: dict[str, dict[str, Any]] = {}
    for each in found:
        paths.setdefault(each.path, {})[each.method] = _operation(each, reference)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Equipoise serving API", "version": version, "description": _POLICY},
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"bearer": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"bearer": []}, {}],
    }


def routes_of(app: web.Application) -> set[tuple[str, str]]:
    """The methods and paths that an application has, in lower case."""
    return {
        (route.method.lower(), route.resource.canonical)
        for route in app.router.routes()
        if route.resource is not None
    }


def _operation(operation: Operation, reference: Mapping[Any, Any]) -> dict[str, Any]:
    error = {JSON: {"schema": reference[answers.ErrorAnswer]}}
    schema = reference.get(operation.answer, {} if operation.media == JSON else {"type": "string"})
    said: dict[str, Any] = {
        "summary": operation.summary,
        "parameters": [*map(_in_path, _names(operation.path)), *map(_query, operation.parameters)],
        "responses": {
            "200": {"description": "OK", "content": {operation.media: {"schema": schema}}},
            "default": {"description": "An error.", "content": error},
        },
    }
    if operation.body:
        content = {JSON: {"schema": {"type": "object", "description": operation.body}}}
        said["requestBody"] = {"required": True, "content": content}
    return said


def _names(path: str) -> list[str]:
    return [part[1:-1] for part in path.split("/") if part.startswith("{")]


def _in_path(name: str) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}


def _query(parameter: Parameter) -> dict[str, Any]:
    return {
        "name": parameter.name,
        "in": "query",
        "description": parameter.description,
        "required": parameter.required,
        "schema": dict(parameter.schema),
    }
