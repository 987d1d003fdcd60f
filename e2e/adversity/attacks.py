"""What hostile tenants and unlucky clusters do, one function each, and what must still hold.

Every attack runs against two real replicas on a real API server. It answers what it saw in words,
and what it saw that must not be. `run` adds what holds of all of them: the leader keeps the lease,
no replica ends, probes are answered, and the pods of others find nodes.
"""

import asyncio
import json
import math
import signal
import socket
import time
import urllib.request
from collections.abc import Awaitable, Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from e2e.adversity.proxy import SentBinding
from e2e.adversity.scene import (
    ELECTION,
    OTHERS,
    TENANT,
    Scene,
    pods_path,
    scene,
)
from e2e.adversity.webhook import bad_webhook, with_webhook
from e2e.harness.election import PATIENT_ELECTION, QUICK_ELECTION, wait_for_leader
from e2e.harness.groups import group, member, with_coscheduling
from e2e.harness.objects import Json, is_bound, pod
from e2e.harness.patience import PATIENCE

LABELS = 40_000
UNKNOWN_KEYS = 600
ORDINARY = 100
TRIED = " members can be placed; "
"""What members of a gang are told after a pass; before, they are told that others are missing."""
SLOWEST_SECONDS = 30.0
"""A probe that takes longer has failed, unless the machine has much else to do."""


@dataclass
class Seen:
    """What an attack has shown."""

    notes: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    def must(self, holds: bool, otherwise: str) -> None:
        """Record a fault unless something holds."""
        if not holds:
            self.faults.append(otherwise)


@dataclass(frozen=True)
class Attack:
    """One attack, and the cluster it needs."""

    name: str
    row: str
    what: str
    strike: Callable[[Scene, Seen], Awaitable[None]]
    nodes: int = 50
    cpu: str = "4"
    quick: bool = True
    """Whether it is a test as well; the others take long, or are like one that is."""
    leader_changes: int = 0
    """How often the lease may change hands, because the attack itself has it do so."""
    election: tuple[str, ...] = ELECTION
    configuration: Callable[[Path], str] | None = None
    """Writes the file that the replicas are started with."""
    probes: bool = True
    """Whether probes must be answered; not while a replica is stopped by a signal."""


@dataclass(frozen=True)
class Finding:
    """What came of one attack."""

    attack: Attack
    livez_seconds: float
    others_before: float
    others_during: float
    peak_mib: float
    notes: list[str]
    faults: list[str]


async def run(attack: Attack, directory: Path, *, patient: bool = False) -> Finding:
    """Carry out one attack on a cluster of its own.

    Patient, the lease and the probes outlast whatever else the machine does. The proxies run on the
    loop of the attacker, so on a busy machine a renewal may take longer than the default lease.
    """
    seen = Seen()
    election = PATIENT_ELECTION if patient and attack.election is ELECTION else attack.election
    arguments = (attack.configuration(directory),) if attack.configuration else ()
    async with (
        bad_webhook(directory) as webhook,
        scene(
            directory,
            nodes=attack.nodes,
            cpu=attack.cpu,
            election=election,
            arguments=arguments,
        ) as stage,
    ):
        stage.webhook = webhook
        await stage.bind_others(10)  # what is first done is done cold
        before = await stage.bind_others(ORDINARY)
        _, changes = await stage.holder()
        await attack.strike(stage, seen)
        during = await stage.bind_others(ORDINARY)
        seen.must(math.isfinite(during), "pods of others found no node")
        slowest, failed = await stage.livez()
        _, now = await stage.holder()
        ended = stage.exited()
        allowed = attack.leader_changes
        seen.must(now - changes <= allowed, f"the lease changed hands {now - changes} times")
        seen.must(len(ended) <= allowed, f"replicas ended with {ended}")
        if attack.probes:
            seen.must(failed == 0, f"{failed} probes failed")
            seen.must(patient or slowest <= SLOWEST_SECONDS, f"a probe took {slowest:.0f} s")
        alive = [each for each in stage.replicas if each.scheduler.process.exit_code is None]
        peak = max((each.peak_mib for each in alive), default=0.0)
    return Finding(attack, slowest, before, during, peak, seen.notes, seen.faults)


# Tenants


