"""``equipoise simulate``: where pods go, on objects of files or of a copy of a cluster."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click

from scheduler.cli.exits import USAGE, fail
from scheduler.cli.offline import (
    Body,
    as_in_cluster,
    config_option,
    configuration,
    files_option,
    lenient_option,
    names_of,
    note_unheeded,
    objects_of,
)
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

_HIGHEST = 2**31 - 1
_CAPACITY = ("--more", "--missing-nodes")


class PlacedPod(NamedTuple):
    """Where a pod goes, or why it waits."""

    pod: str
    node: str | None
    message: str


@click.command()
@files_option()
@lenient_option()
@click.option("--from-cluster", is_flag=True, help="Add the objects of a cluster.")
@click.option("--kubeconfig", help="With --from-cluster: how to reach it.  [default: as kubectl]")
@click.option("--context", help="With --from-cluster: the context of the kubeconfig.")
@config_option()
@click.option(
    "--add-nodes",
    nargs=3,
    multiple=True,
    metavar="N like NODE",
    help="Add N empty nodes like an existing one; may be repeated.",
)
@click.option("--drain", multiple=True, metavar="NODE", help="Drain this node; may be repeated.")
@click.option(
    "--replicas",
    multiple=True,
    metavar="KIND/NAME=N",
    help="Scale a workload, such as deployment/web=5 or deployment/shop/web=5.",
)
@click.option(
    "--all-schedulers", is_flag=True, help="Also schedule pods that name other schedulers."
)
@click.option(
    "--compare",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Also schedule the pods with this configuration, and show the differences.",
)
@click.option(
    "--more",
    metavar="KIND/NAME",
    help="Show how many more pods of this workload, or like this pod, fit afterwards.",
)
@click.option(
    "--missing-nodes", is_flag=True, help="Show how many more nodes the pending pods would need."
)
@click.option("--all", "each", is_flag=True, help="One line per pod, even if identical.")
@click.option(
    "--batch", is_flag=True, help="Place all pods together (batch), and compare with one by one."
)
@click.option("--evict", is_flag=True, help="Allow preemption of pods with lower priority.")
@click.option(
    "--plot",
    type=click.Path(path_type=Path, dir_okay=False),
    metavar="FILE",
    help="Draw the nodes before and after, and the pending pods, as SVG; with --batch also the "
    "flow network.",
)
@output_option(TABLE, JSON, YAML)
def simulate(
    files: tuple[str, ...],
    lenient: bool,
    from_cluster: bool,
    kubeconfig: str | None,
    context: str | None,
    config_file: Path | None,
    add_nodes: tuple[tuple[str, str, str], ...],
    drain: tuple[str, ...],
    replicas: tuple[str, ...],
    all_schedulers: bool,
    compare: Path | None,
    more: str | None,
    missing_nodes: bool,
    each: bool,
    batch: bool,
    evict: bool,
    plot: Path | None,
    output: str,
) -> None:
    """Schedule pods from files, or from a copy of a cluster, without changing a cluster.

    A snapshot (equipoise snapshot) can be used as a file. Deployments, ReplicaSets,
    ReplicationControllers, StatefulSets, DaemonSets and Jobs are replaced by the pods that their
    controllers would create; those of DaemonSets come first. Pods that name another scheduler are
    left out; pods that have a node use its resources. No pod is preempted without --evict. Exits
    with 0 even if pods stay pending.
    """
    from scheduler.config.problems import ConfigError
    from scheduler.simulation import InputError, place, profile_names

    capacity = "--missing-nodes" if missing_nodes and more is None else "--more"
    asked_capacity = more is not None or missing_nodes
    reports = {"--batch": batch, "--compare": compare, capacity: asked_capacity}
    _check_usage(files, from_cluster, kubeconfig or context, reports, evict=evict, plot=plot)
    config = configuration(config_file)
    other = configuration(compare)
    objects = objects_of(files, lenient=lenient) if files else []
    if from_cluster:
        from scheduler.cli.snapshot_command import from_cluster as collected

        objects = joined(collected(kubeconfig, context), objects)
    objects = as_in_cluster(_what_if(objects, add_nodes, drain, replicas))
    note_unheeded(config_file, config, objects)
    note_unheeded(compare, other, objects)
    if all_schedulers:
        objects = [_unaddressed(body) for body in objects]
    try:
        if batch:
            from scheduler.cli.batch_report import compared

            at_once = compared(objects, config, plot, output)
            _note_left_out(objects, [PlacedPod(*outcome) for outcome in at_once])
            return
        if compare is not None:
            from scheduler.cli.config_report import compare_configurations

            named = ((str(config_file or "default"), config), (str(compare), other))
            compare_configurations(objects, named, evict=evict, plot=plot, output=output)
            _note_others(objects, profile_names(config))
            return
        if more is not None or missing_nodes:
            _show_capacity(objects, config, more, missing_nodes, output)
            _note_others(objects, profile_names(config))
            return
        outcomes: Sequence[tuple[str, str | None, str]]
        if plot is not None:
            from scheduler.cli.config_report import played_and_drawn

            outcomes = played_and_drawn(objects, config, plot, evict=evict)
        else:
            outcomes = place(objects, config, evict=evict)
        placed = [PlacedPod(*outcome) for outcome in outcomes]
    except InputError as fault:
        fail(f"{', '.join(files) or 'the cluster'}: {fault}", USAGE)
    except ConfigError as fault:  # a plugin that cannot be made
        fail(f"{config_file}: {fault}", USAGE)
    _note_left_out(objects, placed)
    if not evict:
        _note_evictions(objects, placed)
    if for_programs(output):
        emit(_as_value(placed), output)
    else:
        _show(placed, objects, each)


def _check_usage(
    files: Sequence[str],
    from_cluster: bool,
    access: str | None,
    reports: Mapping[str, Any],
    *,
    evict: bool,
    plot: Path | None,
) -> None:
    """Refuse options that do not go together."""
    if not files and not from_cluster:
        raise click.UsageError("no objects: name files with -f, or --from-cluster")
    if access and not from_cluster:
        raise click.UsageError("--kubeconfig and --context need --from-cluster")
    if plot is not None:
        from scheduler.cli.picture import check_name

        check_name(plot)
    asked = [option for option, given in reports.items() if given]
    capacity = [option for option in asked if option in _CAPACITY]
    if plot is not None and capacity:
        raise click.UsageError(f"--plot shows where pods go, and {capacity[0]} places none")
    if len(asked) > 1:
        raise click.UsageError(f"one report at a time, not {' and '.join(asked)}")
    if evict and asked and asked[0] != "--compare":
        raise click.UsageError(f"--evict cannot be combined with {asked[0]}")


def _show_capacity(
    objects: list[Body], config: Any, more: str | None, missing: bool, output: str
) -> None:
    from scheduler.cli import capacity
    from scheduler.cli.what_if import NoSuchObject

    said: dict[str, Any] = {}
    try:
        if more is not None:
            said["more"] = capacity.more(objects, config, more)._asdict()
    except NoSuchObject as fault:
        fail(str(fault), USAGE)
    except ValueError as fault:
        pods = "of a pod NAME, NAMESPACE/NAME or pod/NAME"
        raise click.UsageError(f"--more: {fault}; {pods}") from None
    if missing:
        waiting, found = capacity.missing_nodes(objects, config)
        said |= {"pending": waiting, "missingNodes": [each._asdict() for each in found]}
    if for_programs(output):
        emit(said, output)
        return
    if more is not None:
        fit, least = said["more"]["fit"], "" if said["more"]["complete"] else "at least "
        fits = "fits" if fit == 1 else "fit"
        say(f"{least}{fit} more like {more} {fits}", GOOD if fit else BAD)
    if missing:
        _show_missing(said["pending"], said["missingNodes"])


def _show_missing(pending: int, found: Sequence[Body]) -> None:
    if not pending:
        say("no pod waits for want of a node", GOOD)
        return
    pods = counted(pending, "pod")
    if not found:
        say(f"{pods} pending, and more nodes of no shape would help", BAD)
        return
    table = Table(
        (
            TableColumn("NODES LIKE"),
            TableColumn("EXISTING", right=True),
            TableColumn("MISSING", right=True),
            TableColumn("PODS THAT THEN RUN", right=True),
        )
    )
    for each in found:
        placed = f"{each['placed']} of {pending}"
        table.add(each["like"], each["existing"], each["nodes"], placed)
    show(table)


def _what_if(
    objects: list[Body],
    add_nodes: Sequence[tuple[str, str, str]],
    drained: Sequence[str],
    replicas: Sequence[str],
) -> list[Body]:
    """The objects with the changes that were asked for; ends the command if one makes no sense."""
    from scheduler.cli.what_if import (
        MOST_NODES,
        NoSuchObject,
        drain,
        parse_number,
        parse_replicas,
        scale,
    )
    from scheduler.cli.what_if import add_nodes as with_nodes

    try:
        for digits, word, example in add_nodes:
            number = parse_number(digits, MOST_NODES)
            if word != "like" or number is None:
                asked, most = f"{digits} {word} {example}", f"N up to {MOST_NODES}"
                raise click.UsageError(f"--add-nodes: expected N like NODE, {most}, not {asked!r}")
            objects = with_nodes(objects, number, example)
        for each in replicas:
            objects = scale(objects, *parse_replicas(each))
        if drained:
            nodes = list(dict.fromkeys(drained))
            outcome = drain(objects, nodes)
            objects = outcome.objects
            wait = "waits" if outcome.moved == 1 else "wait"
            note(f"drained: {counted(outcome.moved, 'pod')} of {', '.join(nodes)} {wait} again")
            if outcome.lost:
                note(f"lost, as no controller makes them again: {', '.join(outcome.lost)}")
    except NoSuchObject as fault:
        fail(str(fault), USAGE)
    except ValueError as fault:
        raise click.UsageError(f"--replicas: {fault}") from None
    return objects


def _unaddressed(body: Body) -> Body:
    """A pod that waits for any scheduler, as one that waits for ours."""
    if body["kind"] != "Pod" or body["spec"].get("nodeName"):
        return body
    spec = {key: value for key, value in body["spec"].items() if key != "schedulerName"}
    return {**body, "spec": spec}


def joined(first: Sequence[Body], second: Sequence[Body]) -> list[Body]:
    """The objects of both; those of the second replace their namesakes."""
    from scheduler.cli.workloads import identity

    return list({identity(body): body for body in (*first, *second)}.values())


def _note_left_out(objects: Iterable[Body], placed: Iterable[PlacedPod]) -> None:
    from scheduler.cli.workloads import pod_key

    tried = {outcome.pod for outcome in placed}
    _count_others(body for body in objects if _waits(body) and pod_key(body) not in tried)


def _note_others(objects: Iterable[Body], ours: Collection[str]) -> None:
    """The same where outcomes are not told."""
    waiting = filter(_waits, objects)
    _count_others(each for each in waiting if each["spec"].get("schedulerName", "") not in ours)


def _waits(body: Body) -> bool:
    """Whether a pod has no node; those of DaemonSets count on theirs, bound or not."""
    from scheduler.cli.workloads import controller_of

    if body["kind"] != "Pod" or body["spec"].get("nodeName"):
        return False
    if body.get("status", {}).get("phase") in ("Succeeded", "Failed"):
        return False
    owner = controller_of(body)
    return owner is None or owner[0] != "DaemonSet"


def _count_others(pods: Iterable[Body]) -> None:
    others = Counter(body["spec"].get("schedulerName", "") for body in pods)
    for scheduler, number in sorted(others.items()):
        pods_left = counted(number, "pod")
        note(f"left to another scheduler, {scheduler}: {pods_left} (--all-schedulers places them)")


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
            "no pod is evicted without --evict; `equipoise explain -f` says which might be for "
            f"{names_of(waiting)}"
        )


def _as_value(placed: Sequence[PlacedPod]) -> dict[str, Any]:
    from scheduler.simulation import Placed, eviction_of

    fitting = sum(outcome.node is not None for outcome in placed)
    evicted = [found for each in placed if (found := eviction_of(Placed(*each))) is not None]
    return {
        "placed": fitting,
        "pending": len(placed) - fitting - len(evicted),
        **({"evicted": len(evicted)} if evicted else {}),
        **({"evictions": [each._asdict() for each in evicted]} if evicted else {}),
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
