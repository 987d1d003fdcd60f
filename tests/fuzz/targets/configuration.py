"""Configuration files: loaded, or refused with the fields; what loads can be used and written."""

from __future__ import annotations

import types
from functools import cache
from random import Random
from typing import Annotated, Any, Literal, Union, get_args, get_origin

import msgspec
import yaml

from scheduler.assembly import assemble, available
from scheduler.config.durations import Duration
from scheduler.config.loading import from_dicts, loads
from scheduler.config.plugin_args import ARGS_TYPES
from scheduler.config.problems import ConfigError
from scheduler.config.schema import (
    KUBE_API_VERSION,
    KUBE_KIND,
    OWN_API_VERSION,
    OWN_KIND,
    EquipoiseConfiguration,
    KubeSchedulerConfiguration,
)
from scheduler.observe.metrics import Metrics
from scheduler.plugins.table import IN_TREE
from tests.equivalence.world import Hands
from tests.fuzz.mutating import copied, mutate_bytes, places
from tests.fuzz.target import Input, as_bytes

DURATIONS = ("0s", "15s", "1m30s", "2h", "100ms", "-1s", "1e9s", "", "5", "9999999h")
ODD: tuple[Any, ...] = (
    None, "", "*", 0, -1, 1, 2**63, 10**40, 0.5, 1e308, float("nan"), float("inf"), True, [], {},
    [{}],
    "x" * 300, "\ud800", "a/b", [None], {"a": 1}, "equipoise", "NodeName", "https://example.com/x",
    "http://[", "/etc/passwd", "é", ["*"], "1" * 5000, {1: 2}, {"": ""}, {None: 1},
)  # fmt: skip
PIECES = (
    b"a: &a [*a]\n", b"profiles: &p [*p]\n", b"x: 0x" + b"F" * 6000 + b"\n", b"? [a]\n: b\n", b"\t",
    b"!!python/object/apply:os.system [x]\n", b"<<: *a\n", b"- \n", b"%YAML 9.9\n---\n",
    b"1:30:00", b".nan",
    b"2026-01-01", b"!!binary x", b"\xff", b"\0", b"---\n", b"...\n", b"{" * 2000, b"[" * 2000,
    b"- " * 2000,
    b"&a [1,1,1,1,1,1,1,1,1]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\n", b"'", b'"', b"|\n", b"!<x> ",
    b"podMaxBackoffSeconds: 0b" + b"1" * 20_000 + b"\n", b"parallelism: 1_000\n", b"\xef\xbb\xbf",
)  # fmt: skip


class ConfigFiles:
    """Loads one file."""

    name = "config"
    what = "configuration files: refused with the fields, or loaded, assembled and written again"
    share = 12

    def draw(self, rng: Random) -> Input:
        """A valid file by its schema, mostly with odd values, seldom garbled."""
        documents = [_document(rng, own=False)]
        if rng.random() < 0.6:
            documents.append(_document(rng, own=True))
        for _ in range(rng.choice((0, 0, 1, 1, 2))):
            found = places(documents)
            container, key = rng.choice(found)
            container[key] = copied(rng.choice(ODD))
        try:
            text = yaml.safe_dump_all(documents, allow_unicode=True).encode(
                "utf-8", "surrogatepass"
            )
        except (yaml.YAMLError, ValueError):
            text = b"{}"
        if rng.random() < 0.2:
            text = mutate_bytes(rng, text, PIECES)
        return text.decode("latin-1")

    def check(self, given: Input) -> list[str]:
        """Problems name fields; what loads can be assembled, and is the same when written."""
        try:
            text = as_bytes(given).decode()
        except UnicodeDecodeError:
            return []  # said before anything is parsed
        try:
            config = loads(text, available(), environ={})
        except ConfigError as fault:
            return _unclear(fault)
        again = from_dicts(config.to_dicts(), available(), environ={})
        if again != config:
            return ["a configuration is another one after it was written and read"]
        if loads(config.to_yaml(), available(), environ={}) != config:
            return ["a configuration is another one after it was written as YAML and read"]
        try:
            assemble(config, Hands(), Metrics(), registry=IN_TREE)
        except ConfigError as fault:
            return _unclear(fault)
        return []

    def close(self) -> None:
        """Nothing is held."""


def _unclear(fault: ConfigError) -> list[str]:
    if not fault.problems:
        return ["a configuration is refused without a problem"]
    wrong = []
    for problem in fault.problems:
        if not problem.message.strip():
            wrong.append("a problem of a configuration has no message")
        if len(str(problem)) > 20_000:
            wrong.append(f"a problem of a configuration has {len(str(problem))} characters")
    return wrong


def _document(rng: Random, *, own: bool) -> dict[str, Any]:
    kind = EquipoiseConfiguration if own else KubeSchedulerConfiguration
    body: dict[str, Any] = _drawn(rng, kind, "")
    if own:
        body.pop("plugins", None)  # code from a directory would be run
        return {"apiVersion": OWN_API_VERSION, "kind": OWN_KIND, **body}
    for profile in body.get("profiles", ()):
        profile["pluginConfig"] = [
            {"name": name, "args": _drawn(rng, ARGS_TYPES[name], "")}
            for name in rng.sample(list(ARGS_TYPES), rng.randint(0, 3))
        ]
    return {"apiVersion": KUBE_API_VERSION, "kind": KUBE_KIND, **body}


@cache
def _fields(kind: type[msgspec.Struct]) -> tuple[Any, ...]:
    return msgspec.structs.fields(kind)


def _drawn(rng: Random, kind: Any, name: str) -> Any:
    origin = get_origin(kind)
    if origin is Annotated:
        return _drawn(rng, get_args(kind)[0], name)
    if origin in {Union, types.UnionType}:
        return _drawn(rng, rng.choice([k for k in get_args(kind) if k is not type(None)]), name)
    if origin is Literal:
        return rng.choice(get_args(kind))
    if origin is tuple:
        return [_drawn(rng, get_args(kind)[0], name) for _ in range(rng.choice((0, 1, 1, 2)))]
    if origin is dict:
        return {"a": 1}
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct):
        return {
            each.encode_name: _drawn(rng, each.type, each.encode_name)
            for each in _fields(kind)
            if rng.random() < 0.3
        }
    if kind is Duration:
        return rng.choice(DURATIONS)
    if kind is bool:
        return rng.random() < 0.5
    if kind in {int, float}:
        return rng.choice((0, 1, 2, 10, 100, -1, 1000))
    return _text(rng, name)


def _text(rng: Random, name: str) -> str:
    if name == "name":
        return rng.choice((*IN_TREE, "*", "Nothing"))
    if name in {"urlPrefix", "url"}:
        return rng.choice(("http://127.0.0.1:1/x", "https://example.com", "ftp://x", ""))
    if name in {"type", "defaultingType"}:
        return rng.choice(("LeastAllocated", "MostAllocated", "List", "System", "x"))
    return rng.choice(("a", "cpu", "memory", "", "equipoise", "v1", "zone"))
