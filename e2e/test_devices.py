"""Devices on the real API server: whatever happens, no device is given away twice.

Each test ends with the ledger, which reads claims, slices and pods from the API and adds them up.
"""

import asyncio
import contextlib
import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from e2e.adversity.proxy import proxy
from e2e.conftest import Launch
from e2e.harness.cluster import ControlPlane
from e2e.harness.devices import (
    GPU,
    SLICES,
    Ledger,
    annotating,
    board,
    by_claim,
    by_template,
    claim,
    claim_template,
    claims_in,
    device_class,
    gpu,
    ledger,
    left_behind,
    request,
    resource_slice,
    results_of,
)
from e2e.harness.election import NO_ELECTION
from e2e.harness.kubeconfig import write_kubeconfig
from e2e.harness.objects import Json, condition, is_bound, is_rejected, node_of, pod
from e2e.harness.scheduler import SchedulerProcess
from e2e.harness.workspace import Workspace

SOUND = Ledger([], [], [], [], [])
TAINT = {"key": "example.com/broken", "effect": "NoSchedule"}


async def gpus(space: Workspace, count: int, each: int) -> list[str]:
    """Nodes with so many devices each."""
    nodes = await space.add_nodes(count, cpu="32")
    for node in nodes:
        await space.apply(resource_slice(node, [gpu(f"gpu-{number}") for number in range(each)]))
    return nodes


async def one_each(space: Workspace, name: str = "one") -> str:
    """A class of this test's own and a template for one device of it."""
    cls = f"{space.name}-{name}"
    await space.apply(device_class(cls), claim_template(name, request(cls)))
    return name


async def delete_pods(space: Workspace, names: list[str]) -> None:
    paths = [f"{space.pods}/{name}" for name in names]
    await asyncio.gather(*(space.api.delete(path, gracePeriodSeconds="0") for path in paths))


async def released(space: Workspace, left: int) -> None:
    """Wait until so many claims of the namespace are left."""
    await space.api.wait_until(
        claims_in(space.name), lambda claims: len(claims["items"]) == left, resourceVersion="0"
    )


async def test_claims_from_templates_come_and_go(space: Workspace, launch: Launch) -> None:
    nodes = await gpus(space, 4, 5)
    template = await one_each(space)
    launch(*NO_ELECTION)
    await space.create_pods([pod(f"p-{number}", **by_template(template)) for number in range(24)])

    def settled(pods: Json) -> bool:
        items = pods["items"]
        return sum(map(is_bound, items)) == 20 and all(map(_decided, items))

    seen = await space.api.wait_until(space.pods, settled)
    bound = [each for each in seen["items"] if is_bound(each)]
    assert Counter(map(node_of, bound)) == dict.fromkeys(nodes, 5)
    (waiting, *_) = [each for each in seen["items"] if not is_bound(each)]
    assert "4 cannot allocate all claims" in condition(waiting, "PodScheduled")["message"]
    assert await ledger(space.api, space.name) == SOUND

    await delete_pods(space, [each["metadata"]["name"] for each in bound[:10]])
    await space.wait_for_pods(14)
    await released(space, 14)
    assert await ledger(space.api, space.name) == SOUND


def _decided(each: Json) -> bool:
    return is_bound(each) or is_rejected(each)


async def test_a_claim_is_shared(space: Workspace, launch: Launch) -> None:
    await gpus(space, 3, 1)
    cls = f"{space.name}-class"
    await space.apply(device_class(cls), claim("shared", request(cls)))
    launch(*NO_ELECTION)
    await space.create_pods([pod(f"p-{number}", **by_claim("shared")) for number in range(12)])
    pods = await space.wait_for_pods(12)
    assert len(set(map(node_of, pods))) == 1
    shared = await space.api.get(f"{claims_in(space.name)}/shared")
    assert len(shared["status"]["reservedFor"]) == 12
    assert await ledger(space.api, space.name) == SOUND
    await delete_pods(space, [f"p-{number}" for number in range(12)])
    await space.api.wait_until(
        f"{claims_in(space.name)}/shared", lambda each: not each.get("status", {}).get("allocation")
    )


ODD_PARAMETERS = {
    "half-a-pair": rb'"\ud800"',
    "no-text": b'"\xff\xfe"',
    "deep": b'{"a":' * 1500 + b"1" + b"}" * 1500,
}
"""The API server keeps them byte for byte, and decoders differ."""


