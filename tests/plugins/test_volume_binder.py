"""From a chosen node to bound claims: what is assumed, written, waited for and undone."""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from scheduler.model.storage import PersistentVolume, PersistentVolumeClaim
from scheduler.plugin_api.outlet import WriteError
from scheduler.plugins.volumes import binder
from scheduler.simulation import place
from tests.builders import Json, make_worker
from tests.pipeline.support import Change, RecordingOutlet, Stage, turns
from tests.plugins.storage import BOUND, VolumePod, a_claim, a_class, a_pod, a_volume, local, struct

CLAIM, VOLUME = "PersistentVolumeClaim", "PersistentVolume"
SELECTED = "volume.kubernetes.io/selected-node"
HOST = "kubernetes.io/hostname"


class Storage(RecordingOutlet):
    """The API server's part: takes patches of the right version and sends them to the watch."""

    def __init__(self) -> None:
        super().__init__()
        self.stage: Stage
        self.objects: dict[tuple[str, str], Json] = {}
        self.patches: list[tuple[str, str, Json]] = []
        self.refused: set[str] = set()
        self.controller: Callable[[], None] = lambda: None
        """Runs after every write, as the PV controller would."""
        self.gate = asyncio.Event()
        self.gate.set()
        self._version = 100

    def set(self, raw: Json) -> None:
        """An object comes or changes."""
        self._version += 1
        new = copy.deepcopy(raw)
        new["metadata"]["resourceVersion"] = str(self._version)
        key = (raw["kind"], struct(raw).metadata.key)
        old = self.objects.get(key)
        self.objects[key] = new
        change = Change(struct(old) if old else None, struct(new))
        self.stage.core.event_handlers.handler(raw["kind"])([change])

    def lose(self, kind: str, key: str) -> None:
        """An object goes."""
        old = self.objects.pop((kind, key))
        self.stage.core.event_handlers.handler(kind)([Change(struct(old), None)])

    async def patch(self, kind: str, key: str, patch: Mapping[str, Any]) -> None:
        await self.gate.wait()
        raw = self.objects[kind, key]
        if key in self.refused or patch["metadata"]["resourceVersion"] != version(raw):
            raise WriteError("the object has been modified", conflict=True)
        self.patches.append((kind, key, dict(patch)))
        self.set(merged(raw, patch))
        self.controller()

    def bind_claim(self, name: str, volume: str) -> None:
        """The PV controller has bound a claim."""
        raw = self.objects[CLAIM, f"default/{name}"]
        bound = {"metadata": {"annotations": BOUND}, "spec": {"volumeName": volume}}
        self.set(merged(raw, bound))


def version(raw: Json) -> str:
    return str(raw["metadata"]["resourceVersion"])


def merged(raw: Json, patch: Mapping[str, Any]) -> Json:
    """A JSON merge patch."""
    result = copy.deepcopy(raw)
    for key, value in patch.items():
        if isinstance(value, Mapping):
            result[key] = merged(result.get(key) or {}, value)
        elif value is None:
            result.pop(key, None)
        else:
            result[key] = value
    return result


