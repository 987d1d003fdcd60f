"""An explanation as text: what becomes of the pod first, then why, and what would help.

Parts whose data an answer lacks, as that of an older replica, are left out.
"""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

from scheduler.cli.output import counted, heading, paragraph, say, show, some, verbatim
from scheduler.cli.states import BAD, DIM, GOOD, style_of
from scheduler.cli.tables import Table, TableCell, TableColumn
from scheduler.cli.targets import Target
from scheduler.cli.units import span

Answer = Mapping[str, Any]

BEST_SHOWN = 8
GROUPS_SHOWN = 8
NAMES_SHOWN = 3
MEMBERS_SHOWN = 10
INDENT = "  "
DEEPER = "    "


def show_explanation(
    answer: Answer,
    only: Collection[str] = (),
    *,
    each: bool = False,
    wide: bool = False,
    patches: bool = False,
    owner: Target | None = None,
) -> None:
    """Print all of it; of the nodes only some if they are named, in full.

    Alike rejections share a paragraph unless ``each``. The wide form has a line per node, a column
    per score plugin, and the changes of each remedy, as ``patches`` has them. ``owner`` is the
    workload that the pod belongs to, if that was asked about.
    """
    _conclude(answer)
    if only:
        for name in sorted(only):
            _node_in_full(name, answer)
        return
    if not answer["scores"]:
        _why(answer, each or wide)
    _remedies(answer, patches or wide, owner)
    _preemption(answer)
    _gang(answer)
    _wakes(answer)
    _history(answer)
    _comparison(answer, wide)
    if answer["scores"]:
        _nodes(answer, each, wide)


# The head: what becomes of the pod, and its state.


_IF_NOT_HELD = {
    "gated": "without the gate it would",
    "group": "alone, without its group, it would",
    "terminating": "otherwise it would",
    "ended": "if scheduled now, it would",
    "other-scheduler": "scheduled here it would",
}
"""In which states a pod is not tried, or not by itself, and when it would be."""


def _conclude(answer: Answer) -> None:
    pod, standing = answer["pod"], answer["standing"]
    state = standing["state"]
    same = state == "unschedulable" and _as_last_time(answer)
    if not same and (sentence := _sentence(standing)):
        paragraph(f"{pod} {sentence}", style_of(state))
    if state in _IF_NOT_HELD:
        paragraph(f"{_IF_NOT_HELD[state]} {_outcome(answer, answer['wouldGoTo'])}", DIM)
    elif standing["node"]:
        paragraph(f"if scheduled now, it would {_outcome(answer, answer['node'])}", DIM)
        if plugin := answer["countsItself"]:
            words = f"on {standing['node']}, {plugin} counts the pod itself: it may fit there"
            paragraph(words, DIM)
    elif node := answer["node"]:
        paragraph(f"{pod} goes to {node}{_compared(answer, node)}", GOOD)
    else:
        verdict = "gets no node" if answer["fit"] else "fits nowhere"
        paragraph(f"{pod} {verdict}: {answer['message']}", BAD)
    if told := _times(standing):
        paragraph(told, DIM)
    _details(answer)


def _details(answer: Answer) -> None:
    """Permits, what the pod waits for, its nomination, replicas."""
    standing = answer["standing"]
    for wait in standing.get("permit") or ():
        paragraph(_permit(wait), style_of("permit"))
    if others := standing.get("waitsFor"):
        paragraph(f"it waits for {some(others)}", DIM)
    if first := standing.get("behind"):
        paragraph(f"it is tried after the identical pod {first}", DIM)
    if batch := answer.get("batch"):
        paragraph(_batch(batch), DIM)
    if answer["nominated"]:
        paragraph(f"it is nominated to {answer['nominated']}", DIM)
    if replicas := answer.get("replicas"):
        enough = replicas["fit"] >= replicas["asked"]
        paragraph(_replicas(replicas), GOOD if enough else BAD)


def _times(standing: Answer) -> str:
    """Since when it waits, how often it was tried, when it is tried next."""
    said = []
    if (since := standing.get("since")) is not None:
        said.append(f"{standing['state']} for {span(time.time() - since)}")
    if attempts := standing.get("attempts"):
        tried = f"tried {counted(attempts, 'time')}"
        last = standing.get("lastTriedSeconds")
        said.append(tried + (f", last {span(last)} ago" if last is not None else ""))
    retry = standing["retrySeconds"]
    if retry is not None and standing["state"] not in ("backoff", "error-backoff"):
        said.append(f"tried again in {span(retry)} at the latest")
    return "; ".join(said)


