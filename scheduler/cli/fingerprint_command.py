"""``equipoise fingerprint``: what an agent's pod fingerprint would be, and why one differs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from scheduler.cli.exits import ERROR, UNREACHABLE, USAGE, fail
from scheduler.cli.offline import files_option
from scheduler.cli.output import (
    BAD,
    GOOD,
    JSON,
    TABLE,
    YAML,
    counted,
    emit,
    for_programs,
    note,
    output_option,
    say,
)

if TYPE_CHECKING:  # because the command line starts faster without
    from scheduler.model.pods import Pod
    from scheduler.numa.topology import Topology

Identity = tuple[str, str]


class Seen(NamedTuple):
    """What is known of a pod besides its name."""

    phase: str = ""
    exclusive: bool = False
    """Whether it has CPUs, devices or memory of its own."""


Standing = Mapping[Identity, Seen]


@click.command()
@click.argument("pods", nargs=-1, metavar="[NAMESPACE/NAME]...")
@files_option()
@click.option(
    "--node", metavar="NODE", help="Use the pods of this node, from files or the cluster."
)
@click.option("--expect", metavar="TEXT", help="Compare with this fingerprint.")
@click.option("--kubeconfig", metavar="FILE", help="How to reach the cluster; as kubectl does.")
@output_option(TABLE, JSON, YAML)
def fingerprint(
    pods: tuple[str, ...],
    files: tuple[str, ...],
    node: str | None,
    expect: str | None,
    kubeconfig: str | None,
    output: str,
) -> None:
    """Print the fingerprint of pods, and compare it with a published one.

    Pods are given by name, read from manifests (-f), or listed for a node of the cluster (--node).
    For a node, the fingerprint of the pods that its NodeResourceTopology counts is compared with
    the published one. If they differ, similar sets of pods are tried: without finished or pending
    pods, or without a single pod. Exits with 1 if they differ.
    """
    named = [_identity(text) for text in pods]
    if bool(named) == bool(files or node):
        fail("give names of pods, or --filename, or --node", USAGE)
    published: Topology | None = None
    if files:
        standing, published = _from_files(files, node)
    elif node:
        standing, published = _from_cluster(node, kubeconfig)
    else:
        standing = dict.fromkeys(named, Seen())
    if node and published is None:
        note(f"no NodeResourceTopology of node {node}, so nothing was published")
    _report(standing, published, expect or "", output)


def _identity(text: str) -> Identity:
    namespace, slash, name = text.partition("/")
    if not slash or not namespace or not name or "/" in name:
        fail(f"{text!r}: expected NAMESPACE/NAME", USAGE)
    return namespace, name


def _from_files(files: tuple[str, ...], node: str | None) -> tuple[Standing, Topology | None]:
    from scheduler.cli.manifests import ManifestError, read
    from scheduler.model.nodes import NodeResourceTopology
    from scheduler.model.objects import from_dict
    from scheduler.model.pods import Pod
    from scheduler.numa.topology import topology_of

    try:
        objects = read(files, lenient=True)
    except ManifestError as fault:
        fail(str(fault), USAGE)
    pods = [from_dict(body, Pod) for body in objects if body["kind"] == "Pod"]
    published = [
        topology_of(from_dict(body, NodeResourceTopology))
        for body in objects
        if body["kind"] == "NodeResourceTopology" and body["metadata"]["name"] == node
    ]
    there = [pod for pod in pods if node is None or pod.spec.node_name == node]
    return _standing(there), published[0] if published else None


def _standing(pods: Iterable[Pod]) -> Standing:
    from scheduler.model.pinning import pinning_of

    return {
        (pod.metadata.namespace or "default", pod.metadata.name): Seen(
            pod.status.phase, bool(pinning_of(pod).shown)
        )
        for pod in pods
    }


def _from_cluster(node: str, kubeconfig: str | None) -> tuple[Standing, Topology | None]:
    import asyncio

    from scheduler.kube.errors import ClusterUnreachable, KubeError

    try:
        return asyncio.run(_ask(node, kubeconfig))
    except (ClusterUnreachable, KubeError) as fault:
        fail(str(fault), UNREACHABLE if isinstance(fault, ClusterUnreachable) else ERROR)


async def _ask(node: str, kubeconfig: str | None) -> tuple[Standing, Topology | None]:
    from scheduler.kube.client import KubeClient
    from scheduler.kube.errors import NotFound
    from scheduler.kube.listing import list_all
    from scheduler.kube.watch import WatchedResource
    from scheduler.model.nodes import NodeResourceTopology
    from scheduler.model.objects import KINDS
    from scheduler.model.pods import Pod
    from scheduler.numa.topology import topology_of
    from scheduler.observe.metrics import Metrics

    client = await KubeClient.connect(metrics=Metrics(), kubeconfig=kubeconfig)
    try:
        there = {"fieldSelector": f"spec.nodeName={node}"}
        pods = await list_all(client, WatchedResource("Pod", KINDS["Pod"].path, Pod, there))
        kind = KINDS["NodeResourceTopology"]
        try:
            every = await list_all(
                client, WatchedResource("NodeResourceTopology", kind.path, NodeResourceTopology)
            )
        except NotFound:  # the cluster does not know the kind
            every = []
    finally:
        await client.close()
    published = [topology_of(each) for each in every if each.metadata.name == node]
    return _standing(pods), published[0] if published else None


def _report(standing: Standing, published: Topology | None, expect: str, output: str) -> None:
    from scheduler.numa.fingerprint import WITH_EXCLUSIVE_RESOURCES, fault_of
    from scheduler.numa.fingerprint import fingerprint as fingerprint_of

    expected = expect or (published.fingerprint if published else "")
    method = published.method if published else ""
    pods = _exclusive(standing) if method == WITH_EXCLUSIVE_RESOURCES else standing
    own = fingerprint_of(pods)
    value: dict[str, Any] = {"fingerprint": own, "pods": len(pods)}
    if method:
        value["method"] = method
    explanation = ""
    if expected:
        fault = fault_of(expected)
        explanation = fault.value if fault else _explain(pods, standing, expected)
        value |= {"expected": expected, "match": own == expected, "difference": explanation}
    if for_programs(output):
        emit(value, output)
    else:
        left_out = f" ({method})" if len(pods) < len(standing) else ""
        say(f"{own}  {counted(len(pods), 'pod')}{left_out}")
        if expected:
            equal = own == expected
            say(f"{expected}  {'the same' if equal else explanation}", GOOD if equal else BAD)
    if expected and own != expected:
        raise click.exceptions.Exit(ERROR)


def _exclusive(standing: Standing) -> Standing:
    return {pod: seen for pod, seen in standing.items() if seen.exclusive}


def _explain(pods: Standing, standing: Standing, expected: str) -> str:
    from scheduler.numa.fingerprint import fingerprint as fingerprint_of

    if fingerprint_of(pods) == expected:
        return ""
    for near, words in _near(pods, standing):
        if fingerprint_of(near) == expected:
            return f"the same {words}"
    return "differs by more than one pod, or by pods that are not here"


def _near(pods: Standing, standing: Standing) -> Iterator[tuple[Iterable[Identity], str]]:
    """Sets of pods that the agent may have seen, and how they differ from the given one."""
    for phases in (("Succeeded", "Failed"), ("Pending",), ("Succeeded", "Failed", "Pending")):
        left = [pod for pod, seen in pods.items() if seen.phase not in phases]
        yield left, f"without pods that are {' or '.join(phases)}"
    for namespace, name in pods:
        left = [pod for pod in pods if pod != (namespace, name)]
        yield left, f"without {namespace}/{name}"
    yield standing, "with all pods, whatever they request"
    yield _exclusive(standing), "without pods that have no exclusive resources"
