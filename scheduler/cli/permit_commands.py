"""``equipoise approve`` and ``reject``: decide about a pod that waits for permission."""

from __future__ import annotations

from urllib.parse import quote

import click

from scheduler.cli.output import JSON, TABLE, YAML, emit, for_programs, output_option, say
from scheduler.cli.remote import Remote, server_option, tell_leader
from scheduler.cli.targets import parse_pod


@click.command()
@click.argument("pod")
@click.option("-n", "--namespace", help="Namespace of the pod; default: that of the context.")
@click.option(
    "--plugin",
    default="",
    help="Approve for this plugin only; default: for all that make the pod wait.",
)
@click.option("--reason", default="", help="The reason, for the log.")
@click.option("--uid", default="", help="Only if the pod has this uid.")
@server_option()
@output_option(TABLE, JSON, YAML)
def approve(
    pod: str,
    namespace: str | None,
    plugin: str,
    reason: str,
    uid: str,
    server: Remote,
    output: str,
) -> None:
    """Approve POD, which waits at Permit; `equipoise waiting` lists such pods.

    The scheduler must authenticate callers (server.protection), and you need the permission to
    approve waitingpods.equipoise.dev in the pod's namespace.
    """
    _decide("approve", pod, namespace, plugin, reason, uid, server, output)


@click.command()
@click.argument("pod")
@click.option("-n", "--namespace", help="Namespace of the pod; default: that of the context.")
@click.option(
    "--plugin", default="", help="Reject for this plugin; default: for all that make the pod wait."
)
@click.option("--reason", default="", help="The reason, for the pod's condition and the log.")
@click.option("--uid", default="", help="Only if the pod has this uid.")
@server_option()
@output_option(TABLE, JSON, YAML)
def reject(
    pod: str,
    namespace: str | None,
    plugin: str,
    reason: str,
    uid: str,
    server: Remote,
    output: str,
) -> None:
    """Reject POD, which waits at Permit: it gives up its node and is queued again.

    You need the permission to reject waitingpods.equipoise.dev in the pod's namespace.
    """
    _decide("reject", pod, namespace, plugin, reason, uid, server, output)


def _decide(
    verb: str,
    pod: str,
    namespace: str | None,
    plugin: str,
    reason: str,
    uid: str,
    server: Remote,
    output: str,
) -> None:
    _, namespace, name = parse_pod(pod, namespace)
    namespace = namespace or server.namespace
    path = f"/api/v1/waiting/{quote(namespace, safe='')}/{quote(name, safe='')}/{verb}"
    given = {"plugin": plugin, "reason": reason, "uid": uid}
    answer = tell_leader(server, path, **{key: value for key, value in given.items() if value})
    if for_programs(output):
        emit(answer, output)
        return
    done = "approved" if verb == "approve" else "rejected"
    say(f"{answer['pod']} {done} for {', '.join(answer['plugins'])} on node {answer['node']}")
    if answer["stillWaitingFor"]:
        say(f"it still waits for {', '.join(answer['stillWaitingFor'])}")
