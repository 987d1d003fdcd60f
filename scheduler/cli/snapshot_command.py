"""``equipoise snapshot``: the cluster as a scheduler reads it, in one file."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from scheduler.cli.exits import UNREACHABLE, fail
from scheduler.cli.output import counted, note
from scheduler.garbage import without_collections

if TYPE_CHECKING:
    from scheduler.cli.workloads import Body

STDOUT = "-"


@click.command()
@click.argument("file", default=STDOUT, type=click.Path(dir_okay=False))
@click.option("--kubeconfig", help="Kubeconfig file; default: as for kubectl, or in-cluster.")
@click.option("--context", help="The context of the kubeconfig.")
@click.option("--anonymise", is_flag=True, help="Replace names, labels and images.")
def snapshot(file: str, kubeconfig: str | None, context: str | None, anonymise: bool) -> None:
    """Save what the scheduler reads of a cluster to FILE, for simulate -f and explain -f.

    FILE ends in .json.zst, .json.gz or .json; standard output (-) is .json.zst. Commands, arguments
    and environment of containers, annotations, Secrets and ConfigMaps are left out. With
    --anonymise names, labels and images are replaced, too: equal names by equal names.
    """
    from scheduler.cli.anonymising import anonymised
    from scheduler.cli.snapshots import pack

    compressed = _compression(file)
    if file == STDOUT and sys.stdout.buffer.isatty():
        raise click.UsageError("a snapshot is not text: name a file, or redirect the output")
    objects = from_cluster(kubeconfig, context)
    content = pack(anonymised(objects) if anonymise else objects, compressed=compressed)
    if file == STDOUT:
        sys.stdout.buffer.write(content)
    else:
        try:
            Path(file).write_bytes(content)
        except OSError as fault:
            fail(f"{file}: {fault.strerror}")
    where = "" if file == STDOUT else f"{file}: "
    note(f"{where}{counted(len(objects), 'object')}, {len(content) >> 10} KiB")


def from_cluster(kubeconfig: str | None, context: str | None) -> list[Body]:
    """What a scheduler reads of the cluster; ends the command if it cannot be reached."""
    from scheduler.kube.errors import (
        Ambiguous,
        ClusterUnreachable,
        KubeError,
        ServerError,
        Unreachable,
    )

    try:
        with without_collections():
            objects, problems = asyncio.run(_collect(kubeconfig, context))
    except ClusterUnreachable as fault:
        fail(str(fault), UNREACHABLE)
    except (Unreachable, Ambiguous, ServerError) as fault:
        fail(f"the API server: {fault}", UNREACHABLE)
    except KubeError as fault:
        fail(f"the API server: {fault}")
    for problem in problems:
        note(problem)
    return objects


async def _collect(kubeconfig: str | None, context: str | None) -> tuple[list[Body], list[str]]:
    from scheduler.cli.snapshots import collect
    from scheduler.kube.client import KubeClient
    from scheduler.observe.metrics import Metrics

    client = await KubeClient.connect(metrics=Metrics(), kubeconfig=kubeconfig, context=context)
    try:
        return await collect(client)
    finally:
        await client.close()


def _compression(file: str) -> str:
    for suffix in ("zst", "gz"):
        if file == STDOUT or file.endswith(f".{suffix}"):
            return suffix
    if not file.endswith(".json"):
        raise click.UsageError(f"{file}: a snapshot's name ends in .json.zst, .json.gz or .json")
    return ""
