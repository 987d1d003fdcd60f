"""The content of the image, step by step: ``python build.py STEP ROOT …``, as the Dockerfile does.

The result is a file system with Python, the locked packages, the program and the shared libraries
they load, and nothing else: no shell, no package manager. Needs nothing but the standard library,
pip and ldconfig, and writes below ROOT only.
"""

import argparse
import compileall
import csv
import os
import py_compile
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Iterator
from pathlib import Path

VERSION = f"python{sys.version_info.major}.{sys.version_info.minor}"
PREFIX = Path("usr/local")
PACKAGES = PREFIX / "lib" / VERSION / "site-packages"
USER_ID = 65532

# Parts of the standard library for people at a desk, and for building other programs.
UNUSED = (
    *(
        "ensurepip",
        "idlelib",
        "lib2to3",
        "pydoc_data",
        "tkinter",
        "turtle.py",
        "turtledemo",
        "venv",
    ),
    *("test", "tests", "config-*", "site-packages", "__pycache__", "sqlite3"),
    *("_tkinter.*", "_test*.so", "_ctypes_test.*", "_xxtestfuzz.*", "xxlimited*"),
    *("_curses*.so", "readline.*", "nis.*", "_sqlite3.*", "_dbm.*", "_gdbm.*"),
)
UNUSED_IN_PACKAGES = (
    *("bin", "**/tests", "**/*.a", "numpy/f2py", "numpy/**/*.pyi"),
    # Of this one we use what reads kubeconfig files, not the seven hundred classes of its API.
    *("kubernetes_asyncio/client/models", "kubernetes_asyncio/client/api"),
    *("kubernetes_asyncio/e2e_test", "kubernetes_asyncio/dynamic"),
)

COMMANDS = ("equipoise", "kubectl-equipoise")
SCRIPT = f"""#!/{PREFIX}/bin/{VERSION}
import sys
from scheduler.__main__ import main
sys.exit(main())
"""
ETC = {
    "passwd": f"nonroot:x:{USER_ID}:{USER_ID}::/:/nonexistent\n",
    "group": f"nonroot:x:{USER_ID}:\n",
    "nsswitch.conf": "hosts: files dns\n",
    "ld.so.conf": f"/{PREFIX}/lib\n",
}
AUTHORITIES = Path("/etc/ssl/certs/ca-certificates.crt")


def interpreter(root: Path) -> None:
    """Copy the Python that runs this, and lay out the directories that a container expects."""
    base = Path(sys.base_prefix)
    library = root / PREFIX / "lib" / VERSION
    shutil.copytree(
        sysconfig.get_path("stdlib"), library, ignore=shutil.ignore_patterns(*UNUSED), symlinks=True
    )
    (root / PREFIX / "bin").mkdir(parents=True)
    shutil.copy2(base / "bin" / VERSION, root / PREFIX / "bin" / VERSION)
    for shared in (base / "lib").glob(f"lib{VERSION}.so*"):
        shutil.copy2(shared, root / PREFIX / "lib" / shared.name, follow_symlinks=False)
    for name in ("tmp", "proc", "sys", "dev", "run", "etc/equipoise", "var"):
        (root / name).mkdir(parents=True)
    (root / "tmp").chmod(0o1777)
    (root / "var" / "run").symlink_to("../run")
    for name, text in ETC.items():
        (root / "etc" / name).write_text(text)
    if AUTHORITIES.exists():
        trusted = root / AUTHORITIES.relative_to("/")
        trusted.parent.mkdir(parents=True)
        shutil.copy2(AUTHORITIES, trusted)


def packages(root: Path, lock: Path) -> None:
    """Install what the lock file names, at those versions and with those hashes, wheels only."""
    _pip(root, "--require-hashes", "--only-binary=:all:", "--requirement", str(lock))


def program(root: Path, source: Path) -> None:
    """Build the wheel of the program, install it, and write the commands."""
    with tempfile.TemporaryDirectory() as scratch:
        build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", scratch]
        subprocess.run(build, cwd=source, check=True, stdout=subprocess.DEVNULL)
        # By name: of a file that is named, pip would note the path, and no two images were equal.
        _pip(root, "--no-deps", "--no-index", "--find-links", scratch, "equipoise")
    for command in COMMANDS:
        script = root / PREFIX / "bin" / command
        script.write_text(SCRIPT)
        script.chmod(0o755)


