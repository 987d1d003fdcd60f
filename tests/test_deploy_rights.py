"""``deploy/rbac.yaml`` grants what the default profile needs, and nothing else."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import yaml

from scheduler.assembly import assemble, available
from scheduler.config.loading import from_dicts
from scheduler.model.objects import KINDS
from scheduler.observe.metrics import Metrics
from tests.pipeline.support import RecordingOutlet

RBAC = Path(__file__).parents[1] / "deploy" / "rbac.yaml"

Resource = tuple[str, str]
"""Group and plural."""

WRITES: dict[Resource, set[str]] = {
    # To read a pod again when the answer to its binding was lost; to evict it.
    ("", "pods"): {"get", "delete"},
    ("", "pods/binding"): {"create"},
    ("", "pods/status"): {"patch"},
    ("", "persistentvolumes"): {"patch"},
    ("", "persistentvolumeclaims"): {"patch"},
    ("events.k8s.io", "events"): {"create", "patch"},
}


def watched_by_default() -> set[Resource]:
    """What a scheduler without a configuration of its own watches."""
    core = assemble(from_dicts([], available(), {}), RecordingOutlet(), Metrics("test"))
    return {resource(KINDS[kind].path) for kind in core.kinds()}


def resource(path: str) -> Resource:
    *root, plural = path.removeprefix("/").split("/")
    return (root[1] if root[0] == "apis" else ""), plural


def granted_everywhere() -> dict[Resource, set[str]]:
    """The verbs that the cluster role grants for each resource."""
    documents = yaml.safe_load_all(RBAC.read_text())
    (role,) = (each for each in documents if each["kind"] == "ClusterRole")
    verbs: dict[Resource, set[str]] = defaultdict(set)
    for rule in role["rules"]:
        for group in rule["apiGroups"]:
            for plural in rule["resources"]:
                verbs[group, plural] |= set(rule["verbs"])
    return verbs


def test_the_cluster_role_grants_what_the_default_profile_needs() -> None:
    needed: dict[Resource, set[str]] = defaultdict(set)
    for watched in watched_by_default():
        needed[watched] |= {"list", "watch"}
    for written, verbs in WRITES.items():
        needed[written] |= verbs
    assert granted_everywhere() == needed
