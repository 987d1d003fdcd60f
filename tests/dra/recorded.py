"""Recorded cases of kube-scheduler's DynamicResources, and an API server that shows writes.

Writes are shown as kube-scheduler makes them. Equipoise sends patches that name the version of the
claim, in place of updates of the whole claim: they have the same effect.
"""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import Mapping
from copy import deepcopy
from pathlib import Path
from typing import Any

from scheduler.assembly import Core, assemble, configure
from scheduler.dra.ledger import ledger_of
from scheduler.dra.offline import merged
from scheduler.dra.plugin import DynamicResources
from scheduler.model.devices import ResourceClaim
from scheduler.model.objects import KINDS as WATCHED
from scheduler.model.objects import Change, from_dict
from scheduler.model.podinfo import PodInfo
from scheduler.model.pods import Pod
from scheduler.observe.metrics import Metrics
from scheduler.pipeline.evaluation import evaluate
from scheduler.plugin_api.cycle import Cycle
from scheduler.plugin_api.outlet import ObjectRequest, Verb, WriteError
from tests.builders import Json
from tests.pipeline.support import RecordingOutlet
from tests.test_parity import KINDS as OTHER_KINDS

DATA = Path(__file__).parents[1] / "data" / "dra"
TABLES = "dra-tables"
"""Cases of which only what the plugin itself says was recorded."""
FILES = sorted(
    name
    for path in DATA.glob("*.jsonl.gz")
    if (name := path.name.removesuffix(".jsonl.gz")) != TABLES and not name.startswith("cel")
)
KINDS = {
    **OTHER_KINDS,
    "resourceclaims": "ResourceClaim",
    "resourceslices": "ResourceSlice",
    "deviceclasses": "DeviceClass",
}
MOST_CONSUMERS = 256
_STOCK = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [{"schedulerName": "equipoise"}],
}


def cases(name: str) -> list[tuple[Json, Json]]:
    """All cases of a file."""
    lines = gzip.decompress((DATA / f"{name}.jsonl.gz").read_bytes()).splitlines()
    return [(record["case"], record["want"]) for record in map(json.loads, lines)]


def objects_of(case: Json) -> list[Json]:
    """The objects of a case; an unknown list is an error."""
    lists = {n: items for n, items in case.items() if n not in ("id", "pending", "inflight")}
    return [{"kind": KINDS[name], **item} for name, items in lists.items() for item in items]


class ClaimsApi(RecordingOutlet):
    """An API server for claims: keeps them as JSON, tells the scheduler of changes."""

    def __init__(self, claims: list[Json]) -> None:
        super().__init__()
        self.claims: dict[str, Json] = {}
        self.writes: list[Json] = []
        self.core: Core | None = None
        self._version = 1000
        for claim in claims:
            metadata = claim["metadata"]
            self.claims[f"{metadata['namespace']}/{metadata['name']}"] = deepcopy(claim)

    async def send(self, request: ObjectRequest) -> Any:
        await asyncio.sleep(0)
        if request.kind == "Pod":
            self._show("patch", "pods", request, {"status": request.body["status"]})
            return None
        if request.verb is Verb.CREATE:
            return self._create(request)
        claim = self.claims.get(request.key)
        if claim is None:
            raise WriteError(f"{request.key} not found", gone=True)
        if request.verb is Verb.GET:
            return from_dict(claim, ResourceClaim)
        if request.verb is Verb.DELETE:
            self._show("delete", "resourceclaims", request, None)
            return self._store(request.key, None)
        given = request.body["metadata"].get("resourceVersion", "")
        if given != claim["metadata"].get("resourceVersion", ""):
            raise WriteError("the object has been modified", conflict=True)
        new = merged(claim, request.body)
        if request.subresource:
            self._show("update", "resourceclaims", request, {"status": _status(new)})
            self._validate(new)
        else:
            finalizers = new["metadata"]["finalizers"]
            self._show(
                "update", "resourceclaims", request, {"metadata": {"finalizers": finalizers}}
            )
        return self._store(request.key, new)

    def _create(self, request: ObjectRequest) -> Any:
        body = {part: request.body[part] for part in ("metadata", "spec")}
        self._show("create", "resourceclaims", None, body)
        metadata = {**body["metadata"]}
        name = f"{metadata.pop('generateName')}xxxxx"
        key = f"{metadata['namespace']}/{name}"
        created = {"metadata": {**metadata, "name": name, "uid": key}, "spec": body["spec"]}
        return self._store(key, created)

    def _store(self, key: str, new: Json | None) -> Any:
        old = self.claims.pop(key, None)
        if new is not None:
            self._version += 1
            new["metadata"] = {**new["metadata"], "resourceVersion": str(self._version)}
            self.claims[key] = new
        was = from_dict(old, ResourceClaim) if old is not None else None
        now = from_dict(new, ResourceClaim) if new is not None else None
        if self.core is not None:
            self.core.event_handlers.handler("ResourceClaim")([Change(was, now)])
        return now

    @staticmethod
    def _validate(claim: Json) -> None:
        if len(claim["status"].get("reservedFor", ())) > MOST_CONSUMERS:
            name = claim["metadata"]["name"]
            raise WriteError(
                f'ResourceClaim.resource.k8s.io "{name}" is invalid: status.reservedFor:'
                f" Too many: must have at most {MOST_CONSUMERS} items"
            )

    def _show(
        self, verb: str, resource: str, request: ObjectRequest | None, body: Json | None
    ) -> None:
        shown: Json = {"verb": verb, "resource": resource}
        if request is not None:
            shown["name"] = request.key.rpartition("/")[2]
            if request.subresource:
                shown["subresource"] = request.subresource
        if body is not None:
            shown["object"] = deepcopy(body)
        self.writes.append(shown)


