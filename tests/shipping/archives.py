"""Archives of images as tests read them: every digest and size is checked on the way."""

import hashlib
import json
import subprocess
import tarfile
from pathlib import Path
from typing import Any, NamedTuple

Json = dict[str, Any]


class Opened(NamedTuple):
    """The documents of an archive with one image of one layer."""

    layout: Json
    manifest: Json
    config: Json
    layer: bytes
    docker: list[Json]


def opened(archive: Path) -> Opened:
    """Follow the descriptors from the index to the layer; each blob must be what they say."""
    with tarfile.open(archive) as tar:
        files = {entry.name: tar.extractfile(entry) for entry in tar}
        content = {name: file.read() for name, file in files.items() if file}

    def blob(described: Json) -> bytes:
        algorithm, _, digest = described["digest"].partition(":")
        found = content.pop(f"blobs/{algorithm}/{digest}")
        assert len(found) == described["size"]
        assert hashlib.new(algorithm, found).hexdigest() == digest
        return found

    assert json.loads(content.pop("oci-layout")) == {"imageLayoutVersion": "1.0.0"}
    index, docker = (json.loads(content.pop(name)) for name in ("index.json", "manifest.json"))
    (entry,) = index["manifests"]
    manifest = json.loads(blob(entry))
    config = json.loads(blob(manifest["config"]))
    (described,) = manifest["layers"]
    layer = blob(described)
    assert not content, "nothing else is in it"
    return Opened(index, manifest, config, layer, docker)


def unpacked(archive: Path, tag: str, umoci: Path, directory: Path) -> Path:
    """The root that umoci makes of an archive."""
    layout, bundle = directory / "layout", directory / "bundle"
    with tarfile.open(archive) as tar:
        tar.extractall(layout, filter="data")
    command: list[str | Path] = [
        umoci,
        "unpack",
        "--rootless",
        "--image",
        f"{layout}:{tag}",
        bundle,
    ]
    subprocess.run(command, check=True, capture_output=True)
    return bundle / "rootfs"
