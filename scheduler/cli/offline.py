"""Without a cluster: objects and configurations from files, as commands take them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from scheduler.cli.exits import USAGE, fail, warn
from scheduler.cli.output import counted, note
from scheduler.garbage import without_collections

if TYPE_CHECKING:
    from scheduler.config.loading import Configuration

NAMED = 5
_CLOSE = 0.85

Body = dict[str, Any]
Command = TypeVar("Command", bound=Callable[..., Any])


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


def lenient_option() -> Callable[[Command], Command]:
    """The ``--lenient`` option of commands that read manifests."""
    return click.option(
        "--lenient",
        is_flag=True,
        help="Print unknown fields and invalid values of manifests to standard error, and "
        "continue.",
    )


@without_collections()
def objects_of(files: Sequence[str], *, lenient: bool = False) -> list[Body]:
    """All objects of the files as they stand there; ends the command if one is bad."""
    from scheduler.cli.manifests import ManifestError, read
    from scheduler.observe.logs import setup_nothing

    setup_nothing()
    try:
        return read(files, lenient=lenient)
    except ManifestError as fault:
        fail(str(fault), USAGE)


@without_collections()
def as_in_cluster(objects: Sequence[Body]) -> list[Body]:
    """The objects that matter, what controllers would make of them, and all defaults."""
    from scheduler.cli.admission import admitted, priority_classes
    from scheduler.cli.claim_templates import missing_templates, with_claims
    from scheduler.cli.manifests import known
    from scheduler.cli.workloads import expand

    _note_not_looked_at([body for body in objects if not known(body)])
    objects = with_claims(expand([body for body in objects if known(body)]))
    if templates := missing_templates(objects):
        note(f"no such ResourceClaimTemplate, so its pods wait: {', '.join(templates)}")
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
        note(f"pods come of CronJobs only when they run, and are not counted: {names_of(times)}")
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
        note(f"DaemonSets that match no node: {names_of(idle)}")
    held = [o for o in objects if o["kind"] == "Job" and o.get("spec", {}).get("suspend")]
    if held:
        note(f"suspended Jobs make no pods: {names_of(held)}")
    nodes = {"", *(body["metadata"]["name"] for body in objects if body["kind"] == "Node")}
    astray = [o for o in objects if o["kind"] == "Pod" and _node_of(o) not in nodes]
    if astray:
        note(f"on nodes that are not given, so they count for nothing: {names_of(astray)}")
    members = [o for o in objects if o["kind"] == "Pod" and POD_GROUP_LABEL in _pod_labels(o)]
    if members and not any(body["kind"] == "PodGroup" for body in objects):
        note(f"no PodGroup is given, so a group is named in vain by {counted(len(members), 'pod')}")
    labelled: dict[str, list[Body]] = {}
    for body in objects:
        for label in _pod_labels(body) if body["kind"] == "Pod" else ():
            labelled.setdefault(label, []).append(body)
    for label, pods in labelled.items():
        if label != POD_GROUP_LABEL and _looks_like(label, POD_GROUP_LABEL):
            note(f"{names_of(pods)}: label {label}: did you mean {POD_GROUP_LABEL}?")


def _node_of(pod: Body) -> str:
    return str(pod.get("spec", {}).get("nodeName") or "")


def _pod_labels(pod: Body) -> Mapping[str, str]:
    labels: Mapping[str, str] = pod["metadata"].get("labels", {})
    return labels


def _looks_like(label: str, known: str) -> bool:
    """Whether a label is spelt almost as another one; values do not matter."""
    import difflib

    return bool(difflib.get_close_matches(label, [known], 1, _CLOSE))


def names_of(objects: Sequence[Body]) -> str:
    """The first of them by name, and how many more there are."""
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
        warn(warning)
    return loaded


def note_unheeded(file: Path | None, config: Configuration | None, objects: Sequence[Body]) -> None:
    """Name what a configuration file leaves out that is on where there is none."""
    from scheduler.simulation import unheeded

    for kind, plugin in unheeded(config, objects) if config is not None else ():
        note(f"{file} does not enable {plugin}: objects of kind {kind} have no effect")


def _class_name(body: Body) -> Any:
    return body.get("spec", {}).get("priorityClassName") if body["kind"] == "Pod" else None
