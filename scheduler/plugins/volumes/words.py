"""Texts that several volume plugins use, as kube-scheduler words them."""

from __future__ import annotations

from scheduler.model.volumes import ClaimUse


def claim_not_found(name: str) -> str:
    """A claim that is not there."""
    return f'persistentvolumeclaim "{name}" not found'


def volume_not_found(name: str) -> str:
    """A volume that is not there."""
    return f'persistentvolume "{name}" not found'


def class_not_found(name: str) -> str:
    """A storage class that is not there."""
    return f'storageclass.storage.k8s.io "{name}" not found'


def not_owner(use: ClaimUse, pod: str) -> str:
    """A claim with the name of a pod's ephemeral volume, made by somebody else."""
    return f"PVC {use.key} was not created for pod {pod} (pod is not owner)"
