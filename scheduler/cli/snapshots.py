"""Snapshots: a cluster as a scheduler reads it, in one file, for `-f` of other commands.

A snapshot is a ``List`` of Kubernetes objects, each with the fields that are read here and no
others. What a container runs with (environment, commands, mounts), annotations that no plugin
reads, Secrets and ConfigMaps are not in it. `anonymise` replaces the names, too.
"""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Any, get_type_hints

import msgspec

from scheduler import __version__
from scheduler.cli.admission import DEFAULT_CLASS
from scheduler.cli.workloads import GROUPS as WORKLOAD_GROUPS
from scheduler.cli.workloads import SHAPES as WORKLOAD_SHAPES
from scheduler.cli.workloads import Body
from scheduler.model.meta import AnnotatedMeta, ObjectMeta, Struct
from scheduler.model.objects import KINDS, from_dict
from scheduler.model.pods import Pod
from scheduler.model.storage import PersistentVolumeClaim
from scheduler.recording.compression import zstd
from scheduler.recording.trimming import READ_ANNOTATIONS as SCHEDULER_READS

if TYPE_CHECKING:
    from scheduler.kube.client import KubeClient

LARGEST = 2 << 30
"""What a compressed file may become, in bytes; a cluster of 15,000 nodes has a tenth of it."""

READ_ANNOTATIONS = SCHEDULER_READS | {DEFAULT_CLASS}
"""The annotations that some plugin reads, or the admission of pods."""

_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_LISTED_AT_ONCE = 4
_INDISPENSABLE = frozenset({"Node", "Pod"})
_LEFT_OUT = frozenset({"Lease"})
_WORKLOADS = {
    "Deployment": "/apis/apps/v1/deployments",
    "DaemonSet": "/apis/apps/v1/daemonsets",
    "Job": "/apis/batch/v1/jobs",
    "ResourceClaimTemplate": "/apis/resource.k8s.io/v1/resourceclaimtemplates",
}
"""Kinds that the scheduler does not watch, and of which a simulation makes pods or claims."""


class _AnyNamed(Struct, frozen=True):
    metadata: ObjectMeta = ObjectMeta()


class _PrioritySpec(Struct, frozen=True):
    priority: int | msgspec.UnsetType = msgspec.UNSET
    """Zero too: a pod without one gets that of the default PriorityClass."""


class _WithPriority(Struct, frozen=True):
    spec: _PrioritySpec = _PrioritySpec()


class _ClaimTemplates(Struct, frozen=True):
    volume_claim_templates: tuple[PersistentVolumeClaim, ...] = ()


class _WithClaimTemplates(Struct, frozen=True):
    spec: _ClaimTemplates = _ClaimTemplates()


class UnreadableSnapshot(ValueError):
    """A file that cannot be unpacked."""


async def collect(client: KubeClient) -> tuple[list[Body], list[str]]:
    """All objects that matter, each as `trimmed`, and what could not be read, in words.

    Kinds that the cluster lacks are left out silently; a kind that may not be listed is named, but
    without nodes and pods there is nothing to say: raises `KubeError`.
    Some kinds are listed at a time: while the API server prepares a page, another one is read.
    """
    turns = asyncio.Semaphore(_LISTED_AT_ONCE)

    async def listed(kind: str, path: str) -> tuple[list[Body], list[str]]:
        async with turns:
            return await _list(client, kind, path)

    try:
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(listed(kind, path)) for kind, path in _paths().items()]
    except ExceptionGroup as faults:
        raise faults.exceptions[0] from None
    objects: list[Body] = []
    problems: list[str] = []
    for task in tasks:
        objects += task.result()[0]
        problems += task.result()[1]
    return objects, problems


async def _list(client: KubeClient, kind: str, path: str) -> tuple[list[Body], list[str]]:
    from scheduler.kube.decoding import identity_of
    from scheduler.kube.errors import UNREADABLE, Forbidden, NotFound
    from scheduler.kube.paging import Pager

    objects: list[Body] = []
    problems: list[str] = []
    version, pager, token = _version(path), Pager(client, path, {}), ""
    try:
        while True:
            page = await pager.fetch(token)
            for raw in page.items or ():
                try:
                    objects.append(_read(kind, version, raw))
                except UNREADABLE as fault:
                    problems.append(f"{kind} {identity_of(raw).key} is left out: {fault}")
            token = page.metadata.next_token
            if not token:
                return objects, problems
    except NotFound:  # a cluster without this API
        return objects, problems
    except Forbidden:
        if kind in _INDISPENSABLE:
            raise
        problems.append(f"no right to list {path.rpartition('/')[2]}: none are in the snapshot")
        return objects, problems


def trimmed(body: Body) -> Body:
    """The object with the fields that are read of its kind; raises msgspec.ValidationError."""
    kind = str(body["kind"])
    return _joined(kind, body.get("apiVersion", ""), [from_dict(body, s) for s in _shapes(kind)])


def _read(kind: str, version: str, raw: msgspec.Raw) -> Body:
    """As `trimmed`, straight from what an API server sent: there may be 100,000 of them."""
    try:
        return _joined(kind, version, [_decoder(shape).decode(raw) for shape in _shapes(kind)])
    except (msgspec.DecodeError, UnicodeDecodeError):  # nulls, perhaps, which mean nothing
        from scheduler.kube.decoding import plain

        return trimmed({"apiVersion": version, "kind": kind, **plain(raw)})


