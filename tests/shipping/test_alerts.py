"""The alerting rules: each fires on what it is about, keeps quiet otherwise, and has a runbook."""

import re
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml

from shipping.helm import PROJECT
from shipping.panels import ROWS
from shipping.queries import ALERTS, rules

RUNBOOKS = PROJECT / "docs" / "runbooks"
MINUTES = 180
A, B = 'job="equipoise",instance="a"', 'job="equipoise",instance="b"'
LEADS = {f'leader_election_master_status{{{A},name="equipoise"}}': "1x180"}
STANDS_BY = {f'leader_election_master_status{{{A},name="equipoise"}}': "0x180"}


class Case(NamedTuple):
    """Series by the minute, in promtool's notation, and when to look at the alert."""

    alert: str
    what: str
    series: dict[str, str]
    fires: bool
    at: str = "90m"


def tier(queue: str, value: str, instance: str = A) -> dict[str, str]:
    return {f'scheduler_pending_pods{{{instance},queue="{queue}"}}': value}


def attempts(result: str, value: str) -> dict[str, str]:
    labels = f'{A},result="{result}",profile="equipoise"'
    return {f"scheduler_schedule_attempts_total{{{labels}}}": value}


def grows(metric: str, value: str, **labels: str) -> dict[str, str]:
    more = "".join(f',{name}="{text}"' for name, text in labels.items())
    return {f"{metric}{{{A}{more}}}": value}


def buckets(metric: str, slow: bool, **labels: str) -> dict[str, str]:
    """Ten observations a minute, all above or all below 0.1 s."""
    below = "0x180" if slow else "0+10x180"
    return {
        **grows(f"{metric}_bucket", below, **labels, le="0.1"),
        **grows(f"{metric}_bucket", "0+10x180", **labels, le="8"),
        **grows(f"{metric}_bucket", "0+10x180", **labels, le="+Inf"),
    }


def answers(code: str, value: str) -> dict[str, str]:
    return grows("rest_client_requests_total", value, code=code, method="POST", host="h")


def calls(result: str, value: str) -> dict[str, str]:
    metric = "equipoise_webhook_duration_seconds_count"
    return grows(metric, value, webhook="W", point="filter", result=result)


def solver(failures: str) -> dict[str, str]:
    return grows("equipoise_batch_solver_failures_total", failures, reason="died")


def devices(status: str, allocations: str) -> dict[str, str]:
    name = "scheduler_dra_bindingconditions_allocations_total"
    return grows(name, allocations, driver="gpu.example.com", status=status)


def made_claims(status: str, claims: str) -> dict[str, str]:
    return grows("scheduler_resourceclaim_creates_total", claims, status=status)


def kept(hits: str, misses: str, evictions: str) -> dict[str, str]:
    return {
        **grows("equipoise_equivalence_hits_total", hits),
        **grows("equipoise_equivalence_misses_total", misses),
        **grows("equipoise_equivalence_evictions_total", evictions),
    }


def cells(dirty: str, settled: str | None) -> dict[str, str]:
    nodes = grows("equipoise_numa_dirty_nodes", dirty)
    counted = grows("equipoise_numa_comparisons_total", settled or "", result="settled")
    return {**nodes, **(counted if settled else {})}


def refused(errors: str) -> dict[str, str]:
    labels = {"reason": "TopologyAffinityError", "node": "n1"}
    return grows("equipoise_pod_admission_errors_total", errors, **labels)


def gangs(waiting: str, placed: str | None) -> dict[str, str]:
    groups = grows("equipoise_gang_groups", waiting, phase="Scheduling")
    counted = grows("equipoise_gang_passes_total", placed or "", result="placed")
    return {**groups, **(counted if placed else {})}


ATTEMPT = "scheduler_scheduling_attempt_duration_seconds"
LAG = "equipoise_event_loop_lag_seconds"
DECODE = "equipoise_watch_decode_errors_total"
RESTARTS = "equipoise_watch_restarts_total"
AGE = "equipoise_watch_age_seconds"
DROPPED = "equipoise_events_dropped_total"
FLUSHED = "scheduler_pod_scheduled_after_flush_total"
SETTLED = "equipoise_assumed_pods_settled_total"
MISMATCHES = "equipoise_cache_mismatches_total"
PLUGIN = {"plugin": "P", "extension_point": "Filter"}
PROFILE = {"result": "scheduled", "profile": "equipoise"}
LEASE = 'name="equipoise"'