async def distinct_pods(stage: Scene, seen: Seen, waiting: int = 1_000) -> None:
    """Pods that differ in CPU wait; ordinary pods go, and a new one comes right after."""
    names = [f"node-{number}" for number in range(500)]
    there = await stage.occupy(names, "3500m")
    await stage.create(
        TENANT, (pod(f"distinct-{each}", f"{3_500 + each}m") for each in range(waiting))
    )
    await stage.settled(TENANT, all_of(waiting, _judged))
    await asyncio.gather(
        *(
            stage.api.delete(f"{pods_path(OTHERS)}/{name}", gracePeriodSeconds="0")
            for name in there[:300]
        )
    )
    seconds = await stage.bind_others(1)
    seen.notes.append(f"a pod created after 300 deletions: {seconds:.2f} s")


async def many_labels_deleted(stage: Scene, seen: Seen) -> None:
    """A pod of another scheduler with very many labels is deleted."""
    labels = {f"label-{number}": "" for number in range(LABELS)}
    body = pod("labelled", labels=labels, nodeName="node-0", schedulerName="another")
    await stage.create(TENANT, [body])
    await stage.api.delete(f"{pods_path(TENANT)}/labelled", gracePeriodSeconds="0")


async def many_spread_constraints(stage: Scene, seen: Seen) -> None:
    """A pod has 520 topology spread constraints."""
    constraints = [
        {
            "maxSkew": 1,
            "topologyKey": f"key-{number}",
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": {"matchLabels": {"app": f"app-{number}"}},
        }
        for number in range(520)
    ]
    await _one_pod(stage, seen, topologySpreadConstraints=constraints)


async def many_node_terms(stage: Scene, seen: Seen) -> None:
    """A pod has 14,000 node selector terms."""
    terms = [
        {"matchExpressions": [{"key": f"key-{number}", "operator": "Exists"}]}
        for number in range(14_000)
    ]
    await _one_pod(stage, seen, affinity=_node_affinity(terms))


async def many_field_terms(stage: Scene, seen: Seen) -> None:
    """A pod has 10,000 node selector terms on the name of the node."""
    terms = [
        {
            "matchFields": [
                {"key": "metadata.name", "operator": "In", "values": [f"nowhere-{number}"]}
            ]
        }
        for number in range(10_000)
    ]
    await _one_pod(stage, seen, affinity=_node_affinity(terms))


async def anti_affinity_of_others(stage: Scene, seen: Seen, terms: int = UNKNOWN_KEYS) -> None:
    """A running pod of another scheduler has anti-affinity on keys that no node has."""
    await stage.create(
        TENANT,
        [
            pod(
                "loner",
                nodeName="node-0",
                schedulerName="another",
                affinity={
                    "podAntiAffinity": {
                        "requiredDuringSchedulingIgnoredDuringExecution": [
                            {"topologyKey": f"key-{number}", "namespaceSelector": {}}
                            | {"labelSelector": {}}
                            for number in range(terms)
                        ]
                    }
                },
            )
        ],
    )


async def very_many_terms_of_others(stage: Scene, seen: Seen) -> None:
    """The same with 6,000 terms."""
    await anti_affinity_of_others(stage, seen, 6_000)


async def labels_by_the_hundred(stage: Scene, seen: Seen) -> None:
    """200 pods with 40,000 labels each come and go."""
    start = max(replica.rss_mib for replica in stage.replicas)
    size = 0
    for batch in range(20):
        bodies = []
        for number in range(batch * 10, batch * 10 + 10):
            labels = {f"l-{number}-{each}": "" for each in range(LABELS)}
            bodies.append(
                pod(f"big-{number}", labels=labels, nodeName="node-0", schedulerName="another")
            )
            size += len(str(labels))
        await stage.create(TENANT, bodies)
    await stage.bind_others(1)
    peak = max(replica.peak_mib for replica in stage.replicas)
    for number in range(200):  # one by one: an answer has the whole pod
        await stage.api.delete(f"{pods_path(TENANT)}/big-{number}", gracePeriodSeconds="0")
    await stage.settled(TENANT, lambda pods: not pods)
    await stage.bind_others(1)
    end = await _lowest_rss(stage, start * 1.3)
    json_mib = size / 2**20
    seen.notes.append(f"{json_mib:.0f} MiB of JSON: RSS {start:.0f} -> {peak:.0f} -> {end:.0f} MiB")
    seen.must(peak - start <= 12 * json_mib, f"{(peak - start) / json_mib:.1f} times the JSON")
    seen.must(end <= 1.3 * start, f"{end / start:.2f} times the start is kept")


# The cluster


