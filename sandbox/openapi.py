"""OpenAPI v3: an index under `/openapi/v3`, and a document per group and version.

A document has the schemas of the kinds and what they refer to, and of the paths what clients look
up in them: which kind is there, and which query parameters a patch takes.
"""

from collections.abc import Iterable
from typing import Any

from sandbox import schemas
from sandbox.resources import Catalog, Resource
from scheduler.kube.schemas import KIND, PREFIX, Schema, definitions

Document = dict[str, Any]

VERSION = "v1.36"
_PATCHES = (
    "application/apply-patch+yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
)
_STRATEGIC = "application/strategic-merge-patch+json"
WRITE_PARAMETERS = ("dryRun", "fieldManager", "fieldValidation")


def index(catalog: Catalog) -> Document:
    """Where the documents are."""
    roots = dict.fromkeys(root(resource) for resource in catalog)
    return {"paths": {each: {"serverRelativeURL": f"/openapi/v3/{each}"} for each in roots}}


def document(catalog: Catalog, path: str) -> Document | None:
    """The document of a group and version (`apis/apps/v1`), if there is one."""
    served = [resource for resource in catalog if root(resource) == path]
    if not served:
        return None
    return {
        "openapi": "3.0.0",
        "info": {"title": "Kubernetes", "version": VERSION},
        "paths": {path: item for resource in served for path, item in _paths(resource).items()},
        "components": {"schemas": reachable(served)},
    }


def root(resource: Resource) -> str:
    """The path of a resource's group and version, without the leading slash."""
    prefix = "apis" if resource.group else "api"
    return f"{prefix}/{resource.api_version}"


def item_path(resource: Resource) -> str:
    """The template of the paths of single objects."""
    scope = "namespaces/{namespace}/" if resource.namespaced else ""
    return f"/{root(resource)}/{scope}{resource.plural}/{{name}}"


def reachable(served: Iterable[Resource]) -> dict[str, Schema]:
    """The schemas of these kinds and everything they refer to."""
    found = {schemas.name_of(resource): schemas.of(resource) for resource in served}
    waiting = list(found.values())
    while waiting:
        for name in _references(waiting.pop()):
            if name not in found:
                found[name] = definitions()[name]
                waiting.append(found[name])
    return found


def _references(value: Any) -> Iterable[str]:
    if isinstance(value, dict):
        if isinstance(name := value.get("$ref"), str):
            yield name.removeprefix(PREFIX)
        for part in value.values():
            yield from _references(part)
    elif isinstance(value, list):
        for part in value:
            yield from _references(part)


def _paths(resource: Resource) -> Document:
    kind = {"group": resource.group, "version": resource.version, "kind": resource.kind}
    item = item_path(resource)
    collection = item.removesuffix("/{name}")
    posted: Document = {"post": _operation("post", kind, resource, WRITE_PARAMETERS)}
    if resource.verbs == ("create",):
        return {collection: posted}
    return {
        collection: {"get": _operation("list", kind, resource), **posted},
        item: {
            "get": _operation("get", kind, resource),
            "put": _operation("put", kind, resource, WRITE_PARAMETERS),
            "patch": {
                **_operation("patch", kind, resource, (*WRITE_PARAMETERS, "force")),
                # kubectl computes the kind of patch that it finds here.
                "requestBody": {"content": {each: {} for each in _patches(resource)}},
            },
            "delete": _operation("delete", kind, resource, ("dryRun",)),
        },
    }


def _patches(resource: Resource) -> tuple[str, ...]:
    return _PATCHES if resource.custom else (*_PATCHES, _STRATEGIC)


def _operation(
    action: str, kind: Document, resource: Resource, parameters: Iterable[str] = ()
) -> Document:
    shown = {"$ref": PREFIX + schemas.name_of(resource)}
    content = {"application/json": {"schema": shown}}
    return {
        "operationId": f"{action}{resource.api_version.replace('/', '_')}{resource.kind}",
        "parameters": [
            {"name": name, "in": "query", "schema": {"type": "string"}} for name in parameters
        ],
        "responses": {"200": {"description": "OK", "content": content}},
        "x-kubernetes-action": action,
        KIND: kind,
    }
