"""The OpenAPI v3 schemas of the served kinds: what fields there are, and how lists of them merge.

Those of the built-in kinds are in `scheduler.kube.schemas`, those of custom resources in their
CRDs.
"""

from sandbox.resources import Resource
from scheduler.kube.schemas import KIND, Schema, built_in, definitions, with_metadata


def name_of(resource: Resource) -> str:
    """The name of a kind's schema: that of the Go type, or one like it for custom resources."""
    if not resource.custom:
        return built_in()[resource.group, resource.version, resource.kind]
    reverse = ".".join(reversed(resource.group.split(".")))
    return f"{reverse}.{resource.version}.{resource.kind}"


def of(resource: Resource) -> Schema:
    """The schema of a kind, as it is published."""
    if not resource.custom:
        return definitions()[name_of(resource)]
    kind = {"group": resource.group, "version": resource.version, "kind": resource.kind}
    return {**with_metadata(resource.schema), KIND: [kind]}
