"""The scale subresource: the number of replicas of any kind that has one, as autoscaling/v1."""

from typing import Any

from sandbox.errors import bad_request, invalid
from sandbox.field_errors import wrong
from sandbox.resources import Resource, ScalePaths
from sandbox.selectors import selector_text
from sandbox.store import Body

_COPIED = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
_GROUP = "autoscaling"


def scale_of(resource: Resource, body: Body) -> Body:
    """The Scale that shows an object's replicas."""
    paths = resource.scale or ScalePaths()
    metadata = body["metadata"]
    status: Body = {"replicas": _number(body, paths.status)}
    if selector := _selector(body, paths):
        status["selector"] = selector
    replicas = _number(body, paths.spec)
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {name: metadata[name] for name in _COPIED if name in metadata},
        # A zero is the number's default, which the real server leaves out.
        "spec": {"replicas": replicas} if replicas else {},
        "status": status,
    }


def scaled(resource: Resource, body: Body, scale: Body) -> Body:
    """The object with the replicas of a Scale; under the Scale's resourceVersion, if it has one."""
    paths = resource.scale or ScalePaths()
    spec = scale.get("spec") or {}
    replicas = spec.get("replicas", 0) if isinstance(spec, dict) else None
    name = body["metadata"]["name"]
    if not isinstance(replicas, int) or isinstance(replicas, bool):
        raise bad_request(f"Scale in version v1 cannot be handled as a Scale: replicas {replicas}")
    if replicas < 0:
        text = "must be greater than or equal to 0"
        errors = [wrong("spec.replicas", replicas, text)]
        raise invalid("Scale", name, errors, _GROUP)
    given = scale.get("metadata") or {}
    if given.get("name", name) != name:
        raise bad_request("the name of the object does not match the name on the URL")
    changed = _with(body, _steps(paths.spec), replicas)
    metadata = dict(body["metadata"])
    metadata["resourceVersion"] = given.get("resourceVersion") or metadata["resourceVersion"]
    return {**changed, "metadata": metadata}


def _steps(path: str) -> list[str]:
    return [step for step in path.split(".") if step]


def _at(body: Any, path: str) -> Any:
    for step in _steps(path):
        body = body.get(step) if isinstance(body, dict) else None
    return body


def _number(body: Body, path: str) -> int:
    found = _at(body, path)
    return found if isinstance(found, int) else 0


def _with(body: Body, steps: list[str], value: int) -> Body:
    first, *rest = steps
    below = body.get(first)
    inner = _with(below if isinstance(below, dict) else {}, rest, value) if rest else value
    return {**body, first: inner}


def _selector(body: Body, paths: ScalePaths) -> str:
    """The selector as a string; kinds from CRDs keep it as one."""
    if paths.selector:
        return str(_at(body, paths.selector) or "")
    selector = (body.get("spec") or {}).get("selector") or {}
    if body["kind"] == "ReplicationController":
        selector = {"matchLabels": selector}
    return selector_text(selector)
