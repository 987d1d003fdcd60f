"""Two schedulers on the same nodes: neither sees the other's assumed pods."""

import asyncio
import re
from collections import Counter, defaultdict
from itertools import count

from e2e.harness.client import ApiClient, ApiError
from e2e.harness.objects import Json, deployment, is_bound, is_running, node_of, pod
from e2e.harness.workspace import Workspace
from e2e.installed.conftest import Installed
from e2e.installed.release import wait_until_leading

NODES = 12
EACH = 60
PER_NODE = 2 * EACH // NODES
CPU = "200m"

CONFLICTS = re.compile(
    r'^rest_client_requests_total\{code="409",host="[^"]*",method="POST"\} (\S+)$', re.M
)


def ours_and_theirs() -> tuple[Json, Json]:
    """Together they fill the nodes to the last CPU."""
    theirs = deployment("theirs", EACH, cpu=CPU, schedulerName="default-scheduler")
    return deployment("ours", EACH, cpu=CPU), theirs


async def test_what_the_other_has_placed_is_respected(
    installed: Installed, space: Workspace
) -> None:
    nodes = await space.add_nodes(NODES, cpu="2")
    await wait_until_leading(space.api, installed.kubelet)
    ours, theirs = ours_and_theirs()

    await space.apply(theirs)
    await space.wait_for_pods(EACH, is_running)
    await space.apply(ours)

    pods = await space.wait_for_pods(2 * EACH, is_running)
    assert Counter(map(node_of, pods)) == dict.fromkeys(nodes, PER_NODE)


async def test_both_at_once_settle_without_over_commit(
    installed: Installed, space: Workspace
) -> None:
    nodes = await space.add_nodes(NODES, cpu="2")
    await wait_until_leading(space.api, installed.kubelet)
    kubelets = asyncio.create_task(refuse_what_does_not_fit(space))

    await asyncio.gather(*(space.apply(each) for each in ours_and_theirs()))

    def settled(pods: Json) -> bool:
        places = Counter(map(node_of, filter(is_running, pods["items"])))
        return places == dict.fromkeys(nodes, PER_NODE)

    try:
        await space.api.wait_until(space.pods, settled)
    finally:
        kubelets.cancel()


async def refuse_what_does_not_fit(space: Workspace) -> None:
    """What kubelets do with a pod that does not fit after all: it stays Failed."""
    admitted: defaultdict[str, set[str]] = defaultdict(set)
    async with space.api.watch(space.pods) as events:
        async for event in events:
            seen = event["object"]
            name, node = seen["metadata"]["name"], seen["spec"].get("nodeName", "")
            ended = seen.get("status", {}).get("phase") in ("Failed", "Succeeded")
            if event["type"] == "DELETED" or ended:
                admitted[node].discard(name)
            elif node and name not in admitted[node]:
                if len(admitted[node]) < PER_NODE:
                    admitted[node].add(name)
                    continue
                status = {"phase": "Failed", "reason": "OutOfcpu"}
                await space.api.patch(f"{space.pods}/{name}/status", {"status": status})


async def test_conflicts_over_one_pod_are_counted_and_settled(
    installed: Installed, space: Workspace
) -> None:
    first, *_ = await space.add_nodes(4, cpu="64")
    reader = "rbac.metricsReaders[0]"
    account = f"{reader}.kind=ServiceAccount,{reader}.name=default"
    await asyncio.to_thread(installed.release.upgrade, f"{account},{reader}.namespace={space.name}")
    await wait_until_leading(space.api, installed.kubelet)
    token = await installed.token(space.api, space)

    for round_ in count(1):
        names = [f"contested-{round_}-{number}" for number in range(20)]
        await asyncio.gather(*(create_and_bind(space.api, space, name, first) for name in names))
        await space.wait_for_pods(20 * round_, is_bound)
        if await conflicts(installed, token):
            break
        assert round_ < 20, "nobody ever was quicker than we"


async def create_and_bind(api: ApiClient, space: Workspace, name: str, node: str) -> None:
    """Make a pod for our scheduler and bind it ourselves, unless it was quicker."""
    await api.create(space.pods, pod(name))
    target = {"apiVersion": "v1", "kind": "Node", "name": node}
    try:
        await api.create(
            f"{space.pods}/{name}/binding", {"metadata": {"name": name}, "target": target}
        )
    except ApiError as error:
        if error.status != 409:
            raise


async def conflicts(installed: Installed, token: str) -> int:
    """How many requests of the replicas were refused because another client was quicker."""
    found = 0
    for replica in installed.kubelet.ready():
        status, text = await installed.ask(replica, "/metrics", token)
        assert status == 200
        found += sum(int(float(number)) for number in CONFLICTS.findall(text))
    return found
