"""Writes `scheduler/kube/kubernetes-schemas.json.gz`: the OpenAPI v3 schemas of our kinds.

They come from a real API server (`KUBECONFIG=… python -m shipping.kubernetes_schemas`), which is of
Kubernetes and so licensed under Apache-2.0. Kept are the kinds of `sandbox.resources` and what they
refer to, with their descriptions, which `kubectl explain` shows. Paths are left out: the sandbox
makes those of its own catalogue.
"""

import gzip
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from sandbox.resources import BUILT_IN

Schema = dict[str, Any]

TARGET = Path(__file__).parent.parent / "scheduler" / "kube" / "kubernetes-schemas.json.gz"
KIND = "x-kubernetes-group-version-kind"
_SUBRESOURCES = {
    ("autoscaling", "v1", "Scale"),
    ("policy", "v1", "Eviction"),
    ("", "v1", "Binding"),
}
KINDS = {(each.group, each.version, each.kind) for each in BUILT_IN} | _SUBRESOURCES


def collected(read: Callable[[str], bytes]) -> dict[str, Schema]:
    """The schemas of our kinds and what they refer to; ``read`` gets a path of the API server."""
    published: dict[str, Schema] = {}
    for group, version in sorted({kind[:2] for kind in KINDS}):
        path = f"apis/{group}/{version}" if group else f"api/{version}"
        document = json.loads(read(f"/openapi/v3/{path}"))
        # Every group has a copy of what all groups share; they differ only in the kinds they name.
        published = document["components"]["schemas"] | published
    wanted = [name for name, schema in published.items() if not KINDS.isdisjoint(kinds_of(schema))]
    found: dict[str, Schema] = {}
    while wanted:
        name = wanted.pop()
        if name not in found:
            found[name] = _own(published[name])
            wanted.extend(references(found[name]))
    return dict(sorted(found.items()))


def kinds_of(schema: Schema) -> Iterator[tuple[str, str, str]]:
    """The kinds that a schema describes."""
    for kind in schema.get(KIND, ()):
        yield kind["group"], kind["version"], kind["kind"]


def references(value: Any) -> Iterator[str]:
    """The names of all schemas that a part of a schema refers to."""
    if isinstance(value, dict):
        # A field of that name is no reference: JSONSchemaProps has one.
        if isinstance(name := value.get("$ref"), str):
            yield name.rsplit("/", 1)[1]
        for part in value.values():
            yield from references(part)
    elif isinstance(value, list):
        for part in value:
            yield from references(part)


def _own(schema: Schema) -> Schema:
    """Without kinds of groups that the sandbox does not have."""
    if KIND not in schema:
        return schema
    own = [each for each in schema[KIND] if (each["group"], each["version"], each["kind"]) in KINDS]
    return {**schema, KIND: own}


def compressed(schemas: dict[str, Schema]) -> bytes:
    """The file's content; equal schemas give equal bytes."""
    text = json.dumps(schemas, separators=(",", ":"), sort_keys=True)
    return gzip.compress(text.encode(), compresslevel=9, mtime=0)


def kubectl_reads(path: str) -> bytes:
    """What the API server of the current kubeconfig answers to a GET of this path."""
    program = shutil.which("kubectl")
    if program is None:
        sys.exit("kubectl is not installed")
    return subprocess.run([program, "get", "--raw", path], check=True, capture_output=True).stdout


if __name__ == "__main__":
    TARGET.write_bytes(compressed(collected(kubectl_reads)))
    print(f"{TARGET.name}: {TARGET.stat().st_size} bytes")
