"""Which control-plane binaries exist, at which version, and where the built ones are.

The versions are those that the ``go.mod`` files under ``modules/`` require: an upgrade is an edit
there; the new version has a new name in the cache and is built the next time.
"""

import hashlib
import os
import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

MODULES = Path(__file__).parent / "modules"


def cache_dir() -> Path:
    """The directory of built binaries, outside the checkout; ``EQUIPOISE_CACHE`` moves it."""
    if explicit := os.environ.get("EQUIPOISE_CACHE"):
        return Path(explicit) / "controlplane"
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "equipoise" / "controlplane"


@dataclass(frozen=True)
class Module:
    """A Go module of ours whose only purpose is to pin one upstream module and all it needs."""

    name: str
    upstream: str

    @property
    def path(self) -> Path:
        """Where our ``go.mod`` and ``go.sum`` are."""
        return MODULES / self.name

    @cached_property
    def version(self) -> str:
        """The upstream version our ``go.mod`` requires, such as ``v1.36.3``."""
        requirements = (self.path / "go.mod").read_text()
        match = re.search(rf"^(?:require)?\s+{re.escape(self.upstream)} (v\S+)", requirements, re.M)
        if match is None:
            raise ValueError(f"{self.path / 'go.mod'} does not require {self.upstream}")
        return match[1]


KUBERNETES = Module("kubernetes", "k8s.io/kubernetes")
ETCD = Module("etcd", "go.etcd.io/etcd/server/v3")
KWOK = Module("kwok", "sigs.k8s.io/kwok")
HELM = Module("helm", "helm.sh/helm/v3")
EXTENDER = Module("extender", "k8s.io/kube-scheduler")
PROMETHEUS_OPERATOR = Module("definitions", "github.com/prometheus-operator/prometheus-operator")
VERTICAL_AUTOSCALER = Module("definitions", "k8s.io/autoscaler/vertical-pod-autoscaler")


@dataclass(frozen=True)
class Binary:
    """One program to build: its package and the variables that hold its version."""

    name: str
    module: Module
    package: str
    stamps: tuple[str, ...] = ()

    @property
    def path(self) -> Path:
        """Where the built program is, or will be."""
        return cache_dir() / f"{self.name}-{self.module.version}{self._edition}"

    @property
    def _edition(self) -> str:
        """A program of our own is another one when its source changes."""
        source = self.module.path / "main.go"
        if not source.exists():
            return ""
        return f"-{hashlib.sha256(source.read_bytes()).hexdigest()[:12]}"

    @property
    def linker_flags(self) -> str:
        """Symbols stripped and, where a program needs it, its version set."""
        version = self.module.version
        major, minor, _ = version.removeprefix("v").split(".", maxsplit=2)
        stamps = (s.format(version=version, major=major, minor=minor) for s in self.stamps)
        return " ".join(["-s", "-w", *(f"-X {stamp}" for stamp in stamps)])


_KUBERNETES_STAMPS = (
    "k8s.io/component-base/version.gitVersion={version}",
    "k8s.io/component-base/version.gitMajor={major}",
    "k8s.io/component-base/version.gitMinor={minor}",
)


def _kubernetes(name: str) -> Binary:
    return Binary(name, KUBERNETES, f"k8s.io/kubernetes/cmd/{name}", _KUBERNETES_STAMPS)


def _helm() -> Binary:
    # Without a cluster helm renders for this Kubernetes version; its own default is years old.
    kubernetes_minor = KUBERNETES.version.split(".")[1]
    stamps = (
        "helm.sh/helm/v3/internal/version.version={version}",
        f"helm.sh/helm/v3/pkg/chartutil.k8sVersionMinor={kubernetes_minor}",
        f"helm.sh/helm/v3/pkg/lint/rules.k8sVersionMinor={kubernetes_minor}",
    )
    return Binary("helm", HELM, "helm.sh/helm/v3/cmd/helm", stamps)


BINARIES = (
    Binary("etcd", ETCD, "go.etcd.io/etcd/server/v3"),
    _kubernetes("kube-apiserver"),
    _kubernetes("kube-controller-manager"),
    _kubernetes("kube-scheduler"),
    _kubernetes("kubectl"),
    Binary("kwok", KWOK, "sigs.k8s.io/kwok/cmd/kwok"),
    _helm(),
    Binary("extender", EXTENDER, "."),
)

_BY_NAME = {binary.name: binary for binary in BINARIES}


def kwok_stages() -> Path:
    """The directory of stage files without which kwok's nodes and pods would do nothing."""
    return cache_dir() / f"kwok-stages-{KWOK.version}"


def definitions() -> Path:
    """The directory of others' custom resource definitions, for objects that our chart makes."""
    versions = f"{PROMETHEUS_OPERATOR.version}-{VERTICAL_AUTOSCALER.version}"
    return cache_dir() / f"definitions-{versions}"


def locate(name: str) -> Path:
    """The built program ``name``; raises ``FileNotFoundError`` with the command that builds it."""
    path = _BY_NAME[name].path
    if not path.exists():
        raise FileNotFoundError(f"{path} is not built yet; run: make controlplane")
    return path
