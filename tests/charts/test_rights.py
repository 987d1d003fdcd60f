"""The chart grants what the program needs with that configuration, and nothing else."""

from collections import defaultdict
from typing import Any

import pytest
import yaml

from scheduler.assembly import assemble, available
from scheduler.config.loading import Configuration, from_dicts
from scheduler.config.plugins import DEFAULT_PLUGINS
from scheduler.model.objects import KINDS
from scheduler.observe.metrics import Metrics
from shipping.helm import CHART
from tests.charts.support import Json, Rendered
from tests.pipeline.support import RecordingOutlet

Resource = tuple[str, str]
"""Group and plural."""
Rights = dict[Resource, set[str]]

TABLE: Json = yaml.safe_load((CHART / "files" / "rights.yaml").read_text())

ALWAYS: Rights = {
    # To read a pod again when the answer to its binding was lost.
    ("", "pods"): {"get"},
    ("", "pods/binding"): {"create"},
    ("", "pods/status"): {"patch"},
    ("events.k8s.io", "events"): {"create", "patch"},
}
OF_PLUGINS: dict[str, Rights] = {
    "Coscheduling": {("scheduling.x-k8s.io", "podgroups/status"): {"patch"}},
    "DefaultPreemption": {("", "pods"): {"delete"}},
    "DynamicResources": {
        ("resource.k8s.io", "resourceclaims"): {"get", "create", "patch", "delete"},
        ("resource.k8s.io", "resourceclaims/status"): {"patch"},
        ("resource.k8s.io", "resourceclaims/binding"): {"patch"},
    },
    "VolumeBinding": {
        ("", "persistentvolumes"): {"patch"},
        ("", "persistentvolumeclaims"): {"patch"},
    },
}
REVIEWS: Rights = {
    ("authentication.k8s.io", "tokenreviews"): {"create"},
    ("authorization.k8s.io", "subjectaccessreviews"): {"create"},
}


def needed(config: Configuration) -> Rights:
    """What a program with this configuration watches and writes."""
    core = assemble(config, RecordingOutlet(), Metrics("test"))
    rights: Rights = defaultdict(set)
    for kind in core.kinds():
        rights[resource(KINDS[kind].path)] |= {"list", "watch"}
    plugins = {name for each in core.frameworks.values() for name in each.plugins}
    blocks = [ALWAYS, REVIEWS, *(OF_PLUGINS[name] for name in plugins & OF_PLUGINS.keys())]
    for block in blocks:
        for name, verbs in block.items():
            rights[name] |= verbs
    return rights


def resource(path: str) -> Resource:
    *root, plural = path.removeprefix("/").split("/")
    return (root[1] if root[0] == "apis" else ""), plural


def granted(rules: list[Json]) -> Rights:
    """The verbs that rules grant for each resource."""
    verbs: Rights = defaultdict(set)
    for rule in rules:
        for group in rule["apiGroups"]:
            for plural in rule["resources"]:
                verbs[group, plural] |= set(rule["verbs"])
    return verbs


def named(*names: str) -> list[Json]:
    return [{"name": name} for name in names]


def profile(name: str = "equipoise", **sets: Any) -> Json:
    return {"schedulerName": name, "plugins": sets}


OFF = [plugin.name for plugin in DEFAULT_PLUGINS if plugin.name in TABLE["plugins"]]
NECESSARY = named("PrioritySort", "DefaultBinder")

CASES = [
    pytest.param({}, id="default"),
    *(pytest.param({"plugins": {"disabled": named(name)}}, id=f"without {name}") for name in OFF),
    pytest.param(
        {"plugins": {"enabled": named("NodeResourceTopologyMatch")}}, id="with NUMA topology"
    ),
    pytest.param({"plugins": {"enabled": named("ServiceAffinity")}}, id="with ServiceAffinity"),
    pytest.param({"plugins": {"enabled": named("Coscheduling")}}, id="with gangs"),
    pytest.param({"plugins": {"disabled": named("*"), "enabled": NECESSARY}}, id="nothing at all"),
    pytest.param(
        {
            "config": {
                "profiles": [
                    profile(multiPoint={"disabled": named("*"), "enabled": NECESSARY}),
                    profile("other", multiPoint={"disabled": named("VolumeBinding")}),
                ]
            }
        },
        id="a right that only the second profile needs",
    ),
    pytest.param(
        {
            "config": {
                "profiles": [
                    profile(
                        preEnqueue={"disabled": named("DefaultPreemption")},
                        postFilter={"disabled": named("DefaultPreemption")},
                    )
                ]
            }
        },
        id="disabled at each of its points",
    ),
    pytest.param(
        {"config": {"profiles": [profile(score={"disabled": named("*")})]}},
        id="disabled at one of its points",
    ),
    pytest.param(
        {
            "config": {
                "profiles": [
                    profile(
                        multiPoint={"disabled": named("*"), "enabled": NECESSARY},
                        filter={"enabled": named("NodeResourceTopologyMatch")},
                    )
                ]
            }
        },
        id="enabled at one point only",
    ),
]


@pytest.mark.parametrize("values", CASES)
def test_cluster_role(values: Json) -> None:
    rendered = Rendered(values)
    config = from_dicts(rendered.configuration, available(), {})
    assert granted(rendered.the("ClusterRole")["rules"]) == needed(config)