async def bindings_fail(stage: Scene, seen: Seen) -> None:
    """The bindings of one namespace fail."""
    for replica in stage.replicas:
        replica.proxy.faults.fail_binding = TENANT.__eq__
    await stage.create(TENANT, (pod(f"fails-{each}", "10m", "1Mi") for each in range(300)))
    await _until(lambda: len(_sent(stage, TENANT)) >= 100)


async def bindings_hang(stage: Scene, seen: Seen) -> None:
    """The bindings of one namespace are never answered."""
    for replica in stage.replicas:
        replica.proxy.faults.hang_binding = TENANT.__eq__
    await stage.create(TENANT, (pod(f"hangs-{each}", "10m", "1Mi") for each in range(64)))
    await _until(lambda: len(_sent(stage, TENANT)) >= 16)


async def malformed_chunk(stage: Scene, seen: Seen) -> None:
    """The watch of pods sends something that is no chunk."""
    hit = sum(replica.proxy.garble("/api/v1/pods") for replica in stage.replicas)
    seen.must(hit == len(stage.replicas), f"only {hit} watches were open")


async def swallowed_bindings(stage: Scene, seen: Seen) -> None:
    """Bindings are answered with 201 and do not happen, for a while."""
    for replica in stage.replicas:
        replica.proxy.faults.swallow_binding = TENANT.__eq__
    await stage.create(TENANT, (pod(f"lost-{each}", "10m", "1Mi") for each in range(47)))
    await _until(lambda: len({each.pod for each in _sent(stage, TENANT)}) == 47)
    for replica in stage.replicas:
        replica.proxy.faults.swallow_binding = lambda _: False
    began = time.perf_counter()
    await stage.settled(TENANT, all_of(47, is_bound))
    seen.notes.append(f"47 lost bindings were made good after {time.perf_counter() - began:.0f} s")


async def idle_connections(stage: Scene, seen: Seen) -> None:
    """300 connections to the serving port say nothing."""
    with ExitStack() as stack:
        for replica in stage.replicas:
            for _ in range(300):
                await asyncio.to_thread(_connect, replica.scheduler.url, stack)
        answers = [
            await asyncio.to_thread(_livez, replica.scheduler.url)
            for _ in range(20)
            for replica in stage.replicas
        ]
        failed = answers.count(False)
        seen.must(not failed, f"{failed} of {len(answers)} probes failed beside idle connections")


async def many_readers(stage: Scene, seen: Seen) -> None:
    """128 readers ask for all nodes at once, again and again."""
    url = f"{stage.leading.scheduler.url}/api/v1/nodes?limit=5000"
    answers = await asyncio.gather(
        *(asyncio.to_thread(_read_often, url, 5) for _ in range(128)), return_exceptions=True
    )
    good = sum(each for each in answers if isinstance(each, int))
    seen.notes.append(f"{good} of {128 * 5} reads were answered with 200")


async def suspended_leader(stage: Scene, seen: Seen) -> None:
    """The leader is stopped by a signal for longer than its lease, in the middle of a backlog."""
    leader, follower = stage.replicas
    for replica in stage.replicas:
        replica.proxy.faults.delay_binding = 0.02
    first, _ = await stage.holder()
    work = asyncio.create_task(
        stage.create(TENANT, (pod(f"race-{each}", "1") for each in range(300)))
    )
    await _until(lambda: len(_sent(stage, TENANT)) >= 20)
    leader.scheduler.process.send(signal.SIGSTOP)
    await work
    await wait_for_leader(stage.api, other_than=first)
    await _until(lambda: bool(follower.proxy.bindings))
    sent = len(leader.proxy.bindings)
    leader.scheduler.process.send(signal.SIGCONT)
    await _until(lambda: leader.scheduler.process.exit_code is not None)
    late = len(leader.proxy.bindings) - sent
    seen.notes.append(f"{late} late bindings")
    seen.must(late == 0, f"{late} bindings were sent after the lease was over")
    await stage.settled(TENANT, all_of(300, _judged))
    over = await stage.overcommitted(4_000)
    seen.must(not over, f"nodes have more than they can take: {over[:5]}")


