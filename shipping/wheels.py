"""The packages of the image for the Python and the machines that it is built for, not for ours.

pip can fetch wheels for another Python and machine, but reads the conditions of a lock file with
its own. So the lines that hold there are picked here.
"""

import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from packaging.markers import Marker

from shipping.helm import PROJECT

LOCKS = PROJECT / "shipping" / "locks"
MACHINES = ("x86_64", "aarch64")
# Wheels built for any of these load with the base image's glibc; the newest comes first.
GLIBC_MINORS = range(41, 16, -1)


class NoWheels(Exception):
    """The packages of a lock file cannot be had; the text is what pip says."""


def image_python() -> str:
    """The version of Python in the image, such as 3.13."""
    found = re.search(r"^ARG PYTHON=(\S+)$", (PROJECT / "Dockerfile").read_text(), re.M)
    if found is None:
        raise ValueError("the Dockerfile does not say which Python it takes")
    return found[1]


def requirements(lock: Path, machine: str, python: str) -> Iterator[str]:
    """The lines of a lock file that hold in the image, hashes included, conditions left out."""
    text = re.sub(r"^ *#.*\n", "", lock.read_text(), flags=re.M).replace("\\\n", " ")
    place = {
        "python_version": python,
        "python_full_version": f"{python}.0",
        "platform_machine": machine,
        "platform_system": "Linux",
        "sys_platform": "linux",
        "os_name": "posix",
        "implementation_name": "cpython",
        "platform_python_implementation": "CPython",
    }
    for line in filter(str.strip, text.splitlines()):
        pin, hashes, rest = line.partition(" --hash")
        name, _, condition = pin.partition(";")
        if not condition or Marker(condition.strip()).evaluate(place):
            yield f"{name.strip()}{hashes}{rest}"


def install(lock: Path, machine: str, target: Path, *arguments: str) -> None:
    """Install the packages for one machine below `target`; raises NoWheels."""
    python = image_python()
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as wanted:
        wanted.write("\n".join(requirements(lock, machine, python)))
        wanted.flush()
        platforms = [f"--platform=manylinux_2_{minor}_{machine}" for minor in GLIBC_MINORS]
        command = [
            *(sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"),
            *("--no-deps", "--no-compile", "--only-binary=:all:", "--require-hashes"),
            # pip asks this of the Python it runs on, not of the one it installs for.
            "--ignore-requires-python",
            *("--implementation=cp", f"--python-version={python}", "--target", str(target)),
            *(*platforms, f"--platform=manylinux2014_{machine}", *arguments, "-r", wanted.name),
        ]
        done = subprocess.run(command, check=False, capture_output=True, text=True)
    if done.returncode:
        raise NoWheels(f"{lock.name} for {machine}: {done.stderr.strip()}")
