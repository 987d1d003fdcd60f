"""kube-scheduler's extenders, as it reads them: their names, their order and how to call them."""

from collections.abc import Sequence

from scheduler.config import pem
from scheduler.config.schema import Extender, ExtenderTLSConfig
from scheduler.config.webhooks import CallTarget

DEFAULT_TIMEOUT = 5.0
MAX_BYTES = 256 * 2**20
"""Of a request or an answer: an extender without a node cache gets and returns all nodes."""


def in_order(extenders: Sequence[Extender]) -> list[tuple[str, Extender]]:
    """Extenders by name in the order in which they are called: those that may fail come last.

    The name is the URL, as kube-scheduler's; of two with the same the second gets a number.
    """
    names: list[str] = []
    for extender in extenders:
        taken = names.count(extender.url_prefix)
        names.append(f"{extender.url_prefix}#{taken + 1}" if taken else extender.url_prefix)
    pairs = list(zip(names, extenders, strict=True))
    return sorted(pairs, key=lambda pair: pair[1].ignorable)


def ignored_resources(extenders: Sequence[Extender]) -> tuple[str, ...]:
    """The resources that only extenders count."""
    return tuple(
        resource.name
        for extender in extenders
        for resource in extender.managed_resources
        if resource.ignored_by_scheduler
    )


def endpoint_of(name: str, extender: Extender) -> CallTarget:
    """How to call an extender.

    As in kube-scheduler, HTTPS without a CA looks at no certificate.
    """
    tls = extender.tls_config or ExtenderTLSConfig()
    has_ca = bool(tls.ca_file or tls.ca_data)
    return CallTarget(
        name=name,
        url=extender.url_prefix.rstrip("/"),
        timeout=extender.http_timeout or DEFAULT_TIMEOUT,
        retries=1,  # for connections that were closed while idle, as Go's client does
        ca_file=tls.ca_file if not tls.ca_data else "",
        ca_data=pem.decoded(tls.ca_data),
        cert_file=tls.cert_file if not tls.cert_data else "",
        key_file=tls.key_file if not tls.key_data else "",
        cert_data=pem.decoded(tls.cert_data),
        key_data=pem.decoded(tls.key_data),
        server_name=tls.server_name,
        insecure=tls.insecure or (extender.enable_https and not has_ca),
        max_request_bytes=MAX_BYTES,
        max_response_bytes=MAX_BYTES,
    )