def _as_last_time(answer: Answer) -> bool:
    """Whether the pod would be rejected again, for what it was last rejected for."""
    last: str = answer["standing"]["message"]
    return answer["node"] is None and last.startswith(answer["message"])


def _sentence(standing: Answer) -> str:
    """The state of the pod; nothing if it is simply active in the queue."""
    message, plugins = standing["message"], ", ".join(standing["plugins"])
    node, retry = standing["node"], standing["retrySeconds"]
    again = f"is tried again in {span(retry)}" if retry is not None else "is to be tried again"
    sentences = {
        "new": message.removeprefix("it "),
        "backoff": f"backs off and {again}; last time: {message}",
        "error-backoff": f"backs off and {again}; last time: {message}",
        "unschedulable": f"was rejected when it was last tried: {message}",
        "gated": f"is gated by {plugins}: {message}; nothing else was tried",
        "in-flight": f"is being tried{': ' if message else ''}{message}",
        "group": f"is placed with its group or not at all: {message}",
        "permit": f"holds {node} and waits at permit for {plugins}",
        "binding": f"holds {node} and is being bound{': ' if message else ''}{message}",
        "bound": f"is on {node}{' and is being deleted' if message else ''}",
        "terminating": "is being deleted, so it is not tried",
        "ended": message.removeprefix("it "),
        "other-scheduler": f"is not tried: {message}",
    }
    sentence: str = sentences.get(standing["state"], "")
    return sentence


def _outcome(answer: Answer, node: str | None) -> str:
    """What would become of the pod, after "would"."""
    if node is not None:
        return f"go to {node}{_compared(answer, node)}"
    return f"fit nowhere: {answer['message']}"


def _compared(answer: Answer, node: str) -> str:
    summary = f"{len(answer['fit'])} of {counted(len(answer['nodes']), 'node')} fit"
    score = answer["scores"].get(node)
    return f" with score {score['total']}; {summary}" if score else f"; {summary}"


def _permit(wait: Answer) -> str:
    left = wait.get("timeoutSeconds")
    until = f", which rejects it in {span(left)}" if left is not None else ""
    return f"it has waited at permit for {wait['plugin']} for {span(wait['seconds'])}{until}"


def _batch(batch: Answer) -> str:
    """Who chooses the node when the pod is one of many."""
    model = batch["costModel"]
    if batch["chose"]:
        return f"cost model {model} chose the node, for all pods that wait at once"
    many = f"where {batch['minPending']} or more pods wait at once"
    score = "" if model == "Scores" else ", whatever they score"
    return f"{many}, cost model {model} chooses among the nodes that fit{score}"


def _replicas(replicas: Answer) -> str:
    """How many equal pods fit together, and where."""
    asked, fit = replicas["asked"], replicas["fit"]
    said = replicas.get("message") or f"{fit} of {counted(asked, 'replica')} fit together"
    if not replicas["nodes"]:
        return str(said)
    where = [f"{number} on {node}" for node, number in replicas["nodes"].items()]
    return f"{said}: {some(where, 5)}"


# Why: facts about the cluster, then each group of nodes that reject the pod alike.


def _why(answer: Answer, each: bool) -> None:
    groups = _alike(answer["nodes"], each)
    facts = answer.get("facts") or ()
    if not groups and not facts:
        return
    heading("Why")
    for fact in facts:
        paragraph(_of_cluster(fact, len(answer["nodes"])), "", f"{INDENT}- ", f"{INDENT}  ")
    shown = groups if each else groups[:GROUPS_SHOWN]
    for names, rejections in shown:
        _group(names, rejections, answer["nodes"])
    if hidden := groups[len(shown) :]:
        more = sum(len(names) for names, _ in hidden)
        paragraph(f"{counted(more, 'more node')} in other ways; --all shows each", DIM, INDENT)


def _of_cluster(fact: Answer, total: int) -> str:
    """A fact, and for how many nodes it holds if that is not all of them and not said already."""
    message, many = str(fact["message"]), fact.get("nodes") or total
    return message if many == total or "node" in message else f"{message} ({counted(many, 'node')})"


