"""pods/eviction: a deletion that a PodDisruptionBudget may refuse."""

from collections.abc import Iterable

import msgspec

from sandbox.errors import internal, too_many_requests
from sandbox.store import Body
from scheduler.model.meta import LabelSelector
from scheduler.model.selectors import SelectorError, compile_label_selector

_RETRY_SECONDS = 10
_MOST_DISRUPTED = 2000


def budget_of(pod: Body, budgets: Iterable[Body]) -> Body | None:
    """The one budget that holds for an eviction of this pod now."""
    if not _counts(pod):
        return None
    found = [budget for budget in budgets if _selects(budget, pod)]
    if len(found) > 1:
        raise internal(
            "This pod has more than one PodDisruptionBudget, "
            "which the eviction subresource does not support."
        )
    return found[0] if found else None


def after_disruption(budget: Body, pod: str, now: str) -> Body:
    """The status of a budget that lets one more pod go, or a 429."""
    name, status = budget["metadata"]["name"], budget.get("status") or {}
    if status.get("observedGeneration", 0) < budget["metadata"].get("generation", 0):
        cause = f"The disruption budget {name} is still being processed by the server."
        raise too_many_requests(_REFUSED, _RETRY_SECONDS, [_cause(cause)])
    disrupted = status.get("disruptedPods") or {}
    if status.get("disruptionsAllowed", 0) <= 0 or len(disrupted) > _MOST_DISRUPTED:
        needed, healthy = status.get("desiredHealthy", 0), status.get("currentHealthy", 0)
        cause = (
            f"The disruption budget {name} needs {needed} healthy pods and has {healthy} currently"
        )
        raise too_many_requests(_REFUSED, 0, [_cause(cause)])
    return {
        **status,
        "disruptionsAllowed": status["disruptionsAllowed"] - 1,
        "disruptedPods": {**disrupted, pod: now},
    }


_REFUSED = "Cannot evict pod as it would violate the pod's disruption budget."


def _cause(message: str) -> dict[str, str]:
    return {"reason": "DisruptionBudget", "message": message}


def _counts(pod: Body) -> bool:
    """Whether a budget protects the pod: not if it has ended, waits, or is leaving anyway."""
    status = pod.get("status") or {}
    return (
        status.get("phase") not in {"Succeeded", "Failed", "Pending"}
        and "deletionTimestamp" not in pod["metadata"]
    )


def _selects(budget: Body, pod: Body) -> bool:
    metadata = pod["metadata"]
    if budget["metadata"].get("namespace") != metadata.get("namespace"):
        return False
    try:
        selector = msgspec.convert(
            (budget.get("spec") or {}).get("selector"), LabelSelector | None, strict=False
        )
        return compile_label_selector(selector, "spec.selector").matches(
            metadata.get("labels") or {}
        )
    except (msgspec.ValidationError, SelectorError):
        return False
