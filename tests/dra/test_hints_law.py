"""The law of hints: what an event of slices, classes or claims cures is tried again, no more."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace

from scheduler.devices import demand, index
from scheduler.dra.extended_resources import extended_resources
from scheduler.dra.hints import DeviceHints
from scheduler.dra.ledger import DeviceLedger, ledger_of
from scheduler.dra.pod_devices import PodDevices, Preparation, key_of
from scheduler.model.devices import DeviceClass, ResourceClaim, ResourceSlice
from scheduler.model.events import Action, Event, Hint
from scheduler.model.objects import from_dict
from scheduler.model.podinfo import PodInfo
from scheduler.queueing.columns import WaitingColumn, members
from scheduler.state.cache import ClusterState
from tests.builders import make_pod
from tests.devices.worlds import GPU, NIC, World

PODS = 6
RESOURCE = "example.com/gpu"


class Waiting:
    """Pods that wait for devices of a random cluster."""

    def __init__(self, random: Random) -> None:
        self.random = random
        self.world = World(random)
        self.state = state = ClusterState()
        self.ledger: DeviceLedger = ledger_of(state)
        for node in self.world.nodes:
            state.set_node(node)
        classes = dict(self.world.classes)
        spec = replace(classes["gpu"].spec, extended_resource_name=RESOURCE)
        classes["gpu"] = replace(classes["gpu"], spec=spec)
        for name, each in classes.items():
            state.set_object("DeviceClass", name, each)
        for piece in self.world.slices:
            state.set_object("ResourceSlice", piece.metadata.key, piece)
        for number, allocation in enumerate(self.world.allocated):
            metadata = {"name": f"held-{number}", "namespace": "default", "uid": f"held-{number}"}
            held = from_dict({"metadata": metadata, "spec": {}}, ResourceClaim)
            held = replace(held, status=replace(held.status, allocation=allocation))
            state.set_object("ResourceClaim", held.metadata.key, held)
        self.preparation = Preparation(self.ledger, extended_resources(state), 600.0)
        self.hints = DeviceHints(self.ledger, self.preparation)
        self.pods = [self._pod(number) for number in range(PODS)]
        self.column = self._column()

    def _pod(self, number: int) -> PodInfo:
        name = f"p{number}"
        if self.random.random() < 0.2:
            return make_pod(name).request(RESOURCE, self.random.choice((1, 2, 4))).info()
        claim = self.world.claims(most=1)[0]
        own = replace(claim.metadata, name=name, uid=name)
        self.state.set_object("ResourceClaim", f"default/{name}", replace(claim, metadata=own))
        return make_pod(name).spec(resourceClaims=[{"name": "c", "resourceClaimName": name}]).info()

    def _column(self) -> WaitingColumn:
        (made,) = {
            each.column for each in self.hints.registrations() if each.kind == "ResourceSlice"
        }
        assert made is not None
        column = made()
        for number, pod in enumerate(self.pods):
            column.add(number, pod)
        return column

    def verdicts(self) -> list[str]:
        """Of each pod whether it fits somewhere, fits nowhere, or its attempt fails."""
        return [self._verdict(pod) for pod in self.pods]

    def _verdict(self, pod: PodInfo) -> str:
        needs = self.preparation.prepare(pod)
        if not isinstance(needs, PodDevices):
            return "fits" if needs is None else "no"
        self.ledger.follow_nodes()
        claims = needs.to_allocate(tuple(needs.served))
        judgement = self.ledger.index.judge(claims, self.state.rows())
        if any(each.fault is not None for each in judgement.outcomes):
            return "error"
        return "fits" if judgement.fits.any() else "no"

    def change(self) -> Event:
        """Have something happen to a slice or a class, or a claim give back what it held."""
        random, objects = self.random, self.state.objects
        held = [each for each in objects.all(ResourceClaim).values() if each.status.allocation]
        if held and random.random() < 0.3:
            return self._give_back(random.choice(held))
        choice = random.randrange(6)
        if choice == 0:
            name = random.choice(("gpu", "nic", "any", "late"))
            selector = f'device.driver == "{random.choice((GPU, NIC))}"'
            spec = {"selectors": [{"cel": {"expression": selector}}]}
            if random.random() < 0.5:
                spec["extendedResourceName"] = RESOURCE  # type: ignore[assignment]  # JSON
            made = {"metadata": {"name": name}, "spec": spec}
            old_class = objects.get(DeviceClass, name)
            new_class = None if random.random() < 0.2 else from_dict(made, DeviceClass)
            self.state.set_object("DeviceClass", name, new_class)
            return _event("DeviceClass", old_class, new_class)
        slices = list(objects.all(ResourceSlice).values())
        if choice < 3 and slices:
            gone = random.choice(slices)
            self.state.set_object("ResourceSlice", gone.metadata.key, None)
            return _event("ResourceSlice", gone, None)
        before = len(self.world.slices)
        while len(self.world.slices) == before:
            node = random.choice(self.world.nodes).name
            self.world._pool(random.choice((GPU, NIC)), node, {"nodeName": node})
        piece = random.choice(self.world.slices[before:])
        old = objects.get(ResourceSlice, piece.metadata.key)
        self.state.set_object("ResourceSlice", piece.metadata.key, piece)
        return _event("ResourceSlice", old, piece)

    def _give_back(self, claim: ResourceClaim) -> Event:
        empty = replace(claim, status=replace(claim.status, allocation=None))
        left = None if self.random.random() < 0.5 else empty
        self.state.set_object("ResourceClaim", claim.metadata.key, left)
        return _event("ResourceClaim", claim, left)


def _event(kind: str, old: object, new: object) -> Event:
    action = Action.ADD if old is None else Action.DELETE if new is None else Action.UPDATE
    return Event(kind, action, old, new)


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32))
def test_no_pod_that_an_event_cures_is_left_asleep(seed: int) -> None:
    waiting = Waiting(Random(seed))
    for _ in range(5):
        before = waiting.verdicts()
        event = waiting.change()
        after = waiting.verdicts()
        answer = waiting.column.answer(event)
        told = set(members(answer.cured))
        for number, pod in enumerate(waiting.pods):
            hint = waiting.hints.after_devices(pod, event)
            # The column leaves out nobody whose hint says so.
            assert hint is Hint.SKIP or number in told or number in answer.unsure
            if before[number] == "no" and after[number] == "fits":
                assert hint is Hint.QUEUE, (pod.key, event)
            if hint is Hint.QUEUE or number in told:  # it is tried, and rejected again
                waiting.column.remove(number)
                waiting.column.add(number, pod)


def test_a_slice_or_class_wakes_those_who_can_use_it_and_nobody_else() -> None:
    waiting = Waiting(Random(3))
    waiting.pods.clear()
    for number, of in enumerate(("gpu", "nic", "nic")):
        ask = {"deviceClassName": of, "allocationMode": "ExactCount", "count": 99}
        requests = [{"name": "r", "exactly": ask}]
        metadata = {"name": f"w{number}", "namespace": "default", "uid": f"w{number}"}
        raw = {"metadata": metadata, "spec": {"devices": {"requests": requests}}}
        key = f"default/w{number}"
        waiting.state.set_object("ResourceClaim", key, from_dict(raw, ResourceClaim))
        entry = {"name": "c", "resourceClaimName": f"w{number}"}
        waiting.pods.append(make_pod(f"w{number}").spec(resourceClaims=[entry]).info())
    column = waiting._column()
    for driver, woken in ((GPU, {0}), (NIC, {1, 2}), ("other.example.com", set())):
        answer = column.answer(_event("ResourceSlice", None, _new_slice(waiting, driver)))
        assert set(members(answer.cured)) == woken
        assert not answer.unsure
    nic = waiting.state.objects.get(DeviceClass, "nic")
    assert set(members(column.answer(_event("DeviceClass", nic, nic)).cured)) == {1, 2}


def test_waiters_may_come_and_go_while_demands_are_compared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """To compare one may pause, and other tasks run meanwhile."""
    waiting = Waiting(Random(3))
    waiting.pods = [_asking_for(waiting, number + 1) for number in range(4)]
    column = waiting._column()
    there = set(range(4))

    def pause() -> None:
        if 1 in there:
            there.remove(1)
            column.remove(1)
        if 9 not in there:
            there.add(9)
            column.add(9, _asking_for(waiting, 77))

    monkeypatch.setattr(demand, "checkpoint", pause)
    answer = column.answer(_event("ResourceSlice", None, _new_slice(waiting, GPU)))
    assert 9 in there, "it paused"
    assert set(members(answer.cured)) == {0, 2, 3}, "who came was in flight"


def test_the_key_of_a_pod_is_made_without_a_checkpoint(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other keys of the pod are made before and after it: all are to be of one moment."""
    waiting = Waiting(Random(3))
    compiling = "compiling claims has checkpoints"
    monkeypatch.setattr(index, "compile_demand", lambda *_: pytest.fail(compiling))
    keys = [key_of(waiting.preparation.prepare(pod)) for pod in waiting.pods]
    assert all(key is not None for key in keys)