def _alike(nodes: Answer, each: bool) -> list[tuple[list[str], Sequence[Answer]]]:
    """Nodes that reject for the same reasons, the largest group first; or each by itself."""
    groups: dict[tuple[object, ...], list[str]] = {}
    for name, verdict in sorted(nodes.items()):
        if not verdict["fit"]:
            key = tuple((r["plugin"], tuple(r["reasons"])) for r in rejections_of(verdict))
            groups.setdefault((key, name if each else ""), []).append(name)
    ordered = sorted(groups.values(), key=lambda names: -len(names))
    return [(names, rejections_of(nodes[names[0]])) for names in ordered]


def rejections_of(verdict: Answer) -> Sequence[Answer]:
    """All rejections by a node; of an older replica's answer the first, which is all it has."""
    every: Sequence[Answer] | None = verdict.get("all")
    if every:
        return every
    return [{"plugin": verdict["plugin"], "reasons": verdict["reasons"], "facts": []}]


def _group(names: Sequence[str], rejections: Sequence[Answer], nodes: Answer) -> None:
    """Alike nodes, and each of their rejections with a fact about the first of them."""
    count = "" if len(names) <= NAMES_SHOWN else f"{counted(len(names), 'node')}: "
    paragraph(f"{count}{some(names)}", style_of("rejected"), INDENT, DEEPER)
    for number, rejection in enumerate(rejections):
        reasons = ", ".join(rejection["reasons"])
        head = f"{rejection['plugin']}: {reasons}" if rejection["plugin"] else reasons
        facts = _facts(names, number, nodes)
        if len(facts) == 1:
            head, facts = f"{head}: {facts[0]}", []
        paragraph(head, "", DEEPER, f"{DEEPER}  ")
        for fact in facts:
            paragraph(fact, "", f"{DEEPER}  ", f"{DEEPER}    ")


def _facts(names: Sequence[str], number: int, nodes: Answer) -> list[str]:
    """What a rejection of alike nodes is told by; where they differ, by the first of them."""
    told = [[f["message"] for f in rejections_of(nodes[n])[number]["facts"]] for n in names]
    return [
        fact if all(fact in others for others in told) else f"{fact} (on {names[0]})"
        for fact in told[0]
    ]


def _node_in_full(name: str, answer: Answer) -> None:
    """Every verdict and fact of one node."""
    verdict = answer["nodes"][name]
    state = "fits" if verdict["fit"] else "rejected"
    if name == answer["node"]:
        state = "chosen"
    say("")
    paragraph(f"{name}: {state}", style_of(state))
    if not verdict["fit"]:
        for rejection in rejections_of(verdict):
            code = f" ({rejection['code']})" if rejection.get("code") else ""
            paragraph(f"{rejection['plugin']}{code}", "bold", INDENT)
            told = [*rejection["reasons"], *(fact["message"] for fact in rejection["facts"])]
            for line in told:
                paragraph(line, "", f"{DEEPER}- ", f"{DEEPER}  ")
    elif score := answer["scores"].get(name):
        parts = ", ".join(f"{plugin} {part}" for plugin, part in score["plugins"].items())
        paragraph(f"score {score['total']}: {parts}", "", INDENT, DEEPER)


# What would help, and the rest.


def _remedies(answer: Answer, patches: bool, owner: Target | None) -> None:
    remedies = answer.get("remedies")
    if not remedies:
        if remedies is not None and not answer["fit"] and answer["nodes"]:
            heading("What would help")
            paragraph("no list of changes was found that would let it run", "", INDENT, INDENT)
        return
    heading("What would help")
    for number, remedy in enumerate(remedies, 1):
        label = f"{number}. "
        rest = INDENT + " " * len(label)
        paragraph(remedy["summary"], "bold", INDENT + label, rest)
        effects = []
        if remedy["opens"]:
            effects.append(f"then fits on {some(remedy['opens'])}")
        if replicas := remedy.get("replicas"):
            effects.append(f"{replicas['fit']} of {replicas['asked']} then fit together")
        if affected := remedy.get("affects"):
            effects.append(f"affects {some(affected, 5)}")
        if effects:
            paragraph("; ".join(effects), DIM, rest, rest)
        for change in remedy["changes"] if patches else ():
            for line in spelt_out(change, answer["pod"], owner):
                verbatim(f"{rest}{line}")
    if not patches:
        paragraph("--patch shows each as commands", DIM, INDENT)


