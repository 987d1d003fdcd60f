"""``equipoise explain``: why a pod is where it is or waits, and what would let it run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from scheduler.cli.addresses import NoAnswer, Refused
from scheduler.cli.exits import UNSCHEDULABLE, USAGE, fail
from scheduler.cli.explanation import show_explanation
from scheduler.cli.offline import (
    as_in_cluster,
    config_option,
    configuration,
    files_option,
    lenient_option,
    note_unheeded,
    objects_of,
)
from scheduler.cli.output import (
    DIM,
    JSON,
    TABLE,
    WIDE,
    YAML,
    emit,
    for_programs,
    note,
    output_option,
    paragraph,
)
from scheduler.cli.remote import Remote, ask_any_replica, server_option
from scheduler.cli.targets import POD, Target, parse_target
from scheduler.cli.what_if import hint_of_key

Body = dict[str, Any]

PATH = "/api/v1/explain"


@click.command()
@click.argument("target", required=False, metavar="[POD | KIND/NAME]")
@click.option("-n", "--namespace", help="Namespace; default: that of the context.")
@click.option(
    "--what-if",
    "what_if",
    metavar="FILE",
    help="A pod or workload that does not exist yet: a YAML or JSON file, or - for standard input.",
)
@files_option()
@lenient_option()
@config_option()
@server_option()
@click.option("--node", "nodes", multiple=True, help="Show this node in detail; may be repeated.")
@click.option("--all", "each", is_flag=True, help="Show each node separately, even if similar.")
@click.option("--patch", "patches", is_flag=True, help="Show each remedy as a patch or command.")
@output_option(TABLE, WIDE, JSON, YAML)
@click.pass_context
def explain(
    context: click.Context,
    target: str | None,
    namespace: str | None,
    what_if: str | None,
    files: tuple[str, ...],
    lenient: bool,
    config_file: Path | None,
    server: Remote,
    nodes: tuple[str, ...],
    each: bool,
    patches: bool,
    output: str,
) -> None:
    """Explain why a pod is pending or where it would be placed, and what would help.

    The argument is a pod (NAME, NAMESPACE/NAME, pod/NAME) or a workload: deployment/NAME,
    statefulset/NAME, replicaset/NAME, daemonset/NAME, job/NAME or podgroup/NAME. Of a workload, one
    pending pod is explained, and how many such pods fit. The scheduler is found with your
    kubeconfig, or with --server. With -f, the pod is explained as `equipoise simulate` would
    schedule it on the objects of the files. A running pod is explained as if it were scheduled now,
    a gated one as if it were not gated. Exits with 3 if the pod gets no node, or if too few
    replicas fit.
    """
    _check_combination(context, target, what_if, files, config_file)
    asked = parse_target(target, namespace) if target else None
    summary, owner = "", asked if asked is not None and asked.kind != POD else None
    if files:
        answer, summary = _offline(asked, namespace, what_if, files, config_file, lenient=lenient)
    elif what_if is not None:
        answer = _supposed(server, asked, namespace, what_if, lenient=lenient)
    else:
        assert asked is not None, "it is checked above"
        answer, summary = _live(server, asked)
    if unknown := [node for node in nodes if node not in answer["nodes"]]:
        fail(f"no such node: {', '.join(unknown)}")
    if for_programs(output):
        emit(_about(nodes, answer) if nodes else answer, output)
    else:
        if summary:
            paragraph(summary, DIM)
        show_explanation(
            answer, nodes, each=each, wide=output == WIDE, patches=patches, owner=owner
        )
    if answer["node"] is None or _too_few(answer):
        raise click.exceptions.Exit(UNSCHEDULABLE)


def _too_few(answer: Body) -> bool:
    """Whether only some of the replicas that were asked about fit."""
    replicas = answer.get("replicas")
    return replicas is not None and bool(replicas["fit"] < replicas["asked"])


def _about(nodes: tuple[str, ...], answer: dict[str, Any]) -> dict[str, Any]:
    """The answer with verdicts and scores of some nodes only."""
    chosen = {
        part: {name: value for name, value in answer[part].items() if name in nodes}
        for part in ("nodes", "scores")
    }
    return {**answer, **chosen}


def _check_combination(
    context: click.Context,
    target: str | None,
    what_if: str | None,
    files: tuple[str, ...],
    config_file: Path | None,
) -> None:
    if target is None and what_if is None:
        raise click.UsageError("name a pod or a workload, or a file with --what-if")
    if files and context.get_parameter_source("server") is ParameterSource.COMMANDLINE:
        raise click.UsageError("either -f or --server, not both")
    if config_file is not None and not files:
        raise click.UsageError("--config needs -f: a running scheduler has its own")


# From a running scheduler.


def _live(server: Remote, target: Target) -> tuple[Body, str]:
    target = target._replace(namespace=target.namespace or server.namespace)
    if target.kind == POD:
        return ask_any_replica(server, PATH, pod=target.key), ""
    from scheduler.cli.live_workloads import question_about

    question = question_about(server.cluster, target)
    if question.pod:
        answer = ask_any_replica(server, PATH, pod=question.pod, count=question.count)
    else:
        answer = ask_any_replica(server, PATH, question.manifest, count=question.count)
    return answer, question.summary


def _supposed(
    server: Remote,
    target: Target | None,
    namespace: str | None,
    what_if: str,
    *,
    lenient: bool,
) -> dict[str, Any]:
    """The scheduler's answer about a pod that does not exist."""
    objects = [*objects_of([what_if], lenient=lenient), *_priority_classes(server)]
    made = as_in_cluster(objects)
    pods = [body for body in made if body["kind"] == "Pod"]
    pods = [pod for pod in pods if not pod["spec"].get("nodeName")]
    chosen = _members(pods, target, what_if) if target else pods
    if not chosen:
        fail(f"{what_if}: no pod that needs a node", USAGE)
    first = chosen[0]
    shape = _but_own_claims(first)
    alike = [pod for pod in chosen if _but_own_claims(pod) == shape]
    if len(alike) < len(pods):
        note(f"the answer is about {first['metadata']['name']} alone, not about other pods given")
    metadata = first["metadata"]
    metadata["namespace"] = metadata.get("namespace") or namespace or server.namespace
    count = len(alike) if len(alike) > 1 else None
    question = with_claims_of(first, made)
    answer: dict[str, Any] = ask_any_replica(server, PATH, question, count=count)
    return answer