def _new_slice(waiting: Waiting, driver: str) -> ResourceSlice:
    pool = {"name": "new", "generation": 1, "resourceSliceCount": 1}
    spec = {"driver": driver, "pool": pool, "allNodes": True, "devices": [{"name": "d"}]}
    piece = from_dict({"metadata": {"name": f"new-{driver}"}, "spec": spec}, ResourceSlice)
    waiting.state.set_object("ResourceSlice", piece.metadata.key, piece)
    return piece


def _asking_for(waiting: Waiting, count: int) -> PodInfo:
    name = f"any-{count}"
    asked = _own(name, "any")
    (request,) = asked.spec.devices.requests or ()
    assert request.exactly is not None
    request = replace(request, exactly=replace(request.exactly, count=count))
    devices = replace(asked.spec.devices, requests=(request,))
    asked = replace(asked, spec=replace(asked.spec, devices=devices))
    waiting.state.set_object("ResourceClaim", asked.metadata.key, asked)
    return make_pod(name).spec(resourceClaims=[_entry(name)]).info()


def _waiting_for(count: int) -> list[PodInfo]:
    """Pods whose claims are not there."""
    return [
        make_pod(f"p{number}").spec(resourceClaims=[_entry(f"own-{number}")]).info()
        for number in range(count)
    ]


