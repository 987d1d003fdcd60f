"""Manifests of ``simulate``: refused with the field, or placed; explained alike twice."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from random import Random
from typing import Any

import yaml

from scheduler import simulation
from scheduler.cli.manifests import ManifestError, read
from tests.builders import make_worker
from tests.fuzz.mutating import encoded, mutate_bytes, mutate_object
from tests.fuzz.scenes import draw_any
from tests.fuzz.target import Input, as_bytes

PIECES = (
    b"a: &a [*a]\n", b"x: 0x" + b"F" * 6000 + b"\n", b"? [a]\n: b\n",
    b"!!python/object/apply:os.system [x]\n",
    b"<<: *a\n", b"---\n", b"1:30:00", b".nan", b"2026-01-01", b"!!binary x", b"\xff", b"\0",
    b"{" * 2000,
    b"&a [1,1,1,1,1,1,1,1,1]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\n", b"\x1f\x8b\x08",
    b"\x28\xb5\x2f\xfd",
)  # fmt: skip


class Manifests:
    """Reads files as ``simulate`` does, places their pods, and explains one of them twice."""

    name = "manifests"
    what = "manifests of simulate: refused with the field, or placed; the same explanation twice"
    share = 6

    def __init__(self) -> None:
        self._directory = tempfile.TemporaryDirectory()
        self._path = Path(self._directory.name) / "objects.yaml"

    def draw(self, rng: Random) -> Input:
        """A few objects as JSON or YAML, some with something wrong."""
        bodies: list[Any] = [make_worker("n0").obj()] if rng.random() < 0.7 else []
        for _ in range(rng.randint(1, 5)):
            body: Any = draw_any(rng)[1]
            bodies.append(mutate_object(rng, body) if rng.random() < 0.3 else body)
        data = encoded({"apiVersion": "v1", "kind": "List", "items": bodies})
        if rng.random() < 0.2:
            try:
                data = yaml.safe_dump_all(json.loads(data)["items"], allow_unicode=True).encode()
            except (ValueError, RecursionError, yaml.YAMLError):
                data = b"{}"
        if rng.random() < 0.1:
            data = mutate_bytes(rng, data, PIECES)
        return data.decode("latin-1")

    def check(self, given: Input) -> list[str]:
        """Only `ManifestError` and `InputError` are raised; an explanation repeats itself."""
        self._path.write_bytes(as_bytes(given))
        try:
            objects = read([str(self._path)], lenient=True)
        except ManifestError as fault:
            return [] if str(fault) else ["a manifest is refused without a word"]
        try:
            simulation.place(objects)
        except simulation.InputError as fault:
            return [] if str(fault) else ["an object is refused without a word"]
        pods = [each for each in objects if each["kind"] == "Pod"]
        if not pods:
            return []
        first, second = (simulation.explain(objects, pods[0]) for _ in range(2))
        return [] if first == second else ["a pod is explained otherwise the second time"]

    def close(self) -> None:
        """Remove the file."""
        self._directory.cleanup()
