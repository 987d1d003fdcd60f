"""Programs that only Debian ships ready to run: unpacked, not installed."""

import os
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from e2e.controlplane.binaries import cache_dir

SECONDS = 600


class FetchError(Exception):
    """A package could not be had; the message holds the end of what apt said."""


@dataclass(frozen=True)
class Package:
    """One package and the programs in it that we run."""

    name: str
    programs: tuple[str, ...]
    own: bool = False
    """Debian's is meant, also where another one is installed."""

    def locate(self, program: str) -> Path:
        """The installed program, else the unpacked one; raises FileNotFoundError."""
        if not self.own and (installed := shutil.which(program)):
            return Path(installed)
        path = self._unpacked / "usr" / "bin" / program
        if not path.exists():
            raise FileNotFoundError(f"{path} is not there yet; run: make controlplane")
        return path

    @property
    def missing(self) -> bool:
        """Whether it has to be fetched."""
        installed = not self.own and all(map(shutil.which, self.programs))
        return not self._unpacked.exists() and not installed

    def fetch(self) -> None:
        """Download and unpack into the cache, in one rename; needs apt, but no rights."""
        target = self._unpacked
        target.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=target.parent, prefix=f".{self.name}-") as scratch:
            directory = Path(scratch)
            archive = self._download(directory)
            fresh = directory / "unpacked"
            _run(["dpkg-deb", "--extract", str(archive), str(fresh)], directory)
            fresh.rename(target)

    @property
    def _unpacked(self) -> Path:
        return cache_dir() / f"debian-{self.name}"

    def _download(self, directory: Path) -> Path:
        """Ask with lists of our own: the machine's may be old or absent, and are not ours."""
        lists = directory / "lists"
        (lists / "partial").mkdir(parents=True)
        options = [
            *("-o", f"Dir::State::lists={lists}"),
            *("-o", f"Dir::Cache::pkgcache={directory}/pkgcache.bin"),
            *("-o", f"Dir::Cache::srcpkgcache={directory}/srcpkgcache.bin"),
            *("-o", "Debug::NoLocking=true"),
            *("-o", "APT::Sandbox::User="),
        ]
        _run(["apt-get", *options, "update"], directory)
        _run(["apt-get", *options, "download", self.name], directory)
        return next(directory.glob(f"{self.name}_*.deb"))


PROMETHEUS = Package("prometheus", ("prometheus", "promtool"))
UMOCI = Package("umoci", ("umoci",))
KUBERNETES_CLIENT = Package("kubernetes-client", ("kubectl",), own=True)
PACKAGES = (PROMETHEUS, UMOCI, KUBERNETES_CLIENT)


def _run(command: list[str], directory: Path) -> None:
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C"}
    try:
        done = subprocess.run(
            command,
            cwd=directory,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
    except FileNotFoundError as fault:
        names = " and ".join(package.name for package in PACKAGES)
        message = f"{command[0]} is not installed: this is no Debian; install {names} yourself"
        raise FetchError(message) from fault
    except subprocess.TimeoutExpired as fault:
        raise FetchError(f"{command[0]} took longer than {SECONDS} s") from fault
    if done.returncode:
        tail = "\n".join(done.stderr.splitlines()[-10:])
        raise FetchError(f"{' '.join(command[:1] + command[-2:])} failed\n{tail}")