def _entry(name: str) -> dict[str, str]:
    return {"name": "c", "resourceClaimName": name}


def _own(name: str, of: str = "gpu", **status: object) -> ResourceClaim:
    ask = {"deviceClassName": of, "allocationMode": "ExactCount", "count": 1}
    metadata = {"name": name, "namespace": "default", "uid": name}
    spec = {"devices": {"requests": [{"name": "r", "exactly": ask}]}}
    return from_dict({"metadata": metadata, "spec": spec, "status": status}, ResourceClaim)


def test_a_pod_whose_claim_is_missing_is_woken_by_that_claim_alone() -> None:
    waiting = Waiting(Random(3))
    waiting.pods = _waiting_for(2)
    column, hints = waiting._column(), waiting.hints
    node, piece = waiting.world.nodes[0], waiting.world.slices[0]
    gpu = waiting.world.classes["gpu"]
    held = _freeing(waiting)
    for event in (
        Event("Node", Action.ADD, None, node),
        _event("ResourceSlice", None, piece),
        _event("DeviceClass", None, gpu),
        _event("ResourceClaim", held, None),
    ):
        assert column.answer(event) == ((), ())
        assert {hints.after_devices(pod, event) for pod in waiting.pods} == {Hint.SKIP}
    own = _own("own-0")
    waiting.state.set_object("ResourceClaim", own.metadata.key, own)
    came = _event("ResourceClaim", None, own)
    assert [hints.after_claim(pod, came) for pod in waiting.pods] == [Hint.QUEUE, Hint.SKIP]


def _freeing(waiting: Waiting) -> ResourceClaim:
    """A claim with a device of the first pool."""
    spec = waiting.world.slices[0].spec
    device = {"request": "r", "driver": spec.driver, "pool": spec.pool.name, "device": "d"}
    return _own("other", allocation={"devices": {"results": [device]}})


def test_a_pod_whose_class_is_missing_is_woken_by_that_class_alone() -> None:
    waiting = Waiting(Random(3))
    lost = _own("lost", "unknown")
    waiting.state.set_object("ResourceClaim", lost.metadata.key, lost)
    waiting.pods = [make_pod("p").spec(resourceClaims=[_entry("lost")]).info()]
    column = waiting._column()
    node, piece = waiting.world.nodes[0], waiting.world.slices[0]
    for event in (
        Event("Node", Action.ADD, None, node),
        _event("ResourceSlice", None, piece),
        _event("DeviceClass", None, waiting.world.classes["gpu"]),
    ):
        assert column.answer(event) == ([], ())
        assert waiting.hints.after_devices(waiting.pods[0], event) is Hint.SKIP
    came = from_dict({"metadata": {"name": "unknown"}, "spec": {}}, DeviceClass)
    assert column.answer(_event("DeviceClass", None, came)) == ([0], ())


def test_freed_devices_wake_those_who_can_use_them_and_nobody_else() -> None:
    waiting = Waiting(Random(3))
    waiting.pods.clear()
    for number, of in enumerate(("gpu", "nic")):
        own = _own(f"own-{number}", of)
        waiting.state.set_object("ResourceClaim", own.metadata.key, own)
        waiting.pods.append(
            make_pod(f"p{number}").spec(resourceClaims=[_entry(own.metadata.name)]).info()
        )
    column = waiting._column()
    for driver, woken in ((GPU, {0}), (NIC, {1})):
        pool = {"name": "new", "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": driver, "pool": pool, "allNodes": True, "devices": [{"name": "d"}]}
        piece = from_dict({"metadata": {"name": f"new-{driver}"}, "spec": spec}, ResourceSlice)
        waiting.state.set_object("ResourceSlice", piece.metadata.key, piece)
        device = {"request": "r", "driver": driver, "pool": "new", "device": "d"}
        held = _own("other", allocation={"devices": {"results": [device]}})
        freed = column.answer(_event("ResourceClaim", held, _own("other")))
        assert set(members(freed.cured)) == woken
        assert column.answer(_event("ResourceClaim", None, held)).cured == ()