def spelt_out(change: Answer, pod: str, owner: Target | None = None) -> list[str]:
    """A change as what one types; what kubectl cannot do to a pod that exists, as what to write.

    A change of the pod is one of its owner's template, where that is known and can be changed.
    """
    if change["op"] == "add":
        import yaml

        kind = change["object"].get("kind", "object")
        text = yaml.safe_dump(change["object"], sort_keys=False).splitlines()
        return [f"add this {kind}:", *(f"  {line}" for line in text)]
    kind, namespace, name = change["kind"].lower(), change.get("namespace"), change["name"]
    where = ["-n", namespace] if namespace else []
    if change["op"] == "delete":
        return [shlex.join(["kubectl", "delete", kind, *where, name])]
    patch = json.dumps(change["patch"], separators=(",", ":"), ensure_ascii=False)
    if f"{namespace}/{name}" == pod and kind == "pod" and not _changeable(change["patch"]):
        if owner is None or not _for_template(owner, change["patch"]):
            return ["merge into the pod's manifest, or its workload's template:", patch]
        kind, name = owner.kind.lower(), owner.name
        patch = json.dumps({"spec": {"template": change["patch"]}}, separators=(",", ":"))
    if kind in _WRITTEN_ONCE:
        get = shlex.join(["kubectl", "get", kind, *where, name, "-o", "json"])
        edit = shlex.join(["kubectl", "patch", "--local", "--type=merge", "-p", patch])
        return [f"{get} | {edit} -f - -o json | kubectl replace --force -f -"]
    return [shlex.join(["kubectl", "patch", kind, *where, name, "--type=merge", "-p", patch])]


def _changeable(patch: Answer) -> bool:
    """Whether the API server lets a pod that exists be patched so."""
    return set(patch) <= {"metadata", "spec"} and set(patch.get("spec", ())) <= _MUTABLE


def _for_template(owner: Target, patch: Answer) -> bool:
    """Whether the patch of a pod is one of its owner's template as well."""
    return owner.kind in _WITH_TEMPLATE and not _LISTS & set(patch.get("spec", ()))


_WITH_TEMPLATE = ("Deployment", "StatefulSet", "ReplicaSet", "DaemonSet")
_LISTS = {"containers", "initContainers", "volumes"}
"""Lists of a pod that have more than its template: what admission has added."""
_WRITTEN_ONCE = {"persistentvolumeclaim", "resourceclaim"}
"""Kinds whose spec cannot be changed once they exist."""
_MUTABLE = {"schedulingGates", "tolerations", "activeDeadlineSeconds"}


def _preemption(answer: Answer) -> None:
    preview = answer["preemption"]
    if preview is None:
        return
    heading("Preemption")
    if preview["node"] is None:
        paragraph(preview["message"].removeprefix("preemption: "), "", INDENT, INDENT)
        return
    against = preview["violations"]
    budgets = f", {against} of them against a disruption budget" if against else ""
    victims = some(preview["victims"], NAMES_SHOWN)
    text = f"it would evict {victims} from {preview['node']}{budgets}"
    paragraph(text, "", INDENT, INDENT)


def _gang(answer: Answer) -> None:
    """How the pod's gang stands: no member is bound before enough of them have nodes."""
    gang = answer.get("group")
    if not gang:
        return
    heading("Gang")
    if gang["fault"]:
        paragraph(f"pod group {gang['name']}: {gang['fault']}", BAD, INDENT, INDENT)
        return
    counts = f"{gang['placed']} of {gang['minMember']} members have nodes, {gang['existing']} exist"
    missing = f", {gang['missing']} more are needed" if gang.get("missing") else ""
    text = f"pod group {gang['name']} is {gang['phase']}: {counts}{missing}"
    paragraph(text, "", INDENT, INDENT)
    members = gang.get("members") or []
    for member in members[:MEMBERS_SHOWN]:
        where = f" on {member['node']}" if member.get("node") else ""
        paragraph(f"{member['pod']}: {member['state']}{where}", "", f"{INDENT}- ", DEEPER)
    if len(members) > MEMBERS_SHOWN:
        paragraph(f"and {len(members) - MEMBERS_SHOWN} more", DIM, DEEPER)


def _wakes(answer: Answer) -> None:
    """Each event that has it tried again, and for whose sake."""
    by_event: dict[str, list[str]] = {}
    for wake in answer["standing"].get("wakes") or ():
        for event in wake["events"] or [wake["message"]]:
            by_event.setdefault(event, []).append(wake["plugin"])
    if not by_event:
        return
    heading("It is tried again when")
    for event, plugins in by_event.items():
        paragraph(f"{event} ({', '.join(plugins)})", "", f"{INDENT}- ", f"{INDENT}  ")


