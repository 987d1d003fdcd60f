"""The example plugins in a directory that looks like a mounted ConfigMap, on a real API server."""

import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from aiohttp import web

from e2e.conftest import Launch
from e2e.harness.election import NO_ELECTION
from e2e.harness.objects import Json, is_rejected, is_running, node_of, pod
from e2e.harness.workspace import Workspace
from scheduler.config.schema import KUBE_API_VERSION, KUBE_KIND, OWN_API_VERSION, OWN_KIND

EXAMPLES = Path(__file__).parents[1] / "deploy" / "examples" / "plugins"
FAULTY = """
class Faulty:
    name = "Faulty"
    def __init__(self, args, handle): ...
    def score_node(self, cycle, node):
        raise RuntimeError("boom")
"""


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """Files as kubelets mount them: links into a directory that is replaced as a whole."""
    mounted, version = tmp_path / "plugins", "..2026_11_16_08_00_00.1234567"
    (mounted / version).mkdir(parents=True)
    files = {each.name: each.read_text() for each in EXAMPLES.glob("*.py")}
    for name, text in (files | {"faulty.py": FAULTY}).items():
        (mounted / version / name).write_text(text)
        os.symlink(f"..data/{name}", mounted / name)
    os.symlink(version, mounted / "..data")
    return mounted


def config(directory: Path, *plugins: str, **args: Json) -> str:
    """A configuration file with these plugins, as an argument of the program."""
    profile = {
        "schedulerName": "equipoise",
        "plugins": {"multiPoint": {"enabled": [{"name": name} for name in plugins]}},
        "pluginConfig": [{"name": name, "args": given} for name, given in args.items()],
    }
    documents = (
        {"apiVersion": KUBE_API_VERSION, "kind": KUBE_KIND, "profiles": [profile]},
        {
            "apiVersion": OWN_API_VERSION,
            "kind": OWN_KIND,
            "plugins": {"directory": str(directory)},
        },
    )
    file = directory.parent / "scheduler.yaml"
    file.write_text(yaml.safe_dump_all(documents))
    return f"--config={file}"


async def test_a_filter_keeps_pods_off_until_the_label_goes(
    space: Workspace, launch: Launch, directory: Path
) -> None:
    (name,) = await space.add_nodes(1)

    async def label(**labels: str) -> None:
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}}
        await space.api.apply(f"/api/v1/nodes/{name}", node)

    await label(maintenance="yes")
    launch(*NO_ELECTION, config(directory, "Maintenance"))
    await space.create_pods([pod("waits"), pod("goes", labels={"maintenance": "yes"})])
    await space.wait_for_pod("goes", is_running)
    waiting = await space.wait_for_pod("waits", is_rejected)
    (condition,) = waiting["status"]["conditions"]
    assert "node(s) were under maintenance" in condition["message"]
    await label()
    await space.wait_for_pod("waits", is_running)


async def test_a_score_that_fails_is_named_on_the_pod_and_stops_nobody(
    space: Workspace, launch: Launch, directory: Path
) -> None:
    await space.add_nodes(2)
    launch(*NO_ELECTION, config(directory, "Faulty"))
    await space.create_pods([pod("p")])
    await space.wait_for_pod("p", is_running)
    told = await space.api.wait_until(
        space.events, lambda found: found["items"], fieldSelector="reason=PluginFault"
    )
    assert [event["note"] for event in told["items"]] == [
        "plugin 'Faulty' failed at Score: RuntimeError: boom; nodes concerned get no score from it"
    ]


@pytest.fixture
async def pool() -> AsyncIterator[dict[str, Any]]:
    """A pool of one device, as the example describes it: where it is, and who has claimed it."""
    claims: dict[str, Json] = {}

    async def put(request: web.Request) -> web.Response:
        if claims:
            return web.Response(status=409)
        claims[request.match_info["claim"]] = await request.json()
        return web.Response(status=201)

    async def delete(request: web.Request) -> web.Response:
        known = claims.pop(request.match_info["claim"], None)
        return web.Response(status=204 if known else 404)

    application = web.Application()
    application.router.add_put("/claims/{claim}", put)
    application.router.add_delete("/claims/{claim}", delete)
    runner = web.AppRunner(application)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    yield {"url": f"http://127.0.0.1:{runner.addresses[0][1]}", "claims": claims}
    await runner.cleanup()


async def test_an_external_device_is_claimed_before_binding(
    space: Workspace, launch: Launch, directory: Path, pool: dict[str, Any]
) -> None:
    await space.add_nodes(2)
    launch(*NO_ELECTION, config(directory, "DeviceClaims", DeviceClaims={"url": pool["url"]}))
    wanting = {"devices.example.com/pool": "fast"}
    await space.create_pods([pod("first", labels=wanting)])
    first = await space.wait_for_pod("first", is_running)
    assert [claim["node"] for claim in pool["claims"].values()] == [node_of(first)]
    await space.create_pods([pod("second", labels=wanting)])
    second = await space.wait_for_pod("second", is_rejected)
    (condition,) = second["status"]["conditions"]
    assert condition["message"] == 'no device of pool "fast" is free'