async def stopped_with_open_bindings(stage: Scene, seen: Seen) -> None:
    """The leader is asked to stop while many bindings are open on a slow API server."""
    leader, _ = stage.replicas
    leader.proxy.faults.delay_binding = 25.0
    await stage.create(TENANT, (pod(f"slow-{each}", "1") for each in range(48)))
    await _until(lambda: len(_sent(stage, TENANT)) >= 32)
    leader.scheduler.process.send(signal.SIGTERM)
    await _until(lambda: leader.scheduler.process.exit_code is not None)
    await stage.settled(TENANT, all_of(48, is_bound))
    late = max(each.at for each in leader.proxy.bindings) + 25.0 - time.monotonic()
    await asyncio.sleep(max(0.0, late) + 1.0)  # until the last slow binding has reached the server
    over = await stage.overcommitted(4_000)
    seen.must(not over, f"nodes have more than they can take: {over[:5]}")


async def deleted_nodes(stage: Scene, seen: Seen) -> None:
    """Nodes are deleted while bindings wait for a slow API server."""
    for replica in stage.replicas:
        replica.proxy.faults.delay_binding = 1.0
    await stage.create(TENANT, (pod(f"moving-{each}", "10m", "1Mi") for each in range(600)))
    await _until(lambda: len(_sent(stage, TENANT)) >= 30)
    gone = [f"node-{number}" for number in range(0, 50, 2)]
    await asyncio.gather(*(stage.api.delete(f"/api/v1/nodes/{name}") for name in gone))
    deleted = time.monotonic()
    leader = stage.leading.scheduler.url
    async with asyncio.timeout(PATIENCE):
        while set(gone) & await asyncio.to_thread(_nodes_known, leader):
            pass
    for _ in range(3):  # the proxy has then taken what the leader sent before it knew
        await asyncio.to_thread(_nodes_known, leader)
    known = time.monotonic()
    await stage.settled(TENANT, all_of(600, is_bound))
    late = [each for each in _sent(stage, TENANT) if each.node in gone and each.at > deleted]
    longest = max((each.at - deleted for each in late), default=0.0)
    seen.notes.append(f"{len(late)} bindings to deleted nodes, the last {longest:.1f} s after")
    wrong = sum(each.at > known for each in late)
    seen.must(not wrong, f"{wrong} bindings were sent to nodes that the leader knew to be gone")


async def gang_that_does_not_fit(stage: Scene, seen: Seen) -> None:
    """A gang of 2,000 members of which half fit is tried, and leaves nothing behind."""
    space = f"/apis/scheduling.x-k8s.io/v1alpha1/namespaces/{TENANT}/podgroups"
    await stage.api.create(space, group("large", 2_000))
    await stage.create(TENANT, (member(f"member-{each}", "large", "100m") for each in range(2_000)))
    await stage.settled(TENANT, lambda pods: any(TRIED in _message(each) for each in pods))
    pods = await stage.api.items(pods_path(TENANT))
    seen.must(not any(map(is_bound, pods)), "a part of a gang was bound")


async def webhook_sends_a_bomb(stage: Scene, seen: Seen) -> None:
    """A webhook answers with a megabyte that unpacks to a gigabyte, and asks to wait for ever."""
    labels = {"ask": "yes"}
    bodies = [pod(f"bomb-{each}", "10m", "1Mi", labels=labels) for each in range(20)]
    bodies += [pod(f"wait-{each}", "10m", "1Mi", labels=labels) for each in range(20)]
    await stage.create(TENANT, bodies)
    await stage.settled(TENANT, lambda pods: sum(map(_judged, pods)) >= 20)
    await stage.bind_others(20)
    peak = max(replica.peak_mib for replica in stage.replicas)
    seen.must(peak < 512, f"{peak:.0f} MiB")
    stage.webhook.harmful = False
    await stage.settled(TENANT, all_of(40, is_bound))


# Parts


async def _one_pod(stage: Scene, seen: Seen, **spec: object) -> None:
    await stage.create(TENANT, [pod("offender", **spec)])  # type: ignore[arg-type]  # pod fields
    await stage.settled(TENANT, all_of(1, _judged))
    (offender,) = await stage.api.items(pods_path(TENANT))
    seen.notes.append(_message(offender)[:100])
    # Again and again: a label of the node changes that no selector names.
    for number in range(20):
        label = {"metadata": {"labels": {"turn": str(number)}}}
        await stage.api.patch(f"/api/v1/nodes/node-{number}", label)


def _node_affinity(terms: list[Json]) -> Json:
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return {"nodeAffinity": required}


def _message(body: Json) -> str:
    conditions = body["status"].get("conditions", [])
    return next((str(each.get("message", "")) for each in conditions), "")