def config(timeout: int = 600) -> Json:
    args = {"name": "VolumeBinding", "args": {"bindTimeoutSeconds": timeout}}
    profile = {"pluginConfig": [args]}
    kind = "KubeSchedulerConfiguration"
    return {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": kind, "profiles": [profile]}


def a_stage(*objects: Json, timeout: int = 600) -> tuple[Stage, Storage]:
    """Two nodes, a class without and a class with a provisioner."""
    storage = Storage()
    stage = storage.stage = Stage(config=(config(timeout),), outlet=storage)
    stage.see(*(make_worker(name).label(**{HOST: name}) for name in ("n0", "n1")))
    storage.set(a_class("local", "kubernetes.io/no-provisioner"))
    storage.set(a_class("late"))
    for raw in objects:
        storage.set(raw)
    return stage, storage


PRE_BIND = 'running PreBind plugin "VolumeBinding":'


def worries(storage: Storage) -> list[str]:
    return [word.message for word in storage.conditions]


def waiting(stage: Stage, storage: Storage) -> bool:
    """Whether a binding is under way that has not come to the pod yet."""
    return len(stage.core.bindings) == 1 and not storage.bound


async def test_a_free_volume_is_given_to_the_claim_before_the_pod_is_bound() -> None:
    large = a_volume("large", "local", size="20Gi", spec=local("n1"))
    stage, storage = a_stage(large, a_volume("small", "local", spec=local("n1")))
    storage.set(a_claim("c", "local"))
    claim_version = version(storage.objects[CLAIM, "default/c"])
    stage.see(a_pod().claim("c"))
    stage.attempt()
    await turns()

    ((kind, key, patch),) = storage.patches
    assert (kind, key) == (VOLUME, "small")
    assert patch["metadata"]["annotations"] == {"pv.kubernetes.io/bound-by-controller": "yes"}
    assert patch["spec"]["claimRef"] == {
        "apiVersion": "v1",
        "kind": CLAIM,
        "namespace": "default",
        "name": "c",
        "uid": "uid-c",
        "resourceVersion": claim_version,
    }
    assert waiting(stage, storage)
    storage.bind_claim("c", "small")
    await stage.idle()
    assert storage.bound == [("default/p", "n1")]


async def test_small_claims_choose_before_large_ones() -> None:
    volumes = [a_volume("small", "local", size="5Gi"), a_volume("large", "local", size="50Gi")]
    claims = [a_claim("big", "local", size="4Gi"), a_claim("tiny", "local", size="1Gi")]
    stage, storage = a_stage(*volumes, *claims)
    stage.see(a_pod().claim("big", "tiny"))
    stage.attempt()
    await turns()
    given = {patch["spec"]["claimRef"]["name"]: key for _, key, patch in storage.patches}
    assert given == {"tiny": "small", "big": "large"}
    storage.bind_claim("big", "large")
    await turns()
    assert waiting(stage, storage)
    storage.bind_claim("tiny", "small")
    await stage.idle()
    assert storage.bound


async def test_a_volume_is_made_for_the_chosen_node() -> None:
    stage, storage = a_stage(a_claim("c"))
    stage.see(a_pod().claim("c"))
    stage.attempt()
    await turns()
    ((kind, key, patch),) = storage.patches
    assert (kind, key) == (CLAIM, "default/c")
    (node,) = patch["metadata"]["annotations"].values()
    storage.bind_claim("c", "made")
    await turns()
    assert waiting(stage, storage)  # the volume itself has not been seen yet
    storage.set(a_volume("made", spec=local(node)))
    await stage.idle()
    assert storage.bound == [("default/p", node)]


async def test_a_claim_that_was_promised_to_a_node_is_not_written_again() -> None:
    stage, storage = a_stage(a_claim("c", annotations={SELECTED: "n1"}), a_volume("made"))
    stage.see(a_pod().claim("c"))
    stage.attempt()
    await turns()
    assert waiting(stage, storage)
    storage.bind_claim("c", "made")
    await stage.idle()
    assert storage.bound == [("default/p", "n1")]
    assert storage.patches == []


async def test_pods_that_share_a_claim_go_to_the_same_node() -> None:
    stage, storage = a_stage(a_claim("c"))
    stage.see(a_pod("a").claim("c"))
    stage.attempt()
    stage.see(*(a_pod(f"b{i}").claim("c") for i in range(4)))
    for _ in range(4):
        stage.attempt()  # before a word of the first was written
    await turns()
    assert [(kind, key) for kind, key, _ in storage.patches] == [(CLAIM, "default/c")]
    storage.set(a_volume("made", "done"))
    storage.bind_claim("c", "made")
    await stage.idle()
    assert len(storage.bound) == 5
    assert len({node for _, node in storage.bound}) == 1


async def test_a_pod_gives_back_only_what_it_assumed_itself() -> None:
    stage, storage = a_stage(a_claim("c"), a_claim("d", annotations={SELECTED: "n1"}))
    storage.gate.clear()
    stage.see(a_pod("a").claim("c").node_selector(**{HOST: "n1"}))
    stage.attempt()
    stage.see(a_pod("b").claim("d", "c"))
    stage.attempt()
    storage.lose(CLAIM, "default/d")
    await turns()
    assert len(worries(storage)) == 1  # b failed, and a has not written yet
    claim = stage.core.state.objects.get(PersistentVolumeClaim, "default/c")
    assert claim is not None
    assert claim.metadata.annotations == {SELECTED: "n1"}
    await stage.core.bindings.stop()


async def test_pods_that_share_a_claim_fail_together() -> None:
    stage, storage = a_stage(a_claim("c"))
    storage.refused = {"default/c"}
    stage.see(a_pod("a").claim("c"), a_pod("b").claim("c"))
    await stage.run()
    assert storage.bound == []
    assert len(worries(storage)) == 2
    claim = stage.core.state.objects.get(PersistentVolumeClaim, "default/c")
    assert claim is not None
    assert claim.metadata.annotations == {}


async def test_a_volume_is_promised_to_one_claim_only() -> None:
    stage, storage = a_stage(a_volume("v", "local"), a_claim("c", "local"), a_claim("d", "local"))
    stage.see(a_pod("a").claim("c"))
    stage.attempt()
    stage.see(a_pod("b").claim("d"))
    stage.attempt()
    assert stage.tiers() == {"b": "unschedulable"}
    assert "didn't find available persistent volumes to bind" in worries(storage)[-1]
    await turns()
    storage.bind_claim("c", "v")
    await stage.idle()
    assert storage.bound == [("default/a", storage.bound[0][1])]


async def test_a_refused_write_gives_everything_back() -> None:
    stage, storage = a_stage(a_volume("v", "local"), a_claim("c", "local"))
    storage.refused = {"v"}
    stage.see(a_pod().claim("c"))
    await stage.run()
    assert storage.bound == []
    assert worries(storage) == [f"{PRE_BIND} the object has been modified"]
    volume = stage.core.state.objects.get(PersistentVolume, "v")
    assert volume is not None
    assert volume.spec.claim_ref is None

    storage.refused = set()
    storage.controller = lambda: storage.bind_claim("c", "v")
    await stage.later(60)
    assert [pod for pod, _ in storage.bound] == ["default/p"]


async def test_what_was_written_before_a_failure_stays() -> None:
    claims = [a_claim("c", "local", size="1Gi"), a_claim("d", size="2Gi")]
    stage, storage = a_stage(a_volume("v", "local", spec=local("n1")), *claims)
    storage.refused = {"default/d"}
    stage.see(a_pod().claim("c", "d"))
    await stage.run()
    objects = stage.core.state.objects
    volume = objects.get(PersistentVolume, "v")
    claim = objects.get(PersistentVolumeClaim, "default/d")
    assert volume is not None
    assert claim is not None
    assert volume.spec.claim_ref is not None
    assert claim.metadata.annotations == {}


def forget_node(storage: Storage) -> None:
    raw = storage.objects[CLAIM, "default/c"]
    storage.set(merged(raw, {"metadata": {"annotations": {SELECTED: "", "by": "provisioner"}}}))


def strip_annotations(storage: Storage) -> None:
    storage.set(a_claim("c"))


def bind_elsewhere(storage: Storage) -> None:
    storage.set(a_volume("made", spec=local("nowhere")))
    storage.bind_claim("c", "made")


@pytest.mark.parametrize(
    ("change", "text"),
    [
        pytest.param(
            forget_node,
            'provisioning failed for PVC "c"',
            id="the provisioner asks for another node",
        ),
        pytest.param(
            strip_annotations,
            'selectedNode annotation reset for PVC "c"',
            id="the wish is forgotten",
        ),
        pytest.param(
            lambda storage: storage.lose(CLAIM, "default/c"),
            'failed to check provisioning pvc: persistentvolumeclaim "c" not found',
            id="the claim goes",
        ),
        pytest.param(
            bind_elsewhere,
            'pv "made" node affinity doesn\'t match node "n0": no matching NodeSelectorTerms',
            id="the volume is made elsewhere",
        ),
    ],
)
async def test_a_volume_that_will_not_be_made(change: Callable[[Storage], None], text: str) -> None:
    stage, storage = a_stage(a_claim("c"))
    stage.see(a_pod().claim("c").node_selector(**{HOST: "n0"}))
    stage.attempt()
    await turns()
    change(storage)
    await stage.idle()
    assert storage.bound == []
    assert worries(storage) == [f"{PRE_BIND} binding volumes: {text}"]


def free_volume(storage: Storage) -> None:
    storage.set(a_volume("v", "local"))


@pytest.mark.parametrize(
    ("change", "text"),
    [
        pytest.param(free_volume, 'ClaimRef got reset for pv "v"', id="the claim is forgotten"),
        pytest.param(
            lambda storage: storage.lose(VOLUME, "v"),
            'failed to check binding: persistentvolume "v" not found',
            id="the volume goes",
        ),
        pytest.param(
            lambda storage: storage.lose(CLAIM, "default/c"),
            'failed to check binding: persistentvolumeclaim "c" not found',
            id="the claim goes",
        ),
    ],
)
async def test_a_volume_that_will_not_be_bound(
    change: Callable[[Storage], None], text: str
) -> None:
    stage, storage = a_stage(a_volume("v", "local"), a_claim("c", "local"))
    stage.see(a_pod().claim("c"))
    stage.attempt()
    await turns()
    change(storage)
    await stage.idle()
    assert worries(storage) == [f"{PRE_BIND} binding volumes: {text}"]


async def test_nobody_waits_for_a_pod_or_a_node_that_is_gone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(binder, "LONGEST_NAP_SECONDS", 0.01)
    stage, storage = a_stage(a_claim("c"), a_claim("d"))
    pods: list[VolumePod] = [a_pod("a").claim("c"), a_pod("b").claim("d")]
    pods[1].node_selector(**{HOST: "n1"})
    stage.see(*pods)
    stage.attempt()
    stage.attempt()
    await turns()
    stage.lose(pods[0], make_worker("n1"))
    await stage.idle()
    assert storage.bound == []
    said = f'{PRE_BIND} binding volumes: failed to get node "n1": node "n1" not found'
    assert said in worries(storage)


async def test_the_wait_ends() -> None:
    stage, storage = a_stage(a_claim("c"), timeout=0)
    stage.see(a_pod().claim("c"))
    await stage.run()
    assert worries(storage) == [f"{PRE_BIND} binding volumes: context deadline exceeded"]
    claim = stage.core.state.objects.get(PersistentVolumeClaim, "default/c")
    assert claim is not None
    assert SELECTED in claim.metadata.annotations  # it was written, and so it stays


def test_a_simulation_takes_volumes_without_a_controller() -> None:
    nodes = [make_worker(name).label(**{HOST: name}).obj() for name in ("n0", "n1", "n2")]
    storage = [a_class("local", "kubernetes.io/no-provisioner")]
    storage += [a_volume(f"v{i}", "local", spec=local(f"n{i}")) for i in range(2)]
    storage += [a_claim(f"c{i}", "local") for i in range(3)]
    pods = [a_pod(f"p{i}").claim(f"c{i}").obj() for i in range(3)]
    placed = place([*nodes, *storage, *pods])
    assert sorted(str(node) for _, node, _ in placed) == ["None", "n0", "n1"]
