"""Everything that is fetched is pinned: packages by hash, images by digest."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from shipping.dockerfile import instructions
from shipping.helm import PROJECT
from shipping.wheels import LOCKS

LOCK_FILES = [PROJECT / "requirements.lock", *sorted(LOCKS.glob("*.lock"))]
GO_MODULES = sorted((PROJECT / "e2e" / "controlplane" / "modules").glob("*/go.mod"))
PINNED = re.compile(r"[\w.-]+(\[[\w,-]+\])?==\S+( ; .*)?( --hash=sha256:[0-9a-f]{64})+")
DIGEST = re.compile(r"\S+@sha256:[0-9a-f]{64}")


def entries(lock: Path) -> Iterator[str]:
    """The requirements of a lock file, each on one line, without comments."""
    text = re.sub(r"^\s*#.*\n", "", lock.read_text(), flags=re.M).replace("\\\n", " ")
    return (" ".join(line.split()) for line in text.splitlines() if line.strip())


@pytest.mark.parametrize("lock", LOCK_FILES, ids=lambda path: path.name)
def test_python_packages_are_pinned_by_hash(lock: Path) -> None:
    found = list(entries(lock))
    assert found
    assert [each for each in found if not PINNED.fullmatch(each)] == []


@pytest.mark.parametrize("module", GO_MODULES, ids=lambda path: path.parent.name)
def test_go_modules_are_pinned_by_hash(module: Path) -> None:
    sums = (module.parent / "go.sum").read_text().splitlines()
    assert all(re.fullmatch(r"\S+ \S+ h1:[\w+/]{43}=", line) for line in sums)
    known = {tuple(line.split()[:2]) for line in sums}
    required = set(re.findall(r"^\s*(?:require )?(\S+) (v\S+)", module.read_text(), re.M))
    assert required
    # A module of which only its requirements count has the hash of its go.mod alone.
    hashed = {(name, version.removesuffix("/go.mod")) for name, version in known}
    replaced = set(re.findall(r"^\s*(?:replace )?(\S+)(?: v\S+)? =>", module.read_text(), re.M))
    assert {each for each in required - hashed if each[0] not in replaced} == set()


def test_base_images_are_pinned_by_digest() -> None:
    arguments = dict(
        each.text.split("=", 1)
        for each in instructions()
        if (each.stage, each.keyword) == ("", "ARG")
    )
    stages = {each.stage for each in instructions()} | {"scratch"}
    named = [each.text.split()[0] for each in instructions() if each.keyword == "FROM"]
    bases = [re.sub(r"\$\{(\w+)\}", lambda found: arguments[found[1]], each) for each in named]
    foreign = [base for base in bases if base not in stages]
    assert foreign
    assert [base for base in foreign if not DIGEST.fullmatch(base)] == []
    assert not re.match(r"#\s*syntax=", (PROJECT / "Dockerfile").read_text()), "an image as well"


def test_the_image_installs_nothing_that_is_not_locked() -> None:
    fetching = [each.text for each in instructions() if each.keyword in ("RUN", "ADD")]
    assert not [each for each in fetching if re.search(r"\b(apt|apk|curl|wget|git)\b", each)]
    steps = (PROJECT / "shipping" / "image" / "build.py").read_text()
    installs = [each for each in fetching if "pip install" in each]
    assert installs
    for text in (*installs, steps):
        assert "--require-hashes" in text
        assert "--only-binary=:all:" in text


def test_scripts_of_packages_are_not_run_for_the_page() -> None:
    assert '"--ignore-scripts"' in (PROJECT / "shipping" / "page.py").read_text()