def _judged(body: Json) -> bool:
    return is_bound(body) or bool(body["status"].get("conditions"))


def all_of(number: int, holds: Callable[[Json], bool]) -> Callable[[list[Json]], bool]:
    """Whether so many pods are there and something holds of each: lists may lag behind."""
    return lambda pods: len(pods) == number and all(map(holds, pods))


def _sent(stage: Scene, namespace: str) -> list[SentBinding]:
    return [
        each
        for replica in stage.replicas
        for each in replica.proxy.bindings
        if each.namespace == namespace
    ]


async def _until(holds: Callable[[], bool], timeout: float = PATIENCE) -> None:
    async with asyncio.timeout(timeout):
        while not holds():  # noqa: ASYNC110  # processes and proxies set no event of ours
            await asyncio.sleep(0.05)


async def _lowest_rss(stage: Scene, wanted: float, timeout: float = PATIENCE) -> float:
    """The memory of the larger replica, given some time to hand back what is free."""
    deadline = time.monotonic() + timeout
    while True:
        now = max(replica.rss_mib for replica in stage.replicas)
        if now <= wanted or time.monotonic() > deadline:
            return now
        await asyncio.sleep(0.5)


def _connect(url: str, stack: ExitStack) -> None:
    host, _, port = url.removeprefix("http://").partition(":")
    try:
        stack.enter_context(socket.create_connection((host, int(port)), timeout=PATIENCE))
    except OSError:
        return  # turned away, as it may be


def _nodes_known(url: str) -> set[str]:
    """The nodes that a replica knows."""
    with urllib.request.urlopen(f"{url}/api/v1/nodes?limit=5000", timeout=PATIENCE) as answer:
        return {each["name"] for each in json.load(answer)["nodes"]}


def _livez(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/livez", timeout=PATIENCE) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def _read_often(url: str, times: int) -> int:
    good = 0
    for _ in range(times):
        try:
            with urllib.request.urlopen(url, timeout=60) as answer:
                answer.read()
                good += answer.status == 200
        except OSError:
            continue
    return good


ALL = (
    Attack("distinct-pods", "1", "1,000 distinct pods wait, 300 pods go", distinct_pods, nodes=500),
    Attack("labels-deleted", "2", "a pod with 40,000 labels is deleted", many_labels_deleted),
    Attack("spread", "3", "520 spread constraints", many_spread_constraints),
    Attack("node-terms", "3", "14,000 node terms", many_node_terms, quick=False),
    Attack("field-terms", "3", "10,000 terms on fields", many_field_terms, quick=False),
    Attack(
        "anti-affinity",
        "4",
        "anti-affinity on 600 unknown keys",
        anti_affinity_of_others,
        quick=False,
    ),
    Attack("anti-affinity-6000", "4", "6,000 such terms", very_many_terms_of_others),
    Attack("memory", "5", "200 pods with 40,000 labels", labels_by_the_hundred, quick=False),
    Attack("bindings-fail", "6", "300 bindings of a namespace fail", bindings_fail),
    Attack("bindings-hang", "6", "64 bindings of a namespace hang", bindings_hang),
    Attack("garbled-watch", "7", "a malformed chunk on a watch", malformed_chunk),
    Attack("idle-connections", "8", "300 idle connections", idle_connections),
    Attack("readers", "8", "128 readers of all nodes", many_readers, nodes=1_000, quick=False),
    Attack(
        "suspended",
        "9",
        "the leader is stopped beyond its lease",
        suspended_leader,
        leader_changes=1,
        election=QUICK_ELECTION,
        probes=False,
    ),
    Attack(
        "stopped",
        "10",
        "SIGTERM with open bindings",
        stopped_with_open_bindings,
        leader_changes=2,
        election=QUICK_ELECTION,
        probes=False,
        nodes=25,
        quick=False,
    ),
    Attack("deleted-nodes", "11", "nodes go while the API is slow", deleted_nodes),
    Attack("swallowed", "12", "201 without a binding", swallowed_bindings),
    Attack(
        "webhook",
        "13",
        "a webhook sends a bomb",
        webhook_sends_a_bomb,
        configuration=with_webhook,
    ),
    Attack(
        "gang",
        "14",
        "a gang of 2,000 of which half fit",
        gang_that_does_not_fit,
        cpu="2",
        configuration=with_coscheduling,
    ),
)
BY_NAME: Mapping[str, Attack] = {attack.name: attack for attack in ALL}
