"""``equipoise approve`` and ``reject``: decide about a pod that waits for permission."""

from __future__ import annotations

from urllib.parse import quote

import click

from scheduler.cli.output import JSON, TABLE, YAML, emit, for_programs, output_option, say
from scheduler.cli.remote import Remote, server_option, tell_leader
from scheduler.cli.targets import parse_pod


@click.command()
@click.argument("pod")
@click.option("-n", "--namespace", help="Namespace of the pod; default: the context's.")
@click.option("--plugin", default="", help="For this plugin only; default: all that hold the pod.")
@click.option("--reason", default="", help="Why, for the log.")
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
    """Let POD go on that waits for permission; `equipoise queue` lists such pods.

    The scheduler has to know callers (server.protection), and you need the right to approve
    waitingpods.equipoise.dev in the pod's namespace.
    """
    _decide("approve", pod, namespace, plugin, reason, uid, server, output)


@click.command()
@click.argument("pod")
@click.option("-n", "--namespace", help="Namespace of the pod; default: the context's.")
@click.option("--plugin", default="", help="For this plugin; default: all that hold the pod.")
@click.option("--reason", default="", help="Why, for the pod's condition and the log.")
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
    """Send POD back to the queue that waits for permission, and have it give its node back.

    You need the right to reject waitingpods.equipoise.dev in the pod's namespace.
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