async def odd_claims(space: Workspace, cls: str, suffix: str) -> None:
    for name, parameters in ODD_PARAMETERS.items():
        opaque = {"driver": GPU, "parameters": {"a": "PLACE"}}
        body = claim(f"{name}-{suffix}", request(cls), config=[{"opaque": opaque}])
        odd = json.dumps(body).encode().replace(b'"PLACE"', parameters)
        await space.api.create_bytes(claims_in(space.name), odd)


async def test_parameters_that_are_no_text_stop_nobody(space: Workspace, launch: Launch) -> None:
    """Nor do pods with such claims, which wait: our decoder cannot write these bytes again."""
    await gpus(space, 2, 4)
    cls = f"{space.name}-class"
    await space.apply(device_class(cls), *(claim(name, request(cls)) for name in ("one", "two")))
    await odd_claims(space, cls, "listed")
    scheduler = launch(*NO_ELECTION)
    await space.create_pods([pod("one", **by_claim("one"))])
    await space.wait_for_pods(1)
    await odd_claims(space, cls, "watched")
    odd = [f"{name}-{how}" for name in ODD_PARAMETERS for how in ("listed", "watched")]
    await space.create_pods([pod(name, **by_claim(name)) for name in odd])
    await space.create_pods([pod("two", **by_claim("two"))])
    await space.api.wait_until(f"{space.pods}/two", is_bound)
    assert scheduler.process.exit_code is None
    await space.api.delete(claims_in(space.name))  # other tests read lists as text


async def test_extended_resources_without_claims(space: Workspace, launch: Launch) -> None:
    await gpus(space, 2, 3)
    cls, resource = f"{space.name}-class", f"{space.name}.example.com/gpu"
    await space.apply(device_class(cls, extendedResourceName=resource))
    launch(*NO_ELECTION)
    pods = [pod(f"p-{number}") for number in range(6)]
    for each in pods:
        resources = each["spec"]["containers"][0]["resources"]
        resources["requests"][resource] = "1"
        resources["limits"] = {resource: "1"}
    await space.create_pods(pods)
    bound = await space.wait_for_pods(6)
    assert all(each["status"]["extendedResourceClaimStatus"] for each in bound)
    assert len(await space.api.items(claims_in(space.name))) == 6
    assert await ledger(space.api, space.name) == SOUND
    await delete_pods(space, [each["metadata"]["name"] for each in bound])
    await released(space, 0)


async def test_a_claim_that_an_attempt_has_left(space: Workspace, launch: Launch) -> None:
    await gpus(space, 1, 1)
    cls, resource = f"{space.name}-class", f"{space.name}.example.com/gpu"
    await space.apply(device_class(cls, extendedResourceName=resource))
    wanting = pod("extended", schedulingGates=[{"name": "example.com/later"}])
    resources = wanting["spec"]["containers"][0]["resources"]
    resources["requests"][resource] = "1"
    resources["limits"] = {resource: "1"}
    await space.create_pods([wanting])
    left = left_behind(await space.get("Pod", "extended"), cls)
    await space.apply(left)
    # Lists it before it schedules: of two watches, that of pods may be the first to tell.
    launch(*NO_ELECTION)
    await space.api.patch(f"{space.pods}/extended", {"spec": {"schedulingGates": None}})
    await space.wait_for_pod("extended")
    await space.api.wait_until_gone(f"{claims_in(space.name)}/{left['metadata']['name']}")
    assert await ledger(space.api, space.name) == SOUND


