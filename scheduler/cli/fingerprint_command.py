"""``equipoise fingerprint``: what an agent's pod fingerprint would be, and why one differs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import click

from scheduler.cli.exits import ERROR, UNREACHABLE, USAGE, fail
from scheduler.cli.offline import files_option
from scheduler.cli.output import (
    BAD,
    GOOD,
    JSON,
    TABLE,
    YAML,
    emit,
    for_programs,
    output_option,
    say,
)

Identity = tuple[str, str]
Standing = Mapping[Identity, str]
"""The phase of each pod, "" if it is not known."""


@click.command()
@click.argument("pods", nargs=-1, metavar="[NAMESPACE/NAME]...")
@files_option()
@click.option("--node", metavar="NODE", help="The pods of this node, from files or the cluster.")
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

    Pods are named, or read from manifests (-f), or listed live for a node (--node). Of a node, the
    fingerprint in its NodeResourceTopology is what is compared with. If they differ, sets of pods
    close to the given one are tried: without finished or pending pods, or without a single one.
    Exits 1 if nothing matches.
    """
    named = [_identity(text) for text in pods]
    if named and (files or node):
        fail("give names of pods, or --filename, or --node", USAGE)
    if files:
        standing, published = _from_files(files, node)
    elif node:
        standing, published = _from_cluster(node, kubeconfig)
    else:
        standing, published = dict.fromkeys(named, ""), ""
    _report(standing, expect or published, output)


def _identity(text: str) -> Identity:
    namespace, slash, name = text.partition("/")
    if not slash or not namespace or not name:
        fail(f"{text!r}: expected NAMESPACE/NAME", USAGE)
    return namespace, name


def _from_files(files: tuple[str, ...], node: str | None) -> tuple[Standing, str]:
    from scheduler.cli.manifests import ManifestError, read
    from scheduler.model.nodes import NodeResourceTopology
    from scheduler.model.objects import from_dict
    from scheduler.numa.topology import topology_of

    try:
        objects = read(files)
    except ManifestError as fault:
        fail(str(fault), USAGE)
    standing: dict[Identity, str] = {}
    published = ""
    for body in objects:
        metadata = body["metadata"]
        there = body.get("spec", {}).get("nodeName", "")
        if body["kind"] == "Pod" and (node is None or there == node):
            key = metadata.get("namespace", "default"), metadata["name"]
            standing[key] = body.get("status", {}).get("phase", "")
        elif body["kind"] == "NodeResourceTopology" and metadata["name"] == node:
            published = topology_of(from_dict(body, NodeResourceTopology)).fingerprint
    return standing, published


def _from_cluster(node: str, kubeconfig: str | None) -> tuple[Standing, str]:
    import asyncio

    from scheduler.kube.errors import ClusterUnreachable, KubeError

    try:
        return asyncio.run(_ask(node, kubeconfig))
    except (ClusterUnreachable, KubeError) as fault:
        fail(str(fault), UNREACHABLE if isinstance(fault, ClusterUnreachable) else ERROR)


async def _ask(node: str, kubeconfig: str | None) -> tuple[Standing, str]:
    from scheduler.kube.client import KubeClient
    from scheduler.kube.errors import NotFound
    from scheduler.kube.listing import list_all
    from scheduler.kube.watch import Resource
    from scheduler.model.nodes import NodeResourceTopology
    from scheduler.model.objects import KINDS
    from scheduler.model.pods import Pod
    from scheduler.numa.topology import topology_of
    from scheduler.observe.metrics import Metrics

    client = await KubeClient.connect(metrics=Metrics(), kubeconfig=kubeconfig)
    try:
        there = {"fieldSelector": f"spec.nodeName={node}"}
        pods = await list_all(client, Resource("Pod", KINDS["Pod"].path, Pod, there))
        kind = KINDS["NodeResourceTopology"]
        try:
            every = await list_all(
                client, Resource("NodeResourceTopology", kind.path, NodeResourceTopology)
            )
        except NotFound:  # the cluster does not know the kind
            every = []
    finally:
        await client.close()
    published = [topology_of(each).fingerprint for each in every if each.metadata.name == node]
    standing = {(pod.metadata.namespace, pod.metadata.name): pod.status.phase for pod in pods}
    return standing, published[0] if published else ""


def _report(standing: Standing, expected: str, output: str) -> None:
    from scheduler.numa.fingerprint import fingerprint as fingerprint_of
    from scheduler.numa.fingerprint import malformed

    own = fingerprint_of(standing)
    value: dict[str, Any] = {"fingerprint": own, "pods": len(standing)}
    explanation = ""
    if expected:
        fault = malformed(expected)
        explanation = fault.value if fault else _explain(standing, expected)
        value |= {"expected": expected, "match": own == expected, "difference": explanation}
    if for_programs(output):
        emit(value, output)
    else:
        say(f"{own}  {len(standing)} pods")
        if expected:
            equal = own == expected
            say(f"{expected}  {'the same' if equal else explanation}", GOOD if equal else BAD)
    if expected and own != expected:
        raise click.exceptions.Exit(ERROR)


def _explain(standing: Standing, expected: str) -> str:
    from scheduler.numa.fingerprint import fingerprint as fingerprint_of

    if fingerprint_of(standing) == expected:
        return ""
    for pods, words in _near(standing):
        if fingerprint_of(pods) == expected:
            return f"the same {words}"
    return "differs by more than one pod, or by pods that are not here"


def _near(standing: Standing) -> Iterator[tuple[Iterable[Identity], str]]:
    """Sets of pods that somebody else may have seen, and what is left out of them."""
    for phases in (("Succeeded", "Failed"), ("Pending",), ("Succeeded", "Failed", "Pending")):
        left = [pod for pod, phase in standing.items() if phase not in phases]
        yield left, f"without pods that are {' or '.join(phases)}"
    for namespace, name in standing:
        left = [pod for pod in standing if pod != (namespace, name)]
        yield left, f"without {namespace}/{name}"
