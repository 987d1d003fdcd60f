"""``make release``: everything that a version consists of, in ``dist/``.

One version, from ``pyproject.toml``, is in all of them: wheel, source distribution, chart, plain
manifests, bill of materials, licences, release notes and the checksums of the rest; with
``--image`` the image for this machine as well.
"""

import argparse
import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

from shipping import page, sbom
from shipping.changelog import UNRELEASED, notes
from shipping.helm import CHART, PROJECT, helm
from shipping.image import __main__ as image
from shipping.manifests import DEPLOY, generated
from shipping.version import version

DIST = PROJECT / "dist"
SUMS = "SHA256SUMS"


class NotReady(Exception):
    """The checkout is not what a release is made from; the text says what to do."""


def check(final: bool) -> None:
    """Raise NotReady if generated files are stale, or a final release has no notes of its own."""
    stale = [path for path, text in generated().items() if path.read_text() != text]
    if stale:
        names = ", ".join(str(path.relative_to(PROJECT)) for path in stale)
        raise NotReady(f"out of date: {names}; run: make manifests")
    if not page.is_built():
        raise NotReady("the web page was not built from these sources; run: make page")
    section = notes(version())
    if final and (section.version == UNRELEASED or not section.date):
        raise NotReady(
            f"CHANGELOG.md has no section '## {version()} - YYYY-MM-DD': move what is under "
            f"{UNRELEASED} there"
        )


def build(directory: Path, *, with_image: bool = False) -> list[Path]:
    """Make every file of the release; returns them, the checksums last."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(directory)]
    subprocess.run(command, cwd=PROJECT, check=True, capture_output=True)
    helm("package", CHART, "--destination", directory)
    _manifests(directory)
    sbom.write(directory)
    if with_image:
        image.make(image.TARGETS[0], directory)
    section = notes(version())
    (directory / f"equipoise-{version()}-notes.md").write_text(f"{section.text}\n")
    _sums(directory)
    return [*sorted(path for path in directory.iterdir() if path.name != SUMS), directory / SUMS]


def _manifests(directory: Path) -> None:
    """All that ``kubectl apply`` needs, in one file: definitions first."""
    definitions = sorted((DEPLOY / "crds").glob("*.yaml"))
    texts = [path.read_text().strip() for path in (*definitions, DEPLOY / "equipoise.yaml")]
    (directory / f"equipoise-{version()}.yaml").write_text("\n---\n".join(texts) + "\n")


def _sums(directory: Path) -> None:
    lines = [
        f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n"
        for path in sorted(directory.iterdir())
    ]
    (directory / SUMS).write_text("".join(lines))


def main() -> int:
    """Exit 0 with the files listed, 1 with the problems."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--final", action="store_true", help="refuse unless CHANGELOG.md has a dated section"
    )
    parser.add_argument("--image", action="store_true", help="build the image as well")
    given = parser.parse_args()
    try:
        check(given.final)
        files = build(DIST, with_image=given.image)
    except (NotReady, image.CannotBuild) as reason:
        print(f"make release: {reason}", file=sys.stderr)
        return 1
    for path in files:
        print(f"{path.stat().st_size:>12,}  {path.relative_to(PROJECT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