async def test_partitions_and_shares(space: Workspace, launch: Launch) -> None:
    parts, shares = await space.add_nodes(2, cpu="32")
    cls = f"{space.name}-class"
    profile = 'device.attributes["gpu.example.com"].?profile.orValue("") == '
    sharing = [gpu(f"gpu-{number}", "80Gi", allowMultipleAllocations=True) for number in range(2)]
    await space.apply(
        *board(parts, 4),
        resource_slice(shares, sharing),
        device_class(cls),
        claim_template("half", request(cls, expression=f'{profile}"half"')),
        claim_template("quarter", request(cls, expression=f'{profile}"quarter"')),
        claim_template(
            "share",
            request(
                cls,
                expression="device.allowMultipleAllocations",
                capacity={"requests": {"memory": "30Gi"}},
            ),
        ),
    )
    launch(*NO_ELECTION)
    wanted = {"half": 4, "quarter": 8, "share": 5}
    await space.create_pods(
        [
            pod(f"{kind}-{number}", **by_template(kind))
            for kind, count in wanted.items()
            for number in range(count)
        ]
    )
    seen = await space.api.wait_until(
        space.pods,
        lambda pods: len(pods["items"]) == 17 and all(map(_decided, pods["items"])),
    )
    bound = Counter(
        each["metadata"]["name"].partition("-")[0] for each in seen["items"] if is_bound(each)
    )
    # 30Gi twice on each of two devices; four boards are as many parts as four halves and eight
    # quarters, but a half needs two quarters of one board.
    assert bound["share"] == 4
    assert bound["half"] + bound["quarter"] / 2 >= 7
    assert await ledger(space.api, space.name) == SOUND


async def test_taints_of_devices(space: Workspace, launch: Launch) -> None:
    (node,) = await space.add_nodes(1)
    cls = f"{space.name}-class"
    tolerations = [{"key": TAINT["key"], "operator": "Exists"}]
    await space.apply(
        resource_slice(node, [gpu("good"), gpu("bad", taints=[TAINT])]),
        device_class(cls),
        claim_template("any", request(cls)),
        claim_template("broken-too", request(cls, tolerations=tolerations)),
    )
    launch(*NO_ELECTION)
    await space.create_pods([pod("first", **by_template("any"))])
    await space.wait_for_pod("first")
    await space.create_pods([pod("second", **by_template("any"))])
    await space.wait_for_pod("second", is_rejected)
    await space.create_pods([pod("tolerant", **by_template("broken-too"))])
    await space.wait_for_pod("tolerant")
    assert await ledger(space.api, space.name) == SOUND
    # The driver says that it is whole again, after another pod has freed the other device.
    await delete_pods(space, ["tolerant"])
    await space.apply(resource_slice(node, [gpu("good"), gpu("bad")], generation=2))
    await space.wait_for_pod("second")
    assert await ledger(space.api, space.name) == SOUND


async def test_a_driver_republishes_while_pods_are_scheduled(
    space: Workspace, launch: Launch
) -> None:
    nodes = await space.add_nodes(3, cpu="64")
    template = await one_each(space)
    for node in nodes:
        await space.apply(resource_slice(node, [gpu(f"gpu-{number}") for number in range(20)]))
    launch(*NO_ELECTION)
    async with republishing(space, nodes):
        await space.create_pods(
            [pod(f"p-{number}", **by_template(template)) for number in range(60)]
        )
        await space.wait_for_pods(60)
    assert await ledger(space.api, space.name) == SOUND


@asynccontextmanager
async def republishing(space: Workspace, nodes: list[str]) -> AsyncIterator[None]:
    """The driver publishes new generations of all pools, in two slices that do not come at once."""

    async def publish() -> None:
        for generation in range(2, 1000):
            for node in nodes:
                for part in range(2):
                    devices = [gpu(f"gpu-{number}") for number in range(part, 20, 2)]
                    await space.apply(
                        resource_slice(
                            node,
                            devices,
                            part="devices" if part == 0 else "more",
                            count=2,
                            generation=generation,
                        )
                    )

    task = asyncio.create_task(publish())
    try:
        yield
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task


async def test_others_change_claims_at_the_same_time(space: Workspace, launch: Launch) -> None:
    await gpus(space, 3, 10)
    template = await one_each(space)
    launch(*NO_ELECTION)
    async with annotating(space.api, space.name):
        await space.create_pods(
            [pod(f"p-{number}", **by_template(template)) for number in range(30)]
        )
        await space.wait_for_pods(30)
    assert await ledger(space.api, space.name) == SOUND


@asynccontextmanager
async def behind(replica: SchedulerProcess) -> AsyncIterator[SchedulerProcess]:
    """A replica whose API server is a proxy on this event loop, which must not be blocked."""
    await asyncio.to_thread(replica.__enter__)
    try:
        yield replica
    finally:
        await asyncio.to_thread(replica.__exit__, None, None, None)


