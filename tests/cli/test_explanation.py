"""The text of an explanation: the informative part first, whatever parts an answer has."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from scheduler.cli import explanation
from scheduler.cli.explanation import show_explanation, spelt_out
from scheduler.cli.states import STYLES
from scheduler.cli.targets import Target

Json = dict[str, Any]
NOW = 1_800_000_000.0

CPU: Json = {"plugin": "NodeResourcesFit", "code": "Unschedulable", "reasons": ["Insufficient cpu"]}
TAINT: Json = {
    "plugin": "TaintToleration",
    "code": "UnschedulableAndUnresolvable",
    "reasons": ["node(s) had untolerated taint(s)"],
    "facts": [{"type": "taint", "message": "dedicated=db:NoSchedule is not tolerated"}],
}


@pytest.fixture(autouse=True)
def still(monkeypatch: pytest.MonkeyPatch) -> None:
    """No time passes between what an answer says and what is shown of it."""
    monkeypatch.setattr(explanation, "time", SimpleNamespace(time=lambda: NOW))


def short(free: int) -> Json:
    return {
        **CPU,
        "facts": [{"type": "resource", "message": f"requests 70 cpu, {free} free of 64"}],
    }


def rejected(*rejections: Json) -> Json:
    return {**rejections[0], "fit": False, "all": list(rejections)}


def pending(**changes: Any) -> Json:
    standing = {
        "state": "unschedulable",
        "message": "0/3 nodes are available: 3 Insufficient cpu.",
        "plugins": ["NodeResourcesFit"],
        "node": None,
        "retrySeconds": 48.0,
        "attempts": 4,
        "lastTriedSeconds": 12.0,
        "since": NOW - 312.5,
    }
    nodes = {
        "gpu-0": rejected(short(63)),
        "gpu-1": rejected(short(7)),
        "db": rejected(short(12), TAINT),
    }
    return {
        "pod": "team/web",
        "node": None,
        "fit": [],
        "nodes": nodes,
        "scores": {},
        "message": "0/3 nodes are available: 3 Insufficient cpu.",
        "nominated": None,
        "preemption": None,
        "wouldGoTo": None,
        "boundTo": None,
        "countsItself": None,
        "batch": None,
        "standing": standing,
        **changes,
    }


def shown(capsys: pytest.CaptureFixture[str], answer: Json, *only: str, **options: Any) -> str:
    show_explanation(answer, only, **options)
    return capsys.readouterr().out


def test_the_head_says_what_becomes_of_it_and_how_far_it_is(
    capsys: pytest.CaptureFixture[str],
) -> None:
    first, second, *_ = shown(capsys, pending()).splitlines()
    assert first == "team/web fits nowhere: 0/3 nodes are available: 3 Insufficient cpu."
    assert second == (
        "unschedulable for 5m12s; tried 4 times, last 12s ago; tried again in 48s at the latest"
    )


def test_facts_come_before_nodes_and_alike_nodes_together(
    capsys: pytest.CaptureFixture[str],
) -> None:
    fact = {"plugin": "NodeResourcesFit", "message": "requests 70 cpu, at most 63 free, on gpu-0"}
    why = shown(capsys, pending(facts=[{**fact, "nodes": 3}])).split("\n\n")[1]
    assert why.splitlines() == [
        "Why",
        "  - requests 70 cpu, at most 63 free, on gpu-0",
        "  gpu-0, gpu-1",
        "    NodeResourcesFit: Insufficient cpu: requests 70 cpu, 63 free of 64 (on gpu-0)",
        "  db",
        "    NodeResourcesFit: Insufficient cpu: requests 70 cpu, 12 free of 64",
        "    TaintToleration: node(s) had untolerated taint(s): "
        "dedicated=db:NoSchedule is not tolerated",
    ]


def test_several_facts_have_lines_of_their_own(capsys: pytest.CaptureFixture[str]) -> None:
    two = {**CPU, "facts": [{"message": "requests 9 cpu, 1 free"}, {"message": "offers no gpu"}]}
    other = {**CPU, "facts": [{"message": "requests 9 cpu, 2 free"}, {"message": "offers no gpu"}]}
    nodes = {"a": rejected(two), "b": rejected(other)}
    facts = [{"message": "the taint x is not tolerated", "nodes": 1}]
    why = shown(capsys, pending(nodes=nodes, facts=facts)).split("\n\n")[1]
    assert why.splitlines()[1:] == [
        "  - the taint x is not tolerated (1 node)",
        "  a, b",
        "    NodeResourcesFit: Insufficient cpu",
        "      requests 9 cpu, 1 free (on a)",
        "      offers no gpu",
    ]


def test_that_nothing_would_help_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(capsys, pending(remedies=[]))
    assert "\nWhat would help\n  no list of changes was found that would let it run\n" in text


def test_an_older_replica_has_one_reason_for_each_node(capsys: pytest.CaptureFixture[str]) -> None:
    old = {name: {**CPU, "fit": False} for name in ("a", "b")}
    standing: Json = {
        "state": "active",
        "message": "",
        "plugins": [],
        "node": None,
        "retrySeconds": None,
    }
    text = shown(capsys, pending(nodes=old, standing=standing))
    assert "\nWhy\n  a, b\n    NodeResourcesFit: Insufficient cpu\n" in text
    assert "What would help" not in text


def test_many_ways_to_be_rejected_are_cut_unless_all_are_asked_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    many = explanation.GROUPS_SHOWN + 2
    nodes = {f"n{i:02}": rejected({**CPU, "reasons": [f"way {i}"]} | FACTLESS) for i in range(many)}
    assert "2 more nodes in other ways; --all shows each" in shown(capsys, pending(nodes=nodes))
    assert shown(capsys, pending(nodes=nodes), each=True).count("way ") == many


FACTLESS: Json = {"facts": []}


def test_a_node_is_told_in_full(capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(capsys, pending(), "db")
    assert text.split("\n\n")[1].splitlines() == [
        "db: rejected",
        "  NodeResourcesFit (Unschedulable)",
        "    - Insufficient cpu",
        "    - requests 70 cpu, 12 free of 64",
        "  TaintToleration (UnschedulableAndUnresolvable)",
        "    - node(s) had untolerated taint(s)",
        "    - dedicated=db:NoSchedule is not tolerated",
    ]


def pod_patch(patch: Json) -> Json:
    return {"op": "patch", "kind": "Pod", "namespace": "team", "name": "web", "patch": patch}


TOLERATE = pod_patch({"spec": {"tolerations": [{"key": "dedicated", "operator": "Exists"}]}})
NO_SELECTOR = pod_patch({"spec": {"nodeSelector": {"rack": None}}})
LESS = pod_patch({"spec": {"containers": [{"name": "main"}]}})


def test_remedies_are_numbered_and_say_what_they_open_and_whom_they_affect(
    capsys: pytest.CaptureFixture[str],
) -> None:
    remedies = [
        {"summary": "lower cpu to 63", "opens": ["gpu-0"], "changes": [LESS], "affects": []},
        {
            "summary": "tolerate dedicated",
            "opens": [f"db-{i}" for i in range(5)],
            "changes": [TOLERATE],
            "affects": ["team/web"],
        },
    ]
    help_ = shown(capsys, pending(remedies=remedies)).split("\n\n")[2]
    assert help_.splitlines() == [
        "What would help",
        "  1. lower cpu to 63",
        "     then fits on gpu-0",
        "  2. tolerate dedicated",
        "     then fits on db-0, db-1, db-2 and 2 more; affects team/web",
        "  --patch shows each as commands",
    ]
    patched = shown(capsys, pending(remedies=remedies), patches=True)
    assert "     kubectl patch pod -n team web --type=merge -p " in patched
    assert "--patch shows" not in patched


def test_changes_are_what_one_types() -> None:
    patch = '\'{"spec":{"tolerations":[{"key":"dedicated","operator":"Exists"}]}}\''
    assert spelt_out(TOLERATE, "team/web") == [
        f"kubectl patch pod -n team web --type=merge -p {patch}"
    ]
    gone = {"op": "delete", "kind": "Pod", "namespace": "team", "name": "old"}
    assert spelt_out(gone, "team/web") == ["kubectl delete pod -n team old"]
    node = {"op": "patch", "kind": "Node", "name": "n1", "patch": {"spec": {"taints": None}}}
    assert spelt_out(node, "team/web") == [
        'kubectl patch node n1 --type=merge -p \'{"spec":{"taints":null}}\''
    ]
    claim = {"op": "patch", "kind": "PersistentVolumeClaim", "namespace": "team", "name": "data"}
    assert spelt_out({**claim, "patch": {"spec": {"storageClassName": "a"}}}, "team/web") == [
        "kubectl get persistentvolumeclaim -n team data -o json"
        ' | kubectl patch --local --type=merge -p \'{"spec":{"storageClassName":"a"}}\''
        " -f - -o json | kubectl replace --force -f -"
    ]
    new = {"op": "add", "object": {"kind": "Node", "metadata": {"name": "n"}}}
    assert spelt_out(new, "team/web")[:2] == ["add this Node:", "  kind: Node"]


def test_what_a_pod_cannot_have_changed_is_changed_in_its_template() -> None:
    written, patch = spelt_out(NO_SELECTOR, "team/web")
    assert written == "merge into the pod's manifest, or its workload's template:"
    assert patch == '{"spec":{"nodeSelector":{"rack":null}}}'
    owner = Target("Deployment", "team", "shop")
    assert spelt_out(NO_SELECTOR, "team/web", owner) == [
        "kubectl patch deployment -n team shop --type=merge -p "
        '\'{"spec":{"template":{"spec":{"nodeSelector":{"rack":null}}}}}\''
    ]
    assert spelt_out(LESS, "team/web", owner)[0] == written, "a pod's list has more than its own"
    assert spelt_out(NO_SELECTOR, "team/web", Target("Job", "team", "j"))[0] == written


def test_what_wakes_it_and_how_its_verdict_changed(capsys: pytest.CaptureFixture[str]) -> None:
    answer = pending(history=[{"time": 0.0, "message": "0/2 nodes …", "node": "", "count": 3}])
    answer["standing"]["wakes"] = [
        {"plugin": "Fit", "events": ["a Node is added", "a Pod is deleted"], "message": "…"},
        {"plugin": "Own", "events": ["a Node is added"], "message": "…"},
    ]
    text = shown(capsys, answer)
    wakes = "  - a Node is added (Fit, Own)\n  - a Pod is deleted (Fit)\n"
    assert f"\nIt is tried again when\n{wakes}" in text
    assert text.endswith("  0/2 nodes … (3 times)\n")


def test_a_history_that_is_the_verdict_is_not_repeated(capsys: pytest.CaptureFixture[str]) -> None:
    same = {"time": 0.0, "message": pending()["message"] + " And so on.", "node": "", "count": 1}
    assert "History" not in shown(capsys, pending(history=[same]))
    assert "History" in shown(capsys, pending(history=[{**same, "message": "other"}]))
    assert "History" in shown(capsys, pending(history=[same, same]))


def test_permits_nominations_and_replicas_are_in_the_head(
    capsys: pytest.CaptureFixture[str],
) -> None:
    answer = pending(
        nominated="gpu-1",
        replicas={"asked": 5, "fit": 2, "nodes": {"a": 1, "b": 1}, "message": "2 of 5 fit"},
    )
    answer["standing"] |= {
        "waitsFor": ["team/old"],
        "permit": [{"plugin": "Approval", "seconds": 61.0, "timeoutSeconds": 30.0}],
    }
    head = shown(capsys, answer).split("\n\n")[0].splitlines()
    assert head[2:] == [
        "it has waited at permit for Approval for 1m1s, which rejects it in 30s",
        "it waits for team/old",
        "it is nominated to gpu-1",
        "2 of 5 fit: 1 on a, 1 on b",
    ]


def test_a_gang_lists_its_members(capsys: pytest.CaptureFixture[str]) -> None:
    gang = {"name": "team/g", "phase": "Scheduling", "fault": "", "placed": 1, "minMember": 3}
    members = [{"pod": f"team/m{i}", "state": "waiting", "node": ""} for i in range(12)]
    members[0] |= {"state": "permit", "node": "gpu-0"}
    group = {**gang, "existing": 12, "missing": 2, "members": members}
    part = shown(capsys, pending(group=group)).split("\n\n")[-1].splitlines()
    assert part[:4] == [
        "Gang",
        "  pod group team/g is Scheduling: 1 of 3 members have nodes, 12 exist, 2 more are needed",
        "  - team/m0: permit on gpu-0",
        "  - team/m1: waiting",
    ]
    assert part[-1] == "    and 2 more"
    older = shown(capsys, pending(group={**gang, "existing": 2}))
    assert older.endswith("1 of 3 members have nodes, 2 exist\n")


def test_the_winner_is_compared_with_the_runner_up(capsys: pytest.CaptureFixture[str]) -> None:
    fits = {"fit": True, "plugin": "", "code": "Success", "reasons": [], "all": []}
    scores = {
        "a": {"total": 150, "plugins": {"Fit": 90, "Spread": 60}},
        "b": {"total": 140, "plugins": {"Fit": 80, "Spread": 60}},
    }
    comparison = {
        "node": "a",
        "runnerUp": "b",
        "ties": 0,
        "margin": 10,
        "parts": [
            {"plugin": "Fit", "node": 90, "runnerUp": 80, "difference": 10},
            {"plugin": "Spread", "node": 60, "runnerUp": 60, "difference": 0},
        ],
        "message": "Fit made the difference",
    }
    standing: Json = {
        "state": "bound",
        "message": "",
        "plugins": [],
        "node": "a",
        "retrySeconds": None,
    }
    answer = pending(
        node="a", fit=["a", "b"], nodes={"a": fits, "b": fits}, scores=scores, standing=standing
    )
    text = shown(capsys, {**answer, "comparison": comparison})
    parts = text.split("\n\n")
    assert [line.split() for line in parts[1].splitlines()] == [
        ["Why", "a,", "and", "not", "b"],
        ["Fit", "made", "the", "difference"],
        ["PLUGIN", "a", "b", "DIFFERENCE"],
        ["Fit", "90", "80", "+10"],
    ]
    assert "Spread" in shown(capsys, {**answer, "comparison": comparison}, wide=True)
    assert "Why a" not in shown(capsys, {**answer, "comparison": {**comparison, "runnerUp": None}})


def test_lines_fit_a_narrow_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "dumb")
    monkeypatch.setenv("COLUMNS", "80")
    answer = pending(message="0/3 nodes are available: " + ", ".join(["3 Insufficient cpu"] * 9))
    text = shown(capsys, answer)
    assert max(map(len, text.splitlines())) <= 80


def test_every_state_has_a_colour() -> None:
    from typing import get_args

    from scheduler.explaining.pod_progress import State
    from scheduler.observe.decisions import Result
    from scheduler.pipeline.permits import SUSPENDED, WAITING
    from scheduler.queueing.queued_pod import Tier

    states = {*get_args(State), *get_args(Result), *(tier.value for tier in Tier)}
    assert states | {SUSPENDED, WAITING, "fits", "rejected", "chosen"} <= STYLES.keys()