@cache
def _decoder(shape: type) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(shape)


def _joined(kind: str, version: str, views: Sequence[object]) -> Body:
    """One object of several views of it."""
    kept = _plain(views[0])
    for view in views[1:]:
        kept = _merged(kept, _plain(view))
    metadata = kept.get("metadata", {})
    for field in ("resourceVersion", "generation"):
        metadata.pop(field, None)
    if kind in _ANNOTATED:
        kept = _without_annotations(kept)
    if kind in _CONFIGURED:
        kept = _without_parameters(kept)
    return {"apiVersion": version, "kind": kind, **kept}


def pack(objects: list[Body], *, compressed: str = "zst") -> bytes:
    """The file of a snapshot: ``zst``, ``gz`` or plain."""
    head = {"version": __version__, "time": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")}
    document = {"apiVersion": "v1", "kind": "List", "equipoise": head, "items": objects}
    content = msgspec.json.encode(document)
    if compressed == "zst":
        packed: bytes = zstd().compress(content)
        return packed
    return gzip.compress(content) if compressed == "gz" else content


def unpacked(content: bytes) -> bytes:
    """The content of a file that may be compressed; raises `UnreadableSnapshot`."""
    if content.startswith(_ZSTD):
        return _bounded(content, zstd().ZstdDecompressor(), "zstd")
    if content.startswith(_GZIP):
        import zlib

        return _bounded(content, zlib.decompressobj(wbits=31), "gzip")
    return content


def _bounded(content: bytes, decompressor: Any, format_: str) -> bytes:
    import zlib

    faults = (zlib.error, zstd().ZstdError, EOFError)
    try:
        plain: bytes = decompressor.decompress(content, LARGEST + 1)
    except faults as fault:
        raise UnreadableSnapshot(f"not {format_}: {fault}") from None
    if len(plain) > LARGEST:
        raise UnreadableSnapshot(f"it has more than {LARGEST >> 20} MiB when unpacked")
    if not decompressor.eof:
        raise UnreadableSnapshot("it is cut short")
    return plain


def _paths() -> dict[str, str]:
    watched = {kind.name: kind.path for kind in KINDS.values() if kind.name not in _LEFT_OUT}
    return {**watched, **_WORKLOADS}


def _version(path: str) -> str:
    """The apiVersion of what is listed at a path; the items of a list leave it out."""
    return path.removeprefix("/").rpartition("/")[0].partition("/")[2]


@cache
def _shapes(kind: str) -> tuple[type, ...]:
    """The views of a kind: together they have all that is read of it."""
    shapes: list[type] = [KINDS[kind].type if kind in KINDS else _AnyNamed]
    if kind == Pod.__name__:
        shapes.append(_WithPriority)
    if kind in WORKLOAD_GROUPS:
        shapes.append(WORKLOAD_SHAPES[kind])
    if kind == "StatefulSet":
        shapes.append(_WithClaimTemplates)
    return tuple(shapes)


_ANNOTATED = frozenset(
    {
        "StatefulSet",  # its claim templates are
        *(
            kind.name
            for kind in KINDS.values()
            if issubclass(get_type_hints(kind.type)["metadata"], AnnotatedMeta)
        ),
    }
)
"""Kinds with annotations that are read."""
_CONFIGURED = frozenset({"ResourceClaim", "ResourceClaimTemplate", "DeviceClass"})
"""Kinds that tell drivers of devices something."""


def _plain(view: object) -> Body:
    """What JSON has of a struct: lists where it has tuples."""
    plain: Body = msgspec.json.decode(msgspec.json.encode(view))
    return plain


def _merged(first: Body, second: Mapping[str, Any]) -> Body:
    """Both, member by member; of two views of one list the one with more in it."""
    result = dict(first)
    for key, value in second.items():
        there = result.get(key)
        if isinstance(there, dict) and isinstance(value, Mapping):
            result[key] = _merged(there, value)
        else:
            result[key] = value
    return result


def _without_annotations(value: Any) -> Any:
    """A copy with those annotations only that some plugin reads."""
    if isinstance(value, dict):
        copy = {key: _without_annotations(each) for key, each in value.items()}
        annotations = copy.get("annotations")
        if isinstance(annotations, dict):
            copy["annotations"] = {k: v for k, v in annotations.items() if k in READ_ANNOTATIONS}
            if not copy["annotations"]:
                del copy["annotations"]
        return copy
    if isinstance(value, list | tuple):
        return [_without_annotations(each) for each in value]
    return value


def _without_parameters(value: Any) -> Any:
    """A copy without what claims and classes tell drivers, which may be anything."""
    if isinstance(value, dict):
        opaque = value.get("opaque")
        if isinstance(opaque, dict) and "parameters" in opaque:
            value = {**value, "opaque": {k: v for k, v in opaque.items() if k != "parameters"}}
        return {key: _without_parameters(each) for key, each in value.items()}
    return [_without_parameters(each) for each in value] if isinstance(value, list) else value


def _name(body: Body) -> str:
    metadata = body.get("metadata") or {}
    return "/".join(filter(None, (metadata.get("namespace"), metadata.get("name"))))
