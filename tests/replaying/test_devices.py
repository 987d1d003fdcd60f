"""Claims in a replay: what was reserved, or written and not yet shown, counts as it did."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from scheduler.dra.offline import after
from scheduler.model.devices import DeviceClass, ResourceClaim, ResourceSlice
from scheduler.model.objects import Change, from_dict
from scheduler.plugin_api.outlet import ObjectRequest
from scheduler.recording import entries
from scheduler.recording.reader import segments
from scheduler.replaying.claims import PlayedClaims
from scheduler.replaying.simulating import simulate
from tests.builders import Json, make_node, make_pod
from tests.dra.devices import claim, device_class, slice_of, using
from tests.pipeline.evicting import EvictingOutlet
from tests.replaying.support import RecordedStage, assert_equal, configured


class ClaimsWritten(EvictingOutlet):
    """Writes claims as an API server does; the watch shows them when the test says so."""

    def __init__(self) -> None:
        super().__init__()
        self.claims: dict[str, ResourceClaim] = {}
        self._number = 100

    async def send(self, request: ObjectRequest) -> Any:
        if request.kind != "ResourceClaim":
            return None
        self._number += 1
        new = after(self.claims.get(request.key), request, self._number)
        if new is None:
            del self.claims[request.key]
        else:
            self.claims[new.metadata.key] = new
        return new


class DeviceStage(RecordedStage):
    """Nodes with one device each."""

    outlet: ClaimsWritten

    def __init__(self, directory: Path, nodes: int, *, begin: bool = True, **of_class: Any) -> None:
        super().__init__(directory, outlet=ClaimsWritten(), begin=begin)
        self._tell("DeviceClass", None, from_dict(device_class(**of_class), DeviceClass))
        for number in range(nodes):
            self.see(make_node(f"n{number}"))
            piece = from_dict(slice_of(f"n{number}", 1), ResourceSlice)
            self._tell("ResourceSlice", None, piece)
        self._shown: dict[str, ResourceClaim] = {}

    def _tell(self, kind: str, old: Any, new: Any) -> None:
        self.core.event_handlers.handler(kind)([Change(old, new)])

    def make_claim(self, name: str, parameters: Json | None = None) -> None:
        raw: Json = claim(name)
        if parameters is not None:
            opaque = {"driver": "gpu.example.com", "parameters": parameters}
            raw["spec"]["devices"]["config"] = [{"opaque": opaque}]
        raw["metadata"] |= {"uid": f"uid-{name}", "resourceVersion": "1"}
        made = from_dict(raw, ResourceClaim)
        self.outlet.claims[made.metadata.key] = made
        self.show()

    def show(self) -> None:
        """The watch shows all claims as they are."""
        for key in {*self._shown, *self.outlet.claims}:
            old, new = self._shown.get(key), self.outlet.claims.get(key)
            if old != new:
                self._tell("ResourceClaim", old, new)
        self._shown = dict(self.outlet.claims)

    def submit(self, name: str, *claims: str) -> None:
        self.pods[name] = using(name, *claims).version(1)
        self.see(self.pods[name])

    def give_back(self, name: str) -> None:
        """The pod is deleted, and its claim with all that it holds."""
        self.lose(self.pods.pop(name))
        del self.outlet.claims[f"default/{name}"]
        self.show()


async def test_a_claim_is_shared_before_the_watch_shows_what_was_written(tmp_path: Path) -> None:
    stage = DeviceStage(tmp_path, nodes=3)
    stage.make_claim("shared")
    for name in ("first", "second", "third"):
        stage.submit(name, "shared")
        await stage.run()
    nodes = dict(stage.outlet.bound)
    assert len(nodes) == 3
    assert len(set(nodes.values())) == 1
    stage.show()
    await stage.settle()
    assert_equal(await asyncio.to_thread(stage.replayed), decisions=3)


async def test_devices_that_were_given_back_are_free_in_a_replay(tmp_path: Path) -> None:
    stage = DeviceStage(tmp_path, nodes=1)
    for name in ("a", "b", "c"):
        stage.make_claim(name)
        stage.submit(name, name)
        await stage.run()
        stage.show()
        await stage.settle()
        stage.give_back(name)
    replayed = await asyncio.to_thread(stage.replayed)
    assert_equal(replayed, decisions=3)
    assert replayed.comparison.bound == 3
    outcome = await asyncio.to_thread(simulate, tmp_path, stage.core.config)
    assert outcome.placed == 3


async def test_devices_for_extended_resources_are_free_again_in_a_play(tmp_path: Path) -> None:
    """The play makes claims of its own: those of the recording are not left over from it."""
    resource = "example.com/gpu"
    stage = DeviceStage(tmp_path, nodes=1, extendedResourceName=resource)
    for name in ("a", "b", "c"):
        stage.pods[name] = make_pod(name).request(resource, 1).version(1)
        stage.see(stage.pods[name])
        await stage.run()
        stage.show()
        await stage.settle()
        stage.clock.advance(1.0)
        stage.lose(stage.pods.pop(name))
        stage.outlet.claims.clear()
        stage.show()
    stage.tape.close()
    outcome = await asyncio.to_thread(simulate, tmp_path, stage.core.config)
    assert [fate.node for fate in outcome.fates.values()] == ["n0"] * 3


async def test_devices_of_a_pod_are_free_in_a_play_when_another_has_its_name(
    tmp_path: Path,
) -> None:
    """A list shows the new pod, and the old one nowhere any more."""
    resource = "example.com/gpu"
    stage = DeviceStage(tmp_path, nodes=1, extendedResourceName=resource)
    for uid in ("first", "second"):
        stage.pods["a"] = make_pod("a").uid(uid).request(resource, 1).version(1)
        stage.see(stage.pods["a"])
        stage.outlet.claims.clear()
        stage.show()
        await stage.run()
        stage.show()
        await stage.settle()
        stage.clock.advance(1.0)
    stage.tape.close()
    outcome = await asyncio.to_thread(simulate, tmp_path, stage.core.config)
    assert {uid: fate.node for uid, fate in outcome.fates.items()} == {
        "first": "n0",
        "second": "n0",
    }


async def test_devices_stay_with_their_pods_in_a_play_when_the_recorded_scheduler_restarts(
    tmp_path: Path,
) -> None:
    resource = "example.com/gpu"
    first = DeviceStage(tmp_path, nodes=1, extendedResourceName=resource)
    first.pods["a"] = make_pod("a").request(resource, 1).version(1)
    first.see(first.pods["a"])
    await first.run()
    first.show()
    await first.settle()
    first.tape.close()
    second = DeviceStage(tmp_path, nodes=1, begin=False, extendedResourceName=resource)
    second.outlet.claims |= first.outlet.claims
    second.show()
    second.see(first.pods["a"].on("n0"))
    second.core.scheduler.begin()
    second.pods["b"] = make_pod("b").request(resource, 1).version(1)
    second.see(second.pods["b"])
    await second.run()
    second.tape.close()
    outcome = await asyncio.to_thread(simulate, tmp_path, second.core.config)
    assert [fate.node for fate in outcome.fates.values()] == ["n0", ""]


async def test_a_claim_has_the_devices_that_its_pod_got_in_the_play(tmp_path: Path) -> None:
    stage = DeviceStage(tmp_path, nodes=2)
    stage.make_claim("shared")
    for name in ("first", "second"):
        stage.submit(name, "shared")
        await stage.run()
        stage.show()
        await stage.settle()
        stage.clock.advance(1.0)
    recorded = stage.outlet.claims["default/shared"].status.allocation
    assert recorded is not None
    stage.tape.close()
    other = "n1" if recorded.devices.results[0].pool == "n0" else "n0"
    only_other = {"schedulerName": "equipoise", "pluginConfig": [_only_on(other)]}
    config = configured({**KUBE, "profiles": [only_other]})
    outcome = await asyncio.to_thread(simulate, tmp_path, config)
    assert [fate.node for fate in outcome.fates.values()] == [other] * 2


class _Asked:
    """Pods of ours, of which each question is counted; nobody goes through all of them."""

    def __init__(self, *uids: str) -> None:
        self.uids = uids
        self.questions = 0

    def __contains__(self, uid: object) -> bool:
        self.questions += 1
        return uid in self.uids


@pytest.mark.parametrize(("consumer", "as_recorded"), [("uid-p", False), ("uid-q", True)])
def test_a_version_of_a_claim_costs_as_much_as_it_has_consumers(
    consumer: str, as_recorded: bool
) -> None:
    """However many pods the recording has: there is a version of a claim for most of them."""
    raw: Json = claim("c")
    raw["metadata"] |= {"uid": "uid-c"}
    pending = from_dict(raw, ResourceClaim)
    reserved = [{"resource": "pods", "name": "p", "uid": consumer}]
    raw["status"] = {"allocation": {"devices": {}}, "reservedFor": reserved}
    allocated, ours, claims = from_dict(raw, ResourceClaim), _Asked("uid-p"), PlayedClaims()
    claims.in_play(pending, None, ours)
    shown = claims.in_play(allocated, pending, ours)
    assert shown == (allocated if as_recorded else pending)
    assert ours.questions == 1


KUBE = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}


def _only_on(node: str) -> Json:
    """Arguments with which pods go to one node only."""
    expression = {"key": "metadata.name", "operator": "In", "values": [node]}
    required = {"nodeSelectorTerms": [{"matchFields": [expression]}]}
    affinity = {"requiredDuringSchedulingIgnoredDuringExecution": required}
    return {"name": "NodeAffinity", "args": {"addedAffinity": affinity}}


async def test_claims_that_were_made_for_extended_resources_are_known(tmp_path: Path) -> None:
    resource = "example.com/gpu"
    stage = DeviceStage(tmp_path, nodes=1, extendedResourceName=resource)
    for name in ("a", "b"):
        stage.pods[name] = make_pod(name).request(resource, 1).version(1)
        stage.see(stage.pods[name])
        await stage.run()
    assert [name for name, _ in stage.outlet.bound] == ["default/a"]
    stage.show()
    await stage.settle()
    assert_equal(await asyncio.to_thread(stage.replayed), decisions=2)
    kept = [
        each.object["metadata"]["annotations"]
        for each in segments(tmp_path)[0].entries()
        if isinstance(each, entries.Changed) and each.kind == "ResourceClaim"
    ]
    assert kept == [{"resource.kubernetes.io/extended-resource-claim": "true"}]


async def test_what_claims_tell_drivers_is_not_recorded_and_loses_no_step(tmp_path: Path) -> None:
    """It may be any JSON, also what MessagePack cannot have."""
    config = [{"opaque": {"driver": "gpu.example.com", "parameters": {"of": "class-secret"}}}]
    stage = DeviceStage(tmp_path, nodes=1, config=config)
    stage.make_claim("c", {"vast": 1 << 80, "token": "claim-secret"})
    stage.submit("p", "c")
    await stage.run()
    assert stage.outlet.claims["default/c"].status.allocation is not None
    stage.show()
    await stage.settle()
    replayed = await asyncio.to_thread(stage.replayed)
    assert_equal(replayed)
    assert replayed.comparison.bound == 1
    everything = str([list(each.entries()) for each in segments(tmp_path)])
    assert "gpu.example.com" in everything
    assert "secret" not in everything
