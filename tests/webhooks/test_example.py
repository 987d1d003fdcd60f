"""The example in ``deploy/examples/webhook``: its server, as a process, with its own settings."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import yaml

from e2e.harness.ports import free_port
from tests.builders import make_pod, make_worker
from tests.kube.support import eventually
from tests.webhooks.support import RemoteStage, documents

EXAMPLE = Path(__file__).parents[2] / "deploy" / "examples" / "webhook"


def values() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((EXAMPLE / "values.yaml").read_text())
    return found


async def test_its_server_keeps_teams_to_their_nodes() -> None:
    (webhook,) = values()["equipoiseConfig"]["webhooks"]
    port = free_port()
    server = await asyncio.create_subprocess_exec(
        sys.executable, EXAMPLE / "server.py", str(port), stderr=asyncio.subprocess.DEVNULL
    )
    try:
        await until_open(port)
        hook = {**webhook, "url": f"http://127.0.0.1:{port}", "timeout": "30s"}
        async with RemoteStage(documents(hook)) as stage:
            stage.see(make_worker("n1").label(team="red"), make_worker("n2").label(team="blue"))
            stage.see(make_worker("n3").label(team="blue", disk="ssd"))
            stage.see(*(make_pod(f"blue-{i}").label(team="blue") for i in range(3)))
            stage.see(make_pod("red").label(team="red"), make_pod("green").label(team="green"))
            await stage.settle()
            assert stage.bound() == {"red": "n1", **{f"blue-{i}": "n3" for i in range(3)}}
            assert "3 node(s) belonged to another team" in stage.messages()["green"]
    finally:
        server.terminate()
        await server.wait()


async def until_open(port: int) -> None:
    """Wait until somebody listens."""
    found: list[bool] = []

    async def look() -> None:
        while not found:
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
            except OSError:
                await asyncio.sleep(0.02)
            else:
                writer.close()
                await writer.wait_closed()
                found.append(True)

    task = asyncio.create_task(look())
    await eventually(lambda: bool(found))
    await task
