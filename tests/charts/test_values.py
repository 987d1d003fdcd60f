"""Values reach the program as they are meant; those that cannot be meant are refused by name."""

from pathlib import Path

import pytest
import yaml

from scheduler.assembly import available
from scheduler.config.loading import Configuration, from_dicts
from shipping.helm import CHART, RELEASE
from shipping.values import ValuesFile
from tests.charts.support import Json, Rendered, refusal

WITH_CONFIGURATION = [
    values for values in sorted((CHART / "ci").glob("*.yaml")) if "existing" not in values.stem
]


def loaded(values: Json | None = None) -> Configuration:
    """The configuration as the program reads it in the pod."""
    return from_dicts(Rendered(values).configuration, available(), {"POD_NAMESPACE": "there"})


def test_the_defaults_are_those_of_the_program() -> None:
    from_chart, own = loaded(), from_dicts([], available(), {"POD_NAMESPACE": "there"})
    assert from_chart.scheduler == own.scheduler
    assert from_chart.equipoise.server.bind_address == "0.0.0.0"
    assert from_chart.warnings == ()


@pytest.mark.parametrize("values", WITH_CONFIGURATION, ids=lambda values: values.stem)
def test_the_program_accepts_what_the_chart_renders(values: Path) -> None:
    config = loaded(yaml.safe_load(values.read_text()))
    assert config.scheduler.profiles[0].scheduler_name == "equipoise"


def test_what_the_program_prints_is_accepted_as_values() -> None:
    kube, own = from_dicts([], available(), {"POD_NAMESPACE": "there"}).to_dicts()
    kube["leaderElection"]["leaseDuration"] = "1m30s"
    config = loaded({"config": kube, "equipoiseConfig": own})
    assert config.to_dicts() == [kube, own]


def test_shorthands_shape_the_one_profile() -> None:
    values = {
        "schedulerName": "planner",
        "plugins": {"enabled": [{"name": "NodeAffinity", "weight": 7}]},
        "pluginConfig": [{"name": "InterPodAffinity", "args": {"hardPodAffinityWeight": 5}}],
        "leaderElection": {"leaseDuration": "30s"},
        "logging": {"level": "debug"},
    }
    config = loaded(values)
    (profile,) = config.scheduler.profiles
    assert profile.scheduler_name == "planner"
    weights = {plugin.name: plugin.weight for plugin in profile.plugins.multi_point.enabled}
    assert weights["NodeAffinity"] == 7
    assert profile.args("InterPodAffinity").hard_pod_affinity_weight == 5
    assert float(config.scheduler.leader_election.lease_duration) == 30
    assert config.equipoise.logging.level == "debug"


def test_config_goes_before_shorthands() -> None:
    values = {
        "leaderElection": {"leaseDuration": "30s", "retryPeriod": "1s"},
        "config": {"leaderElection": {"leaseDuration": "60s"}},
        "equipoiseConfig": {"logging": {"format": "console"}},
    }
    config = loaded(values)
    election = config.scheduler.leader_election
    assert float(election.lease_duration) == 60
    assert float(election.retry_period) == 1
    assert (config.equipoise.logging.format, config.equipoise.logging.level) == ("console", "info")


def test_the_lease_is_named_like_the_release() -> None:
    def lease(release: str) -> str:
        documents = Rendered(release=release).the
        name = release if RELEASE in release else f"{release}-{RELEASE}"
        text = documents("ConfigMap", name)["data"]["config.yaml"]
        kube, _ = yaml.safe_load_all(text)
        return str(kube["leaderElection"]["resourceName"])

    assert lease("equipoise") == "equipoise"
    assert lease("second") == "second-equipoise"


