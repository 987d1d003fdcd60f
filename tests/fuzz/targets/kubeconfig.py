"""Kubeconfig files: an address and credentials that can be used, or a message."""

from __future__ import annotations

import asyncio
import io
import tempfile
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from random import Random
from typing import Any

import yaml

from scheduler.kube.connections import ApiEndpoint
from scheduler.kube.credentials import Credentials, KubeconfigSource
from scheduler.kube.errors import Unreachable
from tests.fuzz.mutating import copied, mutate_bytes, places
from tests.fuzz.target import Input, as_bytes

SERVERS = (
    "http://127.0.0.1:1", "https://example.com:6443", "http://[::1]:80", "http://[::1", "http://a..b:80",
    "http://" + "x" * 300, "http://" + "x" * 64 + ".com", "ftp://x", "", "x", "http://", "http://x:99999",
    "http://x:-1", "http://x:a", "http://ü.example", "http://user:pw@x", "http://x/path/../y?q#f",
    "http://x y", "http://x\r\nA: b", "HTTP://X", "http://%00", "http://\u2488com", "//x", "http://.x",
)  # fmt: skip
ODD: tuple[Any, ...] = (
    None,
    "",
    0,
    1.5,
    True,
    [],
    {},
    [{}],
    "x",
    "\x00",
    {"a": None},
    ["a"],
    "é",
    "a" * 999,
)


class Kubeconfigs:
    """Loads one file, up to where a request would be sent."""

    name = "kubeconfig"
    what = "kubeconfig files: an address and headers that can be sent, or why not"
    share = 12

    def __init__(self) -> None:
        self._runner = asyncio.Runner()
        self._directory = tempfile.TemporaryDirectory()
        self._path = Path(self._directory.name) / "config"

    def draw(self, rng: Random) -> Input:
        """A file with one cluster and one user, with something odd in it."""
        cluster = {"server": rng.choice(SERVERS), "insecure-skip-tls-verify": rng.random() < 0.5}
        user: dict[str, Any] = rng.choice(
            (
                {"token": rng.choice(("t", "", "a\r\nb", "é", "\u4e2d", "x" * 9000))},
                {"username": "u", "password": rng.choice(("p", "", "ü"))},
                {"tokenFile": rng.choice(("/nonexistent", "/dev/null", ""))},
                {
                    "client-certificate-data": rng.choice(("eA==", "x", "")),
                    "client-key-data": "eA==",
                },
                {
                    "exec": {
                        "command": "/nonexistent",
                        "apiVersion": "client.authentication.k8s.io/v1",
                    }
                },
                {},
            )
        )
        document: dict[str, Any] = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "main",
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": "u", "user": user}],
            "contexts": [{"name": "main", "context": {"cluster": "c", "user": "u"}}],
        }
        if rng.random() < 0.6:
            container, key = rng.choice(places(document))
            if key != "command":
                container[key] = copied(rng.choice(ODD))
        data = yaml.safe_dump(document, allow_unicode=True).encode()
        return (mutate_bytes(rng, data) if rng.random() < 0.15 else data).decode("latin-1")

    def check(self, given: Input) -> list[str]:
        """Only `Unreachable` is raised; requests have one head and go to a host that can exist."""
        if "exec" in given and "/nonexistent" not in given:
            return []  # another command would be run
        self._path.write_bytes(as_bytes(given))
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):  # the library prints
            return self._runner.run(self._checked())

    async def _checked(self) -> list[str]:
        credentials = Credentials(KubeconfigSource(str(self._path), None))
        try:
            access = await credentials.current()
            endpoint = ApiEndpoint.of(access, {"Accept": "application/json"})
        except Unreachable as fault:
            return [] if str(fault) else ["a kubeconfig is refused without a word"]
        message = endpoint.message("GET", "/api/v1/pods?limit=1", "", None)
        wrong = []
        if message.count(b"\r\n\r\n") != 1 or b"\n\n" in message:
            wrong.append("a kubeconfig puts more than one head into a request")
        if not access.proxy:
            try:
                endpoint.host.encode("idna")
            except UnicodeError:
                wrong.append("an address is taken whose host cannot be looked up")
        return wrong

    def close(self) -> None:
        """Remove the file and end the loop."""
        self._runner.close()
        self._directory.cleanup()
