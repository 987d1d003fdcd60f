"""A changed configuration rolls; an upgrade under load loses no pod and binds none twice."""

import asyncio
import json
from collections import Counter

from e2e.harness.audit import right_of
from e2e.harness.objects import Json, is_bound, pod
from e2e.harness.scheduler import NAMESPACE
from e2e.harness.workspace import Workspace
from e2e.installed.conftest import Installed
from e2e.installed.release import DEPLOYMENT, is_rolled_out, wait_until_leading
from shipping.helm import RELEASE

WAVE = 5
BACKLOG = 4 * WAVE
PER_NODE = 10
"""How many pods of 200m fill a node of two CPUs."""


async def test_a_changed_configuration_rolls(installed: Installed, space: Workspace) -> None:
    await wait_until_leading(space.api, installed.kubelet)
    before = {replica.name for replica in installed.kubelet.replicas}
    viewer = "rbac.viewers[0]"
    account = f"{viewer}.kind=ServiceAccount,{viewer}.name=default,{viewer}.namespace={space.name}"
    settings = ("equipoiseConfig.tieBreakSeed=7", account)

    await asyncio.to_thread(installed.release.upgrade, *settings)

    await wait_until_leading(space.api, installed.kubelet)
    after = {replica.name: replica for replica in installed.kubelet.replicas}
    assert before.isdisjoint(after)
    token = await installed.token(space.api, space)
    for replica in after.values():
        status, body = await installed.ask(replica, "/configz", token)
        assert status == 200
        _, own = json.loads(body)
        assert own["tieBreakSeed"] == 7
        assert (await installed.ask(replica, "/configz"))[0] == 403
        assert (await installed.ask(replica, "/configz", "nobody's"))[0] == 401
        assert (await installed.ask(replica, "/metrics", token))[0] == 403

    await asyncio.to_thread(installed.release.upgrade, *settings)
    await wait_until_leading(space.api, installed.kubelet)
    assert {replica.name for replica in installed.kubelet.replicas} == set(after)


async def test_a_replica_that_a_controller_calls_not_ready_is_ready_again(
    installed: Installed, space: Workspace
) -> None:
    """A rollout would wait for it: kwok says once that a pod is ready."""
    await wait_until_leading(space.api, installed.kubelet)
    name = installed.kubelet.replicas[0].name
    path = f"/api/v1/namespaces/{NAMESPACE}/pods/{name}"
    not_ready = {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}
    await space.api.patch(f"{path}/status", not_ready, "strategic-merge-patch")

    def ready(pod: Json) -> bool:
        conditions = pod["status"]["conditions"]
        return {"True"} == {each["status"] for each in conditions if each["type"] == "Ready"}

    await space.api.wait_until(path, ready)


async def test_an_upgrade_under_load_loses_and_doubles_nothing(
    installed: Installed, space: Workspace
) -> None:
    nodes = await space.add_nodes(40, cpu="2")
    capacity = PER_NODE * len(nodes)
    await wait_until_leading(space.api, installed.kubelet)
    before = {replica.name for replica in installed.kubelet.replicas}
    # The old leader has its part in it, however soon it goes.
    await space.create_pods([small(number) for number in range(WAVE)])
    await wait_until_bound(space, WAVE)
    upgrade = asyncio.create_task(
        asyncio.to_thread(installed.release.upgrade, "podAnnotations.round=next")
    )

    # There is a backlog until the last old replica is gone; then all room is filled.
    created = WAVE
    while not await rolled(installed, space, before):
        if created + WAVE < capacity:
            await space.create_pods([small(created + number) for number in range(WAVE)])
            created += WAVE
        await wait_until_bound(space, created - BACKLOG)
    await upgrade
    await space.create_pods([small(number) for number in range(created, capacity)])

    # One that was placed twice, or by two replicas that did not know of each other, would leave a
    # node with too many pods or a pod without a place.
    pods = await space.wait_for_pods(capacity)
    assert Counter(each["spec"]["nodeName"] for each in pods) == dict.fromkeys(nodes, PER_NODE)
    # A client may see a binding before the audit log has it.
    told = await leaders(space, capacity)
    bindings = bindings_in(installed, space)
    assert bindings == dict.fromkeys((each["metadata"]["name"] for each in pods), 1)
    assert {installed.kubelet.exits[name] for name in before} == {0}
    assert len(told) > 1


async def leaders(space: Workspace, count: int) -> set[str]:
    """Which replicas have placed the pods, by their events."""
    told = await space.api.wait_until(
        space.events,
        lambda events: len(events["items"]) == count,
        fieldSelector="reason=Scheduled",
    )
    return {event["reportingInstance"] for event in told["items"]}


def small(number: int) -> Json:
    return pod(f"p-{number}", cpu="200m")


async def wait_until_bound(space: Workspace, count: int) -> None:
    """Wait until at least so many pods have a node."""

    def enough(pods: Json) -> bool:
        return sum(map(is_bound, pods["items"])) >= count

    await space.api.wait_until(space.pods, enough, resourceVersion="0")


async def rolled(installed: Installed, space: Workspace, before: set[str]) -> bool:
    """Whether the rollout is over and every old process has ended."""
    over = is_rolled_out(await space.api.get(DEPLOYMENT))
    return over and before <= installed.kubelet.exits.keys() and len(installed.kubelet.ready()) == 2


def bindings_in(installed: Installed, space: Workspace) -> dict[str, int]:
    """How often each pod of the namespace was bound by our account."""
    done: Counter[str] = Counter()
    for entry in installed.audit.of(RELEASE):
        right = right_of(entry)
        if right is None or right.resource != "pods/binding":
            continue
        if entry["objectRef"]["namespace"] == space.name and entry["responseStatus"]["code"] == 201:
            done[right.name] += 1
    return dict(done)