REFUSED = [
    pytest.param({"replicaCout": 2}, "replicaCout", id="an unknown key"),
    pytest.param({"image": {"repo": "x"}}, "repo", id="an unknown key of a section"),
    pytest.param({"replicaCount": "two"}, "replicaCount", id="a word for a number"),
    pytest.param({"replicaCount": -1}, "replicaCount", id="a negative number"),
    pytest.param({"logging": {"level": "loud"}}, "logging/level", id="an unknown level"),
    pytest.param({"schedulerName": ""}, "schedulerName", id="no scheduler name"),
    pytest.param(
        {"prometheusRule": {"runbookBaseUrl": "docs/runbooks"}},
        "prometheusRule/runbookBaseUrl",
        id="runbooks that are no link",
    ),
    pytest.param({"image": {"digest": "latest"}}, "image/digest", id="no digest"),
    pytest.param(
        {"leaderElection": {"leaseDuration": 15}}, "leaseDuration", id="a number for a duration"
    ),
    pytest.param({"config": {"podMaxBackof": 1}}, "podMaxBackof", id="an unknown field of config"),
    pytest.param(
        {"config": {"profiles": [{"plugins": {"filters": {}}}]}},
        "filters",
        id="an unknown extension point",
    ),
    pytest.param(
        {"equipoiseConfig": {"binding": {"concurency": 1}}},
        "concurency",
        id="an unknown field of equipoiseConfig",
    ),
    pytest.param({"config": {"kind": "Pod"}}, "kind", id="another kind of configuration"),
    pytest.param(
        {"leaderElection": {"enabled": False}}, "needs leaderElection", id="two without election"
    ),
    pytest.param(
        {"config": {"profiles": [{"schedulerName": "other"}]}},
        'schedulerName is "equipoise", but config.profiles has only: other',
        id="a scheduler name without a profile",
    ),
    pytest.param(
        {
            "config": {"profiles": [{"schedulerName": "equipoise"}]},
            "plugins": {"disabled": [{"name": "VolumeZone"}]},
        },
        "with config.profiles, put them there",
        id="plugins for which profile",
    ),
    pytest.param(
        {"equipoiseConfig": {"server": {"port": 0}}}, "server.port is 0", id="no port to probe"
    ),
    pytest.param(
        {"podLabels": {"app.kubernetes.io/name": "other"}},
        "podLabels: app.kubernetes.io/name is one of the chart's own labels",
        id="pods that their Deployment does not find",
    ),
    pytest.param(
        {"commonLabels": {"app.kubernetes.io/part-of": "other"}},
        "commonLabels: app.kubernetes.io/part-of is one of",
        id="a label that would be there twice",
    ),
    pytest.param(
        {"serviceAccount": {"create": False}},
        "set serviceAccount.name",
        id="rights for the account default",
    ),
    pytest.param(
        {"networkPolicy": {"apiServerCIDRs": ["10.0.0.1"]}},
        "networkPolicy/apiServerCIDRs/0",
        id="an address that is no CIDR",
    ),
    pytest.param(
        {"recording": {"enabled": True, "maxBytes": 1}}, "recording/maxBytes", id="no recording"
    ),
    pytest.param(
        {"recording": {"enabled": True, "maxBytes": 2**21}},
        "needs room for a segment",
        id="a recording smaller than a segment",
    ),
    pytest.param(
        {"rbac": {"plugins": ["VolumeZone"]}}, "rbac.plugins is for", id="rights for no reason"
    ),
    pytest.param(
        {"existingConfigMap": "mine", "rbac": {"plugins": ["VolumeZones"]}},
        '"VolumeZones" is no plugin',
        id="rights for an unknown plugin",
    ),
]


@pytest.mark.parametrize(("values", "complaint"), REFUSED)
def test_refused(values: Json, complaint: str) -> None:
    said = refusal(values)
    assert complaint.replace("/", ".") in said.replace("/", ".")


def test_accepted() -> None:
    account = {"create": False, "name": "planner"}
    assert Rendered({"serviceAccount": account}).pod["serviceAccountName"] == "planner"
    without_rights = Rendered({"serviceAccount": {"create": False}, "rbac": {"create": False}})
    assert without_rights.pod["serviceAccountName"] == "default"
    cidrs = ["10.0.0.1/32", "fd00::1/128"]
    policy = Rendered({"networkPolicy": {"enabled": True, "apiServerCIDRs": cidrs}})
    _, to_server = policy.the("NetworkPolicy")["spec"]["egress"]
    assert [peer["ipBlock"]["cidr"] for peer in to_server["to"]] == cidrs
    small = {"maxBytes": 2**21, "enabled": True}
    segments = {"recording": {"segmentBytes": 2**20}}
    assert loaded({"recording": small, "equipoiseConfig": segments}).equipoise.recording.directory


def test_part_of_another_chart() -> None:
    assert Rendered({"global": {"imageRegistry": "x"}}).objects


def test_every_key_has_a_sentence() -> None:
    for leaf in ValuesFile().leaves():
        assert leaf.description.endswith((".", ":", "`")), leaf.name
