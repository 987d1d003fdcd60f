"""Custom resource definitions on the control plane: made, and really gone."""

from pathlib import Path

from e2e.harness.client import ApiClient
from e2e.harness.manifests import read_manifest
from e2e.harness.objects import Json, condition

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


async def define(api: ApiClient, manifest: Path) -> None:
    """Have the API server serve what ``manifest`` defines; it may do so already.

    A definition that is being deleted goes first: until then the API server refuses it.
    """
    (definition,) = await read_manifest(manifest)
    name = definition["metadata"]["name"]
    await api.wait_until_gone(f"{DEFINITIONS}/{name}", unless=_stays)
    await api.apply(f"{DEFINITIONS}/{name}", definition)
    await api.wait_until(f"{DEFINITIONS}/{name}", _is_established)
    spec = definition["spec"]
    for version in spec["versions"]:
        path = f"/apis/{spec['group']}/{version['name']}/{spec['names']['plural']}"
        await api.wait_until(path, lambda _: True)


async def undefine(api: ApiClient, name: str) -> None:
    """Remove a definition with all objects of its kind; returns when it is gone."""
    await api.delete(f"{DEFINITIONS}/{name}")
    await api.wait_until_gone(f"{DEFINITIONS}/{name}")


def _stays(definition: Json) -> bool:
    return "deletionTimestamp" not in definition["metadata"]


def _is_established(definition: Json) -> bool:
    return condition(definition, "Established").get("status") == "True"
