"""What the templates make of values."""

import json
from typing import Any

import pytest
import yaml

from shipping.helm import CHART, PROJECT
from tests.charts.support import Json, Rendered

EVERYTHING: Json = yaml.safe_load((CHART / "ci" / "every-feature-values.yaml").read_text())


@pytest.fixture(scope="module")
def defaults() -> Rendered:
    return Rendered()


@pytest.fixture(scope="module")
def everything() -> Rendered:
    return Rendered(EVERYTHING)


def test_by_default_there_is_no_more_than_a_scheduler(defaults: Rendered) -> None:
    assert {kind for kind, _ in defaults.names} == {
        *("ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding"),
        *("ConfigMap", "Deployment", "Lease", "PodDisruptionBudget", "Job"),
    }


def test_with_everything_all_kinds_are_there(everything: Rendered) -> None:
    assert {kind for kind, _ in everything.names} >= {
        *("Service", "ServiceMonitor", "PodMonitor", "PrometheusRule", "NetworkPolicy"),
        *("FlowSchema", "PriorityLevelConfiguration", "VerticalPodAutoscaler"),
        "CustomResourceDefinition",
    }
    assert "HorizontalPodAutoscaler" not in {kind for kind, _ in everything.names}


def test_every_object_has_the_standard_labels(everything: Rendered) -> None:
    extra = ("plain", "equipoise-templated")
    for each in everything.objects:
        if each["metadata"]["name"] in extra:
            continue
        labels = each["metadata"]["labels"]
        assert labels["app.kubernetes.io/name"] == "equipoise", each["kind"]
        assert labels["app.kubernetes.io/instance"] == "equipoise"
        assert labels["app.kubernetes.io/managed-by"] == "Helm"
        assert labels["team"] == "platform"


def test_namespaced_objects_say_so(everything: Rendered) -> None:
    cluster_wide = ("ClusterRole", "ClusterRoleBinding", "CustomResourceDefinition")
    of_flow_control = ("FlowSchema", "PriorityLevelConfiguration")
    for each in everything.objects:
        if each["kind"] not in (*cluster_wide, *of_flow_control) and "labels" in each["metadata"]:
            assert each["metadata"]["namespace"] == "equipoise-system", each["kind"]


def test_replicas_are_found_by_labels_that_never_change(everything: Rendered) -> None:
    stable = {"app.kubernetes.io/name": "equipoise", "app.kubernetes.io/instance": "equipoise"}
    assert everything.the("Deployment")["spec"]["selector"]["matchLabels"] == stable
    assert everything.the("PodDisruptionBudget")["spec"]["selector"]["matchLabels"] == stable
    assert everything.the("Service")["spec"]["selector"] == stable
    assert everything.the("PodMonitor")["spec"]["selector"]["matchLabels"] == stable
    assert everything.the("NetworkPolicy")["spec"]["podSelector"]["matchLabels"] == stable


def test_pods_are_restricted(defaults: Rendered) -> None:
    job = defaults.the("Job", "equipoise-test")["spec"]["template"]["spec"]
    for pod in (defaults.pod, job):
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        (container,) = pod["containers"]
        context = container["securityContext"]
        assert context["allowPrivilegeEscalation"] is False
        assert context["readOnlyRootFilesystem"] is True
        assert context["capabilities"] == {"drop": ["ALL"]}


def test_probes_reach_the_port_that_is_served(everything: Rendered) -> None:
    (port,) = everything.container["ports"]
    assert port == {"name": "https", "containerPort": 10443}
    assert everything.configuration[1]["server"]["port"] == 10443
    for probe in ("livenessProbe", "readinessProbe", "startupProbe"):
        assert everything.container[probe]["httpGet"]["port"] == "https"


def test_a_probe_can_be_removed() -> None:
    assert "startupProbe" not in Rendered({"startupProbe": None}).container


def test_the_serving_certificate_is_mounted_and_named(everything: Rendered) -> None:
    server = everything.configuration[1]["server"]
    mounts = {each["name"]: each["mountPath"] for each in everything.container["volumeMounts"]}
    assert server["tlsCertFile"] == f"{mounts['tls']}/tls.crt"
    assert server["tlsPrivateKeyFile"] == f"{mounts['tls']}/tls.key"
    volumes = {each["name"]: each for each in everything.pod["volumes"]}
    assert volumes["tls"]["secret"] == {"secretName": "equipoise-serving"}


def test_configuration_is_where_the_command_line_says(defaults: Rendered) -> None:
    mounts = {each["name"]: each["mountPath"] for each in defaults.container["volumeMounts"]}
    assert defaults.container["args"] == ["run", f"--config={mounts['config']}/config.yaml"]
    volumes = {each["name"]: each for each in defaults.pod["volumes"]}
    assert volumes["config"]["configMap"] == {"name": "equipoise"}


def test_another_configuration_makes_other_pods() -> None:
    texts = [Rendered(values).checksum for values in ({}, {"logging": {"level": "debug"}}, {})]
    assert texts[0] == texts[2] != texts[1]


