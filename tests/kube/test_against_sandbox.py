"""The whole edge over HTTP, against the embedded API server and the faults it can produce."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
import pytest

from e2e.harness.ports import free_port
from sandbox.apiserver import ApiServer
from scheduler.kube.client import KubeClient
from scheduler.kube.errors import Invalid
from scheduler.kube.events import EventRecorder, RegardingReference
from scheduler.kube.lease import LeaderElector
from scheduler.kube.listing import list_all
from scheduler.kube.watch import OBJECTS_AT_ONCE, Reflector, WatchedResource
from scheduler.kube.writes import ApiWriter, Binding
from scheduler.model.objects import KINDS, Node, Pod, PodGroup
from scheduler.observe.metrics import Metrics
from tests.patience import PATIENCE

from .support import connected, eventually
from .watch_support import PODS, Watched, running

POD_GROUPS = KINDS["PodGroup"]


@pytest.fixture
async def server() -> AsyncIterator[ApiServer]:
    server = ApiServer()
    # Nobody else takes it while a test has the server stopped.
    await server.start(port=free_port())
    try:
        yield server
    finally:
        await server.stop()


@pytest.fixture
async def client(server: ApiServer) -> AsyncIterator[KubeClient]:
    async with connected(server.url) as client:
        yield client


async def create(client: KubeClient, name: str, **spec: object) -> Pod:
    body = {
        "metadata": {"name": name},
        "spec": {"containers": [{"name": "c", "image": "i"}], **spec},
    }
    answer = await client.request("POST", "/api/v1/namespaces/default/pods", body=body)
    return msgspec.json.decode(answer, type=Pod)


async def read(client: KubeClient, path: str) -> Any:
    return msgspec.json.decode(await client.request("GET", path))


async def test_a_reflector_follows_the_server_through_cuts_and_compaction(
    server: ApiServer, client: KubeClient
) -> None:
    for index in range(3):
        await create(client, f"old-{index}")
    watched = Watched(client)
    known = watched.reflector.store
    with running(watched):
        await watched.reflector.synced.wait()
        assert len(known) == 3
        await create(client, "during")
        await eventually(lambda: "default/during" in known)
        await eventually(lambda: server.faults.cut_watches() > 0)
        await create(client, "after-cut")
        await eventually(lambda: "default/after-cut" in known)
        assert watched.restarts("cut") >= 1
        await eventually(lambda: server.faults.end_watches() > 0)
        await client.request("DELETE", "/api/v1/namespaces/default/pods/old-0")
        await eventually(lambda: "default/old-0" not in known)
    added = [change for change in watched.reported if change.startswith("+")]
    assert len(added) == len(set(added)) == 5, "nothing was reported twice"


async def test_a_reflector_that_was_away_too_long_lists_the_difference(
    server: ApiServer, client: KubeClient
) -> None:
    await create(client, "stays")
    await create(client, "goes")
    watched = Watched(client)
    with running(watched):
        await watched.reflector.synced.wait()
        await eventually(lambda: server.faults.watches > 0)
        url, port = server.host, server.port
        await server.stop()
        registry = server.registry
        registry.delete(registry.builtin("pods"), ("default", "goes"))
        server.faults.compact()
        await server.start(url, port)
        await eventually(lambda: watched.known.keys() == {"default/stays"})
    assert [change[0] for change in watched.reported] == ["+", "+", "-"]


async def test_a_silent_server_is_noticed(server: ApiServer, client: KubeClient) -> None:
    metrics = Metrics()
    reflector = Reflector(client, PODS, lambda _: None, metrics, idle_timeout=0.05)
    server.faults.silence_watches()
    task = asyncio.create_task(reflector.run())
    labels = {"kind": "Pod", "reason": "silent"}
    name = "equipoise_watch_restarts_total"
    await eventually(lambda: (metrics.registry.get_sample_value(name, labels) or 0) > 0)
    server.faults.resume_watches()
    await create(client, "late")
    await eventually(lambda: "default/late" in reflector.store)
    task.cancel()


async def test_a_crd_that_is_installed_later_is_picked_up(client: KubeClient) -> None:
    found: list[str] = []
    reflector = Reflector(
        client,
        WatchedResource("PodGroup", POD_GROUPS.path, PodGroup, optional=True),
        lambda changes: found.extend(c.new.metadata.name for c in changes if c.new),
        Metrics(),
        sleep=lambda _: asyncio.sleep(0),
    )
    task = asyncio.create_task(reflector.run())
    await reflector.synced.wait()
    version = {"name": "v1alpha1", "served": True, "storage": True, "schema": {}}
    names = {"plural": "podgroups", "singular": "podgroup", "kind": "PodGroup"}
    names["listKind"] = "PodGroupList"
    spec = {"group": "scheduling.x-k8s.io", "names": names, "scope": "Namespaced"}
    definition = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "podgroups.scheduling.x-k8s.io"},
        "spec": {**spec, "versions": [version]},
    }
    path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    await client.request("POST", path, body=definition)
    groups = "/apis/scheduling.x-k8s.io/v1alpha1/namespaces/default/podgroups"
    gang = {
        "apiVersion": "scheduling.x-k8s.io/v1alpha1",
        "kind": "PodGroup",
        "metadata": {"name": "gang"},
        "spec": {"minMember": 3},
    }
    await client.request("POST", groups, body=gang)
    await eventually(lambda: found == ["gang"])
    task.cancel()


async def test_large_lists_come_in_pages(server: ApiServer, client: KubeClient) -> None:
    registry = server.registry
    for index in range(1201):
        registry.create(registry.builtin("nodes"), "", {"metadata": {"name": f"n{index}"}})
    batches: list[int] = []
    node = KINDS["Node"]
    reflector: Reflector[Node] = Reflector(
        client,
        WatchedResource(node.name, node.path, node.type),
        lambda changes: batches.append(len(changes)),
        Metrics(),
    )
    task = asyncio.create_task(reflector.run())
    await reflector.synced.wait()
    task.cancel()
    pages = [25, 100, 400, 500, 176]
    assert batches == [
        min(OBJECTS_AT_ONCE, page - start)
        for page in pages
        for start in range(0, page, OBJECTS_AT_ONCE)
    ]
    assert len(await list_all(client, reflector.resource)) == 1201


async def test_a_very_large_object_is_watched(client: KubeClient) -> None:
    watched = Watched(client)
    with running(watched):
        await watched.reflector.synced.wait()
        await create(client, "large", tolerations=[{"key": "k" * 1_000_000}])
        await eventually(lambda: "default/large" in watched.known)


@pytest.fixture
async def writer(client: KubeClient) -> ApiWriter:
    return ApiWriter(client, sleep=lambda _: asyncio.sleep(0))


async def test_a_binding_whose_answer_is_lost_is_found_out(
    server: ApiServer, client: KubeClient, writer: ApiWriter
) -> None:
    pod = await create(client, "x")
    server.faults.drop("POST", "/binding$")
    outcome = await writer.bind("default", "x", pod.metadata.uid, "n")
    assert outcome.result is Binding.BOUND
    bound = await read(client, "/api/v1/namespaces/default/pods/x")
    assert bound["spec"]["nodeName"] == "n"


async def test_a_binding_whose_request_is_lost_is_repeated(
    server: ApiServer, client: KubeClient, writer: ApiWriter
) -> None:
    pod = await create(client, "x")
    server.faults.drop("POST", "/binding$", processed=False)
    server.faults.fail("POST", "/binding$", status=429, headers={"Retry-After": "1"})
    outcome = await writer.bind("default", "x", pod.metadata.uid, "n")
    assert outcome.result is Binding.BOUND


async def test_bindings_that_the_server_refuses(client: KubeClient, writer: ApiWriter) -> None:
    pod = await create(client, "x")
    await writer.bind("default", "x", pod.metadata.uid, "n")
    again = await writer.bind("default", "x", pod.metadata.uid, "m")
    assert (again.result, again.node) == (Binding.ELSEWHERE, "n")
    other = await writer.bind("default", "x", "00000000-0000-0000-0000-000000000000", "n")
    assert other.result is Binding.GONE
    missing = await writer.bind("default", "missing", pod.metadata.uid, "n")
    assert missing.result is Binding.GONE


async def test_a_status_patch_merges_conditions_and_checks_the_uid(
    client: KubeClient, writer: ApiWriter
) -> None:
    pod = await create(client, "x")
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    patch = {"status": {"conditions": [condition]}}
    await writer.patch_pod_status("default", "x", patch, pod.metadata.uid)
    patched = await read(client, "/api/v1/namespaces/default/pods/x")
    assert [c["reason"] for c in patched["status"]["conditions"]] == ["Unschedulable"]
    with pytest.raises(Invalid):
        await writer.patch_pod_status("default", "x", patch, "another-uid")


async def test_events_arrive_as_series(client: KubeClient, writer: ApiWriter) -> None:
    recorder = EventRecorder(writer, Metrics(), "equipoise", "equipoise-0")
    regarding = RegardingReference("Pod", "x", "default", "u")
    task = asyncio.create_task(recorder.run())
    for _ in range(2):
        recorder.record(regarding, "Warning", "FailedScheduling", "Scheduling", "no room")
        assert await recorder.flush(PATIENCE)
    task.cancel()
    listed = await read(client, "/apis/events.k8s.io/v1/namespaces/default/events")
    [event] = listed["items"]
    assert (event["note"], event["series"]["count"]) == ("no room", 2)


@contextmanager
def candidate(client: KubeClient, identity: str) -> Iterator[LeaderElector]:
    elector = LeaderElector(
        client,
        Metrics(),
        namespace="kube-system",
        name="equipoise",
        identity=identity,
        on_lost=lambda: None,
        sleep=lambda _: asyncio.sleep(0.01),
    )
    task = asyncio.create_task(elector.run())
    try:
        yield elector
    finally:
        task.cancel()


async def test_leadership_passes_on_when_the_leader_leaves(client: KubeClient) -> None:
    with candidate(client, "two") as two:
        with candidate(client, "one"):
            await eventually(lambda: two.holder != "")
        await eventually(two.leading.is_set)
    lease = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/equipoise"

    async with asyncio.timeout(PATIENCE):
        while (await read(client, lease))["spec"]["holderIdentity"]:
            pass
