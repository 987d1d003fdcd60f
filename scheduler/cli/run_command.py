"""``equipoise run``: the daemon, with the flags that kube-scheduler's users know."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import click

from scheduler.cli.exits import UNREACHABLE, USAGE, fail, warn

_LEADER_FLAGS = {
    "leader_elect": "leaderElect",
    "leader_elect_lease_duration": "leaseDuration",
    "leader_elect_renew_deadline": "renewDeadline",
    "leader_elect_retry_period": "retryPeriod",
    "leader_elect_resource_name": "resourceName",
    "leader_elect_resource_namespace": "resourceNamespace",
}


@click.command()
@click.option(
    "--config", "config_file", type=click.Path(path_type=Path), help="Configuration file."
)
@click.option("--kubeconfig", help="Kubeconfig file; default: as for kubectl, or in-cluster.")
@click.option("--context", help="The context of the kubeconfig.")
@click.option("--master", help="Address of the API server; overrides the kubeconfig.")
@click.option("--bind-address", help="Address to serve health and metrics on.")
@click.option("--secure-port", type=int, help="Port to serve health and metrics on; 0: none.")
@click.option(
    "--tls-cert-file", help="Serving certificate; default: self-signed, if TLS is needed."
)
@click.option("--tls-private-key-file", help="Private key of the certificate.")
@click.option("--client-ca-file", help="Accept client certificates signed by this authority.")
@click.option(
    "--authorization-always-allow-paths",
    metavar="PATHS",
    help="Comma-separated paths that need no authorization.  [default: /healthz,/livez,/readyz]",
)
@click.option("--leader-elect", type=bool, help="Whether to elect a leader among replicas.")
@click.option(
    "--leader-elect-lease-duration",
    help="How long standbys wait before they take over an unrenewed lease.",
)
@click.option(
    "--leader-elect-renew-deadline",
    help="How long the leader tries to renew its lease before it stops.",
)
@click.option(
    "--leader-elect-retry-period", help="Time between attempts to acquire or renew the lease."
)
@click.option("--leader-elect-resource-name", help="Name of the Lease.")
@click.option("--leader-elect-resource-namespace", help="Namespace of the Lease.")
@click.option(
    "--write-config-to",
    type=click.Path(path_type=Path),
    help="Write the effective configuration to this file and exit.",
)
@click.option(
    "--record",
    metavar="DIR",
    help="Record what the scheduler sees and decides into this directory, for replay.",
)
@click.option("--log-format", type=click.Choice(["auto", "json", "console"]), help="Log format.")
@click.option("-v", "--verbosity", type=int, help="0 to 3: info, 4 and more: debug.")
def run(config_file: Path | None, write_config_to: Path | None, **flags: Any) -> None:
    """Run the scheduler: schedule the pods whose schedulerName is one of its profiles."""
    config = _configuration(config_file, flags)
    if write_config_to is not None:
        write_config_to.write_text(config.to_yaml())
        return
    _set_up_logs(config, flags["verbosity"])
    raise click.exceptions.Exit(asyncio.run(_run(config, flags)))


async def _run(config: Any, flags: dict[str, Any]) -> int:
    from scheduler import app
    from scheduler.config.problems import ConfigError
    from scheduler.kube.client import KubeClient
    from scheduler.kube.errors import ClusterUnreachable, KubeError
    from scheduler.kube.pacing import RateLimit
    from scheduler.observe.metrics import Metrics

    connection = config.scheduler.client_connection

    async def connect(metrics: Metrics) -> KubeClient:
        limit = RateLimit(connection.qps, connection.burst) if connection.qps else None
        try:
            return await KubeClient.connect(
                metrics=metrics,
                kubeconfig=flags["kubeconfig"] or connection.kubeconfig or None,
                context=flags["context"],
                master=flags["master"],
                rate_limit=limit,
            )
        except ClusterUnreachable as fault:
            fail(str(fault), UNREACHABLE)

    try:
        return await app.run(config, connect)
    except ConfigError as fault:  # a plugin that cannot be made
        fail(str(fault), USAGE)
    except (KubeError, OSError) as fault:  # OSError: the address to serve on cannot be had
        fail(str(fault))


def _configuration(file: Path | None, flags: dict[str, Any]) -> Any:
    """The file with flags laid over it, checked as one; ends the program if it is invalid."""
    from scheduler.assembly import configure
    from scheduler.config.documents import parse_documents
    from scheduler.config.problems import ConfigError

    try:
        documents = parse_documents(file.read_text()) if file else []
        loaded = configure(_overlaid(documents, flags))
    except OSError as fault:
        fail(f"{file}: {fault.strerror}", USAGE)
    except (ConfigError, UnicodeDecodeError) as fault:
        fail(f"{file or 'flags'}: {fault}", USAGE)
    for warning in loaded.warnings:
        warn(warning)
    return loaded


def _overlaid(documents: list[dict[str, Any]], flags: dict[str, Any]) -> list[dict[str, Any]]:
    from scheduler.config.schema import KUBE_API_VERSION, KUBE_KIND, OWN_API_VERSION, OWN_KIND

    election = {key: flags[flag] for flag, key in _LEADER_FLAGS.items() if flags[flag] is not None}
    server = {
        "bindAddress": flags["bind_address"],
        "port": flags["secure_port"],
        "tlsCertFile": flags["tls_cert_file"],
        "tlsPrivateKeyFile": flags["tls_private_key_file"],
        "clientCAFile": flags["client_ca_file"],
        "alwaysAllowPaths": _listed(flags["authorization_always_allow_paths"]),
    }
    own = {
        "server": {key: value for key, value in server.items() if value is not None},
        "logging": {"format": flags["log_format"]} if flags["log_format"] else {},
        "recording": {"directory": flags["record"]} if flags["record"] else {},
    }
    result = [dict(document) for document in documents]
    _lay_over(result, KUBE_KIND, KUBE_API_VERSION, {"leaderElection": election})
    _lay_over(result, OWN_KIND, OWN_API_VERSION, own)
    return result


def _listed(given: str | None) -> list[str] | None:
    return None if given is None else [part.strip() for part in given.split(",") if part.strip()]


def _lay_over(
    documents: list[dict[str, Any]], kind: str, version: str, sections: dict[str, dict[str, Any]]
) -> None:
    given = {section: values for section, values in sections.items() if values}
    if not given:
        return
    document = next((d for d in documents if d.get("kind") == kind), None)
    if document is None:
        document = {"apiVersion": version, "kind": kind}
        documents.append(document)
    for section, values in given.items():
        present = document.get(section)
        # What is not an object is left for validation to complain about.
        if present is None or isinstance(present, dict):
            document[section] = {**(present or {}), **values}


def _set_up_logs(config: Any, verbosity: int | None) -> None:
    from scheduler.observe.logs import level_for_verbosity, setup

    settings = config.equipoise.logging
    level = getattr(logging, settings.level.upper())
    setup(settings.format, level_for_verbosity(verbosity) if verbosity is not None else level)