@pytest.mark.parametrize(
    ("image", "reference"),
    [
        pytest.param({}, "equipoise:0.1.0", id="the version of the chart"),
        pytest.param({"tag": "dev"}, "equipoise:dev", id="a tag"),
        pytest.param(
            {"registry": "registry.example/", "tag": "dev"}, "registry.example/equipoise:dev"
        ),
        pytest.param(
            {"digest": f"sha256:{'a' * 64}", "tag": "dev"}, f"equipoise@sha256:{'a' * 64}"
        ),
    ],
)
def test_image(image: Json, reference: str) -> None:
    rendered = Rendered({"image": image})
    (tested,) = rendered.the("Job", "equipoise-test")["spec"]["template"]["spec"]["containers"]
    assert rendered.container["image"] == tested["image"] == reference


def test_replicas_prefer_different_hosts_unless_told(
    defaults: Rendered, everything: Rendered
) -> None:
    (term,) = defaults.pod["affinity"]["podAntiAffinity"][
        "preferredDuringSchedulingIgnoredDuringExecution"
    ]
    assert term["podAffinityTerm"]["topologyKey"] == "kubernetes.io/hostname"
    assert everything.pod["affinity"] == EVERYTHING["affinity"]


def test_spread_constraints_select_the_replicas(defaults: Rendered) -> None:
    (constraint,) = defaults.pod["topologySpreadConstraints"]
    selector = defaults.the("Deployment")["spec"]["selector"]
    assert constraint["labelSelector"] == selector
    own = {"maxSkew": 1, "topologyKey": "rack", "labelSelector": {"matchLabels": {"a": "b"}}}
    (kept,) = Rendered({"topologySpreadConstraints": [own]}).pod["topologySpreadConstraints"]
    assert kept == own


def test_one_replica_has_no_budget_that_would_block_a_drain() -> None:
    assert ("PodDisruptionBudget", "equipoise") not in Rendered({"replicaCount": 1}).names


@pytest.mark.parametrize("file", ["noderesourcetopologies", "podgroups"])
def test_a_definition_stays_when_the_release_goes(everything: Rendered, file: str) -> None:
    (plain,) = yaml.safe_load_all((CHART / f"files/crds/{file}.yaml").read_text())
    definition = everything.the("CustomResourceDefinition", plain["metadata"]["name"])
    annotations = plain["metadata"].get("annotations", {})
    assert definition["metadata"]["annotations"] == {
        **annotations,
        "helm.sh/resource-policy": "keep",
    }
    assert definition["spec"] == plain["spec"]


def test_the_test_is_for_our_scheduler_and_ends_by_itself() -> None:
    profiles = {"profiles": [{"schedulerName": "a"}, {"schedulerName": "b"}]}
    job = Rendered({"schedulerName": "b", "config": profiles}).the("Job", "equipoise-test")
    assert job["metadata"]["annotations"]["helm.sh/hook"] == "test"
    assert job["spec"]["template"]["spec"]["schedulerName"] == "b"
    assert job["spec"]["activeDeadlineSeconds"] == 120
    assert job["spec"]["backoffLimit"] == 0


def test_dashboards_and_alerts_are_passed_on_as_they_are(everything: Rendered) -> None:
    boards = everything.the("ConfigMap", "equipoise-dashboards")
    assert boards["metadata"]["labels"]["grafana_dashboard"] == "1"
    files = sorted((CHART / "files" / "dashboards").glob("*.json"))
    assert sorted(boards["data"]) == [file.name for file in files] != []
    for file in files:
        assert json.loads(boards["data"][file.name]) == json.loads(file.read_text())
    alerts = yaml.safe_load((CHART / "files" / "alerts.yaml").read_text())
    assert Rendered({"prometheusRule": {"enabled": True}}).the("PrometheusRule")["spec"] == alerts


@pytest.mark.parametrize("ending", ["", "/"])
def test_every_alert_links_to_its_runbook(ending: str) -> None:
    base = "https://git.example.com/equipoise/docs/runbooks"
    values = {"prometheusRule": {"enabled": True, "runbookBaseUrl": f"{base}{ending}"}}
    (group,) = Rendered(values).the("PrometheusRule")["spec"]["groups"]
    pages = {f"{base}/{page.name}" for page in (PROJECT / "docs" / "runbooks").glob("*.md")}
    assert {rule["annotations"]["runbook_url"] for rule in group["rules"]} == pages
    for rule in group["rules"]:
        assert rule["annotations"]["runbook_url"] == f"{base}/{rule['alert']}.md"


def test_alerts_select_the_job_that_monitors_make() -> None:
    rules = Rendered({"nameOverride": "planner", "prometheusRule": {"enabled": True}})
    text = json.dumps(rules.the("PrometheusRule", "equipoise-planner"))
    assert 'job=\\"planner\\"' in text
    assert 'job=\\"equipoise\\"' not in text


