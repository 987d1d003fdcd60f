"""VolumeRestrictions against every pair of volumes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from scheduler.model.status import SUCCESS, unresolvable, unschedulable
from scheduler.plugins.volume_restrictions import VolumeRestrictions
from scheduler.state.scratch import scratch
from tests.builders import Json, make_node
from tests.plugins.storage import a_claim, a_pod, put
from tests.plugins.support import Bench

NAME = "VolumeRestrictions"
DISK = unschedulable("node(s) had no available disk").by(NAME)
IN_USE = unschedulable(
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already"
    " in-use by another pod"
).by(NAME)
ONE_POD = ["ReadWriteOncePod"]

names = st.sampled_from(["a", "b"])
disks = st.one_of(
    st.builds(
        lambda n, r: {"gcePersistentDisk": {"pdName": n, "readOnly": r}}, names, st.booleans()
    ),
    st.builds(lambda n: {"awsElasticBlockStore": {"volumeID": n}}, names),
    st.builds(lambda n, r: {"iscsi": {"iqn": n, "readOnly": r}}, names, st.booleans()),
    st.builds(
        lambda m, p, i, r: {"rbd": {"monitors": m, "pool": p, "image": i, "readOnly": r}},
        st.lists(names, max_size=3),
        names,
        names,
        st.booleans(),
    ),
)
sets = st.lists(disks, max_size=3)


def conflict(one: Json, other: Json) -> bool:
    """Whether two volumes are one disk; all but EBS may be shared if all pods only read."""
    (kind, mine), (other_kind, theirs) = *one.items(), *other.items()
    if kind != other_kind:
        return False
    if kind == "awsElasticBlockStore":
        return bool(mine == theirs)
    if mine["readOnly"] and theirs["readOnly"]:
        return False
    if kind == "rbd":
        same = mine["pool"] == theirs["pool"] and mine["image"] == theirs["image"]
        return same and not set(mine["monitors"]).isdisjoint(theirs["monitors"])
    identity = {"gcePersistentDisk": "pdName", "iscsi": "iqn"}[kind]
    return bool(mine[identity] == theirs[identity])


@given(sets, st.lists(st.tuples(st.sampled_from(["n0", "n1"]), sets), max_size=5))
def test_disks(wanted: list[Json], running: list[tuple[str, list[Json]]]) -> None:
    pods = []
    want = {"n0": SUCCESS, "n1": SUCCESS}
    for number, (node, used) in enumerate(running):
        pod = a_pod(f"p{number}").on(node)
        for disk in used:
            pod.volume(**disk)
        pods.append(pod)
        if any(conflict(one, other) for one in wanted for other in used):
            want[node] = DISK
    bench = Bench(VolumeRestrictions, [make_node("n0"), make_node("n1")], pods)
    pending = a_pod("pending")
    for disk in wanted:
        pending.volume(**disk)
    assert bench.verdicts(pending) == want

    for pod in pods:
        bench.state.remove_pod(pod.info().uid)
    assert bench.verdicts(pending) == {"n0": SUCCESS, "n1": SUCCESS}


def test_a_claim_of_one_pod_at_a_time_is_in_use_everywhere() -> None:
    holder = a_pod("holder").claim("data").on("n0")
    bench = Bench(VolumeRestrictions, [make_node("n0"), make_node("n1")], [holder])
    put(bench.state, a_claim("data", modes=ONE_POD), a_claim("shared"))
    pod = a_pod().claim("data")
    assert bench.verdicts(pod) == {"n0": IN_USE, "n1": IN_USE}
    assert bench.verdicts(a_pod().claim("shared")) == {"n0": SUCCESS, "n1": SUCCESS}
    bench.state.remove_pod("uid-holder")
    assert bench.verdicts(pod) == {"n0": SUCCESS, "n1": SUCCESS}


def test_a_claim_of_the_same_name_elsewhere_is_another_claim() -> None:
    holder = a_pod("holder", "elsewhere").claim("data").on("n")
    bench = Bench(VolumeRestrictions, [make_node("n")], [holder])
    put(bench.state, a_claim("data", modes=ONE_POD))
    assert bench.verdicts(a_pod().claim("data")) == {"n": SUCCESS}


def test_an_eviction_would_free_claim_and_disk() -> None:
    disk = {"gcePersistentDisk": {"pdName": "d"}}
    holder = a_pod("holder").claim("data").volume(**disk).on("n")
    bench = Bench(VolumeRestrictions, [make_node("n")], [holder])
    put(bench.state, a_claim("data", modes=ONE_POD))
    pod = a_pod().claim("data").volume(**disk)
    held = bench.state.pod("uid-holder")
    assert held is not None
    with scratch(bench.state) as changes:
        changes.remove(held)
        assert bench.verdicts(pod) == {"n": SUCCESS}
    assert bench.verdicts(pod) == {"n": DISK}


def test_a_missing_claim() -> None:
    bench = Bench(VolumeRestrictions, [make_node("n")])
    missing = unresolvable('persistentvolumeclaim "data" not found').by(NAME)
    assert bench.verdicts(a_pod().claim("data")) == {"n": missing}
