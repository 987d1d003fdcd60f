"""A webhook that answers to do harm: a bomb for some pods, an endless wait for others."""

import gzip
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml
from aiohttp import web

from e2e.harness.ports import free_ports

BOMB_BYTES = 1 << 30


def with_webhook(directory: Path) -> str:
    """A configuration that asks the webhook about pods with the label ``ask``."""
    (port,) = free_ports(1)
    (directory / "webhook.port").write_text(str(port))
    kube = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [
            {
                "schedulerName": "equipoise",
                "plugins": {"multiPoint": {"enabled": [{"name": "Harmful"}]}},
            }
        ],
    }
    webhook = {
        "name": "Harmful",
        "url": f"http://127.0.0.1:{port}",
        "points": ["preEnqueue", "filter"],
        "timeout": "5s",
        "pods": {"matchLabels": {"ask": "yes"}},
    }
    ours = {
        "apiVersion": "equipoise.dev/v1alpha1",
        "kind": "EquipoiseConfiguration",
        "webhooks": [webhook],
    }
    path = directory / "webhook.yaml"
    path.write_text(yaml.safe_dump_all([kube, ours]))
    return f"--config={path}"


@dataclass
class Webhook:
    """What the webhook does now."""

    harmful: bool = True


@asynccontextmanager
async def bad_webhook(directory: Path) -> AsyncIterator[Webhook]:
    """Serve the webhook of a configuration made before, if there is one, during the block."""
    webhook = Webhook()
    file = directory / "webhook.port"
    if not file.exists():
        yield webhook
        return
    runner = web.AppRunner(_application(webhook), access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", int(file.read_text())).start()
    try:
        yield webhook
    finally:
        await runner.cleanup()


def _application(webhook: Webhook) -> web.Application:
    bomb = gzip.compress(bytes(BOMB_BYTES), compresslevel=9)

    async def answer(request: web.Request) -> web.Response:
        question = await request.text()
        entering = request.path.endswith("pre-enqueue")
        if webhook.harmful and entering and '"wait-' in question:
            return web.json_response({"code": "Unschedulable", "retryAfterSeconds": 1e300})
        if webhook.harmful and not entering:
            headers = {"Content-Encoding": "gzip", "Content-Type": "application/json"}
            return web.Response(body=bomb, headers=headers)
        return web.json_response({})

    app = web.Application(client_max_size=64 << 20)
    app.router.add_route("POST", "/{path:.*}", answer)
    return app
