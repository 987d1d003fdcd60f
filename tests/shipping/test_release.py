"""A release: one version everywhere, notes of its own, and files that can be installed."""

import hashlib
import re
import tarfile
import zipfile
from pathlib import Path

import pytest
import yaml

from e2e.controlplane.binaries import locate
from scheduler import __version__
from shipping import page, release, sbom
from shipping.changelog import UNRELEASED, Section, notes, sections
from shipping.helm import PROJECT
from shipping.version import version, with_version

KINDS = ["Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"]
VERSION = re.compile(r"(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?")


@pytest.fixture
def released(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Path]:
    """All files of a release by name; the bill of materials, which takes long, is left out."""
    try:
        locate("helm")
    except FileNotFoundError as missing:
        pytest.skip(str(missing))
    monkeypatch.setattr(sbom, "write", lambda directory: [])
    return {path.name: path for path in release.build(tmp_path / "dist")}


def test_the_version_is_the_same_everywhere() -> None:
    assert __version__ == version()
    assert all(path.read_text() == text for path, text in with_version().items())


def test_everything_is_there_and_carries_the_version(released: dict[str, Path]) -> None:
    name = f"equipoise-{version()}"
    assert set(released) == {
        f"{name}-py3-none-any.whl",
        f"{name}.tar.gz",
        f"{name}.tgz",
        f"{name}.yaml",
        f"{name}-notes.md",
        "SHA256SUMS",
    }
    with zipfile.ZipFile(released[f"{name}-py3-none-any.whl"]) as wheel:
        metadata = wheel.read(f"{name}.dist-info/METADATA").decode()
        assert f"\nVersion: {version()}\n" in metadata
        assert not [entry for entry in wheel.namelist() if entry.startswith("tests")]
        assert "scheduler/serve/static/index.html" in wheel.namelist()
    with tarfile.open(released[f"{name}.tar.gz"]) as sdist:
        assert f"{name}/CHANGELOG.md" in sdist.getnames()
        assert f"{name}/web/package-lock.json" in sdist.getnames()
        assert f"{name}/scheduler/serve/static/index.html" in sdist.getnames()
        assert not [entry for entry in sdist.getnames() if "node_modules" in entry]
    with tarfile.open(released[f"{name}.tgz"]) as chart:
        inside = chart.extractfile("equipoise/Chart.yaml")
        assert inside is not None
        facts = yaml.safe_load(inside)
        assert (facts["version"], facts["appVersion"]) == (version(), version())
        assert "equipoise/files/alerts.yaml" in chart.getnames()
    manifests = list(yaml.safe_load_all(released[f"{name}.yaml"].read_text()))
    kinds = [manifest["kind"] for manifest in manifests]
    assert {"CustomResourceDefinition", "Deployment", "ClusterRole"} <= set(kinds)
    (deployment,) = (m for m in manifests if m["kind"] == "Deployment")
    image = deployment["spec"]["template"]["spec"]["containers"][0]["image"]
    assert image.endswith(f":{version()}")


def test_checksums_are_those_of_the_files(released: dict[str, Path]) -> None:
    lines = released["SHA256SUMS"].read_text().splitlines()
    stated = {name: digest for digest, _, name in (line.partition("  ") for line in lines)}
    assert stated == {
        name: hashlib.sha256(path.read_bytes()).hexdigest()
        for name, path in released.items()
        if name != "SHA256SUMS"
    }


def test_a_final_release_needs_notes_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(release, "generated", dict)
    monkeypatch.setattr(page, "is_built", lambda: True)
    for section in (Section(UNRELEASED, "", "x"), Section(version(), "", "x")):
        monkeypatch.setattr(release, "notes", lambda _, section=section: section)
        release.check(final=False)
        with pytest.raises(release.NotReady, match="CHANGELOG"):
            release.check(final=True)
    monkeypatch.setattr(release, "notes", lambda _: Section(version(), "2026-01-02", "x"))
    release.check(final=True)


def test_stale_files_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    stale = PROJECT / "CHANGELOG.md"
    monkeypatch.setattr(release, "generated", lambda: {stale: "something else"})
    with pytest.raises(release.NotReady, match=r"CHANGELOG\.md; run: make manifests"):
        release.check(final=False)


def test_a_page_of_other_sources_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(release, "generated", dict)
    monkeypatch.setattr(page, "is_built", lambda: False)
    with pytest.raises(release.NotReady, match="make page"):
        release.check(final=False)


def test_the_changelog_keeps_its_form() -> None:
    found = sections()
    assert found[0].version == UNRELEASED
    numbers = [section.version for section in found[1:]]
    assert all(VERSION.fullmatch(number) for number in numbers)
    assert numbers == sorted(numbers, key=_ordering, reverse=True)
    for section in found:
        assert section.kinds == [kind for kind in KINDS if kind in section.kinds]
        dated = re.fullmatch(r"\d{4}-\d\d-\d\d", section.date)
        assert bool(dated) is (section.version != UNRELEASED)
        bodies = re.split(r"^### .*$", section.text, flags=re.M)
        assert not bodies[0].strip(), "every entry is under a heading"
        for body in bodies[1:]:
            entries = re.split(r"^- ", body.strip(), flags=re.M)
            assert not entries[0]
            assert all(entry.strip().endswith(".") for entry in entries[1:])
    assert notes(version()).text


def _ordering(number: str) -> list[int]:
    return [int(part) for part in number.partition("-")[0].split(".")]
