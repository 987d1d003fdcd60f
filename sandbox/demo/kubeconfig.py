"""The playground's kubeconfig: a file of its own, there for as long as the playground is."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

NAME = "playground"
FOLDER = Path(".equipoise")
_FILE = "kubeconfig"


def document(url: str) -> dict[str, Any]:
    """A kubeconfig for the API server at this address; it asks nobody who they are."""
    context = {"cluster": NAME, "user": NAME, "namespace": "default"}
    return {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": NAME,
        "clusters": [{"name": NAME, "cluster": {"server": url}}],
        "users": [{"name": NAME, "user": {}}],
        "contexts": [{"name": NAME, "context": context}],
    }


@contextmanager
def written(url: str, suffix: str = "") -> Iterator[Path]:
    """A kubeconfig that only its owner reads: in the working directory, else in the cache."""
    path = _write(document(url), f"{_FILE}{suffix}")
    try:
        yield path
    finally:
        path.unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # another playground has its file there
            path.parent.rmdir()


def _write(content: dict[str, Any], name: str) -> Path:
    try:
        return _write_into(FOLDER, content, name)
    except OSError:
        cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        return _write_into(Path(cache) / "equipoise" / NAME, content, name)


def _write_into(folder: Path, content: dict[str, Any], name: str) -> Path:
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path, new = folder / name, folder / f"{name}.{os.getpid()}"
    # What a playground that was killed has left is replaced, never followed or appended to.
    new.unlink(missing_ok=True)
    with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(yaml.safe_dump(content, sort_keys=False))
    new.replace(path)
    return path
