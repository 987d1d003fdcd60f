"""``make controlplane``: build what is missing of the control plane, once for all checkouts.

What is built comes from the Go module proxy, at the versions and with the checksums of
``modules/``; Prometheus and an older kubectl come from Debian. A finished program gets its final
name in one rename, so whatever is in the cache is complete; a lock keeps two builds from doing the
same work twice.
"""

import fcntl
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from e2e.controlplane.binaries import (
    BINARIES,
    KWOK,
    PROMETHEUS_OPERATOR,
    VERTICAL_AUTOSCALER,
    Binary,
    Module,
    cache_dir,
    definitions,
    kwok_stages,
)
from e2e.controlplane.debian import PACKAGES, FetchError
from e2e.controlplane.toolchain import find_go, go_environment

FETCH_ATTEMPTS = 3
STAGE_SETS = ("node/fast", "node/heartbeat-with-lease", "pod/fast")
STAGES = {KWOK: [f"kustomize/stage/{each}/*-*.yaml" for each in STAGE_SETS]}
MONITORING = ("podmonitors", "prometheusrules", "servicemonitors")
DEFINITIONS = {
    PROMETHEUS_OPERATOR: [
        f"example/prometheus-operator-crd/monitoring.coreos.com_{each}.yaml" for each in MONITORING
    ],
    VERTICAL_AUTOSCALER: ["deploy/vpa-v1-crd-gen.yaml"],
}


class BuildError(Exception):
    """A Go command failed; the message holds the end of what it printed."""


def missing() -> list[Binary]:
    """The programs that are not in the cache, in the order in which they would be built."""
    return [binary for binary in BINARIES if not binary.path.exists()]


def build_all() -> None:
    """Make the cache complete: some file lookups when it is, about 15 minutes from nothing."""
    wanted_files = {kwok_stages(): STAGES, definitions(): DEFINITIONS}
    packages = [package for package in PACKAGES if package.missing]
    if not missing() and all(map(Path.exists, wanted_files)) and not packages:
        return
    cache = cache_dir()
    cache.mkdir(parents=True, exist_ok=True)
    with _exclusive(cache / ".lock"):
        wanted = missing()
        go = Go(find_go(cache))
        for number, binary in enumerate(wanted, start=1):
            label = f"[{number}/{len(wanted)}] {binary.name} {binary.module.version}"
            go.fetch(binary, f"{label}: downloading")
            go.build(binary, f"{label}: compiling")
        for package in packages:
            if package.missing:
                print(f"{package.name}: taking Debian's package")
                package.fetch()
        for target, files in wanted_files.items():
            if not target.exists():
                _copy(go, files, target)
    print(f"The control plane is ready in {cache}")


class Go:
    """The few ``go`` commands a build needs, each run inside one of our pinning modules."""

    def __init__(self, executable: Path) -> None:
        self._executable = executable

    def fetch(self, binary: Binary, label: str) -> None:
        """Download every module the program is built from; a broken connection is tried again."""
        for attempt in range(1, FETCH_ATTEMPTS + 1):
            try:
                self._run(binary.module, ["list", "-deps", binary.package], label)
            except BuildError:
                if attempt == FETCH_ATTEMPTS:
                    raise
            else:
                return

    def build(self, binary: Binary, label: str) -> None:
        """Compile to a scratch name and rename: a cached program is never half written."""
        unfinished = binary.path.with_name(f".{binary.path.name}.unfinished")
        command = ["build", "-trimpath", "-buildvcs=false", "-ldflags", binary.linker_flags]
        self._run(binary.module, [*command, "-o", str(unfinished), binary.package], label)
        unfinished.rename(binary.path)

    def source_of(self, module: Module) -> Path:
        """The unpacked source of the upstream module, in Go's own module cache."""
        query = ["mod", "download", "-json", f"{module.upstream}@{module.version}"]
        label = f"{module.upstream} {module.version}: downloading"
        return Path(json.loads(self._run(module, query, label))["Dir"])

    def _run(self, module: Module, arguments: Sequence[str], label: str) -> str:
        with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
            process = subprocess.Popen(
                [self._executable, *arguments],
                cwd=module.path,
                env=go_environment(),
                stdout=output,
                stderr=errors,
            )
            try:
                _await_with_progress(process, label)
            except BaseException:
                process.terminate()
                process.wait()
                raise
            output.seek(0)
            errors.seek(0)
            if process.returncode:
                tail = "".join(errors.readlines()[-30:])
                raise BuildError(f"{label}: go {arguments[0]} failed in {module.path}\n{tail}")
            return output.read()


def _await_with_progress(process: subprocess.Popen[bytes], label: str) -> None:
    """Report elapsed time: in place on a terminal, and by a line now and then in a log."""
    started = time.monotonic()
    interactive = sys.stdout.isatty()
    interval = 1 if interactive else 60
    while True:
        with suppress(subprocess.TimeoutExpired):
            process.wait(timeout=interval)
        minutes, seconds = divmod(int(time.monotonic() - started), 60)
        line = f"{label} {minutes}:{seconds:02}"
        finished = process.returncode is not None
        print(f"\r{line}" if interactive else line, end="\n" if finished or not interactive else "")
        sys.stdout.flush()
        if finished:
            return


def _copy(go: Go, files: Mapping[Module, Sequence[str]], target: Path) -> None:
    """Keep the files of upstream modules that match the patterns, in one directory."""
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".files-") as scratch:
        fresh = Path(scratch) / "files"
        fresh.mkdir()
        for module, patterns in files.items():
            source = go.source_of(module)
            for pattern in patterns:
                found = list(source.glob(pattern))
                if not found:
                    raise BuildError(f"{module.upstream} {module.version} has no {pattern}")
                for file in found:
                    (fresh / file.name).write_bytes(file.read_bytes())
        fresh.rename(target)


@contextmanager
def _exclusive(lock: Path) -> Iterator[None]:
    with lock.open("w") as held:
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            print("Another build of the control plane is running: waiting for it")
            fcntl.flock(held, fcntl.LOCK_EX)
        yield


def main() -> int:
    """Exit 0 with everything built, 1 with the reason on standard error."""
    try:
        build_all()
    except (BuildError, FetchError, OSError, subprocess.CalledProcessError) as error:
        print(f"make controlplane: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