def test_the_table_knows_the_plugins_as_they_are() -> None:
    exist, default = available(), {plugin.name for plugin in DEFAULT_PLUGINS}
    for name, entry in TABLE["plugins"].items():
        assert set(entry["points"]) == set(exist[name]), name
        assert entry["default"] == (name in default), name


@pytest.mark.parametrize(
    ("server", "reviews"),
    [
        pytest.param({}, True, id="on all addresses"),
        pytest.param({"bindAddress": "127.0.0.1"}, False, id="on loopback"),
        pytest.param({"bindAddress": "::1"}, False, id="on the loopback of IPv6"),
        pytest.param({"bindAddress": "127.0.0.1", "protection": "always"}, True, id="always"),
    ],
)
def test_the_server_asks_the_api_server_about_its_callers(server: Json, reviews: bool) -> None:
    rules = Rendered({"equipoiseConfig": {"server": server}}).the("ClusterRole")["rules"]
    assert (REVIEWS.items() <= granted(rules).items()) is reviews


def test_with_a_configuration_of_ones_own_rights_are_named() -> None:
    usual = granted(Rendered().the("ClusterRole")["rules"])
    assert granted(Rendered({"existingConfigMap": "mine"}).the("ClusterRole")["rules"]) == usual
    own: dict[str, Any] = {"numa": {"enabled": False}}
    default = granted(Rendered(own).the("ClusterRole")["rules"])
    own["existingConfigMap"] = "mine"
    assert granted(Rendered(own).the("ClusterRole")["rules"]) == default
    own["rbac"] = {"plugins": ["NodeResourceTopologyMatch"]}
    more = granted(Rendered(own).the("ClusterRole")["rules"])
    assert more == {
        **default,
        ("topology.node.k8s.io", "noderesourcetopologies"): {"list", "watch"},
    }


def test_only_its_own_lease_can_be_taken() -> None:
    values = {"leaderElection": {"resourceName": "planner"}}
    rules = Rendered(values).the("Role", "equipoise-leader-election")["rules"]
    create, keep = rules
    assert create["verbs"] == ["create"]
    assert (keep["resourceNames"], keep["verbs"]) == (["planner"], ["get", "update"])


def test_a_lease_in_another_namespace_has_its_role_there() -> None:
    values = {"config": {"leaderElection": {"resourceNamespace": "kube-system"}}}
    rendered = Rendered(values)
    for kind in ("Role", "RoleBinding"):
        metadata = rendered.the(kind, "equipoise-leader-election")["metadata"]
        assert metadata["namespace"] == "kube-system"
    (subject,) = rendered.the("RoleBinding", "equipoise-leader-election")["subjects"]
    assert subject["namespace"] == "equipoise-system"


def test_without_election_there_are_no_rights_to_leases() -> None:
    rendered = Rendered({"replicaCount": 1, "leaderElection": {"enabled": False}})
    roles = [name for kind, name in rendered.names if kind in ("Role", "RoleBinding")]
    assert roles == ["equipoise-viewer"]
    rules = rendered.the("Role", "equipoise-viewer")["rules"]
    assert not any("leases" in rule["resources"] for rule in rules)


def test_who_may_look_is_bound_when_named() -> None:
    prometheus = {"kind": "ServiceAccount", "name": "prometheus", "namespace": "monitoring"}
    rendered = Rendered({"rbac": {"metricsReaders": [prometheus]}})
    assert rendered.the("ClusterRoleBinding", "equipoise-metrics-reader")["subjects"] == [
        prometheus
    ]
    assert ("ClusterRole", "equipoise-viewer") in rendered.names
    assert ("RoleBinding", "equipoise-viewer") not in rendered.names
    account = rendered.the("ServiceAccount", "equipoise-viewer")
    (subject,) = rendered.the("ClusterRoleBinding", "equipoise-viewer")["subjects"]
    assert (subject["kind"], subject["name"]) == ("ServiceAccount", account["metadata"]["name"])
    without = Rendered({"rbac": {"viewerAccount": False}})
    assert ("ServiceAccount", "equipoise-viewer") not in without.names
    assert ("ClusterRoleBinding", "equipoise-viewer") not in without.names


def test_viewers_may_find_the_leader_and_reach_its_pod() -> None:
    alice = {"kind": "User", "name": "alice", "apiGroup": "rbac.authorization.k8s.io"}
    rendered = Rendered({"rbac": {"viewers": [alice]}})
    assert rendered.the("RoleBinding", "equipoise-viewer")["subjects"] == [alice]
    lease, pods, proxy = rendered.the("Role", "equipoise-viewer")["rules"]
    assert (lease["resourceNames"], lease["verbs"]) == (["equipoise"], ["get"])
    assert pods["verbs"] == ["get", "list"]
    assert (proxy["resources"], proxy["verbs"]) == (["pods/proxy"], ["get", "create"])
    account = {
        "kind": "ServiceAccount",
        "name": "equipoise-viewer",
        "namespace": "equipoise-system",
    }
    assert rendered.the("ClusterRoleBinding", "equipoise-viewer")["subjects"] == [alice, account]