def _status(claim: Mapping[str, Any]) -> Json:
    status = deepcopy(claim["status"])
    allocation = status.get("allocation", {})
    if "allocationTimestamp" in allocation:
        allocation["allocationTimestamp"] = "*"
    for result in allocation.get("devices", {}).get("results", ()):
        if "shareID" in result:
            result["shareID"] = "*"
    return status  # type: ignore[no-any-return]  # JSON of the case


class Player:
    """A scheduler with the objects of a case."""

    def __init__(self, case: Json) -> None:
        self.api = ClaimsApi(case.get("resourceclaims", []))
        self.core = assemble(configure([_STOCK], environ={}), self.api, Metrics())
        self.api.core = self.core
        pods = []
        for name, items in case.items():
            if name in ("id", "pending", "inflight"):
                continue
            kind = KINDS[name]
            changes: list[Change[Any]] = [
                Change(None, from_dict(_defaulted(item, kind), WATCHED[kind].type))
                for item in items
            ]
            if kind == "Pod":
                pods += changes
            else:
                self.core.event_handlers.handler(kind)(changes)
        self.core.event_handlers.handler("Pod")(pods)
        self.framework = next(iter(self.core.frameworks.values()))
        plugin = self.framework.plugins["DynamicResources"]
        assert isinstance(plugin, DynamicResources)
        self.plugin = plugin
        self.info = PodInfo(from_dict(_defaulted(case["pending"], "Pod"), Pod))
        ledger = ledger_of(self.core.state)
        other = PodInfo(from_dict({"metadata": {"uid": "somebody-else"}}, Pod))
        for raw in case.get("inflight", ()):
            claim = from_dict(raw, ResourceClaim)
            assert claim.status.allocation is not None
            ledger.reserve(claim, claim.status.allocation, other, None)

    async def bind(self, node: str) -> Json:
        """What Reserve and PreBind write for a node."""
        cycle = Cycle(self.info, self.core.state)
        evaluation = evaluate(self.framework, cycle)
        assert len(evaluation.feasible())
        self.core.state.assume(self.info, node)
        status = self.plugin.reserve(cycle, node)
        assert status.ok, status
        task = asyncio.ensure_future(self.plugin.pre_bind(cycle, node))
        for _ in range(200):
            await asyncio.sleep(0)
            if task.done():
                break
        waits = any(note.reason == "BindingConditionsPending" for note in self.api.events)
        found: Json = {"node": node}
        if self.api.writes:
            found["writes"] = self.api.writes
        if task.done():
            status = task.result()
            if not status.ok:
                found["error"] = status.message
            elif waits:
                found["conditions"] = "met"
        else:
            task.cancel()
            found["conditions"] = "pending"
        await self.core.stop()
        return found


def _defaulted(item: Json, kind: str) -> Json:
    """An object of a case with what its API server would have filled in."""
    metadata = {**item["metadata"]}
    if WATCHED[kind].namespaced:
        metadata.setdefault("namespace", "default")
    if kind == "Pod":
        metadata.setdefault("uid", f"{metadata['namespace']}/{metadata['name']}")
        item = {**item, "spec": {"schedulerName": "equipoise", **item["spec"]}}
    return {**item, "metadata": metadata}
