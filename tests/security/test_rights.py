"""What the scheduler's token can never do, whatever the values of the chart say."""

from __future__ import annotations

import pytest

from tests.builders import Json
from tests.charts.support import Rendered, needs_helm

pytestmark = needs_helm

READ = {"get", "list", "watch"}
FORBIDDEN_RESOURCES = {"*", "secrets", "configmaps", "serviceaccounts", "serviceaccounts/token"}
FORBIDDEN_RESOURCES |= {"pods/exec", "pods/attach", "pods/portforward", "pods/ephemeralcontainers"}
FORBIDDEN_VERBS = {"*", "escalate", "bind", "impersonate", "deletecollection"}
ONLY_READ = {"nodes", "namespaces", "services", "replicasets", "statefulsets", "storageclasses"}
ALLOWED_WRITES = {"pods": {"delete"}}
"""Of what grants power over the cluster: evicting victims of preemption."""


def rules_of_the_scheduler(values: Json) -> list[Json]:
    """All rules that are bound to the ServiceAccount of the scheduler."""
    rendered = Rendered(values)
    bound = {
        each["roleRef"]["name"]
        for each in rendered.objects
        if each["kind"] in ("ClusterRoleBinding", "RoleBinding")
        and any(
            (subject["kind"], subject["name"]) == ("ServiceAccount", "equipoise")
            for subject in each["subjects"]
        )
    }
    assert bound
    return [
        rule
        for each in rendered.objects
        if each["kind"] in ("ClusterRole", "Role") and each["metadata"]["name"] in bound
        for rule in each["rules"]
    ]


def faults(rules: list[Json]) -> list[str]:
    """What no rule may grant."""
    found = []
    for rule in rules:
        resources, verbs = set(rule.get("resources", ())), set(rule["verbs"])
        found += sorted(resources & FORBIDDEN_RESOURCES) + sorted(verbs & FORBIDDEN_VERBS)
        found += [f"a rule of {group}" for group in rule.get("apiGroups", ()) if "rbac" in group]
        if "*" in rule.get("apiGroups", ()):
            found.append("all groups")
        if resources & ONLY_READ and not verbs <= READ:
            found.append(f"{sorted(verbs - READ)} {sorted(resources & ONLY_READ)}")
        if "pods" in resources and not verbs <= READ | ALLOWED_WRITES["pods"]:
            found.append(f"{sorted(verbs)} pods")
    return found


@pytest.mark.parametrize(
    "values",
    [
        pytest.param({}, id="default"),
        pytest.param(
            {
                "plugins": {"enabled": [{"name": "Coscheduling"}, {"name": "ServiceAffinity"}]},
                "recording": {"enabled": True},
                "batch": {"enabled": True},
            },
            id="all plugins",
        ),
    ],
)
def test_what_the_scheduler_may_never_do(values: Json) -> None:
    assert faults(rules_of_the_scheduler(values)) == []


@pytest.mark.parametrize(
    ("resource", "verb"),
    [("secrets", "get"), ("nodes", "patch"), ("pods", "create"), ("pods/exec", "create")],
)
def test_such_a_right_would_be_found(resource: str, verb: str) -> None:
    rule = {"apiGroups": [""], "resources": [resource], "verbs": [verb]}
    assert faults([*rules_of_the_scheduler({}), rule]) != []
