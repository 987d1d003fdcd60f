"""What kube-scheduler and Equipoise say of the pods that wait."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import aiohttp
import yaml

from e2e.harness.client import ApiClient
from e2e.harness.objects import Json, condition, is_bound, is_rejected, node_of
from e2e.pending_causes.causes import CAUSES, Cause
from e2e.pending_causes.scene import NAMESPACE, NUMA_NODE, PODS, numa_kubelet
from scheduler.model.objects import from_dict
from scheduler.model.pods import Pod

EVENTS = f"/apis/events.k8s.io/v1/namespaces/{NAMESPACE}/events"
OURS, THEIRS = "equipoise", "default-scheduler"
FACTS_SHOWN = 3
_HELD = ("gated", "group", "other-scheduler")
"""States in which a pod is not tried by itself: the state says more than any fact."""
_MEMBER = re.compile(rf"({NAMESPACE}/gang)-\d")
"""Which member of a gang is the first without a node depends on who came first."""


class Told(NamedTuple):
    """What is said of one cause: what is so, and what would help."""

    facts: Sequence[str]
    remedy: str = ""


def configuration(directory: Path) -> str:
    """A file that turns on the plugins for gangs and NUMA cells, as an argument of the program."""
    plugins = [{"name": "Coscheduling"}, {"name": "NodeResourceTopologyMatch"}]
    document = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"schedulerName": OURS, "plugins": {"multiPoint": {"enabled": plugins}}}],
    }
    file = directory / "pending.yaml"
    file.write_text(yaml.safe_dump(document))
    return f"--config={file}"


async def told_by_kube_scheduler(api: ApiClient) -> dict[str, Told]:
    """What kube-scheduler has written on each pod, or where it has put it."""
    async with _waiting_pods(api, THEIRS) as pods:
        events = await api.items(EVENTS)
        spoken_of = {event["regarding"]["name"] for event in events}
        return {cause.name: Told(_written(cause, pods, spoken_of)) for cause in CAUSES}


async def told_by_equipoise(api: ApiClient, url: str) -> dict[str, Told]:
    """What ``/api/v1/explain`` answers for each pod."""
    async with _waiting_pods(api, OURS) as pods, aiohttp.ClientSession() as session:
        bound = [name for name, each in pods.items() if is_bound(each)]
        assert bound == [], f"Equipoise has bound {bound}"
        return {
            cause.name: _explained(await _explanation(session, url, cause.names[0]))
            for cause in CAUSES
        }


class _waiting_pods:
    """The pods of all causes once a scheduler has judged them; gone when the block ends."""

    def __init__(self, api: ApiClient, scheduler: str) -> None:
        self._api = api
        self._scheduler = scheduler
        self._names = {name for cause in CAUSES for name in cause.names}

    async def __aenter__(self) -> dict[str, Json]:
        for cause in CAUSES:
            # One after the other: what is said of a gang depends on which member came first.
            for pod in cause.pods(self._scheduler):
                await self._api.create(PODS, pod)
        strangers = {name for cause in CAUSES if cause.stranger for name in cause.names}

        def judged(seen: Json) -> bool:
            pods = {each["metadata"]["name"]: each for each in seen["items"]}
            return all(_is_judged(pods[name]) for name in self._names - strangers)

        seen = await self._api.wait_until(PODS, judged)
        pods = {each["metadata"]["name"]: each for each in seen["items"]}
        return {name: pods[name] for name in self._names}

    async def __aexit__(self, *_: object) -> None:
        for name in self._names:
            await self._api.delete(f"{PODS}/{name}", gracePeriodSeconds="0")
            await self._api.wait_until_gone(f"{PODS}/{name}")


def _is_judged(pod: Json) -> bool:
    gated = condition(pod, "PodScheduled").get("reason") == "SchedulingGated"
    return is_bound(pod) or is_rejected(pod) or gated


def _written(cause: Cause, pods: dict[str, Json], spoken_of: set[str]) -> list[str]:
    """The condition of a pod that waits; of those that do not, where they are."""
    mine = [pods[name] for name in cause.names]
    placed = [pod for pod in mine if is_bound(pod)]
    said = {condition(pod, "PodScheduled").get("message", "") for pod in mine if pod not in placed}
    if said == {""} and not spoken_of.intersection(cause.names):
        return ["(nothing: no condition, no event)"]
    texts = [text if cause.preempts else _without_preemption(text) for text in sorted(said)]
    if cause.replicas > 1 and placed:
        return [f"(binds {len(placed)} of the {cause.replicas})", *texts]
    return [*map(_bound, placed), *texts]


def _without_preemption(message: str) -> str:
    return f"{message.partition('. ')[0].removesuffix('.')}."


def _bound(pod: Json) -> str:
    node = node_of(pod)
    refusal = numa_kubelet().admit(from_dict(pod, Pod)) if node == NUMA_NODE else None
    refused = f"; its kubelet refuses it: {refusal.reason}" if refusal else ""
    return f"(binds it to {node}{refused})"


async def _explanation(session: aiohttp.ClientSession, url: str, name: str) -> Json:
    async with session.get(f"{url}/api/v1/explain?pod={NAMESPACE}/{name}") as answer:
        said: Json = await answer.json()
    assert answer.status == 200, f"{name}: {said}"
    return said


def _explained(answer: Json) -> Told:
    standing = answer["standing"]
    if standing["state"] in _HELD:
        facts = [_MEMBER.sub(r"\1-…", standing["message"])]
    else:
        # Several plugins may look at the same claim.
        facts = list(dict.fromkeys(fact["message"] for fact in answer["facts"]))
    remedies = [remedy["summary"] for remedy in answer["remedies"]]
    return Told(facts[:FACTS_SHOWN], remedies[0] if remedies else "")
