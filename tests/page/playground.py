"""The demo with its workload, served on a free port."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, NamedTuple

import aiohttp
import pytest

from sandbox.demo.ports import listen
from sandbox.demo.session import Demo, running
from sandbox.demo.settings import DOCUMENT
from scheduler.assembly import configure
from scheduler.config.loading import Configuration
from scheduler.serve.page import STATIC
from tests.gangs.support import make_group, member

PATCHES = {"strategic": "strategic-merge-patch", "merge": "merge-patch", "json": "json-patch"}


needs_page = pytest.mark.skipif(
    not (STATIC / "index.html").is_file(), reason="the page is not built: run make page"
)
"""For tests of the page itself: a checkout may be without the built files."""


def configured(**own: Any) -> Configuration:
    """The demo's configuration with batches, and sections of our own."""
    document = {
        "apiVersion": "equipoise.dev/v1alpha1",
        "kind": "EquipoiseConfiguration",
        "batch": {"enabled": True, "minPending": 8},
        **own,
    }
    return configure([DOCUMENT, document], {})


@asynccontextmanager
async def playground(scale: int = 5) -> AsyncIterator[Demo]:
    """A demo whose pods are placed as far as they fit."""
    async with running(configured(), scale, listen(0, 0), listen(0, 0)) as demo:
        await demo.create_nodes()
        await demo.create_pods()
        await demo.create_pinned_pods()
        await demo.create_device_pods()
        for name, least, cpu in (("fits", 3, "100m"), ("too-large", 4, "90")):
            await create(demo, make_group(name, least).obj())
            for number in range(least):
                await create(demo, member(f"{name}-{number}", name, cpu).obj())
        await demo.settle()
        yield demo


def url_of(demo: Demo) -> str:
    """Where the page is served."""
    server = demo.daemon.server
    assert server is not None
    return server.url


class Patch(NamedTuple):
    """What ``kubectl patch`` sends."""

    path: str
    media: str
    body: Any


def patch_of(command: str) -> Patch:
    """The request that a command of the page stands for."""
    words = shlex.split(command)
    assert words[:2] == ["kubectl", "patch"], command

    def after(option: str, default: str) -> str:
        return words[words.index(option) + 1] if option in words else default

    target = next(word for word in words[2:] if re.fullmatch(r"[a-z]+/[a-z0-9.-]+", word))
    kind, _, name = target.partition("/")
    namespace = after("-n", "")
    where = f"/api/v1/namespaces/{namespace}" if namespace else "/api/v1"
    media = f"application/{PATCHES[after('--type', 'strategic')]}+json"
    return Patch(f"{where}/{kind}s/{name}", media, json.loads(after("-p", "null")))


async def create(demo: Demo, manifest: dict[str, Any]) -> None:
    """Create a pod or a PodGroup, as its user does."""
    namespace = manifest["metadata"]["namespace"]
    path = f"{demo.api.url}/apis/scheduling.x-k8s.io/v1alpha1/namespaces/{namespace}/podgroups"
    if manifest["kind"] == "Pod":
        manifest["spec"]["containers"][0].setdefault("image", "example.com/app:1")
        path = f"{demo.api.url}/api/v1/namespaces/{namespace}/pods"
    async with aiohttp.ClientSession() as session, session.post(path, json=manifest) as answer:
        assert answer.status == 201, await answer.text()


async def follow(demo: Demo, command: str) -> None:
    """Do what the command does."""
    patch = patch_of(command)
    headers = {"Content-Type": patch.media}
    async with (
        aiohttp.ClientSession() as session,
        session.patch(demo.api.url + patch.path, json=patch.body, headers=headers) as answer,
    ):
        assert answer.status == 200, await answer.text()