def _but_own_claims(pod: Body) -> Body:
    """The spec of a pod without the names of claims that are made for each pod of its workload."""
    from scheduler.cli.workloads import controller_of

    if (controller_of(pod) or ("",))[0] != "StatefulSet":
        spec: Body = pod["spec"]
        return spec
    name = pod["metadata"]["name"]
    volumes = [
        volume.get("name")
        if volume.get("persistentVolumeClaim", {}).get("claimName") == f"{volume['name']}-{name}"
        else volume
        for volume in pod["spec"].get("volumes") or ()
    ]
    return {**pod["spec"], "volumes": volumes}


def with_claims_of(pod: Body, objects: Sequence[Body]) -> Body:
    """A pod, or a List of it and those of the objects that are claims of its volumes."""
    own = {
        volume.get("persistentVolumeClaim", {}).get("claimName")
        for volume in pod["spec"].get("volumes") or ()
    }
    claims = [
        body
        for body in objects
        if body["kind"] == "PersistentVolumeClaim" and body["metadata"]["name"] in own
    ]
    return {"apiVersion": "v1", "kind": "List", "items": [pod, *claims]} if claims else pod


def _priority_classes(server: Remote) -> list[Body]:
    """Those of the cluster, if the user may read them: admission gives pods their priority."""
    if server.urls:
        return []
    try:
        found = server.cluster.read("/apis/scheduling.k8s.io/v1/priorityclasses")
    except (NoAnswer, Refused):
        return []
    kind = {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass"}
    return [{**kind, **each} for each in found.get("items") or ()]


# From files.


def _offline(
    target: Target | None,
    namespace: str | None,
    what_if: str | None,
    files: tuple[str, ...],
    config_file: Path | None,
    *,
    lenient: bool,
) -> tuple[Body, str]:
    from scheduler import simulation
    from scheduler.config.problems import ConfigError

    config = configuration(config_file)
    where = ", ".join(files if what_if is None else (*files, what_if))
    supposed = [] if what_if is None else objects_of([what_if], lenient=lenient)
    objects = as_in_cluster(_with(objects_of(files, lenient=lenient), supposed))
    note_unheeded(config_file, config, objects)
    pods = [body for body in objects if body["kind"] == "Pod"]
    if target is None:
        members = [pod for pod in pods if _comes_of(pod, supposed)]
    else:
        target = target._replace(namespace=target.namespace or namespace or "default")
        members = _members(pods, target, where)
    if not members:
        fail(f"{where}: no pod that needs a node", USAGE)
    try:
        replicas = waiting = None
        chosen = members[0]
        if len(members) > 1:
            placed = simulation.place(objects, config)
            without, replicas = _together(members, placed)
            chosen = without[0] if without else members[-1]
            waiting = sum(body["spec"] == chosen["spec"] for body in without)
        answer = simulation.explain(objects, chosen, config, count=waiting)
    except simulation.InputError as fault:
        fail(f"{where}: {fault}", USAGE)
    except ConfigError as fault:  # a plugin that cannot be made
        fail(f"{config_file}: {fault}", USAGE)
    return ({**answer, "replicas": replicas} if replicas else answer), ""


def _with(objects: Sequence[Body], supposed: Sequence[Body]) -> list[Body]:
    """The objects, with those that are supposed in place of others of their names."""
    from scheduler.cli.workloads import identity

    replaced = {identity(body) for body in supposed}
    return [*(body for body in objects if identity(body) not in replaced), *supposed]


def _comes_of(pod: Body, objects: Sequence[Body]) -> bool:
    """Whether a pod is one of the objects, or a pod of a workload among them."""
    from scheduler.cli.workloads import identity

    return any(
        identity(body) == identity(pod) or _belongs(pod, Target(*identity(body)))
        for body in objects
    )


def _together(
    members: Sequence[Body], placed: Sequence[tuple[str, str | None, str]]
) -> tuple[list[Body], dict[str, Any]]:
    """The members that get no node, and how many of all get one."""
    from scheduler.cli.workloads import pod_key

    nodes = {pod: node for pod, node, _ in placed}
    where = [body["spec"].get("nodeName") or nodes.get(pod_key(body)) for body in members]
    without = [body for body, node in zip(members, where, strict=True) if not node]
    found = Counter(node for node in where if node)
    asked, fit = len(members), found.total()
    message = f"{fit} of {asked} replicas fit together"
    replicas = {"asked": asked, "fit": fit, "nodes": dict(found.most_common()), "message": message}
    return without, replicas


def _members(pods: Sequence[Body], target: Target, where: str) -> list[Body]:
    """The pods of a target among those given; ends the command if there is none."""
    from scheduler.cli.workloads import pod_key

    if target.kind == POD:
        by_key = {pod_key(body): body for body in pods}
        key = f"{target.namespace or 'default'}/{target.name}"
        if key not in by_key:
            fail(f"{where}: no pod {key}{_nearest(key, list(by_key))}", USAGE)
        return [by_key[key]]
    members = [pod for pod in pods if _belongs(pod, target)]
    if not members:
        fail(f"{where}: no pods of {target}", USAGE)
    return members


def _belongs(pod: Body, target: Target) -> bool:
    from scheduler.cli.workloads import DEFAULT_NAMESPACE, controller_of, identity
    from scheduler.model.workloads import POD_GROUP_LABEL

    if identity(pod)[1] != (target.namespace or DEFAULT_NAMESPACE):
        return False
    if target.kind == "PodGroup":
        labels: dict[str, str] = pod["metadata"].get("labels", {})
        return labels.get(POD_GROUP_LABEL) == target.name
    kind, _, name = controller_of(pod) or ("", "", "")
    if target.kind == "Deployment" and kind == "ReplicaSet":
        # As the Deployment's controller names them: its own name and the hash of the template.
        return name.rpartition("-")[0] == target.name
    return (kind, name) == (target.kind, target.name)


def _nearest(key: str, keys: list[str]) -> str:
    """A hint at the pod that may be meant: one of the workload's, or one of a similar name."""
    near = [other for other in keys if other.startswith(f"{key}-")]
    return f", did you mean {near[0]}?" if near else hint_of_key(key, keys)
