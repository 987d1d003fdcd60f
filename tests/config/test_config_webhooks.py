"""Webhooks and extenders in a configuration: what is accepted, and what is wrong with the rest."""

from __future__ import annotations

import base64
import ssl
from typing import Any

import pytest
import trustme

from scheduler.assembly import available
from scheduler.config import extenders, webhooks
from scheduler.config.loading import from_dicts
from scheduler.config.plugin_args import NodeResourcesFitArgs
from scheduler.config.problems import ConfigError
from tests.builders import Json

KUBE = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}
OWN = {"apiVersion": "equipoise.dev/v1alpha1", "kind": "EquipoiseConfiguration"}
GOOD: Json = {"name": "W", "url": "https://w.example:8443/hook", "points": ["filter"]}
ENABLED = {"profiles": [{"plugins": {"multiPoint": {"enabled": [{"name": "W"}]}}}]}


def hook(**fields: Any) -> list[Json]:
    return [{**KUBE, **ENABLED}, {**OWN, "webhooks": [{**GOOD, **fields}]}]


def extender(**fields: Any) -> list[Json]:
    return [{**KUBE, "extenders": [{"urlPrefix": "http://x:1/p", **fields}]}]


BAD = {
    "no name": (hook(name=""), "webhooks[0].name: is required"),
    "a name with a space": (hook(name="a b"), "webhooks[0].name: must be made of letters"),
    "the name of a plugin": (
        hook(name="NodeName"),
        'webhooks[0].name: "NodeName" is the name of another plugin',
    ),
    "a URL without a host": (hook(url="https://"), "webhooks[0].url: expected a URL"),
    "a URL of another kind": (hook(url="ftp://x"), "webhooks[0].url: expected a URL"),
    "a URL with a query": (hook(url="http://x/?a=b"), "webhooks[0].url: must have neither user"),
    "no points": (hook(points=[]), "webhooks[0].points: at least one is required"),
    "a point that does not exist": (
        hook(points=["filtr"]),
        'webhooks[0].points[0]: unknown extension point "filtr" (did you mean "filter"?)',
    ),
    "a point twice": (hook(points=["filter", "filter"]), 'webhooks[0].points[1]: "filter" is'),
    "no time": (hook(timeout="0s"), "webhooks[0].timeout: must be greater than 0, not 0"),
    "too many retries": (hook(retries=11), "webhooks[0].retries: must be between 0 and 10"),
    "a policy that does not exist": (
        hook(failurePolicy="Abort"),
        'webhooks[0].failurePolicy: unknown value "Abort"',
    ),
    "a certificate without a key": (
        hook(tls={"certFile": "/c"}),
        "webhooks[0].tls.keyFile: set both certificate and private key, or neither",
    ),
    "two authorities": (
        hook(tls={"caFile": "/c", "caBundle": "x"}),
        "webhooks[0].tls.caBundle: either caFile or caBundle, not both",
    ),
    "an authority in base64": (
        hook(tls={"caBundle": "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURS0tLS0t"}),
        "webhooks[0].tls.caBundle: expected certificates as PEM text",
    ),
    "TLS in the clear": (
        hook(url="http://x", tls={"caFile": "/c"}),
        "webhooks[0].tls: is only for https:// URLs",
    ),
    "a pod field that cannot be declared": (
        hook(reads={"pod": ["metadata.name"]}),
        'webhooks[0].reads.pod[0]: unknown field "metadata.name"',
    ),
    "a node field that cannot be declared": (
        hook(reads={"node": ["color"]}),
        'webhooks[0].reads.node[0]: unknown field "color"',
    ),
    "a declaration of nothing that is kept": (
        hook(points=["bind"], reads={}),
        "webhooks[0].reads: is only for filter and score",
    ),
    "an event that does not exist": (
        hook(retryOn=["Node/Ad"]),
        'webhooks[0].retryOn[0]: unknown event "Node/Ad" (did you mean "Node/Add"?)',
    ),
    "a label that is no text": (
        hook(pods={"matchLabels": {"a": 1}}),
        "webhooks[0].pods.matchLabels.a: expected a string, got 1",
    ),
    "no breaker": (
        hook(breaker={"failures": 0}),
        "webhooks[0].breaker.failures: must be greater than 0",
    ),
    "nobody may wait": (
        [KUBE, {**OWN, "maxSuspendedPods": 0}],
        "maxSuspendedPods: must be greater than 0",
    ),
    "an extender without a URL": (extender(urlPrefix=""), "extenders[0].urlPrefix: is required"),
    "an extender that weighs nothing": (
        extender(prioritizeVerb="p"),
        "extenders[0].weight: must be between 1 and",
    ),
    "an extender that manages cpu": (
        extender(managedResources=[{"name": "cpu"}]),
        "extenders[0].managedResources[0].name: must be an extended resource such as",
    ),
    "a resource managed twice": (
        extender(managedResources=[{"name": "a.b/c"}, {"name": "a.b/c"}]),
        'extenders[0].managedResources[1].name: "a.b/c" is managed by another extender already',
    ),
    "two extenders that bind": (
        [{**KUBE, "extenders": [{"urlPrefix": "http://x", "bindVerb": "b"}] * 2}],
        "extenders[1].bindVerb: only one extender can bind, and extenders[0] does",
    ),
    "an extender with a certificate and no key": (
        extender(enableHTTPS=True, tlsConfig={"certFile": "/c"}),
        "extenders[0].tlsConfig.keyFile: set both certificate and private key, or neither",
    ),
    "a bundle that is no PEM, in letters beyond ASCII": (
        hook(tls={"caBundle": "\ud800 é"}),
        "webhooks[0].tls.caBundle: expected certificates as PEM text",
    ),
    "data that is no PEM": (
        extender(tlsConfig={"caData": "???"}),
        "extenders[0].tlsConfig.caData: expected PEM text in base64",
    ),
}


