"""Manifests: reading them, and finding where the API server keeps what they describe."""

import asyncio
from pathlib import Path

import yaml

from e2e.harness.objects import Json

CLUSTER_WIDE = frozenset(
    {
        "ClusterRole",
        "ClusterRoleBinding",
        "DeviceClass",
        "Namespace",
        "PersistentVolume",
        "PriorityClass",
        "ResourceSlice",
        "StorageClass",
    }
)


async def read_manifest(manifest: Path) -> list[Json]:
    """The objects of a manifest, in order."""
    text = await asyncio.to_thread(manifest.read_text)
    return list(yaml.safe_load_all(text))


def path_of(obj: Json, namespace: str = "") -> str:
    """The path of an object, which is in ``namespace`` unless it says otherwise."""
    version, kind, metadata = obj["apiVersion"], obj["kind"], obj["metadata"]
    root = f"/apis/{version}" if "/" in version else f"/api/{version}"
    if kind not in CLUSTER_WIDE:
        root += f"/namespaces/{metadata.get('namespace', namespace)}"
    plural = kind.lower() + ("es" if kind.endswith("s") else "s")
    return f"{root}/{plural}/{metadata['name']}"
