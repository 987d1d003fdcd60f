"""What an update may change: status and the rest apart, system metadata never, pod specs hardly."""

from typing import Any

from sandbox.devices import rules as device_rules
from sandbox.devices.claim_status import merge_status
from sandbox.devices.names import CLAIMS
from sandbox.errors import FieldError, invalid
from sandbox.field_errors import barred, wrong
from sandbox.resources import Resource
from sandbox.store import Body

_SERVER_METADATA = (
    "uid",
    "creationTimestamp",
    "generation",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
)
_UPDATABLE = (
    "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,"
    "`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)
_FIXED_EVENT_FIELDS = (
    "regarding",
    "reason",
    "note",
    "type",
    "eventTime",
    "action",
    "related",
    "reportingController",
    "reportingInstance",
)


def merge_update(resource: Resource, old: Body, new: Body, subresource: str) -> Body:
    """The body to store: `new` where this endpoint may write, `old` elsewhere."""
    if subresource == "status" and resource.table == CLAIMS:
        merged = merge_status(old, new)
    elif subresource == "status":
        merged = {**old, "status": new.get("status") or {}}
        # The status endpoint of built-in kinds lets labels and annotations through as well.
        merged["metadata"] = old["metadata"] if resource.custom else new["metadata"]
        if resource.table == "pods":
            merged["status"] = {"qosClass": old["status"].get("qosClass"), **merged["status"]}
    else:
        merged = dict(new)
        if resource.has_status:
            merged.pop("status", None)
            if "status" in old:
                merged["status"] = old["status"]
    merged["metadata"] = _kept_metadata(old["metadata"], merged["metadata"])
    if resource.counts_generations and _spec_changed(resource, old, merged):
        merged["metadata"]["generation"] = old["metadata"].get("generation", 0) + 1
    return merged


def _kept_metadata(old: Body, new: Body) -> Body:
    kept = {name: value for name, value in new.items() if name not in _SERVER_METADATA}
    kept |= {name: old[name] for name in _SERVER_METADATA if name in old}
    kept["resourceVersion"] = old["resourceVersion"]
    return kept


def _spec_changed(resource: Resource, old: Body, new: Body) -> bool:
    if not resource.custom:
        return bool(old.get("spec") != new.get("spec"))
    ignored = {"metadata", "status"} if resource.has_status else {"metadata"}
    return {k: v for k, v in old.items() if k not in ignored} != {
        k: v for k, v in new.items() if k not in ignored
    }


def check_update(resource: Resource, old: Body, new: Body) -> None:
    """Raise if the (stored-form) new body changes what may not change."""
    errors = _metadata_errors(old["metadata"], new["metadata"])
    if resource.table == "pods":
        errors += _pod_errors(old.get("spec") or {}, new.get("spec") or {})
        errors += _nomination_errors(old, new)
    elif resource.table in device_rules.KINDS:
        errors += device_rules.update_errors(resource, old, new)
    elif resource.table == "events" and resource.group:
        errors += [
            wrong(field, new.get(field), "field is immutable")
            for field in _FIXED_EVENT_FIELDS
            if old.get(field) != new.get(field)
        ]
    if errors:
        raise invalid(resource.kind, old["metadata"]["name"], errors, resource.group)


def _metadata_errors(old: Body, new: Body) -> list[FieldError]:
    errors = [
        wrong(f"metadata.{field}", new.get(field), "field is immutable")
        for field in ("name", "namespace")
        if new.get(field) != old.get(field)
    ]
    added = [
        name for name in new.get("finalizers") or () if name not in (old.get("finalizers") or ())
    ]
    if added and "deletionTimestamp" in old:
        text = "no new finalizers can be added if the object is being deleted"
        errors.append(barred("metadata.finalizers", f"{text}, found new finalizers {added}"))
    return errors


def _nomination_errors(old: Body, new: Body) -> list[FieldError]:
    nominated = (new.get("status") or {}).get("nominatedNodeName")
    if not nominated or nominated == (old.get("status") or {}).get("nominatedNodeName"):
        return []
    if not (old.get("spec") or {}).get("nodeName"):
        return []
    text = "may not be set on pods that are already bound to a node"
    return [barred("status.nominatedNodeName", text)]


def _pod_errors(old: Body, new: Body) -> list[FieldError]:
    errors: list[FieldError] = []
    if old is new:
        return errors
    if any(gate not in _listed(old, "schedulingGates") for gate in _listed(new, "schedulingGates")):
        errors.append(barred("spec.schedulingGates", "only deletion is allowed"))
    if any(each not in _listed(new, "tolerations") for each in _listed(old, "tolerations")):
        errors.append(
            barred(
                "spec.tolerations",
                "existing toleration can not be modified except its tolerationSeconds",
            )
        )
    gated = bool(_listed(old, "schedulingGates"))
    if (
        gated
        and not (old.get("nodeSelector") or {}).items() <= (new.get("nodeSelector") or {}).items()
    ):
        errors.append(
            wrong(
                "spec.nodeSelector",
                new.get("nodeSelector"),
                "only additions are allowed to spec.nodeSelector (no mutations or deletions)",
            )
        )
    if not errors and _frozen_part(old, gated) != _frozen_part(new, gated):
        errors.append(barred("spec", f"pod updates may not change fields other than {_UPDATABLE}"))
    return errors


def _listed(spec: Body, field: str) -> list[Any]:
    return spec.get(field) or []


def _frozen_part(spec: Body, gated: bool) -> Body:
    """A pod's spec without the fields that may change: two equal results are a permitted update."""
    frozen = {
        name: value
        for name, value in spec.items()
        if name not in {"schedulingGates", "tolerations", "activeDeadlineSeconds"}
        and value is not None
    }
    for field in ("containers", "initContainers"):
        frozen[field] = [
            {name: value for name, value in container.items() if name != "image"}
            for container in _listed(spec, field)
        ]
    if frozen.get("terminationGracePeriodSeconds", 0) < 0:
        frozen["terminationGracePeriodSeconds"] = 1
    if gated:
        frozen.pop("nodeSelector", None)
        affinity = {
            name: value
            for name, value in (frozen.pop("affinity", None) or {}).items()
            if name != "nodeAffinity"
        }
        frozen["affinity"] = affinity
    return frozen
