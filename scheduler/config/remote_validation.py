"""Validation of webhooks and extenders. Pure: returns every problem."""

import re
import ssl
from collections.abc import Iterator, Sequence
from urllib.parse import urlsplit

from scheduler.config import pem
from scheduler.config.plugins import KNOWN_PLUGINS, Available
from scheduler.config.problems import ConfigProblem, show, suggest
from scheduler.config.schema import Extender, ExtenderTLSConfig, Webhook
from scheduler.config.webhooks import (
    LABEL_PREFIX,
    NODE_FIELDS,
    POD_FIELDS,
    WEBHOOK_POINTS,
    limits,
)

_MAX_WEIGHT = 2**31 - 1
_EVENTS = (
    "Node/Add",
    "Node/Delete",
    "Node/Update",
    "Pod/Add",
    "Pod/Delete",
    "Pod/Update",
)
_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
_RESOURCE = re.compile(r"[a-z0-9][-a-z0-9.]*/[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")


def validate_webhooks(
    webhooks: Sequence[Webhook], available: Available | None
) -> Iterator[ConfigProblem]:
    """Every problem of our own webhooks."""
    seen: set[str] = set()
    for i, webhook in enumerate(webhooks):
        path = f"webhooks[{i}]"
        yield from _name(path, webhook.name, seen, available)
        yield from _url(f"{path}.url", webhook.url)
        yield from _points(f"{path}.points", webhook.points)
        yield from _tls(f"{path}.tls", webhook)
        yield from _reads(f"{path}.reads", webhook)
        for field, value in limits(webhook).items():
            if not value > 0:
                yield ConfigProblem(f"{path}.{field}", f"must be greater than 0, not {value:g}")
        if not 0 <= webhook.retries <= 10:
            yield ConfigProblem(
                f"{path}.retries", f"must be between 0 and 10, not {webhook.retries}"
            )
        for j, event in enumerate(webhook.retry_on):
            if event not in _EVENTS:
                message = f'unknown event "{event}"{suggest(event, _EVENTS)}'
                yield ConfigProblem(f"{path}.retryOn[{j}]", message)
        for key, label in webhook.pods.match_labels.items():
            if not isinstance(label, str):
                message = f"expected a string, got {show(label)}"
                yield ConfigProblem(f"{path}.pods.matchLabels.{key}", message)


def _name(
    path: str, name: str, seen: set[str], available: Available | None
) -> Iterator[ConfigProblem]:
    if not name:
        yield ConfigProblem(f"{path}.name", "is required")
    elif not _NAME.fullmatch(name):
        message = f'must be made of letters, digits, "-", "_" and ".", not "{name}"'
        yield ConfigProblem(f"{path}.name", message)
    elif name in KNOWN_PLUGINS or name in (available or {}):
        yield ConfigProblem(f"{path}.name", f'"{name}" is the name of another plugin')
    elif name in seen:
        yield ConfigProblem(f"{path}.name", f'a second webhook "{name}"')
    seen.add(name)


def _url(path: str, url: str) -> Iterator[ConfigProblem]:
    if not url:
        yield ConfigProblem(path, "is required")
        return
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        yield ConfigProblem(path, f'expected a URL such as "https://host:8443/path", not "{url}"')
    elif parts.query or parts.fragment or parts.username is not None:
        yield ConfigProblem(path, f'must have neither user, query nor fragment, not "{url}"')


def _points(path: str, points: Sequence[str]) -> Iterator[ConfigProblem]:
    if not points:
        yield ConfigProblem(path, f"at least one is required of {', '.join(WEBHOOK_POINTS)}")
    for i, point in enumerate(points):
        if point not in WEBHOOK_POINTS:
            message = f'unknown extension point "{point}"{suggest(point, WEBHOOK_POINTS)}'
            yield ConfigProblem(f"{path}[{i}]", message)
        elif point in points[:i]:
            yield ConfigProblem(f"{path}[{i}]", f'"{point}" is listed twice')


