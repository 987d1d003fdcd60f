"""Discovery: which groups, versions and resources there are, in the two forms clients ask for.

Clients since Kubernetes 1.27 read everything at once (`APIGroupDiscoveryList` under `/api` and
`/apis`); older ones read one document per group and version.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

from sandbox.resources import Catalog, Resource

Document = dict[str, Any]

AGGREGATED = "APIGroupDiscoveryList"
_AGGREGATED_VERSION = "apidiscovery.k8s.io/v2"


class _Subresource(NamedTuple):
    """What a subresource shows; without a kind it shows the kind of its resource."""

    verbs: tuple[str, ...]
    kind: str = ""
    group: str = ""
    version: str = ""


_ORDINARY = _Subresource(("get", "patch", "update"))
_STREAM = ("create", "get")
_SUBRESOURCES = {
    "attach": _Subresource(_STREAM, "PodAttachOptions"),
    "binding": _Subresource(("create",), "Binding"),
    "eviction": _Subresource(("create",), "Eviction", "policy", "v1"),
    "exec": _Subresource(_STREAM, "PodExecOptions"),
    "log": _Subresource(("get",)),
    "portforward": _Subresource(_STREAM, "PodPortForwardOptions"),
    "scale": _Subresource(_ORDINARY.verbs, "Scale", "autoscaling", "v1"),
}


def document(catalog: Catalog, parts: list[str]) -> Document | None:
    """The plain document at a path under `/api` or `/apis`, if there is one."""
    match parts:
        case ["api"]:
            return {"kind": "APIVersions", "apiVersion": "v1", "versions": ["v1"]}
        case ["api", version]:
            return _resource_list(catalog, "", version)
        case ["apis"]:
            groups = [_group(name, versions) for name, versions in _versions(catalog).items()]
            return {"kind": "APIGroupList", "apiVersion": "v1", "groups": groups}
        case ["apis", group]:
            found = _versions(catalog).get(group)
            return (
                {"kind": "APIGroup", "apiVersion": "v1", **_group(group, found)} if found else None
            )
        case ["apis", group, version]:
            return _resource_list(catalog, group, version)
    return None


def aggregated(catalog: Catalog, parts: list[str]) -> Document | None:
    """The aggregated document of `/api` or `/apis`; None at other paths."""
    if parts == ["api"]:
        items = [_aggregated_group(catalog, "", ["v1"])]
    elif parts == ["apis"]:
        groups = _versions(catalog).items()
        items = [_aggregated_group(catalog, name, versions) for name, versions in groups]
    else:
        return None
    return {"kind": AGGREGATED, "apiVersion": _AGGREGATED_VERSION, "metadata": {}, "items": items}


def _versions(catalog: Catalog) -> dict[str, list[str]]:
    """Group → its versions in the order they were added, the core group left out."""
    found: dict[str, list[str]] = {}
    for resource in catalog:
        versions = found.setdefault(resource.group, [])
        if resource.version not in versions:
            versions.append(resource.version)
    found.pop("", None)
    return {name: sorted(versions, key=_preference) for name, versions in found.items()}


def _preference(version: str) -> tuple[int, list[int]]:
    """The order in which versions are preferred: v2, v1, v1beta2, v1beta1, v1alpha1."""
    stage = 2 if "alpha" in version else 1 if "beta" in version else 0
    numbers = version.replace("alpha", " ").replace("beta", " ").removeprefix("v").split()
    return stage, [-int(number) for number in numbers if number.isdecimal()]


def _group(name: str, versions: list[str]) -> Document:
    listed = [{"groupVersion": f"{name}/{version}", "version": version} for version in versions]
    return {"name": name, "versions": listed, "preferredVersion": listed[0]}


def _of(catalog: Catalog, group: str, version: str) -> list[Resource]:
    return [each for each in catalog if (each.group, each.version) == (group, version)]


def _resource_list(catalog: Catalog, group: str, version: str) -> Document | None:
    entries: list[Document] = []
    for resource in _of(catalog, group, version):
        entries.append(_entry(resource))
        entries.extend(_subresource_entries(resource))
    if not entries:
        return None
    return {
        "kind": "APIResourceList",
        "apiVersion": "v1",
        "groupVersion": f"{group}/{version}" if group else version,
        "resources": entries,
    }


def _entry(resource: Resource) -> Document:
    return {
        "name": resource.plural,
        "singularName": resource.singular_name,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": list(resource.verbs),
        **_names(resource),
    }


def _names(resource: Resource) -> Document:
    found = {
        "shortNames": list(resource.short_names),
        "categories": list(resource.categories),
    }
    return {name: value for name, value in found.items() if value}


def _subresource_entries(resource: Resource) -> Iterable[Document]:
    for name in resource.subresources:
        shown = _SUBRESOURCES.get(name, _ORDINARY)
        entry: Document = {
            "name": f"{resource.plural}/{name}",
            "singularName": "",
            "namespaced": resource.namespaced,
            "kind": shown.kind or resource.kind,
            "verbs": list(shown.verbs),
        }
        if shown.group:
            entry |= {"group": shown.group, "version": shown.version}
        yield entry


def _aggregated_group(catalog: Catalog, name: str, versions: list[str]) -> Document:
    return {
        "metadata": {"name": name} if name else {},
        "versions": [
            {
                "version": version,
                "resources": [_aggregated_entry(each) for each in _of(catalog, name, version)],
                "freshness": "Current",
            }
            for version in versions
        ],
    }


def _aggregated_entry(resource: Resource) -> Document:
    entry: Document = {
        "resource": resource.plural,
        "responseKind": {"group": "", "version": "", "kind": resource.kind},
        "scope": "Namespaced" if resource.namespaced else "Cluster",
        "singularResource": resource.singular_name,
        "verbs": list(resource.verbs),
        **_names(resource),
    }
    if resource.custom:
        kind = {"group": resource.group, "version": resource.version, "kind": resource.kind}
        entry["responseKind"] = kind
    if subresources := [_aggregated_subresource(resource, each) for each in resource.subresources]:
        entry["subresources"] = subresources
    return entry


def _aggregated_subresource(resource: Resource, name: str) -> Document:
    shown = _SUBRESOURCES.get(name, _ORDINARY)
    kind = {"group": shown.group, "version": shown.version, "kind": shown.kind or resource.kind}
    return {"subresource": name, "responseKind": kind, "verbs": list(shown.verbs)}
