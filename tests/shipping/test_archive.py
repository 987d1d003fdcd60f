"""The image as one file: what OCI and docker ask of it, and the same bytes for the same content."""

import gzip
import hashlib
import io
import json
import os
import shutil
import stat
import subprocess
import sys
import tarfile
from collections.abc import Iterable
from pathlib import Path

import pytest

from shipping import dockerfile
from shipping.dockerfile import configuration
from shipping.image import __main__ as command
from shipping.image.archive import Image, write
from shipping.image.build import USER_ID
from shipping.version import version
from tests.shipping.archives import opened, unpacked

ARGUMENTS = {"VERSION": "1.2.3", "REVISION": "abc", "CREATED": "2026-01-02T03:04:05Z"}
FILES = {"bin/tool": 0o555, "etc/long-" + "x" * 120: 0o444, "etc/ümlaut": 0o444, "a": 0o444}


def image() -> Image:
    config = configuration("full", ARGUMENTS)
    return Image("equipoise", "1.2.3", "arm64", ARGUMENTS["CREATED"], config)


def tree(root: Path, names: Iterable[str] = FILES) -> Path:
    """Some files of every kind that an image has."""
    for name in names:
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)
        path.chmod(FILES[name])
    (root / "tmp").mkdir()
    (root / "tmp").chmod(0o1777)
    (root / "run").symlink_to("../tmp")
    return root


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    write(tree(tmp_path / "tree"), image(), tmp_path / "image.tar")
    return tmp_path / "image.tar"


def test_the_configuration_is_what_the_dockerfile_says() -> None:
    assert configuration("full", ARGUMENTS) == {
        "User": f"{USER_ID}:{USER_ID}",
        "ExposedPorts": {"10259/tcp": {}},
        "Env": [
            "PATH=/usr/local/bin",
            "PYTHONDONTWRITEBYTECODE=1",
            "PYTHONUNBUFFERED=1",
            "PYTHONSAFEPATH=1",
        ],
        "Entrypoint": ["equipoise"],
        "Cmd": ["run"],
        "WorkingDir": "/",
        "StopSignal": "SIGTERM",
        "Labels": {
            "org.opencontainers.image.title": "equipoise",
            "org.opencontainers.image.description": "A secondary scheduler for Kubernetes "
            "that explains its decisions",
            "org.opencontainers.image.licenses": "Apache-2.0",
            "org.opencontainers.image.vendor": "The Equipoise authors",
            "org.opencontainers.image.version": "1.2.3",
            "org.opencontainers.image.revision": "abc",
            "org.opencontainers.image.created": "2026-01-02T03:04:05Z",
        },
    }


def test_nothing_that_the_dockerfile_says_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "Dockerfile"
    file.write_text("FROM scratch AS bare\nHEALTHCHECK NONE\n")
    monkeypatch.setattr(dockerfile, "DOCKERFILE", file)
    with pytest.raises(ValueError, match="HEALTHCHECK in stage bare"):
        configuration("bare", {})
    file.write_text("FROM scratch AS bare\nARG VERSION=1\n")
    with pytest.raises(ValueError, match="no ARG REVISION"):
        configuration("bare", {"REVISION": "abc"})


def test_every_document_agrees_with_the_others(archive: Path) -> None:
    found = opened(archive)
    (entry,) = found.layout["manifests"]
    assert entry["platform"] == {"architecture": "arm64", "os": "linux"}
    assert entry["annotations"]["io.containerd.image.name"] == "docker.io/library/equipoise:1.2.3"
    assert entry["annotations"]["org.opencontainers.image.ref.name"] == "1.2.3"
    assert (found.config["architecture"], found.config["os"]) == ("arm64", "linux")
    assert found.config["config"] == configuration("full", ARGUMENTS)
    content = hashlib.sha256(gzip.decompress(found.layer)).hexdigest()
    assert found.config["rootfs"] == {"type": "layers", "diff_ids": [f"sha256:{content}"]}
    paths = {
        name: f"blobs/sha256/{described['digest'].removeprefix('sha256:')}"
        for name, described in (
            ("config", found.manifest["config"]),
            ("layer", found.manifest["layers"][0]),
        )
    }
    assert found.docker == [
        {"Config": paths["config"], "RepoTags": ["equipoise:1.2.3"], "Layers": [paths["layer"]]}
    ]