CASES = [
    Case("EquipoiseDown", "nobody is scraped", {}, True),
    Case("EquipoiseDown", "scrapes fail", {f"up{{{A}}}": "0x180"}, True),
    Case(
        "EquipoiseDown", "one of two is down", {f"up{{{A}}}": "0x180", f"up{{{B}}}": "1x180"}, False
    ),
    Case("EquipoiseDown", "down for a moment", {f"up{{{A}}}": "1x88 0 0 1x90"}, False),
    Case("EquipoiseNoLeader", "only standbys", STANDS_BY, True),
    Case("EquipoiseNoLeader", "one leads", LEADS, False),
    Case("EquipoiseNoLeader", "leader election is off", {f"up{{{A}}}": "1x180"}, False),
    Case(
        "EquipoiseTwoLeaders",
        "both lead",
        {**LEADS, f"leader_election_master_status{{{B},{LEASE}}}": "1x180"},
        True,
    ),
    Case(
        "EquipoiseTwoLeaders",
        "releases in two namespaces have leases of one name",
        {
            f'leader_election_master_status{{{A},{LEASE},namespace="{namespace}"}}': "1x180"
            for namespace in ("a", "b")
        },
        False,
    ),
    Case(
        "EquipoiseNoLeader",
        "a release in another namespace has a leader",
        {
            f'leader_election_master_status{{{A},{LEASE},namespace="a"}}': "0x180",
            f'leader_election_master_status{{{A},{LEASE},namespace="b"}}': "1x180",
        },
        True,
    ),
    Case(
        "EquipoiseTwoLeaders",
        "they hand over",
        {
            f"leader_election_master_status{{{A},{LEASE}}}": "1x90 0x90",
            f"leader_election_master_status{{{B},{LEASE}}}": "0x90 1x90",
        },
        False,
    ),
    Case("EquipoiseStuck", "due and untried", {**tier("active", "5x180"), **LEADS}, True),
    Case("EquipoiseStuck", "no leader election", tier("active", "5x180"), True),
    Case("EquipoiseStuck", "a standby", {**tier("active", "5x180"), **STANDS_BY}, False),
    Case(
        "EquipoiseStuck",
        "pods are tried",
        {**tier("active", "5x180"), **LEADS, **attempts("scheduled", "0+9x180")},
        False,
    ),
    Case(
        "EquipoiseStuck",
        "it stopped trying",
        {**tier("active", "5x180"), **LEADS, **attempts("scheduled", "0+9x60 540x120")},
        True,
    ),
    Case("EquipoiseStuck", "nobody waits", {**tier("active", "0x180"), **LEADS}, False),
    Case("EquipoiseFallingBehind", "a long queue", {**tier("active", "2000x180"), **LEADS}, True),
    Case(
        "EquipoiseFallingBehind", "a standby's", {**tier("active", "2000x180"), **STANDS_BY}, False
    ),
    Case("EquipoiseFallingBehind", "a burst", tier("active", "0x85 5000x10 0x90"), False),
    Case("EquipoiseFallingBehind", "no room", tier("unschedulable", "9000x180"), False),
    Case("EquipoisePodsUnschedulable", "for an hour", tier("unschedulable", "1x180"), True),
    Case("EquipoisePodsUnschedulable", "for minutes", tier("unschedulable", "0x60 1x120"), False),
    Case(
        "EquipoiseErrors",
        "every tenth",
        {**attempts("scheduled", "0+90x180"), **attempts("error", "0+10x180")},
        True,
    ),
    Case(
        "EquipoiseErrors",
        "every hundredth",
        {**attempts("scheduled", "0+99x180"), **attempts("error", "0+1x180")},
        False,
    ),
    Case("EquipoiseErrors", "no attempts at all", attempts("error", "0x180"), False),
    Case("EquipoiseSlow", "seconds", buckets(ATTEMPT, slow=True, **PROFILE), True),
    Case("EquipoiseSlow", "milliseconds", buckets(ATTEMPT, slow=False, **PROFILE), False),
    Case(
        "EquipoisePluginErrors",
        "the first exception",
        grows("equipoise_plugin_errors_total", "_x80 1x100", **PLUGIN),
        True,
    ),
    Case(
        "EquipoisePluginErrors",
        "another exception",
        grows("equipoise_plugin_errors_total", "3x85 4x95", **PLUGIN),
        True,
    ),
    Case(
        "EquipoisePluginErrors",
        "long ago",
        grows("equipoise_plugin_errors_total", "0x10 1x170", **PLUGIN),
        False,
    ),
    Case(
        "EquipoiseWebhookFailing",
        "most calls",
        {**calls("success", "0+40x180"), **calls("timeout", "0+60x180")},
        True,
    ),
    Case(
        "EquipoiseWebhookFailing",
        "nothing is sent any more",
        calls("breaker_open", "0+1x180"),
        True,
    ),
    Case(
        "EquipoiseWebhookFailing",
        "some calls, and many that were dropped",
        {
            **calls("success", "0+60x180"),
            **calls("timeout", "0+40x180"),
            **calls("cancelled", "0+500x180"),
        },
        False,
    ),
    Case(
        "EquipoiseStandsStill",
        "once",
        grows("equipoise_loop_stalls_total", "0x79 1x100"),
        True,
    ),
    Case(
        "EquipoiseStandsStill",
        "long ago",
        grows("equipoise_loop_stalls_total", "0x10 1x169"),
        False,
    ),
    Case("EquipoiseEventLoopLag", "seconds", buckets(LAG, slow=True), True),
    Case("EquipoiseEventLoopLag", "milliseconds", buckets(LAG, slow=False), False),
    Case(
        "EquipoiseApiErrors",
        "shed and failed",
        {**answers("200", "0+80x180"), **answers("429", "0+10x180"), **answers("500", "0+10x180")},
        True,
    ),
    Case(
        "EquipoiseApiErrors",
        "no answers",
        {**answers("200", "0+80x180"), **answers("<error>", "0+20x180")},
        True,
    ),
    Case(
        "EquipoiseApiErrors",
        "conflicts are no errors",
        {**answers("200", "0+50x180"), **answers("409", "0+50x180")},
        False,
    ),
    Case("EquipoiseForbidden", "again and again", answers("403", "0+1x180"), True),
    Case("EquipoiseForbidden", "never", answers("200", "0+1x180"), False),
    Case(
        "EquipoiseWatchesRestart",
        "every minute",
        grows(RESTARTS, "0+1x180", kind="Pod", reason="cut"),
        True,
    ),
    Case(
        "EquipoiseWatchesRestart",
        "as the API server ends them",
        grows(RESTARTS, "0+1x6 _ 6+1x8", kind="Pod", reason="ended"),
        False,
    ),
    Case(
        "EquipoiseWatchesRestart",
        "the kind is optional",
        grows(RESTARTS, "0+1x180", kind="NodeResourceTopology", reason="absent"),
        False,
    ),
    Case("EquipoiseWatchStale", "no word", grows(AGE, "0+60x180", kind="Pod"), True),
    Case("EquipoiseWatchStale", "a bookmark a minute", grows(AGE, "60x180", kind="Pod"), False),
    Case("EquipoiseUnreadableObjects", "one", grows(DECODE, "0x85 1x95", kind="Node"), True),
    Case("EquipoiseUnreadableObjects", "none", grows(DECODE, "0x180", kind="Node"), False),
    Case("EquipoiseCacheMismatch", "found", grows(MISMATCHES, "0x60 3x120"), True),
    Case("EquipoiseCacheMismatch", "none", grows(MISMATCHES, "0x180"), False),
    Case("EquipoiseBindingsUnconfirmed", "one", grows(SETTLED, "0x85 1x95", outcome="bound"), True),
    Case("EquipoiseBindingsUnconfirmed", "none", grows(SETTLED, "0x180", outcome="bound"), False),
    Case("EquipoiseEventsDropped", "all the time", grows(DROPPED, "0+5x180"), True),
    Case("EquipoiseEventsDropped", "once", grows(DROPPED, "0x80 5x100"), False),
    Case("EquipoiseMissedEvents", "one pod", grows(FLUSHED, "0x60 1x120"), True),
    Case("EquipoiseMissedEvents", "none", grows(FLUSHED, "0x180"), False),
    Case("EquipoiseEquivalenceThrashing", "small", kept("0+1x180", "0+99x180", "0+600x180"), True),
    Case("EquipoiseEquivalenceThrashing", "hits", kept("0+99x180", "0+1x180", "0+600x180"), False),
    Case("EquipoiseEquivalenceThrashing", "new", kept("0+1x180", "0+99x180", "0x180"), False),
    Case("EquipoiseAdmissionErrors", "the first", refused("_x80 1x100"), True),
    Case("EquipoiseAdmissionErrors", "another", refused("3x80 4x100"), True),
    Case("EquipoiseAdmissionErrors", "long ago", refused("0x10 1x170"), False),
    Case("EquipoiseNumaUnsettled", "never settled", cells("3x180", None), True),
    Case("EquipoiseNumaUnsettled", "settled once", cells("3x180", "5x180"), True),
    Case("EquipoiseNumaUnsettled", "settled always", cells("3x180", "0+1x180"), False),
    Case("EquipoiseNumaUnsettled", "no such nodes", cells("0x180", None), False),
    Case("EquipoiseNumaUnsettled", "a standby", {**cells("3x180", None), **STANDS_BY}, False),
    Case("EquipoiseGangsWait", "none is placed", gangs("2x180", None), True),
    Case("EquipoiseGangsWait", "some are placed", gangs("2x180", "0+1x180"), False),
    Case("EquipoiseGangsWait", "nobody waits", gangs("0x180", None), False),
    Case("EquipoiseGangsWait", "a standby", {**gangs("2x180", None), **STANDS_BY}, False),
    Case("EquipoiseBatchSolverFailing", "dies", solver("0x80 1+0x99"), True),
    Case("EquipoiseBatchSolverFailing", "never fails", solver("0x180"), False),
    Case("EquipoiseBatchSolverFailing", "long ago", solver("0x10 1+0x170"), False),
    Case("EquipoiseDevicesFail", "a driver fails", devices("failed", "0x80 1+0x99"), True),
    Case("EquipoiseDevicesFail", "a driver is late", devices("timeout", "0x80 1+0x99"), True),
    Case("EquipoiseDevicesFail", "all become ready", devices("success", "0+1x180"), False),
    Case(
        "EquipoiseDevicesFail", "a driver failed long ago", devices("failed", "0x10 1+0x170"), False
    ),
    Case("EquipoiseDevicesFail", "no claims are made", made_claims("failure", "0x80 1+0x99"), True),
    Case("EquipoiseDevicesFail", "claims are made", made_claims("success", "0+1x180"), False),
]


