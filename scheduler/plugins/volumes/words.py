"""Why volume plugins reject a pod as a whole, in kube-scheduler's words."""

from __future__ import annotations

from scheduler.model.limits import MOST_SELECTOR_ENTRIES
from scheduler.model.volumes import ClaimUse


class UnusableVolumesError(Exception):
    """The pod cannot be placed at all for its volumes; says why."""


def claim_not_found(name: str) -> str:
    """A claim that does not exist."""
    return f'persistentvolumeclaim "{name}" not found'


def volume_not_found(name: str) -> str:
    """A volume that does not exist."""
    return f'persistentvolume "{name}" not found'


def class_not_found(name: str) -> str:
    """A storage class that does not exist."""
    return f'storageclass.storage.k8s.io "{name}" not found'


def not_owner(use: ClaimUse, pod: str) -> str:
    """A claim with the name of a pod's ephemeral volume that the pod does not own."""
    return f"PVC {use.key} was not created for pod {pod} (pod is not owner)"


def selectors_too_long(name: str, entries: int) -> str:
    """Unbound claims whose selectors are too long; this one's is the longest."""
    return (
        f'persistentvolumeclaim "{name}": spec.selector: {entries} entries; all claims of a pod'
        f" may have {MOST_SELECTOR_ENTRIES}"
    )