async def test_killed_between_allocation_and_binding(
    control_plane: ControlPlane, space: Workspace, tmp_path: Path
) -> None:
    """A scheduler dies with claims allocated and pods unbound; its successor uses the same."""
    await gpus(space, 3, 4)
    template = await one_each(space)
    async with proxy(control_plane.url, control_plane.admin_context) as front:
        front.faults.hang_binding = lambda namespace: namespace == space.name
        kubeconfig = write_kubeconfig(
            tmp_path / "front.kubeconfig",
            front.url,
            control_plane.certificates.authority,
            {"token": "none"},
        )
        async with behind(
            SchedulerProcess(kubeconfig, tmp_path / "first.log", *NO_ELECTION)
        ) as first:
            await space.create_pods(
                [pod(f"p-{number}", **by_template(template)) for number in range(10)]
            )
            before = await space.api.wait_until(
                claims_in(space.name),
                lambda claims: sum(bool(results_of(each)) for each in claims["items"]) == 10,
            )
            first.process.kill()
        assert not any(map(is_bound, await space.api.items(space.pods)))
        await delete_pods(space, ["p-0", "p-1"])
        front.faults.hang_binding = lambda _: False
        async with behind(SchedulerProcess(kubeconfig, tmp_path / "second.log", *NO_ELECTION)):
            await space.wait_for_pods(8)
        assert await ledger(space.api, space.name) == SOUND
        await released(space, 8)
        devices = {each["metadata"]["name"]: results_of(each) for each in before["items"]}
        for each in await space.api.items(claims_in(space.name)):
            assert results_of(each) == devices[each["metadata"]["name"]]


async def test_bad_selectors_and_slices_hurt_nobody_else(space: Workspace, launch: Launch) -> None:
    (node,) = await gpus(space, 1, 2)
    template = await one_each(space)
    cls = f"{space.name}-one"
    missing = 'device.attributes["gpu.example.com"].nope == 1'
    await space.apply(claim_template("wrong", request(cls, expression=missing)))
    launch(*NO_ELECTION)
    await space.create_pods([pod("wrong", **by_template("wrong"))])
    await space.create_pods([pod("right", **by_template(template))])
    await space.wait_for_pod("right")
    wrong = await space.wait_for_pod("wrong", lambda each: condition(each, "PodScheduled"))
    assert "no such key: nope" in condition(wrong, "PodScheduled")["message"]
    # Two slices of one generation with the same device contradict each other.
    twice = resource_slice(node, [gpu("gpu-0")], part="again", count=2)
    first = resource_slice(node, [gpu("gpu-0"), gpu("gpu-1")], count=2)
    await space.apply(first, twice)
    await space.create_pods([pod("late", **by_template(template))])
    late = await space.wait_for_pod("late", is_rejected)
    assert "invalid resource pools" in condition(late, "PodScheduled")["message"]
    await space.api.delete(f"{SLICES}/{twice['metadata']['name']}")
    await space.apply(resource_slice(node, [gpu("gpu-0"), gpu("gpu-1")], generation=2))
    await space.wait_for_pod("late")
    assert await ledger(space.api, space.name) == SOUND


async def test_the_ledger_finds_what_does_not_add_up(space: Workspace) -> None:
    """What the other tests rest on: claims that no scheduler would write."""
    (node,) = await space.add_nodes(1)
    halves = [f"board-0-half-{number}" for number in range(2)]
    wrong = [*halves, "board-0-whole-0", "board-0-whole-0"]
    cls = f"{space.name}-class"
    await space.apply(*board(node), device_class(cls))
    user = {"resource": "pods", "name": "nobody", "uid": "none"}
    for number, device in enumerate(wrong):
        await space.apply(claim(f"c-{number}", request(cls)))
        path = f"{claims_in(space.name)}/c-{number}"
        result = {"request": "gpu", "driver": GPU, "pool": node, "device": device}
        status = {"allocation": {"devices": {"results": [result]}}, "reservedFor": [user]}
        await space.api.patch(f"{path}/status", {"status": status})
        if number == 1:
            found = await ledger(space.api, space.name)
            assert (found.taken_twice, found.overdrawn) == ([], [])
    found = await ledger(space.api, space.name)
    assert [device.name for device in found.taken_twice] == ["board-0-whole-0"]
    assert found.overdrawn == [f"{GPU} {node} board-0 parts"]
