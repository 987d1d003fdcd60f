"""An image as one file, written without a container engine.

The archive is an OCI image layout that carries docker's ``manifest.json`` besides, as ``docker
save`` writes it since version 25: containerd reads the one, older programs the other. Equal trees
and configurations give equal bytes: entries are sorted, dates are fixed and everything belongs to
root.
"""

import gzip
import hashlib
import io
import json
import os
import stat
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

Json = dict[str, Any]

ARCHITECTURES = {"x86_64": "amd64", "amd64": "amd64", "aarch64": "arm64", "arm64": "arm64"}
INDEX_TYPE = "application/vnd.oci.image.index.v1+json"
MANIFEST_TYPE = "application/vnd.oci.image.manifest.v1+json"
CONFIG_TYPE = "application/vnd.oci.image.config.v1+json"
LAYER_TYPE = "application/vnd.oci.image.layer.v1.tar+gzip"
BLOBS = "blobs/sha256"
DEFAULT_REGISTRY = "docker.io/library"
"""What engines and kubelets put before a name without a registry."""
CHUNK = 1 << 20


class Image(NamedTuple):
    """What an image is, apart from its files."""

    name: str
    tag: str
    architecture: str
    created: str
    config: Json


class Blob(NamedTuple):
    """A file of the layout, known by the digest of its content."""

    digest: str
    size: int

    @property
    def path(self) -> str:
        """Where it is in the archive."""
        return f"{BLOBS}/{self.digest.removeprefix('sha256:')}"

    def descriptor(self, media_type: str) -> Json:
        """How other files of the layout refer to it."""
        return {"mediaType": media_type, "digest": self.digest, "size": self.size}


def write(tree: Path, image: Image, target: Path) -> str:
    """Write the archive, replacing what is there; returns the digest of the image's manifest.

    The layer is compressed into a scratch file beside the target, never held in memory.
    """
    with tempfile.TemporaryFile(dir=target.parent) as scratch:
        content = _compress(tree, scratch)
        layer = Blob(_digest_of(scratch), scratch.tell())
        config = _json(_configuration(image, content))
        manifest = _json(_manifest(_blob(config), layer))
        unfinished = target.with_name(f"{target.name}.part")
        with tarfile.open(unfinished, "w", format=tarfile.PAX_FORMAT) as archive:
            _add(archive, "oci-layout", _json({"imageLayoutVersion": "1.0.0"}))
            _add(archive, "index.json", _json(_index(image, _blob(manifest))))
            _add(archive, "manifest.json", _json(_docker_manifest(image, _blob(config), layer)))
            _add(archive, _blob(manifest).path, manifest)
            _add(archive, _blob(config).path, config)
            scratch.seek(0)
            archive.addfile(_entry(layer.path, layer.size), scratch)
        os.replace(unfinished, target)
    return _blob(manifest).digest


def _configuration(image: Image, content: str) -> Json:
    return {
        "created": image.created,
        "architecture": image.architecture,
        "os": "linux",
        "config": image.config,
        "rootfs": {"type": "layers", "diff_ids": [content]},
        "history": [{"created": image.created, "created_by": "COPY /image /"}],
    }


def _manifest(config: Blob, layer: Blob) -> Json:
    return {
        "schemaVersion": 2,
        "mediaType": MANIFEST_TYPE,
        "config": config.descriptor(CONFIG_TYPE),
        "layers": [layer.descriptor(LAYER_TYPE)],
    }


def _index(image: Image, manifest: Blob) -> Json:
    name = f"{DEFAULT_REGISTRY}/{image.name}:{image.tag}"
    annotations = {
        "io.containerd.image.name": name,
        "org.opencontainers.image.created": image.created,
        "org.opencontainers.image.ref.name": image.tag,
    }
    platform = {"architecture": image.architecture, "os": "linux"}
    described = manifest.descriptor(MANIFEST_TYPE)
    return {
        "schemaVersion": 2,
        "mediaType": INDEX_TYPE,
        "manifests": [{**described, "annotations": annotations, "platform": platform}],
    }


def _docker_manifest(image: Image, config: Blob, layer: Blob) -> list[Json]:
    tag = f"{image.name}:{image.tag}"
    return [{"Config": config.path, "RepoTags": [tag], "Layers": [layer.path]}]


def _compress(tree: Path, target: BinaryIO) -> str:
    """Write the tree as a compressed layer; returns the digest of the layer before compression."""
    with gzip.GzipFile(filename="", mode="wb", fileobj=target, mtime=0) as compressed:
        counted = _Digesting(compressed)
        with tarfile.open(fileobj=counted, mode="w|", format=tarfile.PAX_FORMAT) as layer:
            for path in _sorted_paths(tree):
                _add_path(layer, path, path.relative_to(tree).as_posix())
    return counted.digest()


def _sorted_paths(tree: Path) -> Iterator[Path]:
    """Everything below the tree; a directory comes before what is in it."""
    for path in sorted(tree.iterdir()):
        yield path
        if path.is_dir() and not path.is_symlink():
            yield from _sorted_paths(path)


def _add_path(layer: tarfile.TarFile, path: Path, name: str) -> None:
    found = path.lstat()
    if stat.S_ISLNK(found.st_mode):
        entry = _entry(name, 0, mode=0o777, kind=tarfile.SYMTYPE)
        entry.linkname = str(path.readlink())
        layer.addfile(entry)
    elif stat.S_ISDIR(found.st_mode):
        layer.addfile(_entry(name, 0, mode=stat.S_IMODE(found.st_mode), kind=tarfile.DIRTYPE))
    elif stat.S_ISREG(found.st_mode):
        with path.open("rb") as file:
            layer.addfile(_entry(name, found.st_size, mode=stat.S_IMODE(found.st_mode)), file)
    else:
        raise ValueError(f"{path}: neither a file nor a directory nor a link")


def _entry(
    name: str, size: int, mode: int = 0o444, kind: bytes = tarfile.REGTYPE
) -> tarfile.TarInfo:
    """Owned by root and without a date: equal trees give equal archives."""
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode, entry.type, entry.mtime = size, mode, kind, 0
    return entry


def _add(archive: tarfile.TarFile, name: str, content: bytes) -> None:
    archive.addfile(_entry(name, len(content)), io.BytesIO(content))


def _json(document: Json | list[Json]) -> bytes:
    return json.dumps(document, separators=(",", ":"), sort_keys=True).encode()


def _blob(content: bytes) -> Blob:
    return Blob(f"sha256:{hashlib.sha256(content).hexdigest()}", len(content))


def _digest_of(file: BinaryIO) -> str:
    """The digest of a whole file, which is then at its end."""
    file.seek(0)
    digest = hashlib.sha256()
    while chunk := file.read(CHUNK):
        digest.update(chunk)
    return f"sha256:{digest.hexdigest()}"


class _Digesting(io.RawIOBase):
    """Passes on what is written, and computes its digest."""

    def __init__(self, target: gzip.GzipFile) -> None:
        self._target = target
        self._digest = hashlib.sha256()

    def writable(self) -> bool:
        return True

    def write(self, content: Any) -> int:
        self._digest.update(content)
        return self._target.write(content)

    def digest(self) -> str:
        return f"sha256:{self._digest.hexdigest()}"