def _history(answer: Answer) -> None:
    """How its verdict changed; nothing if there was one, and that is the verdict above."""
    entries = answer.get("history") or []
    if not entries or (len(entries) == 1 and _is_the_verdict(entries[0], answer)):
        return
    heading("History")
    for entry in entries:
        when = f"{datetime.fromtimestamp(entry['time']):%F %T}"
        times = f" ({entry['count']} times)" if entry["count"] > 1 else ""
        said = f"went to {entry['node']}" if entry["node"] else entry["message"]
        style = style_of("scheduled") if entry["node"] else ""
        paragraph(f"{said}{times}", style, f"{INDENT}{when}  ", f"{INDENT}{' ' * len(when)}  ")


def _is_the_verdict(entry: Answer, answer: Answer) -> bool:
    if entry["node"]:
        return bool(entry["node"] == answer["standing"]["node"])
    return bool(answer["message"]) and str(entry["message"]).startswith(answer["message"])


def _comparison(answer: Answer, wide: bool) -> None:
    """The winner against the runner-up, plugin by plugin."""
    comparison = answer.get("comparison")
    if not comparison or not comparison["runnerUp"]:
        return
    heading(f"Why {comparison['node']}, and not {comparison['runnerUp']}")
    if comparison["message"]:
        paragraph(comparison["message"], "", INDENT, INDENT)
    parts = [part for part in comparison["parts"] if wide or part["difference"]]
    if not parts:
        return
    table = Table(
        (
            TableColumn(f"{INDENT}PLUGIN"),
            TableColumn(comparison["node"], right=True),
            TableColumn(comparison["runnerUp"], right=True),
            TableColumn("DIFFERENCE", right=True),
        )
    )
    for part in sorted(parts, key=lambda each: -abs(each["difference"])):
        difference = part["difference"]
        style = GOOD if difference > 0 else BAD if difference < 0 else ""
        table.add(
            f"{INDENT}{part['plugin']}",
            part["node"],
            part["runnerUp"],
            TableCell(f"{difference:+d}", style),
        )
    show(table)


# A table of nodes: the best first, then those that reject the pod, and why.


def _nodes(answer: Answer, each: bool, wide: bool) -> None:
    each = each or wide
    scores = answer["scores"]
    plugins = _plugins(scores) if wide else []
    table = Table(
        [
            TableColumn("NODE"),
            TableColumn("RESULT"),
            TableColumn("SCORE", right=True),
            *(TableColumn(plugin, right=True) for plugin in plugins),
            TableColumn("PLUGIN"),
            TableColumn("REASON", text=True),
        ]
    )
    chosen = answer["node"] or answer["wouldGoTo"]
    ranked = sorted(scores, key=lambda name: (name != chosen, -scores[name]["total"], name))
    shown = ranked if each else ranked[:BEST_SHOWN]
    for name in shown:
        parts = [scores[name]["plugins"].get(plugin, 0) for plugin in plugins]
        state = "chosen" if name == answer["node"] else "fits"
        node = TableCell(name, "bold" if state == "chosen" else "")
        verdict = TableCell(state, style_of(state))
        table.add(node, verdict, scores[name]["total"], *parts, "", "")
    if hidden := ranked[len(shown) :]:
        low, high = scores[hidden[-1]]["total"], scores[hidden[0]]["total"]
        extent = str(low) if low == high else f"{low}-{high}"
        blanks = [""] * len(plugins)
        verdict = TableCell("fits", style_of("fits"))
        table.add(f"{len(hidden)} more", verdict, extent, *blanks, "", "")
    for names, rejections in _alike(answer["nodes"], each):
        _add_rejected(table, names, rejections, answer["nodes"], len(plugins))
    say("")
    show(table)


def _add_rejected(
    table: Table, names: Sequence[str], rejections: Sequence[Answer], nodes: Answer, plugins: int
) -> None:
    named = ", ".join(names) if len(names) <= NAMES_SHOWN else f"{len(names)} nodes"
    label, verdict = named, TableCell("rejected", style_of("rejected"))
    for number, rejection in enumerate(rejections):
        reasons = ", ".join(rejection["reasons"])
        told = "; ".join(_facts(names, number, nodes))
        reason = f"{reasons}: {told}" if told else reasons
        table.add(label, verdict, *([""] * (1 + plugins)), rejection["plugin"], reason)
        label, verdict = "", TableCell("")


def _plugins(scores: Answer) -> list[str]:
    """All plugins that scored some node, in the order of their profile."""
    return list(dict.fromkeys(plugin for score in scores.values() for plugin in score["plugins"]))