@pytest.mark.parametrize(("given", "said"), BAD.values(), ids=BAD)
def test_a_fault_is_named_by_its_field(given: list[Json], said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        from_dicts(given, available(), environ={})
    assert said in str(caught.value)


def test_a_webhook_is_a_plugin_of_its_points() -> None:
    loaded = from_dicts(hook(), available(), environ={})
    assert loaded.warnings == ()
    assert from_dicts(loaded.to_dicts(), available(), environ={}) == loaded
    misplaced = hook()
    misplaced[0]["profiles"] = [{"plugins": {"score": {"enabled": [{"name": "W"}]}}}]
    with pytest.raises(ConfigError, match='"W" does not implement score, only filter'):
        from_dicts(misplaced, available(), environ={})


def test_a_webhook_that_nobody_enables_is_worth_a_word() -> None:
    loaded = from_dicts([KUBE, {**OWN, "webhooks": [GOOD]}], available(), environ={})
    assert [str(each) for each in loaded.warnings] == [
        'webhooks[0]: is never called: no profile enables the plugin "W"'
    ]


def test_a_token_in_the_clear_is_worth_a_word() -> None:
    loaded = from_dicts(hook(url="http://x", tokenFile="/t"), available(), environ={})
    assert [each.path for each in loaded.warnings] == ["webhooks[0].tokenFile"]


def test_resources_that_extenders_count_are_not_counted_by_us() -> None:
    managed = [{"name": "a.b/c", "ignoredByScheduler": True}, {"name": "a.b/d"}]
    loaded = from_dicts(extender(managedResources=managed), available(), environ={})
    args = loaded.scheduler.profiles[0].args("NodeResourcesFit")
    assert isinstance(args, NodeResourcesFitArgs)
    assert args.ignored_resources == ("a.b/c",)
    assert from_dicts(loaded.to_dicts(), available(), environ={}) == loaded


def test_a_bundle_may_have_remarks_in_any_script() -> None:
    """Bundles of public authorities have such remarks, and OpenSSL reads over them."""
    certificate = trustme.CA().cert_pem.bytes().decode()
    bundle = f"# F\u0151tan\u00fas\u00edtv\u00e1ny\n{certificate}"
    ours = from_dicts(hook(tls={"caBundle": bundle}), available(), environ={})
    theirs = from_dicts(extender(tlsConfig={"caData": _base64(bundle)}), available(), environ={})

    used = (
        webhooks.endpoint_of(ours.equipoise.webhooks[0]),
        extenders.endpoint_of("x", theirs.scheduler.extenders[0]),
    )
    for each in used:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(cadata=each.ca_data)
        assert len(context.get_ca_certs()) == 1


def test_whoever_looks_at_a_running_scheduler_sees_no_private_key() -> None:
    tls = {"certData": _base64("a certificate"), "keyData": _base64("a secret")}
    config = from_dicts(extender(enableHTTPS=True, tlsConfig=tls))

    seen = config.for_others()

    assert tls["keyData"] not in str(seen)
    assert seen[0]["extenders"][0]["tlsConfig"]["certData"] == tls["certData"]
    assert config.to_dicts()[0]["extenders"][0]["tlsConfig"]["keyData"] == tls["keyData"]


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()
