"""Webhooks as plugins of a configuration: their names and points, and what they may read."""

from collections.abc import Sequence

import msgspec

from scheduler.config import pem
from scheduler.config.plugins import Available
from scheduler.config.schema import EXTENSION_POINTS, OWN_POINTS, Webhook

PRE_ENQUEUE, QUEUE_SORT = "preEnqueue", "queueSort"

WEBHOOK_POINTS = (*EXTENSION_POINTS, *OWN_POINTS)
"""The points a webhook may name; `reserve` includes `unreserve`."""

LABEL_PREFIX = "metadata.labels."
POD_FIELDS = (
    "metadata.namespace",
    "metadata.labels",
    "spec.affinity",
    "spec.containers",
    "spec.hostNetwork",
    "spec.initContainers",
    "spec.nodeSelector",
    "spec.overhead",
    "spec.priority",
    "spec.resourceClaims",
    "spec.resources",
    "spec.tolerations",
    "spec.topologySpreadConstraints",
    "spec.volumes",
)
"""What `reads.pod` may name, besides single labels (`metadata.labels.team`)."""

NODE_FIELDS = (
    "labels",
    "taints",
    "unschedulable",
    "allocatable",
    "conditions",
    "images",
    "features",
    "requested",
)
"""What `reads.node` may name; `requested` is what the pods on the node take."""


def points_of_webhook(webhook: Webhook) -> frozenset[str]:
    """The points a webhook takes part in.

    A pod enters the queue when its key is known, so a sorting webhook also gates pods.
    """
    points = frozenset(webhook.points)
    return points | {PRE_ENQUEUE} if QUEUE_SORT in points else points


def with_webhooks(available: Available | None, webhooks: Sequence[Webhook]) -> Available | None:
    """The plugins that exist, webhooks among them."""
    if available is None:
        return None
    return {**available, **{each.name: points_of_webhook(each) for each in webhooks}}


def named(webhooks: Sequence[Webhook], name: str) -> Webhook:
    """The webhook of a name; the configuration has made sure that there is one."""
    return next(each for each in webhooks if each.name == name)


def limits(webhook: Webhook) -> dict[str, float]:
    """Its numbers that must be positive, by their path."""
    return {
        "timeout": webhook.timeout,
        "concurrency": webhook.concurrency,
        "maxRequestBytes": webhook.max_request_bytes,
        "maxResponseBytes": webhook.max_response_bytes,
        "breaker.failures": webhook.breaker.failures,
        "breaker.openFor": webhook.breaker.open_for,
    }


class CallTarget(msgspec.Struct, frozen=True, kw_only=True):
    """The address to call, and how: what webhooks and extenders have in common."""

    name: str
    url: str
    timeout: float
    retries: int = 0
    ca_file: str = ""
    ca_data: str = ""
    """PEM text."""
    cert_file: str = ""
    key_file: str = ""
    cert_data: str = ""
    key_data: str = ""
    server_name: str = ""
    insecure: bool = False
    """The certificate of the other side is not looked at."""
    token_file: str = ""
    concurrency: int = 16
    max_request_bytes: int = 32 * 2**20
    max_response_bytes: int = 8 * 2**20
    breaker_failures: int = 5
    breaker_open_for: float = 10.0


def endpoint_of(webhook: Webhook) -> CallTarget:
    """How to call a webhook."""
    return CallTarget(
        name=webhook.name,
        url=webhook.url.rstrip("/"),
        timeout=webhook.timeout,
        retries=webhook.retries,
        ca_file=webhook.tls.ca_file,
        ca_data=pem.plain(webhook.tls.ca_bundle),
        cert_file=webhook.tls.cert_file,
        key_file=webhook.tls.key_file,
        server_name=webhook.tls.server_name,
        token_file=webhook.token_file,
        concurrency=webhook.concurrency,
        max_request_bytes=webhook.max_request_bytes,
        max_response_bytes=webhook.max_response_bytes,
        breaker_failures=webhook.breaker.failures,
        breaker_open_for=webhook.breaker.open_for,
    )