def test_a_token_from_a_secret_replaces_the_file_of_prometheus() -> None:
    def endpoint(**monitor: Any) -> Json:
        rendered = Rendered({"serviceMonitor": {"enabled": True, **monitor}})
        (found,) = rendered.the("ServiceMonitor")["spec"]["endpoints"]
        only: Json = found
        return only

    assert "authorization" not in endpoint()
    assert endpoint()["bearerTokenFile"].endswith("/token")
    secret = {"credentials": {"name": "scraper", "key": "token"}}
    assert endpoint(authorization=secret)["authorization"] == secret
    assert "bearerTokenFile" not in endpoint(authorization=secret)


def test_extra_objects_may_be_templates(everything: Rendered) -> None:
    assert {("ConfigMap", "plain"), ("ConfigMap", "equipoise-templated")} <= everything.names


def test_names_follow_the_release() -> None:
    def deployment(release: str, **values: str) -> str:
        rendered = Rendered(dict(values), release=release)
        return next(name for kind, name in rendered.names if kind == "Deployment")

    assert deployment("equipoise") == "equipoise"
    assert deployment("my-equipoise") == "my-equipoise"
    assert deployment("second") == "second-equipoise"
    assert deployment("second", nameOverride="planner") == "second-planner"
    assert deployment("second", fullnameOverride="planner") == "planner"


WARNINGS: list[tuple[Json, str]] = [
    ({"schedulerName": "default-scheduler"}, "that of kube-scheduler"),
    ({"replicaCount": 1}, "while that replica is away"),
    ({"replicaCount": 5}, "more than three gain nothing"),
    ({"leaderElection": {"resourceName": "kube-scheduler"}}, "lease is named kube-scheduler"),
    ({"existingConfigMap": "mine", "config": {"parallelism": 4}}, "have no effect"),
    (
        {
            "serviceMonitor": {"enabled": True},
            "podMonitor": {
                "enabled": True,
                "authorization": {"credentials": {"name": "scraper", "key": "token"}},
            },
        },
        "scraped twice",
    ),
    ({"podMonitor": {"enabled": True}}, "/metrics answers with 403"),
    ({"resources": {"limits": {"cpu": 1}}}, "throttling"),
    ({"hostNetwork": True}, "port is kube-scheduler's"),
    ({"equipoiseConfig": {"server": {"bindAddress": "127.0.0.1"}}}, "loopback address"),
    ({"plugins": {"enabled": [{"name": "NodeResourceTopologyMatch"}]}}, "topology updater"),
    (
        {
            "networkPolicy": {"enabled": True},
            "config": {"extenders": [{"urlPrefix": "https://extender.example.com/v1"}]},
        },
        "networkPolicy.extraEgress",
    ),
]


def notes(values: Json) -> str:
    """What helm prints after an installation."""
    # Only a real installation shows them; templates can include them.
    template = (
        "{kind: Notes, metadata: {name: x}, text: "
        '{{ include "equipoise/templates/NOTES.txt" . | toJson }}}'
    )
    text: str = Rendered({**values, "extraObjects": [template]}).the("Notes", "x")["text"]
    return text


def warnings(values: Json) -> list[str]:
    """The warnings at their end."""
    return [
        line.removeprefix("WARNING: ")
        for line in notes(values).splitlines()
        if line.startswith("WARNING: ")
    ]


def test_notes_name_the_port_and_the_account_that_exist() -> None:
    text = notes({"equipoiseConfig": {"server": {"port": 8443}}})
    assert "https://127.0.0.1:8443/ui/" in text
    assert "port-forward deployment/equipoise 8443\n" in text
    assert "create token equipoise-viewer\n" in text
    assert "create token" not in notes({"rbac": {"viewerAccount": False}})
    assert "port-forward" not in notes({"existingConfigMap": "mine"})  # its port is not known


@pytest.mark.parametrize(("values", "warning"), WARNINGS, ids=[text for _, text in WARNINGS])
def test_odd_values_are_answered_with_a_warning(values: Json, warning: str) -> None:
    (line,) = warnings(values)
    assert warning in line


def test_usual_values_are_not() -> None:
    assert warnings({}) == []


def test_a_recording_goes_with_the_pod_or_into_a_claim() -> None:
    settings: Json = {"enabled": True, "maxBytes": 1073741824}
    rendered = Rendered({"recording": settings})
    (own,) = (each for each in rendered.configuration if each["kind"] == "EquipoiseConfiguration")
    assert own["recording"]["maxBytes"] == 1073741824
    mounts = {each["name"]: each for each in rendered.container["volumeMounts"]}
    assert mounts["recording"]["mountPath"] == own["recording"]["directory"]
    volumes = {each["name"]: each for each in rendered.pod["volumes"]}
    assert int(volumes["recording"]["emptyDir"]["sizeLimit"]) > 1073741824

    kept = Rendered({"recording": {**settings, "existingClaim": "mine"}})
    volumes = {each["name"]: each for each in kept.pod["volumes"]}
    assert volumes["recording"]["persistentVolumeClaim"] == {"claimName": "mine"}
    mounts = {each["name"]: each for each in kept.container["volumeMounts"]}
    assert mounts["recording"]["subPathExpr"] == "$(POD_NAME)", "replicas share the claim"