def _tls(path: str, webhook: Webhook) -> Iterator[ConfigProblem]:
    tls = webhook.tls
    if bool(tls.cert_file) != bool(tls.key_file):
        missing = "keyFile" if tls.cert_file else "certFile"
        yield ConfigProblem(f"{path}.{missing}", "set both certificate and private key, or neither")
    if tls.ca_file and tls.ca_bundle:
        yield ConfigProblem(f"{path}.caBundle", "either caFile or caBundle, not both")
    elif tls.ca_bundle:
        yield from _certificates(f"{path}.caBundle", "PEM text", tls.ca_bundle)
    if webhook.url.startswith("http://") and tls != type(tls)():
        yield ConfigProblem(path, "is only for https:// URLs")


def _reads(path: str, webhook: Webhook) -> Iterator[ConfigProblem]:
    if webhook.reads is None:
        return
    for i, field in enumerate(webhook.reads.pod):
        label = field.startswith(LABEL_PREFIX) and len(field) > len(LABEL_PREFIX)
        if field not in POD_FIELDS and not label:
            message = f'unknown field "{field}"{suggest(field, POD_FIELDS)}'
            yield ConfigProblem(f"{path}.pod[{i}]", message)
    for i, field in enumerate(webhook.reads.node):
        if field not in NODE_FIELDS:
            message = f'unknown field "{field}"{suggest(field, NODE_FIELDS)}'
            yield ConfigProblem(f"{path}.node[{i}]", message)
    if not {"filter", "score"} & set(webhook.points):
        yield ConfigProblem(path, "is only for filter and score")


def validate_extenders(extenders: Sequence[Extender]) -> Iterator[ConfigProblem]:
    """Every problem that kube-scheduler would find too, and URLs and certificates besides."""
    managed: set[str] = set()
    binders = [i for i, extender in enumerate(extenders) if extender.bind_verb]
    for i, extender in enumerate(extenders):
        path = f"extenders[{i}]"
        yield from _url(f"{path}.urlPrefix", extender.url_prefix)
        if extender.prioritize_verb and not 0 < extender.weight <= _MAX_WEIGHT:
            message = f"must be between 1 and {_MAX_WEIGHT}, not {extender.weight}"
            yield ConfigProblem(f"{path}.weight", message)
        if extender.http_timeout < 0:
            message = f"must not be negative, not {extender.http_timeout:g}s"
            yield ConfigProblem(f"{path}.httpTimeout", message)
        for j, resource in enumerate(extender.managed_resources):
            where = f"{path}.managedResources[{j}].name"
            yield from _extended(where, resource.name)
            if resource.name in managed:
                yield ConfigProblem(
                    where, f'"{resource.name}" is managed by another extender already'
                )
            managed.add(resource.name)
        if extender.tls_config is not None:
            yield from _extender_tls(f"{path}.tlsConfig", extender.tls_config)
    for i in binders[1:]:
        message = f"only one extender can bind, and extenders[{binders[0]}] does"
        yield ConfigProblem(f"extenders[{i}].bindVerb", message)


def _extended(path: str, name: str) -> Iterator[ConfigProblem]:
    native = "kubernetes.io/" in name or name.startswith("requests.")
    if native or not _RESOURCE.fullmatch(name):
        yield ConfigProblem(
            path, f'must be an extended resource such as "example.com/gpu", not "{name}"'
        )


def _extender_tls(path: str, tls: ExtenderTLSConfig) -> Iterator[ConfigProblem]:
    if bool(tls.cert_file or tls.cert_data) != bool(tls.key_file or tls.key_data):
        missing = "keyFile" if tls.cert_file or tls.cert_data else "certFile"
        yield ConfigProblem(f"{path}.{missing}", "set both certificate and private key, or neither")
    if tls.insecure and (tls.ca_file or tls.ca_data):
        yield ConfigProblem(
            f"{path}.insecure", "a CA has no effect if certificates are not verified"
        )
    for name, data in (
        ("caData", tls.ca_data),
        ("certData", tls.cert_data),
        ("keyData", tls.key_data),
    ):
        try:
            text = pem.decoded(data)
        except ValueError as fault:
            yield ConfigProblem(f"{path}.{name}", f"expected PEM text in base64: {fault}")
            continue
        if text and name == "caData":
            yield from _certificates(f"{path}.{name}", "PEM text in base64", text)


def _certificates(path: str, form: str, text: str) -> Iterator[ConfigProblem]:
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=pem.plain(text))
    except (ssl.SSLError, ValueError):
        yield ConfigProblem(path, f"expected certificates as {form}")
