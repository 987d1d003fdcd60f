"""A Python of another version, to replay with what this one has recorded.

``python -m tests.replaying.other_python`` makes an environment for one that is on the machine, with
the locked dependencies of the program, as ``make other-python`` does; tests only look for it. Where
there is no other Python, or its packages cannot be had, the tests that need it are skipped.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

LOCK = Path(__file__).parents[2] / "shipping" / "locks" / "run.lock"
VARIABLE = "EQUIPOISE_OTHER_PYTHON"
"""An interpreter that has the dependencies, whatever else there is."""
VERSIONS = ("3.14", "3.13", "3.12", "3.11")
SECONDS = 900


class NoOtherPython(Exception):
    """There is none; the text says why."""


@functools.cache
def find() -> str:
    """An interpreter of another version that can run the program; raises NoOtherPython."""
    if named := os.environ.get(VARIABLE):
        return named
    for version in VERSIONS:
        made = _environment(version) / "bin" / "python"
        if version != _own_version() and made.is_file():
            return str(made)
    raise NoOtherPython(f"there is none: run make other-python, or set {VARIABLE}")


def get() -> str:
    """The same; an environment is made if there is none."""
    folder = _cache()
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            return find()
        except NoOtherPython:
            find.cache_clear()
        reasons = []
        for version, python in _present():
            try:
                _make(_environment(version), python)
                return find()
            except (NoOtherPython, OSError, subprocess.SubprocessError) as fault:
                reasons.append(f"{python}: {fault}")
    raise NoOtherPython("\n".join(reasons) or f"no Python but {_own_version()} is on the machine")


def _own_version() -> str:
    return f"{sys.version_info.major}.{sys.version_info.minor}"


def _cache() -> Path:
    explicit = os.environ.get("EQUIPOISE_CACHE")
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return (Path(explicit) if explicit else Path(base) / "equipoise") / "python"


def _environment(version: str) -> Path:
    """Where the environment of a version is kept: another one for other dependencies."""
    return _cache() / f"{version}-{hashlib.sha256(LOCK.read_bytes()).hexdigest()[:12]}"


def _present() -> Iterator[tuple[str, str]]:
    """Pythons of other versions on the machine: in the path, or where pyenv keeps its own."""
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    for version in VERSIONS:
        if version == _own_version():
            continue
        places = [shutil.which(f"python{version}"), *sorted(pyenv.glob(f"{version}.*/bin/python"))]
        for place in places:
            if place is not None and _starts(str(place), version):
                yield version, str(place)
                break


def _starts(python: str, version: str) -> bool:
    """Whether it is one: what pyenv has in the path refuses to run versions not chosen."""
    code = "import sys; print('%d.%d' % sys.version_info[:2])"
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
    return done.returncode == 0 and done.stdout.strip() == version


def _make(target: Path, python: str) -> None:
    """An environment with the dependencies, in place at once or not at all."""
    half = target.with_suffix(".half")
    shutil.rmtree(half, ignore_errors=True)
    _run([python, "-m", "venv", str(half)])
    install = ["-m", "pip", "install", "--quiet", "--require-hashes", "-r", str(LOCK)]
    _run([str(half / "bin" / "python"), *install])
    half.rename(target)


def _run(command: list[str]) -> None:
    done = subprocess.run(
        command,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
    )
    if done.returncode:
        said = (done.stderr or done.stdout).strip()[-300:]
        raise NoOtherPython(f"{' '.join(command[1:4])} ended with {done.returncode}: {said}")


def main() -> int:
    """Print the path; 1 and the reasons if there is none."""
    try:
        print(get())
    except NoOtherPython as none:
        print(f"No other Python: nothing is replayed with one.\n{none}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
