"""``make image``: the image for this machine as one file in ``dist/``, without a container engine.

The tree is built by the steps of the Dockerfile, with the Python that runs this in place of the
base image's; user, entry point, environment, labels and ports are those of the Dockerfile.
"""

import argparse
import os
import platform
import subprocess
import sys
import tempfile
import venv
from datetime import UTC, datetime
from pathlib import Path

from shipping.dockerfile import StepFailed, configuration, lineage, perform
from shipping.helm import PROJECT
from shipping.image.archive import ARCHITECTURES, Image, write
from shipping.version import version

DIST = PROJECT / "dist"
NAME = "equipoise"
TARGETS = ("full", "slim")


class CannotBuild(Exception):
    """No image can be made here; the text says why and what to do."""


def architecture() -> str:
    """The machine's, in the words of images; raises CannotBuild where no image can be made."""
    found = ARCHITECTURES.get(platform.machine())
    if sys.platform != "linux" or found is None:
        place = f"{sys.platform} on {platform.machine()}"
        raise CannotBuild(
            f"the image takes Python and libraries from this machine, and needs Linux on amd64 or "
            f"arm64, not {place}; use: docker buildx build ."
        )
    return found


def build_tree(target: str, directory: Path) -> Path:
    """The root of the image, built by the steps of the Dockerfile in an empty directory."""
    tools, workplace, root = (directory / name for name in ("tools", "src", "root"))
    venv.create(tools, with_pip=True)
    workplace.mkdir()
    perform(lineage(f"build-{target}"), workplace, root, tools / "bin")
    return root


def describe(target: str) -> Image:
    """The image's name and settings, with the version and the commit of this checkout."""
    created = _created()
    arguments = {"VERSION": version(), "REVISION": _revision(), "CREATED": created}
    tag = version() if target == TARGETS[0] else f"{version()}-{target}"
    return Image(NAME, tag, architecture(), created, configuration(target, arguments))


def make(target: str, directory: Path) -> tuple[Path, str]:
    """Build and write the archive; returns where it is, and the digest of the image."""
    image = describe(target)
    directory.mkdir(parents=True, exist_ok=True)
    file = directory / f"{NAME}-{image.tag}-linux-{image.architecture}.tar"
    with tempfile.TemporaryDirectory() as scratch:
        return file, write(build_tree(target, Path(scratch)), image, file)


def _revision() -> str:
    commit = _git("rev-parse", "HEAD")
    if not commit:
        return "unknown"
    return f"{commit}-dirty" if _git("status", "--porcelain") else commit


def _created() -> str:
    """SOURCE_DATE_EPOCH, else the date of the commit: the same checkout gives the same image."""
    seconds = os.environ.get("SOURCE_DATE_EPOCH") or _git("show", "-s", "--format=%ct") or "0"
    return datetime.fromtimestamp(int(seconds), UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def _git(*arguments: str) -> str:
    """What git prints; nothing where there is no git, or no repository."""
    try:
        done = subprocess.run(
            ["git", *arguments], cwd=PROJECT, capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        return ""
    return str(done.stdout).strip() if done.returncode == 0 else ""


def main() -> int:
    """Exit 0 with the file, its size and digest printed, 1 with the problems."""
    parser = argparse.ArgumentParser(prog="make image", description=__doc__)
    parser.add_argument(
        "--target", choices=TARGETS, default=TARGETS[0], help="slim: without the solver for batches"
    )
    given = parser.parse_args()
    try:
        file, digest = make(given.target, DIST)
    except (CannotBuild, StepFailed) as reason:
        print(f"make image: {reason}", file=sys.stderr)
        return 1
    print(f"{file.stat().st_size:>12,}  {file.relative_to(PROJECT)}")
    print(f"{NAME}:{describe(given.target).tag}  {digest}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