def finish(root: Path) -> None:
    """Drop what is never used, compile, bring the shared libraries in, and take rights away."""
    _prune(root / PACKAGES)
    _compile(root)
    for library in sorted(_shared_libraries(root)):
        inside = root / library.relative_to("/")
        inside.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(library, inside)
    subprocess.run([_tool("ldconfig"), "-X", "-r", str(root)], check=True)
    _protect(root)


def _pip(root: Path, *arguments: str) -> None:
    """Install below the root, as if by the Python that will be there."""
    target = ["--target", str(root / PACKAGES), "--no-compile", "--upgrade"]
    quiet = ["--quiet", "--disable-pip-version-check", "--root-user-action=ignore"]
    command = [sys.executable, "-m", "pip", "install", *quiet, *target, *arguments]
    subprocess.run(command, check=True)


def _prune(directory: Path) -> None:
    for pattern in UNUSED_IN_PACKAGES:
        for path in sorted(directory.glob(pattern)):
            shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    for record in directory.glob("*.dist-info/RECORD"):
        _keep_what_is_there(record, directory)


def _keep_what_is_there(record: Path, directory: Path) -> None:
    """Leave out of a list of files those that are gone.

    Scripts name the Python that installs, so their hashes would differ from build to build.
    """
    with record.open(newline="") as file:
        rows = [row for row in csv.reader(file) if (directory / row[0]).is_file()]
    with record.open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(rows)


def _compile(root: Path) -> None:
    """Byte code beside every module: nothing can be written at run time, and dates mean nothing."""
    good = compileall.compile_dir(
        root / PREFIX / "lib" / VERSION,
        quiet=1,
        stripdir=str(root),
        prependdir="/",
        invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH,
        workers=0,
    )
    if not good:
        raise SystemExit("some modules could not be compiled")


def _shared_libraries(root: Path) -> set[Path]:
    """All libraries of this system that something below the root loads, and the loader itself."""
    search = f"{root / PREFIX / 'lib'}"
    needed: set[Path] = set()
    for binary in _binaries(root):
        listing = subprocess.run(
            [_tool("ldd"), str(binary)],
            env=os.environ | {"LD_LIBRARY_PATH": search},
            capture_output=True,
            text=True,
            check=False,
        ).stdout
        for line in listing.splitlines():
            if "not found" in line:
                raise SystemExit(f"{binary}: {line.strip()}")
            path = next((word for word in line.split() if word.startswith("/")), "")
            if path and root not in Path(path).parents:
                needed.add(Path(path))
    # Loaded by name when a thread ends; nothing links to it.
    needed |= {each.parent / "libgcc_s.so.1" for each in needed if each.name == "libc.so.6"}
    return {path for path in needed if path.exists()}


def _binaries(root: Path) -> Iterator[Path]:
    for path in (root / PREFIX).rglob("*"):
        if path.is_file() and not path.is_symlink() and _is_elf(path):
            yield path


def _is_elf(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"


def _protect(root: Path) -> None:
    """Make all files readable and none writable, whatever the umask of the build."""
    for path in (root, *root.rglob("*")):
        if not path.is_symlink() and path != root / "tmp":
            path.chmod(0o555 if path.stat().st_mode & 0o100 else 0o444)


def _tool(name: str) -> str:
    found = shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin")
    if found is None:
        raise SystemExit(f"{name} is needed to build the image")
    return found


def main() -> None:
    """Run one step."""
    parser = argparse.ArgumentParser(description=__doc__)
    steps = parser.add_subparsers(required=True)
    for step, extra in ((interpreter, ""), (packages, "lock"), (program, "source"), (finish, "")):
        command = steps.add_parser(step.__name__, help=step.__doc__)
        command.set_defaults(step=step)
        command.add_argument("root", type=Path)
        if extra:
            command.add_argument(extra, type=Path)
    given = vars(parser.parse_args())
    given.pop("step")(**{name: path.resolve() for name, path in given.items()})


if __name__ == "__main__":
    main()
