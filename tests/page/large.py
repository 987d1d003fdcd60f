"""A scheduler of 5,000 nodes and 10,000 pending pods that only answers: what the page must bear."""

from __future__ import annotations

import time
from typing import Any

from scheduler.explaining.queries import DecisionsQuery, ExplainQuery, NodesQuery, QueueQuery
from scheduler.observe.decisions import Decision
from scheduler.observe.samples import MAX_SAMPLES, Sample
from scheduler.serve.guards import HttpNotFound
from scheduler.views.updates import Updates
from tests.serve.fake_backend import FakeBackend

NODES, PODS, GROUPS, DECISIONS = 5_000, 10_000, 400, 1_000
TIERS = {"active": 40, "backoff": 160, "unschedulable": 9_700, "gated": 100}
REASONS = (
    "Insufficient cpu",
    "Insufficient memory",
    "Insufficient example.com/gpu",
    "node(s) had untolerated taint(s)",
    "node(s) didn't match Pod's node affinity/selector",
    "node(s) didn't match pod topology spread constraints",
    "node(s) had volume node affinity conflict",
)
NAMES = [f"node-{number:05}" for number in range(NODES)]


def message(number: int) -> str:
    """Why a pod waits; there are a few dozen different ones."""
    first, second = REASONS[number % 7], REASONS[(number + 1 + number // 7 % 5) % 7]
    some = 100 * (1 + number % 9)
    return f"0/{NODES} nodes are available: {some} {first}, {NODES - some} {second}."


def entry(number: int) -> dict[str, Any]:
    return {
        "pod": f"team-{number % 12}/job-{number:05}",
        "profile": "equipoise",
        "tier": "unschedulable",
        "waitingSeconds": 10.0 + number,
        "retrySeconds": 240.0,
        "attempts": 1 + number % 40,
        "plugins": ["NodeResourcesFit"],
        "message": message(number),
    }


def group(number: int) -> dict[str, Any]:
    one = entry(number)
    return {
        "namespace": f"team-{number % 12}",
        "profile": "equipoise",
        "tier": "unschedulable",
        "owner": f"ReplicaSet/job-{number}",
        "count": PODS // GROUPS,
        "oldestSeconds": 5000.0,
        "retrySeconds": 240.0,
        "attempts": 12,
        "plugins": one["plugins"],
        "message": one["message"],
        "pods": [entry(number + GROUPS * i)["pod"] for i in range(3)],
        "youngestSeconds": 10.0,
    }


async def queue(query: QueueQuery) -> dict[str, Any]:
    if query.group:
        groups = [group(number) for number in range(min(GROUPS, query.limit))]
        return {"counts": TIERS, "groups": groups, "pods": []}
    return {"counts": TIERS, "pods": [entry(number) for number in range(min(PODS, query.limit))]}


async def many_groups(query: QueueQuery) -> dict[str, Any]:
    """As many groups as are asked for, of seven pods each; more than there is room for."""
    if not query.group:
        return await queue(query)
    groups = [{**group(number), "count": 7} for number in range(query.limit)]
    return {"counts": TIERS, "groups": groups, "pods": []}


async def distinct_groups(query: QueueQuery) -> dict[str, Any]:
    """Half of the groups wait for claims that do not exist, the others each for its own gate."""
    groups = [
        {**group(number), "message": f'persistentvolumeclaim "data-{number}" not found'}
        if number % 2
        else {**group(number), "message": f"waiting for scheduling gates: [gate-{number}]"}
        for number in range(query.limit)
    ]
    return {"counts": TIERS, "groups": groups, "pods": []}


DEVICES = "device:gpu.example.com"


async def nodes(query: NodesQuery) -> dict[str, Any]:
    of_devices = query.resource == DEVICES
    marks = [[(number * 7 + each) % 4 for each in range(8)] for number in range(NODES)]
    requested = [(number * 7919) % 64_000 for number in range(NODES)]
    cells = [[[32_000, r // 2, r // 2], [32_000, r // 2, r // 3]] for r in requested]
    return {
        "count": NODES,
        "resources": ["cpu", "memory", "pods", DEVICES],
        "nodes": {
            "name": NAMES,
            "zone": [f"zone-{number % 3}" for number in range(NODES)],
            "pods": [number % 110 for number in range(NODES)],
            "podLimit": [110] * NODES,
            "capacity": {query.resource: [8 if of_devices else 64_000] * NODES},
            "requested": {
                query.resource: [sum(each & 1 for each in own) for own in marks]
                if of_devices
                else requested
            },
            "unschedulable": [number % 97 == 0 for number in range(NODES)],
            "taints": [int(number % 41 == 0) for number in range(NODES)],
            "cells": None if of_devices else cells,
            "devices": marks if of_devices else None,
        },
    }


async def node(name: str) -> dict[str, Any]:
    if name not in NAMES:
        raise HttpNotFound(f"unknown node: {name}")
    pods = [
        {
            "pod": f"team/pod-{number:03}",
            "priority": number,
            "scheduler": "equipoise",
            "assumed": False,
            "deleting": False,
            "requests": {"cpu": 100, "memory": 2**28},
        }
        for number in range(500)
    ]
    cpu = {"capacity": 32_000, "allocatable": 32_000, "reported": 9_000, "reserved": 12_000}
    cell = {"resources": {"cpu": {**cpu, "reservedAtLeast": 10_000}}}
    return {
        "name": name,
        "unschedulable": False,
        "taints": [],
        "allocatable": {"cpu": 64_000, "memory": 2**38},
        "requested": {"cpu": 50_000, "memory": 2**37},
        "scored": [0, 0],
        "pods": 500,
        "podLimit": 500,
        "labels": {f"example.com/label-{number}": "yes" for number in range(200)},
        "conditions": {"Ready": "True"},
        "podsOnNode": pods,
        "numa": {
            "policy": "single-numa-node",
            "scope": "container",
            "state": "confirmed",
            "unsettled": [],
            "released": [],
            "cells": [{"name": f"node-{number}", **cell} for number in range(8)],
        },
        "devices": [],
    }


async def overview() -> dict[str, Any]:
    now = time.time()
    times = [now - 2 * (MAX_SAMPLES - number) for number in range(MAX_SAMPLES)]
    wave = [float(number % 100) for number in range(MAX_SAMPLES)]
    return {
        "now": now,
        "version": "9",
        "leader": True,
        "holder": "large",
        "profiles": ["equipoise"],
        "nodes": NODES,
        "pods": {"bound": 120_000, "pending": PODS},
        "tiers": TIERS,
        "intervalSeconds": 2.0,
        "series": {
            "time": times,
            "bound": wave,
            "attempts": wave,
            "p50": wave,
            "p99": wave,
            "tiers": {tier: [count] * MAX_SAMPLES for tier, count in TIERS.items()},
        },
        "failing": [
            {"plugin": "NodeResourcesFit", "reason": reason, "pods": 900, "classes": 40}
            for reason in REASONS
        ],
        "loopLagMs": 0.4,
    }


def decision(seq: int) -> Decision:
    if seq % 3:
        node = NAMES[seq % NODES]
        return Decision(seq, time.time(), f"team/job-{seq}", "scheduled", node, "", 300, 80, NODES)
    return Decision(seq, time.time(), f"team/job-{seq}", "unschedulable", "", message(seq))


async def decisions(query: DecisionsQuery) -> dict[str, Any]:
    newest = range(DECISIONS, DECISIONS - min(query.limit, DECISIONS), -1)
    return {"decisions": [decision(seq) for seq in newest]}


class Flood:
    """Two hundred decisions at each look."""

    def __init__(self) -> None:
        self.seq = DECISIONS

    async def updates(self, seq: int | None, taken: int) -> Updates:
        first = self.seq + 1
        self.seq += 200
        fresh = [decision(number) for number in range(first, self.seq + 1)]
        sample = Sample(time.time(), 400.0, 600.0, 1.0, 5.0, dict(TIERS))
        return Updates(self.seq, fresh, 150, taken + 1, sample, 0.4)


async def classes() -> dict[str, Any]:
    plugins = [{"name": "NodeResourcesFit", "mode": "kept", "sharedBy": 2, "known": NODES}]
    one = {"profile": "equipoise", "priority": 0, "bytes": 90_000, "silent": {"filter": []}}
    return {
        "enabled": True,
        "kept": 200,
        "known": 900,
        "columns": 800,
        "bytes": 2**25,
        "budget": 2**26,
        "evictions": 0,
        "hits": 10**7,
        "misses": 10**5,
        "changes": {},
        "plugins": [
            {"plugin": "NodeResourcesFit", "point": "filter", "hits": 10**7, "misses": 10**5}
            | {"evaluations": 900, "needed": 10**7}
        ],
        "classes": [
            {**one, "hash": str(10**18 + number), "pods": 900 - number, "feasible": number}
            | {"plugins": {"filter": plugins, "score": []}}
            for number in range(200)
        ],
    }


async def groups(limit: int) -> dict[str, Any]:
    gangs = [
        {
            "name": f"team/gang-{number:04}",
            "phase": "Scheduling",
            "minMember": 64,
            "existing": 64,
            "placed": number % 64,
            "waitingOnPermit": 0,
            "members": {"waiting": 64},
            "message": message(number),
        }
        for number in range(min(limit, 1000))
    ]
    batch = {"priority": 0, "pods": 500, "model": "Scores", "result": "solved", "members": 0}
    size = {"classes": 40, "nodes": NODES, "arcs": 200_000, "rounds": 3}
    became = {"placed": 480, "placedOneByOne": 0, "pending": 20, "refused": 0}
    took = {"poseSeconds": 0.0005, "solveSeconds": 0.003, "compareSeconds": 0.0}
    ended = {"verifySeconds": 0.0, "takeSeconds": 0.0, "secondsAgo": 272.0}
    batches = [{**batch, **size, **became, **took, **ended}]
    said = {"count": 1000, "enabled": True, "batching": True, "batches": batches}
    return {**said, "groups": gangs}


async def explain(query: ExplainQuery) -> dict[str, Any]:
    def verdict(number: int) -> dict[str, Any]:
        fact = {"type": "resource", "message": f"requests 70 cpu, {number % 64} free"}
        rejection = {"plugin": "NodeResourcesFit", "code": "Unschedulable"}
        told = {**rejection, "reasons": ["Insufficient cpu"]}
        return {**told, "fit": False, "all": [{**told, "facts": [fact]}]}

    standing = {
        "state": "unschedulable",
        "message": message(1),
        "plugins": ["NodeResourcesFit"],
        "node": None,
        "retrySeconds": 200.0,
        "attempts": 3,
        "lastTriedSeconds": 10.0,
        "since": None,
        "behind": None,
        "wakes": [],
        "waitsFor": [],
        "permit": [],
    }
    nothing = ("node", "wouldGoTo", "boundTo", "countsItself", "nominated")
    return {
        "pod": query.pod,
        **dict.fromkeys(nothing),
        "fit": [],
        "nodes": {name: verdict(number) for number, name in enumerate(NAMES)},
        "scores": {},
        "message": message(1),
        "standing": standing,
        **dict.fromkeys(("preemption", "comparison", "batch", "replicas")),
        "history": [],
        "facts": [],
        "remedies": [],
    }


def backend() -> FakeBackend:
    """All that the page asks for."""
    return FakeBackend(
        version="9",
        queue=queue,
        nodes=nodes,
        node=node,
        overview=overview,
        decisions=decisions,
        classes=classes,
        groups=groups,
        explain=explain,
        updates=Flood().updates,
    )