def promtool_test(case: Case) -> dict[str, Any]:
    expected = [{"labels": f'{{alertname="{case.alert}"}}', "value": 1}] if case.fires else []
    firing = f'count by (alertname) (ALERTS{{alertname="{case.alert}",alertstate="firing"}})'
    return {
        "name": f"{case.alert}: {case.what}",
        "interval": "1m",
        "input_series": [{"series": name, "values": v} for name, v in case.series.items()],
        "promql_expr_test": [{"expr": firing, "eval_time": case.at, "exp_samples": expected}],
    }


def test_promtool_accepts_the_rules(promtool: Path) -> None:
    done = subprocess.run(
        [promtool, "check", "rules", ALERTS], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_fires_when_it_should_and_else_not(promtool: Path, tmp_path: Path) -> None:
    files = [alone(rule, tmp_path / rule["alert"]) for rule in rules()]
    done = subprocess.run(
        [promtool, "test", "rules", *files], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def alone(rule: dict[str, Any], directory: Path) -> Path:
    """Write the cases of one alert: promtool would judge all others by each of them as well."""
    directory.mkdir()
    group = {"name": "alone", "rules": [rule]}
    (directory / "rules.yaml").write_text(yaml.safe_dump({"groups": [group]}))
    cases = [promtool_test(case) for case in CASES if case.alert == rule["alert"]]
    assert cases
    document = {"rule_files": ["rules.yaml"], "evaluation_interval": "1m", "tests": cases}
    file = directory / "tests.yaml"
    file.write_text(yaml.safe_dump(document, sort_keys=False))
    return file


def test_every_alert_has_both_kinds_of_case() -> None:
    names = {rule["alert"] for rule in rules()}
    assert {case.alert for case in CASES if case.fires} == names
    assert {case.alert for case in CASES if not case.fires} == names


@pytest.mark.parametrize("rule", rules(), ids=lambda rule: rule["alert"])
def test_every_alert_says_what_it_is_and_what_to_do(rule: dict[str, Any]) -> None:
    name, annotations = rule["alert"], rule["annotations"]
    assert rule["labels"]["severity"] in ("critical", "warning", "info")
    assert annotations["summary"]
    assert annotations["description"]
    assert annotations["runbook"] == f"docs/runbooks/{name}.md"
    page = (RUNBOOKS / f"{name}.md").read_text()
    headings = re.findall(r"^#+ (.*)$", page, re.M)
    assert headings == [name, "Impact", "Look", "Do"]


def test_every_runbook_belongs_to_an_alert_and_is_listed() -> None:
    pages = {page.stem for page in RUNBOOKS.glob("*.md")}
    assert pages == {rule["alert"] for rule in rules()}
    listed = (PROJECT / "docs" / "dashboard.md").read_text()
    assert all(f"(runbooks/{name}.md)" in listed for name in pages)


@pytest.mark.parametrize("page", sorted(RUNBOOKS.glob("*.md")), ids=lambda path: path.stem)
def test_what_runbooks_quote_is_a_panel_or_a_text_of_the_program(page: Path) -> None:
    titles = [panel.title for row in ROWS for panel in row.panels]
    sources = "".join(path.read_text() for path in (PROJECT / "scheduler").rglob("*.py"))
    text = re.sub(r"`[^`]*`", "", " ".join(page.read_text().split()))
    quoted = re.findall(r'"([^"]+)"', text)
    panels = {each for each in quoted if any(title.startswith(each) for title in titles)}
    assert [each for each in quoted if each not in panels and each not in sources] == []


def test_every_selector_names_the_job() -> None:
    for rule in rules():
        selectors = re.findall(r"\{([^}]*)\}", rule["expr"])
        assert selectors
        assert all('job="equipoise"' in selector for selector in selectors), rule["alert"]
