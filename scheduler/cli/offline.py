"""Without a cluster: objects from files, and ``equipoise simulate`` over them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import click

from scheduler.cli.exits import USAGE, fail
from scheduler.cli.output import (
    BAD,
    DIM,
    GOOD,
    JSON,
    TABLE,
    WARN,
    YAML,
    counted,
    emit,
    for_programs,
    note,
    output_option,
    say,
    show,
)
from scheduler.cli.tables import Table, TableCell, TableColumn

if TYPE_CHECKING:
    from scheduler.config.loading import Configuration

NAMED = 5
_HIGHEST = 2**31 - 1
_CLOSE = 0.85

Body = dict[str, Any]
Command = TypeVar("Command", bound=Callable[..., Any])


class PlacedPod(NamedTuple):
    """Where a pod goes, or why it waits."""

    pod: str
    node: str | None
    message: str


def files_option(required: bool = False) -> Callable[[Command], Command]:
    """The ``-f`` option, which may be given more than once."""
    return click.option(
        "-f",
        "--filename",
        "files",
        multiple=True,
        required=required,
        metavar="FILE",
        help="Manifests: a YAML or JSON file, a directory, or - for standard input.",
    )


def config_option() -> Callable[[Command], Command]:
    """The ``--config`` option of commands that work without a cluster."""
    return click.option(
        "--config",
        "config_file",
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Scheduler configuration; default: kube-scheduler's plugins and weights, with NUMA "
        "cells and pod groups if the files have any.",
    )


@click.command()
@files_option(required=True)
@config_option()
@click.option("--all", "each", is_flag=True, help="One line per pod, however alike they are.")
@click.option("--batch", is_flag=True, help="Place all pods at once, compared with one by one.")
@click.option("--evict", is_flag=True, help="Let pods evict others of lower priority.")
@click.option(
    "--plot",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="With --batch, draw network and utilisation as SVG.",
)
@output_option(TABLE, JSON, YAML)
def simulate(
    files: tuple[str, ...],
    config_file: Path | None,
    each: bool,
    batch: bool,
    evict: bool,
    plot: Path | None,
    output: str,
) -> None:
    """Place the pods of manifests on the nodes of manifests, without a cluster.

    Deployments, ReplicaSets, ReplicationControllers, StatefulSets, DaemonSets and Jobs count as the
    pods their controllers would create; those of DaemonSets come first. Pods that name another
    scheduler are left out; pods with a node count there. No pod is evicted without --evict.
    Exits 0 even if pods stay pending.
    """
    from scheduler.config.problems import ConfigError
    from scheduler.simulation import InputError, place

    if plot is not None and not batch:
        raise click.UsageError("--plot needs --batch")
    if evict and batch:
        raise click.UsageError("either --evict or --batch: what is compared evicts nobody")
    config = configuration(config_file)
    objects = cluster(files)
    try:
        if batch:
            from scheduler.cli.batch_report import compared

            at_once = compared(objects, config, plot, output)
            _note_left_out(objects, [PlacedPod(*outcome) for outcome in at_once])
            return
        placed = [PlacedPod(*outcome) for outcome in place(objects, config, evict=evict)]
    except InputError as fault:
        fail(f"{', '.join(files)}: {fault}", USAGE)
    except ConfigError as fault:  # a plugin that cannot be made
        fail(f"{config_file}: {fault}", USAGE)
    _note_left_out(objects, placed)
    if not evict:
        _note_evictions(objects, placed)
    if for_programs(output):
        emit(_as_value(placed), output)
    else:
        _show(placed, objects, each)


def cluster(files: Sequence[str]) -> list[Body]:
    """All objects of the files as a cluster would hold them; ends the command if one is bad."""
    from scheduler.cli.admission import admitted, priority_classes
    from scheduler.cli.manifests import ManifestError, known, read
    from scheduler.cli.workloads import expand
    from scheduler.observe.logs import setup_nothing

    setup_nothing()
    try:
        objects = read(files)
    except ManifestError as fault:
        fail(str(fault), USAGE)
    _note_not_looked_at([body for body in objects if not known(body)])
    objects = expand([body for body in objects if known(body)])
    _note_without_effect(objects)
    classes = priority_classes(objects)
    wanted = {str(name) for name in map(_class_name, objects) if name}
    if missing := sorted(wanted - classes.keys()):
        note(f"no such PriorityClass, so its pods have priority 0: {', '.join(missing)}")
    return admitted(objects)


def _note_not_looked_at(objects: Sequence[Body]) -> None:
    """Name the kinds that have no part in a simulation."""
    times = [body for body in objects if body["kind"] == "CronJob"]
    if times:
        note(f"pods come of CronJobs only when they run, and are not counted: {_names(times)}")
    kinds = Counter(body["kind"] for body in objects if body["kind"] != "CronJob")
    if kinds:
        listed = ", ".join(f"{kind} ({number})" for kind, number in sorted(kinds.items()))
        note(f"kinds that are not looked at: {listed}")


def _note_without_effect(objects: Sequence[Body]) -> None:
    """Name what has no effect though it looks as if it had."""
    from scheduler.cli.workloads import controller_of, identity
    from scheduler.model.workloads import POD_GROUP_LABEL

    owners = {controller_of(body) for body in objects if body["kind"] == "Pod"}
    idle = [o for o in objects if o["kind"] == "DaemonSet" and identity(o) not in owners]
    if idle:
        note(f"DaemonSets that match no node: {_names(idle)}")
    held = [o for o in objects if o["kind"] == "Job" and o.get("spec", {}).get("suspend")]
    if held:
        note(f"suspended Jobs make no pods: {_names(held)}")
    nodes = {"", *(body["metadata"]["name"] for body in objects if body["kind"] == "Node")}
    astray = [o for o in objects if o["kind"] == "Pod" and _node_of(o) not in nodes]
    if astray:
        note(f"on nodes that are not given, so they count for nothing: {_names(astray)}")
    members = [o for o in objects if o["kind"] == "Pod" and POD_GROUP_LABEL in _pod_labels(o)]
    if members and not any(body["kind"] == "PodGroup" for body in objects):
        note(f"no PodGroup is given, so a group is named in vain by {counted(len(members), 'pod')}")
    labelled: dict[str, list[Body]] = {}
    for body in objects:
        for label in _pod_labels(body) if body["kind"] == "Pod" else ():
            labelled.setdefault(label, []).append(body)
    for label, pods in labelled.items():
        if label != POD_GROUP_LABEL and _looks_like(label, POD_GROUP_LABEL):
            note(f"{_names(pods)}: label {label}: did you mean {POD_GROUP_LABEL}?")


def _node_of(pod: Body) -> str:
    return str(pod.get("spec", {}).get("nodeName") or "")


def _pod_labels(pod: Body) -> Mapping[str, str]:
    labels: Mapping[str, str] = pod["metadata"].get("labels", {})
    return labels


def _looks_like(label: str, known: str) -> bool:
    """Whether a label is spelt almost as another one; values do not matter."""
    import difflib

    return bool(difflib.get_close_matches(label, [known], 1, _CLOSE))


def _names(objects: Sequence[Body]) -> str:
    from scheduler.cli.workloads import identity

    names = ["/".join(identity(body)[1:]) for body in objects]
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more


def configuration(file: Path | None) -> Configuration | None:
    """A configuration file, checked; ends the command if it is invalid."""
    from scheduler.assembly import load
    from scheduler.config.problems import ConfigError

    if file is None:
        return None
    try:
        loaded = load(file, environ={})
    except OSError as fault:
        fail(f"{file}: {fault.strerror}", USAGE)
    except ConfigError as fault:
        fail(f"{file}: {fault}", USAGE)
    for warning in loaded.warnings:
        click.echo(f"warning: {warning}", err=True)
    return loaded


def _class_name(body: Body) -> Any:
    return body.get("spec", {}).get("priorityClassName") if body["kind"] == "Pod" else None


def _note_left_out(objects: Iterable[Body], placed: Iterable[PlacedPod]) -> None:
    from scheduler.cli.workloads import pod_key

    tried = {outcome.pod for outcome in placed}
    others = Counter(
        body["spec"].get("schedulerName")
        for body in objects
        if body["kind"] == "Pod"
        and not body["spec"].get("nodeName")
        and body.get("status", {}).get("phase") not in ("Succeeded", "Failed")
        and pod_key(body) not in tried
    )
    for scheduler, number in sorted(others.items()):
        note(f"left to another scheduler, {scheduler}: {counted(number, 'pod')}")


def _note_evictions(objects: Iterable[Body], placed: Iterable[PlacedPod]) -> None:
    """Name pods that wait here and for which a running scheduler might evict others."""
    from scheduler.cli.workloads import pod_key

    outcomes = {outcome.pod: outcome for outcome in placed}
    pods = [body for body in objects if body["kind"] == "Pod"]
    settled = [
        body["spec"].get("priority", 0)
        for body in pods
        if body["spec"].get("nodeName")
        or ((known := outcomes.get(pod_key(body))) is not None and known.node is not None)
    ]
    waiting = [
        body
        for body in pods
        if (known := outcomes.get(pod_key(body))) is not None
        and known.node is None
        and body["spec"].get("preemptionPolicy") != "Never"
        and not body["spec"].get("schedulingGates")
        and body["spec"].get("priority", 0) > min(settled, default=_HIGHEST)
    ]
    if waiting:
        note(
            "nobody is evicted here; `equipoise explain -f` says who might be for "
            f"{_names(waiting)}"
        )


def _as_value(placed: Sequence[PlacedPod]) -> dict[str, Any]:
    fitting = sum(outcome.node is not None for outcome in placed)
    evicted = sum(map(_evicted, placed))
    return {
        "placed": fitting,
        "pending": len(placed) - fitting - evicted,
        **({"evicted": evicted} if evicted else {}),
        "pods": [outcome._asdict() for outcome in placed],
    }


def _evicted(outcome: PlacedPod) -> bool:
    from scheduler.simulation import PREEMPTED

    return outcome.node is None and outcome.message.startswith(PREEMPTED)


def _show(placed: Sequence[PlacedPod], objects: Sequence[Body], each: bool) -> None:
    if not placed:
        say("no pods to schedule")
        return
    table = Table((TableColumn("POD"), TableColumn("NODE"), TableColumn("MESSAGE", text=True)))
    for outcome in placed:
        if outcome.node is not None:
            table.add(outcome.pod, TableCell(outcome.node, GOOD), "")
    for pods, message in _pending(placed, objects, each):
        more = f" and {len(pods) - 1} more" if len(pods) > 1 else ""
        gone = _evicted(PlacedPod(pods[0], None, message))
        where = TableCell("<evicted>", BAD) if gone else TableCell("<none>", DIM)
        table.add(f"{pods[0]}{more}", where, TableCell(message, WARN))
    show(table)
    _sum_up(placed)


def _pending(
    placed: Iterable[PlacedPod], objects: Iterable[Body], each: bool
) -> Iterable[tuple[list[str], str]]:
    """Pods that wait, those of one controller with one message together."""
    from scheduler.cli.workloads import controller_of, pod_key

    owners = {pod_key(body): controller_of(body) for body in objects if body["kind"] == "Pod"}
    groups: dict[tuple[object, str], list[str]] = {}
    for pod, node, message in placed:
        if node is None:
            group = pod if each else owners.get(pod) or pod
            groups.setdefault((group, message), []).append(pod)
    return [(pods, message) for (_, message), pods in groups.items()]


def _sum_up(placed: Sequence[PlacedPod]) -> None:
    gone = sum(map(_evicted, placed))
    reasons = Counter(
        outcome.message for outcome in placed if outcome.node is None and not _evicted(outcome)
    )
    nodes = {outcome.node for outcome in placed if outcome.node is not None}
    pending = reasons.total()
    done = f"{counted(len(placed) - pending - gone, 'pod')} placed on {counted(len(nodes), 'node')}"
    done += f", {gone} evicted" if gone else ""
    say("")
    say(f"{done}, {pending} pending", BAD if pending else GOOD)
    for message, number in reasons.most_common():
        say(f"  {counted(number, 'pod')}: {message}")
