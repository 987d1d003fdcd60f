"""What pods get of cells, what they keep, and what others can see of it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox.numa.kubelet import NumaKubelet
from sandbox.numa.machine import Machine, MachineCell, MachineError, uniform
from scheduler.model.objects import from_dict
from scheduler.model.pods import Pod
from tests.sandbox.numa.support import GIB, GPU, body, container, kubelet, pod, single

MISALIGNED = "TopologyAffinityError"


def reason(node: NumaKubelet, *pods: Pod) -> list[str]:
    """Why each of some pods was refused, in order; empty for those let in."""
    refusals = [node.admit(each) for each in pods]
    return ["" if each is None else each.reason for each in refusals]


def free_cpus(node: NumaKubelet) -> list[int]:
    return [amounts["cpu"] for amounts in node.free().values()]


def test_the_lowest_cell_that_fits_is_taken() -> None:
    node = kubelet()
    assert reason(node, single("a", "4"), single("b", "4")) == ["", ""]
    assert free_cpus(node) == [3, 4]


def test_a_pod_that_fits_the_node_but_no_cell_is_refused() -> None:
    node = kubelet()
    assert reason(node, single("a", "4"), single("b", "5"), single("c", "4")) == [
        "",
        "",
        MISALIGNED,
    ]
    refusal = node.admit(single("d", "4"))
    assert refusal is not None
    assert (
        refusal.message == "Pod was rejected: Resources cannot be allocated with Topology locality"
    )
    assert free_cpus(node) == [3, 3], "a refused pod holds nothing"


def test_cpu_memory_and_devices_must_agree_on_a_cell() -> None:
    node = kubelet()
    assert reason(node, single("gpus", "1", gpus=2)) == [""]
    assert reason(node, single("memory", "1", gib=16)) == [""], "only the second cell has 16 GiB"
    assert reason(node, single("both", "1", gib=1, gpus=1)) == [MISALIGNED]
    assert reason(node, pod("device", container("app", gpus=1))) == [""], "needs no memory there"


@pytest.mark.parametrize(
    ("scope", "verdict"), [("container", ""), ("pod", MISALIGNED)], ids=["container", "pod"]
)
def test_containers_may_sit_in_different_cells_unless_the_scope_is_the_pod(
    scope: str, verdict: str
) -> None:
    node = kubelet(scope=scope)
    two = pod("two", container("a", "6"), container("b", "6"))
    assert reason(node, two) == [verdict]


def test_containers_are_served_in_order_without_a_second_thought() -> None:
    node = kubelet()
    three = pod("p", container("a", "4"), container("b", "7"), container("c", "4"))
    # With the first in cell 1 all would fit; but it goes to cell 0, the lower one.
    assert reason(node, three) == [MISALIGNED]
    assert free_cpus(node) == [7, 8]


def test_cpus_of_init_containers_stay_with_the_pod_and_nobody_lists_them() -> None:
    node = kubelet()
    with_init = pod("p", container("app", "2"), init=(container("prepare", "6"),))
    assert reason(node, with_init) == [""]
    node.started("uid-p")
    (listed,) = node.listed()
    assert listed.held[0]["cpu"] == 2
    assert free_cpus(node) == [1, 8], "six of the seven are gone"
    node.release("uid-p")
    assert free_cpus(node) == [7, 8]


def test_memory_of_init_containers_is_given_back_when_the_apps_start() -> None:
    node = kubelet()
    with_init = pod("p", container("app", "1", 2), init=(container("prepare", "1", 6),))
    assert reason(node, with_init) == [""]
    assert node.free()[0]["memory"] == (15 - 6) * GIB
    node.started("uid-p")
    assert node.free()[0]["memory"] == (15 - 2) * GIB
    node.release("uid-p")
    assert node.free()[0]["memory"] == 15 * GIB


def test_an_app_must_follow_its_init_container_into_the_same_cell() -> None:
    node = kubelet()
    assert reason(node, single("first", "4")) == [""]
    # The init container takes the three CPUs left in cell 0, so eight of cell 1 are out of reach.
    follows = pod("p", container("app", "8"), init=(container("prepare", "3"),))
    assert reason(node, follows) == [MISALIGNED]
    assert reason(node, single("alone", "8")) == [""]


def test_a_sidecar_keeps_its_cpus_and_is_listed() -> None:
    node = kubelet(scope="pod")
    sidecar = container("proxy", "2", restartPolicy="Always")
    assert reason(node, pod("p", container("app", "5"), init=(sidecar,))) == [""]
    assert free_cpus(node) == [0, 8]
    (listed,) = node.listed()
    assert listed.held[0]["cpu"] == 7
    beside = pod("q", container("app", "1"), init=(sidecar, container("prepare", "7")))
    assert reason(node, beside) == [MISALIGNED], "the init container runs beside the sidecar"


def test_only_whole_cpus_of_guaranteed_pods_are_pinned() -> None:
    node = kubelet(memory_manager=False)
    loose = body("loose", container("app", "2"))
    loose["spec"]["containers"][0]["resources"]["limits"] = {}
    assert reason(node, from_dict(loose, Pod), single("part", "1500m")) == ["", ""]
    assert free_cpus(node) == [7, 8]
    assert node.cpus_in_use == 3.5
    assert [listed.exclusive for listed in node.listed()] == [False, False]


def test_with_resources_of_the_pod_as_a_whole_nothing_but_devices_is_pinned() -> None:
    whole = body("whole", container("app", "4", gpus=1))
    whole["spec"]["resources"] = {
        kind: {"cpu": "8", "memory": "4Gi"} for kind in ("requests", "limits")
    }
    node = kubelet()
    assert reason(node, from_dict(whole, Pod)) == [""]
    assert free_cpus(node) == [7, 8]
    assert node.free()[0][GPU] == 1


def test_best_effort_lets_a_pod_spread_over_cells_and_restricted_does_not() -> None:
    for policy, verdict in (("best-effort", ""), ("restricted", MISALIGNED), ("none", "")):
        node = kubelet(policy=policy, memory_manager=False)
        assert reason(node, single("a", "4"), single("b", "6")) == ["", ""]
        assert reason(node, single("c", "5")) == [verdict], policy


def test_restricted_spreads_what_no_cell_could_ever_hold() -> None:
    node = kubelet(policy="restricted")
    assert reason(node, single("wide", "12", gib=20)) == [""]
    assert free_cpus(node) == [3, 0], "the cell without reserved CPUs is taken whole"
    assert reason(node, single("narrow", "1")) == [MISALIGNED], "both cells serve a group now"


def test_memory_that_fits_no_set_of_cells_fails_at_its_allocation() -> None:
    node = kubelet()
    assert reason(node, single("a", "1", gib=10), single("b", "1", gib=10)) == ["", ""]
    assert reason(node, single("c", "1", gib=10)) == ["UnexpectedAdmissionError"]
    assert free_cpus(node) == [6, 7], "its CPU was taken back"


def test_the_node_as_a_whole_has_the_last_word() -> None:
    node = kubelet(memory_manager=False)
    noisy = [single(f"noise-{i}", "1500m", gib=1) for i in range(9)]
    assert reason(node, *noisy) == [""] * 9
    refusal = node.admit(single("late", "2"))
    assert refusal is not None
    assert refusal.reason == "OutOfcpu"
    assert free_cpus(node) == [7, 8]


def test_a_pod_admitted_twice_counts_once() -> None:
    node = kubelet()
    assert reason(node, single("a", "4"), single("a", "4")) == ["", ""]
    assert free_cpus(node) == [3, 8]


def test_a_trial_changes_nothing() -> None:
    node = kubelet()
    node.admit(single("a", "7"))
    node.admit(single("b", "7"))
    assert not node.would_admit(single("c", "6"))
    assert node.would_admit(single("c", "6"), without={"uid-a": None})
    assert free_cpus(node) == [0, 1]


@pytest.mark.parametrize("lists_finished", [False, True])
def test_finished_and_refused_pods_are_listed_by_old_kubelets_until_deleted(
    lists_finished: bool,
) -> None:
    node = kubelet(lists_finished=lists_finished)
    node.admit(single("a", "2"))
    node.admit(single("refused", "12"))
    node.release("uid-a")
    names = {listed.name for listed in node.listed()}
    assert names == ({"a", "refused"} if lists_finished else set())
    node.forget("uid-a")
    node.forget("uid-refused")
    assert node.listed() == []


def test_threads_of_a_core_go_together() -> None:
    machine = uniform(1, 8, GIB, threads_per_core=2, reserved_cpus=2)
    assert machine.reserved == {0, 4}
    node = NumaKubelet("n1", machine)
    node.admit(single("a", "3", gib=0))
    assert free_cpus(node) == [6], "zero memory is not Guaranteed, so nothing is pinned"
    small = uniform(1, 8, 4 * GIB, threads_per_core=2, reserved_cpus=2)
    node = NumaKubelet("n1", small)
    assert reason(node, single("a", "3"), single("b", "2"), single("c", "1")) == ["", "", ""]
    assert free_cpus(node) == [0]


@pytest.mark.parametrize(
    ("field", "make"),
    [
        ("cells", lambda: Machine(())),
        ("cells", lambda: Machine((MachineCell(1, 4, GIB), MachineCell(0, 4, GIB)))),
        ("cells", lambda: Machine((MachineCell(64, 4, GIB),))),
        ("cells", lambda: uniform(9, 4, GIB)),
        ("threadsPerCore", lambda: Machine((MachineCell(0, 3, GIB),), threads_per_core=2)),
        ("reservedCpus", lambda: Machine((MachineCell(0, 4, GIB),), reserved_cpus=0)),
        ("reservedMemory", lambda: Machine((MachineCell(0, 4, GIB),), reserved_memory=2 * GIB)),
    ],
)
def test_machines_that_cannot_be_are_named(field: str, make: Callable[[], Machine]) -> None:
    with pytest.raises(MachineError, match=field):
        make()


@given(st.lists(st.tuples(st.integers(1, 9), st.integers(0, 2), st.integers(0, 6)), max_size=25))
def test_what_is_free_and_what_is_listed_add_up(steps: list[tuple[int, int, int]]) -> None:
    node = kubelet()
    alive: list[str] = []
    for i, (cpus, gpus, drop) in enumerate(steps):
        if alive and drop == 0:
            node.forget(alive.pop())
        elif node.admit(single(f"p{i}", str(cpus), gpus=gpus)) is None:
            alive.append(f"uid-p{i}")
        held = [listed.held for listed in node.listed()]
        for cell, offered in ((0, 7), (1, 8)):
            free = node.free()[cell]
            assert free["cpu"] + sum(h.get(cell, {}).get("cpu", 0) for h in held) == offered
            assert free[GPU] + sum(h.get(cell, {}).get(GPU, 0) for h in held) == 2
        assert all(len(h) == 1 for h in held), "one cell for each pod"
    for uid in alive:
        node.forget(uid)
    assert free_cpus(node) == [7, 8]


def burstable(name: str, cpu: str) -> Pod:
    requests = {"requests": {"cpu": cpu, "memory": "1Gi"}}
    return pod(name, {"name": "app", "resources": requests})


def test_a_resized_pod_takes_what_it_requests_now_if_there_is_as_much() -> None:
    node = kubelet()  # 15 of its 16 CPUs are for pods
    assert reason(node, burstable("a", "10"), burstable("b", "5")) == ["", ""]
    assert reason(node, burstable("c", "4")) == ["OutOfcpu"]
    node.resize(burstable("a", "6"))
    assert reason(node, burstable("c", "4")) == [""]
    node.resize(burstable("a", "10"))
    assert node.cpus_in_use == 15, "it has what it had, as there is no more"


def test_a_pod_with_cpus_of_its_own_keeps_them_when_it_is_resized() -> None:
    node = kubelet()
    assert reason(node, single("a", "4")) == [""]
    node.resize(single("a", "2"))
    assert (node.cpus_in_use, free_cpus(node)) == (4, [3, 8])