def test_the_layer_holds_the_tree_and_belongs_to_root(archive: Path) -> None:
    with tarfile.open(fileobj=io.BytesIO(opened(archive).layer)) as layer:
        entries = {entry.name: entry for entry in layer}
        for name, mode in FILES.items():
            file = layer.extractfile(entries[name])
            assert file is not None
            assert (file.read().decode(), entries[name].mode) == (name, mode)
    assert entries["tmp"].isdir()
    assert entries["tmp"].mode == 0o1777
    assert (entries["run"].issym(), entries["run"].linkname) == (True, "../tmp")
    assert {(e.uid, e.gid, e.uname, e.mtime) for e in entries.values()} == {(0, 0, "", 0)}
    names = list(entries)
    assert names.index("bin") < names.index("bin/tool")


def test_equal_content_gives_equal_bytes(tmp_path: Path) -> None:
    first = tree(tmp_path / "first")
    second = tree(tmp_path / "second", reversed(FILES))
    for path in second.rglob("*"):
        os.utime(path, (1, 1), follow_symlinks=False)
    digests = [write(root, image(), tmp_path / f"{root.name}.tar") for root in (first, second)]
    assert digests[0] == digests[1]
    assert (tmp_path / "first.tar").read_bytes() == (tmp_path / "second.tar").read_bytes()
    (second / "a").chmod(0o644)
    (second / "a").write_text("else")
    assert write(second, image(), tmp_path / "second.tar") != digests[0]


def test_what_an_image_cannot_hold_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    root = tree(tmp_path / "tree")
    os.mkfifo(root / "pipe")
    with pytest.raises(ValueError, match="pipe: neither"):
        write(root, image(), tmp_path / "image.tar")
    assert [path.name for path in tmp_path.iterdir()] == ["tree"]


def test_umoci_unpacks_it(archive: Path, umoci: Path, tmp_path: Path) -> None:
    root = unpacked(archive, "1.2.3", umoci, tmp_path)
    for name, mode in FILES.items():
        assert (root / name).read_text() == name
        assert stat.S_IMODE((root / name).stat().st_mode) == mode
    bundle = json.loads((root.parent / "config.json").read_text())
    process = bundle["process"]
    assert process["args"] == ["equipoise", "run"]
    assert process["cwd"] == "/"
    assert "PYTHONSAFEPATH=1" in process["env"]


@pytest.mark.parametrize("form", ["oci-archive", "docker-archive"])
def test_skopeo_reads_it(archive: Path, form: str) -> None:
    if (skopeo := shutil.which("skopeo")) is None:
        pytest.skip("skopeo is not installed")
    done = subprocess.run(
        [skopeo, "inspect", "--config", f"{form}:{archive}"], capture_output=True, check=True
    )
    said = json.loads(done.stdout)
    assert said["config"] == configuration("full", ARGUMENTS)
    # Reads the layer as well, and compares its digest.
    copy = ["--insecure-policy", "copy", f"{form}:{archive}", f"dir:{archive.parent / form}"]
    subprocess.run([skopeo, *copy], check=True, capture_output=True)


def test_the_image_has_the_name_that_the_chart_asks_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1")
    full, slim = (command.describe(target) for target in command.TARGETS)
    assert (full.name, full.tag) == ("equipoise", version())
    assert slim.tag == f"{version()}-slim"
    assert full.created == "1970-01-01T00:00:01Z"
    assert full.config["Labels"]["org.opencontainers.image.created"] == full.created


def test_elsewhere_than_on_linux_it_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    monkeypatch.setattr(sys, "argv", ["image"])
    assert command.main() == 1
    assert "needs Linux" in capsys.readouterr().err
