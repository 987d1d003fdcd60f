"""pods/binding: when a pod may be assigned to a node, and what it looks like afterwards."""

from sandbox.errors import conflict, internal
from sandbox.store import Body, Version


def target_node(binding: Body) -> str:
    """The node that a binding names."""
    target = binding.get("target") or {}
    if target.get("kind", "Node") not in {"Node", ""}:
        raise internal(f'target.kind: Unsupported value: "{target["kind"]}"')
    if not target.get("name"):
        raise internal("target.name: Required value")
    return str(target["name"])


def check_bindable(pod: Version, binding: Body) -> None:
    """Raise a 409 unless the pod is the one that is meant and is free to be placed."""
    name, metadata, spec = pod.key[1], pod.body["metadata"], pod.body["spec"]
    for field, label in (("uid", "UID"), ("resourceVersion", "ResourceVersion")):
        given, actual = (binding.get("metadata") or {}).get(field), metadata[field]
        if given and given != actual:
            why = (
                f"Precondition failed: {label} in precondition: {given}, "
                f"{label} in object meta: {actual}"
            )
            raise conflict("pods", name, why)
    if "deletionTimestamp" in metadata:
        why = f"pod {name} is being deleted, cannot be assigned to a host"
        raise conflict("pods/binding", name, why)
    if node := spec.get("nodeName"):
        raise conflict("pods/binding", name, f'pod {name} is already assigned to node "{node}"')
    if spec.get("schedulingGates"):
        raise conflict("pods/binding", name, f"pod {name} has non-empty .spec.schedulingGates")


def bound(pod: Body, binding: Body, now: str) -> Body:
    """The pod on its node: annotations and labels merged, nomination over, PodScheduled true."""
    metadata = dict(pod["metadata"])
    for field in ("annotations", "labels"):
        if given := (binding.get("metadata") or {}).get(field):
            metadata[field] = {**(metadata.get(field) or {}), **given}
    status = {name: value for name, value in pod["status"].items() if name != "nominatedNodeName"}
    scheduled = {
        "type": "PodScheduled",
        "status": "True",
        "lastProbeTime": None,
        "lastTransitionTime": now,
    }
    others = [each for each in status.get("conditions") or () if each["type"] != "PodScheduled"]
    status["conditions"] = [*others, scheduled]
    spec = {**pod["spec"], "nodeName": target_node(binding)}
    return {**pod, "metadata": metadata, "spec": spec, "status": status}
