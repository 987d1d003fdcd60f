"""VolumeZone against labels compared node by node."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.model.status import SUCCESS, unresolvable
from scheduler.plugins.volume_zone import VolumeZone
from tests.builders import Json, make_node
from tests.plugins.storage import a_claim, a_class, a_pod, a_volume, put
from tests.plugins.support import Bench

ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
OLD_ZONE = "failure-domain.beta.kubernetes.io/zone"
OLD_REGION = "failure-domain.beta.kubernetes.io/region"
TODAY = {OLD_ZONE: ZONE, OLD_REGION: REGION}
KEYS = [ZONE, REGION, OLD_ZONE, OLD_REGION]

ELSEWHERE = unresolvable("node(s) had no available volume zone").by("VolumeZone")

places = st.sampled_from(["a", "b", "c"])
node_labels = st.dictionaries(st.sampled_from([*KEYS, "disk"]), places, max_size=4)
volume_labels = st.dictionaries(
    st.sampled_from([*KEYS, "disk"]),
    st.sampled_from(["a", "b", "a__b", "c__ b", "", "a__"]),
    max_size=3,
)


def fits(node: dict[str, str], volume: dict[str, str]) -> bool:
    if not any(key in node for key in KEYS):
        return True
    for key in KEYS:
        if key in volume:
            allowed = [part.strip() for part in volume[key].split("__")]
            have = node.get(key, node.get(TODAY.get(key, key)))
            if "" not in allowed and have not in allowed:
                return False
    return True


@given(st.lists(node_labels, min_size=1, max_size=4), st.lists(volume_labels, max_size=2))
def test_every_verdict(cluster: list[dict[str, str]], volumes: list[dict[str, str]]) -> None:
    nodes = {f"n{i}": make_node(f"n{i}").label(**labels) for i, labels in enumerate(cluster)}
    bench = Bench(VolumeZone, nodes.values())
    pod = a_pod()
    for number, labels in enumerate(volumes):
        put(bench.state, a_volume(f"v{number}", labels=labels))
        put(bench.state, a_claim(f"c{number}", volume=f"v{number}"))
        pod.claim(f"c{number}")
    want = {
        name: SUCCESS if all(fits(having, labels) for labels in volumes) else ELSEWHERE
        for name, having in zip(nodes, cluster, strict=True)
    }
    assert bench.verdicts(pod) == want


@pytest.mark.parametrize(
    ("objects", "text"),
    [
        pytest.param((), 'persistentvolumeclaim "c" not found', id="no claim"),
        pytest.param(
            (a_claim("c", volume="gone"),), 'persistentvolume "gone" not found', id="no volume"
        ),
        pytest.param(
            (a_claim("c", None),),
            "PersistentVolumeClaim had no pv name and storageClass name",
            id="neither volume nor class",
        ),
        pytest.param(
            (a_claim("c"),), 'storageclass.storage.k8s.io "late" not found', id="no class"
        ),
        pytest.param(
            (a_claim("c"), a_class("late") | {"volumeBindingMode": None}),
            'VolumeBindingMode not set for StorageClass "late"',
            id="a class without a mode",
        ),
        pytest.param(
            (a_claim("c"), a_class("late", mode="Immediate")),
            "PersistentVolume had no name",
            id="a volume should be there",
        ),
        pytest.param((a_claim("c"), a_class("late")), "", id="a volume will come"),
    ],
)
def test_claims_that_have_no_volume(objects: tuple[Json, ...], text: str) -> None:
    bench = Bench(VolumeZone, [make_node("n").label(**{ZONE: "a"})])
    put(bench.state, *objects)
    want = unresolvable(text).by("VolumeZone") if text else SUCCESS
    assert bench.verdicts(a_pod().claim("c")) == {"n": want}
