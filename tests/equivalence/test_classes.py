"""Who shares what: classes, templates, columns, budgets."""

from __future__ import annotations

import functools
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.equivalence import cache, classes
from scheduler.equivalence.classes import Classes, template_of
from scheduler.model.podinfo import PodInfo
from scheduler.simulation import place
from scheduler.state import podindex
from tests.builders import (
    PodBuilder,
    constraint,
    make_pod,
    make_worker,
    pod_term,
    requirement,
    term,
)
from tests.equivalence import law
from tests.equivalence.templates import HOST, PACKED, UNREADABLE, ZONE, waiting
from tests.equivalence.test_planted_faults import look
from tests.equivalence.world import World


def three_nodes(**equivalence: Any) -> World:
    world = World(**equivalence)
    for i in range(3):
        world.change("Node", f"n{i}")
    return world


def same_class(world: World, one: PodBuilder, other: PodBuilder) -> bool:
    kept = law.equivalence_of(world)
    return kept.class_of(one.info()) is kept.class_of(other.info())


def test_labels_count_only_where_somebody_asks() -> None:
    world = three_nodes()
    one, other = waiting("cpu", "one", PACKED), waiting("cpu", "two", PACKED)
    one.label(app="a")
    assert same_class(world, one, other)
    world.change("Pod", "x0", apart=1)  # keeps away from pods with the label
    assert not same_class(world, one, other)
    world.remove("Pod", "x0")
    assert same_class(world, one, other)


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(
            waiting("cpu", "two").apart(pod_term(HOST, labelSelector=UNREADABLE)),
            id="a fault in affinity",
        ),
        pytest.param(
            waiting("cpu", "two").spread(constraint(HOST, labelSelector=UNREADABLE)),
            id="a fault in spread constraints",
        ),
        pytest.param(waiting("cpu", "two").priority(7), id="priority"),
        pytest.param(waiting("cpu", "two").spec(preemptionPolicy="Never"), id="preemption policy"),
        pytest.param(waiting("cpu", "two", PACKED), id="profile"),
        pytest.param(waiting("cpu", "two").host_port(80), id="port"),
        pytest.param(waiting("cpu", "two").apart(pod_term(HOST, {"a": "b"})), id="affinity"),
    ],
)
def test_what_tells_pods_apart(other: PodBuilder) -> None:
    assert not same_class(three_nodes(), waiting("cpu", "one"), other)


def test_a_pod_that_cannot_be_understood_keeps_no_other_from_its_node() -> None:
    """What cannot be read counts as absent, so that it differs in nothing else."""
    node = make_worker("n").obj()
    pods = [
        make_pod("first").apart(pod_term(HOST, labelSelector=UNREADABLE)),
        make_pod("second").spread(constraint(HOST, labelSelector=UNREADABLE)),
        make_pod("valid"),
    ]
    first, second, valid = place([node, *(pod.obj() for pod in pods)])
    assert "podAntiAffinity" in first[2]
    assert "topologySpreadConstraints" in second[2]
    assert valid == ("default/valid", "n", "")


def test_pods_with_claims_of_their_own_are_alone() -> None:
    world = three_nodes()
    assert not same_class(world, waiting("own claim", "one"), waiting("own claim", "two"))


def test_sizes_that_a_kubelet_reported_are_not_in_a_template() -> None:
    world = three_nodes()
    given = {"requests": {"cpu": "3"}}
    resized = waiting("cpu", "one").status(containerStatuses=[{"name": "main", "resources": given}])
    kept = law.equivalence_of(world)
    assert kept.class_of(resized.info()) is None
    assert kept.class_of(waiting("cpu", "two").info()) is not None
    assert law.placed_alike(world, world.rebuilt(), resized.struct()) == []
    assert look(world, "cpu", "two") == []


def test_profiles_with_other_arguments_share_nothing() -> None:
    world = three_nodes()
    world.change("Pod", "x0", cpu=1)
    for profile in ("equipoise", PACKED):
        pod = waiting("cpu", "probe", profile).struct()
        assert law.placed_alike(world, world.rebuilt(), pod) == []


def test_by_controller_pods_without_one_are_alone() -> None:
    world = three_nodes(key="ControllerRef")
    kept = law.equivalence_of(world)
    assert kept.class_of(waiting("cpu", "one").info()) is None
    assert same_class(world, waiting("replica", "one"), waiting("replica", "two"))
    assert law.placed_alike(world, world.rebuilt(), waiting("cpu", "one").struct()) == []


def test_by_controller_equal_pods_of_two_controllers_are_apart() -> None:
    def owned(name: str, uid: str) -> PodBuilder:
        owner = {"apiVersion": "batch/v1", "kind": "Job", "name": uid, "uid": uid}
        return waiting("cpu", name).meta(ownerReferences=[{**owner, "controller": True}])

    assert same_class(three_nodes(), owned("one", "a"), owned("two", "b"))
    by_controller = three_nodes(key="ControllerRef")
    assert not same_class(by_controller, owned("one", "a"), owned("two", "b"))
    assert same_class(by_controller, owned("one", "a"), owned("two", "a"))


def test_large_pods_are_remembered_in_smaller_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """However much the authors of pods write, and whether or not the pods are still there."""
    world = three_nodes()
    kept = law.equivalence_of(world)
    monkeypatch.setattr(Classes, "TEXT", 10_000)
    words = [f"value-{i}" for i in range(100)]
    pods = [
        waiting("cpu", f"p{i}").required(term(requirement(ZONE, "NotIn", str(i), *words))).struct()
        for i in range(20)
    ]
    for pod in pods:
        law.outcome_by_class(world, pod)
    classes = kept.classes["equipoise"]
    texts = sum(map(len, classes._templates))
    assert 0 < texts <= 10_000
    assert 0 < len(classes) < 20
    assert classes._template_text == texts
    assert classes._class_text == sum(each.text for each in classes)
    assert law.books_balance(kept) == []
    assert law.violations(world, pods) == []


def test_the_budget_holds_and_who_was_used_last_stays() -> None:
    world = three_nodes()
    kept = law.equivalence_of(world)
    pods = [waiting("cpu", f"p{i}").cpu(f"{i + 1}00m").struct() for i in range(20)]
    law.outcome_by_class(world, pods[0])
    kept.budget = 4 * kept.bytes
    for pod in pods:
        law.outcome_by_class(world, pod)
        assert kept.bytes <= kept.budget
    assert kept.evictions > 0
    assert kept.lookup("n0", "TaintToleration", _name(world, 19)) is not None
    assert kept.lookup("n0", "TaintToleration", _name(world, 0)) is None
    assert law.books_balance(kept) == []
    assert law.violations(world, pods) == []


def _name(world: World, number: int) -> int:
    pod = waiting("cpu", f"p{number}").cpu(f"{number + 1}00m")
    found = law.equivalence_of(world).class_of(pod.info())
    assert found is not None
    return found.hash


def test_books_balance_when_the_cluster_grows_and_all_is_let_go() -> None:
    world = three_nodes()
    kept = law.equivalence_of(world)
    for template in ("cpu", "port", "choosy"):
        assert look(world, template) == []
    for i in range(100):
        world.see({"kind": "Node", "metadata": {"name": f"more-{i}"}})
    assert look(world, "cpu") == []
    assert law.books_balance(kept) == []
    for pod_class in kept:
        kept.release(pod_class)
    assert (kept.bytes, kept.column_count) == (0, 0)


async def test_a_verdict_on_a_pod_with_a_nomination_is_for_nobody_else() -> None:
    """Told that its victims are leaving, a pod waits; an equal one may look for other victims."""
    words = []
    for enabled in (True, False):
        world = World(enabled=enabled)
        world.change("Node", "n0")
        world.change("Pod", "x0", cpu=2)
        world.see(waiting("important", "first").obj())
        await world.attempt()
        world.change("Pod", "x0", leaving=1)
        world.core.queue.activate(["default/first"])
        world.see(waiting("important", "second").obj())
        while await world.attempt():
            pass
        words.append({entry.pod: entry.message for entry in world.core.queue.view.snapshot()})
        await world.close()
    assert words[0] == words[1]
    assert "terminating pod on the nominated node" in words[0]["default/first"]
    assert "terminating pod on the nominated node" not in words[0]["default/second"]


async def test_what_was_read_on_trial_does_not_hide_what_is_read() -> None:
    """A dry run counts a node's volumes without its pods, and an event changes one of theirs."""
    world = World()
    world.change("Node", "n0")
    world.change("StorageClass", "late")
    world.change("CSINode", "n0", limit=2)
    world.change("PersistentVolume", "v0")
    world.change("PersistentVolumeClaim", "c0", volume=1)
    world.change("PersistentVolumeClaim", "c1")
    world.change("Pod", "x0", cpu=1, claim=2)
    assert look(world, "claim") == []
    world.see(waiting("claim", "preemptor").priority(100).cpu(4).obj())
    await world.attempt()
    assert world.outlet.evicted == ["default/x0"]
    world.change("PersistentVolumeClaim", "c1", **{"class": 2})  # no longer counted
    assert look(world, "claim") == []
    await world.close()


def test_codes_given_out_anew_mean_nothing_to_what_was_kept() -> None:
    world = three_nodes()
    world.see(waiting("port", "other").status(nominatedNodeName="n0").obj())
    assert look(world, "port", profile=PACKED) == []
    law.restart_codes(world, others=2)
    assert look(world, "selective", profile=PACKED) == []  # other verdicts take the old codes
    world.change("Pod", "x1", port=1, node=1)
    world.change("Pod", "x2", port=1, node=2)
    assert look(world, "port", profile=PACKED) == []


async def test_a_victim_that_is_leaving_by_now_is_not_evicted() -> None:
    """What was found out about victims is noted, and may be older than what is known of them."""
    evicted = []
    for enabled in (True, False):
        world = World(enabled=enabled)
        world.change("Node", "n0")
        world.change("Node", "n1")
        world.change("Pod", "x0", cpu=2, node=0)
        world.change("Pod", "x1", cpu=2, node=1)
        for name in ("w1", "w2"):
            world.see(waiting("important", name, PACKED).obj())
        await world.attempt()
        (first,) = world.outlet.evicted
        other = "x1" if first == "default/x0" else "x0"
        world.change("Pod", other, leaving=1)
        await world.attempt()
        evicted.append(list(world.outlet.evicted))
        await world.close()
    assert evicted[0] == evicted[1]
    assert len(evicted[0]) == 1


async def test_a_relabelled_pod_is_heard_of_after_its_counter_was_dropped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(podindex, "_KEPT_COUNTERS", 1)
    world = World()
    world.change("Node", "n0", zone=1)
    world.change("Pod", "x0")
    world.see(waiting("company", "w").obj())
    await world.attempt()
    assert look(world, "apart") == []  # asks another question
    world.change("Pod", "x0", app=2)
    assert look(world, "company") == []
    await world.close()


def replica(name: str, uid: str = "rs", revision: str = "v1") -> PodBuilder:
    """A pod of a ReplicaSet, as the API server shows it: with a volume for its token."""
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": uid, "uid": uid}
    pod = waiting("cpu", name).meta(ownerReferences=[{**owner, "controller": True}])
    return pod.label(**{"pod-template-hash": revision}).spec(
        volumes=[{"name": f"kube-api-access-{name}", "projected": {"sources": []}}]
    )


@pytest.fixture
def encoded(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The pods whose content was encoded."""
    seen: list[str] = []

    def counting(pod: PodInfo) -> bytes:
        seen.append(pod.pod.metadata.name)
        return template_of(pod)

    monkeypatch.setattr(classes, "template_of", counting)
    return seen


@pytest.mark.parametrize("key", ["Content", "ControllerRef"])
def test_of_a_revision_one_pod_is_encoded(key: str, encoded: list[str]) -> None:
    world = three_nodes(key=key)
    kept = law.equivalence_of(world)
    found = {kept.class_of(replica(f"p{i}").info()) for i in range(20)}
    assert len(found) == 1
    assert encoded == ["p0"]
    kept.class_of(replica("q", revision="v2").info())
    assert encoded == ["p0", "q"], "another revision may have another template"
    assert kept.mismatches == 0


def naming(pod: str, claim: str, entry: str = "gpu") -> PodBuilder:
    """A pod that names a claim for devices, which is there in the world of ``with_claims``."""
    claims = [{"name": entry, "resourceClaimName": claim}]
    return waiting("cpu", pod).spec(resourceClaims=claims)


def with_claims(**counts: int) -> World:
    """A world with claims that each ask for so many devices."""
    world = three_nodes()
    api = "resource.k8s.io/v1"
    world.see({"apiVersion": api, "kind": "DeviceClass", "metadata": {"name": "gpu"}, "spec": {}})
    for name, count in counts.items():
        exactly = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "count": count}
        metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}"}
        spec = {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}}
        world.see({"apiVersion": api, "kind": "ResourceClaim", "metadata": metadata, "spec": spec})
    return world


def test_pods_that_name_claims_share_what_is_derived_but_not_their_claims() -> None:
    world = with_claims(a=1, b=1, c=2)
    kept = law.equivalence_of(world)
    first, alike, more = (naming(f"p-{name}", name).info() for name in "abc")
    assert template_of(first) == template_of(alike) == template_of(more)
    assert kept.class_of(first) is kept.class_of(alike)
    assert first.fit_requests is alike.fit_requests, "derived once"
    assert kept.class_of(more) is not kept.class_of(alike), "it asks for more devices"
    missing = naming("p-d", "d").info()
    assert kept.class_of(missing) is not kept.class_of(alike), "its claim does not exist"


def test_what_else_pods_say_of_their_claims_tells_them_apart() -> None:
    pod = template_of(naming("p", "a").info())
    assert template_of(naming("p", "a", entry="nic").info()) != pod
    assert template_of(naming("p", "longer").info()) != pod, "lengths count towards the limits"
    made = [{"name": "gpu", "resourceClaimTemplateName": "a"}]
    assert template_of(waiting("cpu", "p").spec(resourceClaims=made).info()) != pod


DIFFERENT = [
    pytest.param(replica("two").cpu("3"), id="resized, or changed by a webhook"),
    pytest.param(replica("two").label(app="edited"), id="edited labels"),
    pytest.param(replica("two").priority(7), id="priority"),
    pytest.param(
        replica("two").spec(
            volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "data-two"}}]
        ),
        id="a volume of its own",
    ),
    pytest.param(replica("two").node_selector(disk="ssd"), id="node selector"),
    pytest.param(replica("two").toleration("dedicated"), id="tolerations"),
]


@pytest.mark.parametrize("key", ["Content", "ControllerRef"])
@pytest.mark.parametrize("other", DIFFERENT)
def test_a_pod_that_differs_within_its_revision_is_noticed(
    other: PodBuilder, key: str, encoded: list[str]
) -> None:
    world = three_nodes(key=key)
    kept = law.equivalence_of(world)
    first = kept.class_of(replica("one").info())
    for pod in (other, replica("three"), other):
        alone = law.equivalence_of(three_nodes(key=key)).class_of(pod.info())
        found = kept.class_of(pod.info())
        assert found is not None
        assert alone is not None
        assert found.identity == alone.identity
        assert law.placed_alike(world, world.rebuilt(), pod.struct()) == []
    assert kept.class_of(replica("four").info()) is first
    assert kept.mismatches == 1
    sample = world.core.metrics.registry.get_sample_value
    assert sample("equipoise_equivalence_mixed_revisions_total") == 1
    assert "three" in encoded, "from then on content counts"


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(
            st.sampled_from(("a", "b")),
            st.sampled_from(("v1", "v2")),
            st.sampled_from(("100m", "100m", "200m")),
            st.sampled_from(("", "", "edited")),
        ),
        min_size=2,
        max_size=12,
    ),
    st.sampled_from(("Content", "ControllerRef")),
)
def test_classes_are_those_of_the_content(pods: list[tuple[str, ...]], key: str) -> None:
    kept = law.equivalence_of(three_nodes(key=key))
    for i, (uid, revision, cpu, label) in enumerate(pods):
        pod = replica(f"p{i}", uid, revision).cpu(cpu).label(app=label)
        found = kept.class_of(pod.info())
        assert found is not None
        assert found.identity == identity_alone(uid, revision, cpu, label, key)


@functools.cache
def identity_alone(uid: str, revision: str, cpu: str, label: str, key: str) -> object:
    """The class of such a pod where there was no other; whatever its name is."""
    pod = replica("alone", uid, revision).cpu(cpu).label(app=label)
    found = law.equivalence_of(three_nodes(key=key)).class_of(pod.info())
    assert found is not None
    return found.identity


def test_a_revision_is_remembered_as_long_as_its_template(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Classes, "TEMPLATES", 5)
    kept = law.equivalence_of(three_nodes())
    for i in range(20):
        kept.class_of(replica(f"p{i}", uid=f"uid-{i}").info())
    known = kept.classes["equipoise"]
    assert len(known._revisions) == len(known._templates) == 5
    assert set(map(id, known._revisions.values())) == set(map(id, known._templates.values()))


def test_classes_without_pods_are_forgotten_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "IDLE_LOOKS", 3)
    world = three_nodes()
    kept = law.equivalence_of(world)
    used, idle = waiting("cpu", "used"), waiting("cpu", "idle").host_port(80)
    first, last = kept.class_of(used.info()), kept.class_of(idle.info())
    assert first is not None
    assert last is not None
    kept.results(first)
    kept.results(last)
    columns = kept.column_count
    for _ in range(8):
        kept.forget_idle()
        assert kept.class_of(used.info()) is first
    assert kept.class_count == 1
    assert last.results is None
    assert kept.column_count < columns
    for _ in range(8):
        kept.forget_idle()
    assert kept.class_count == 0
    assert kept.bytes == 0
    assert [each.usage() for each in kept.classes.values()] == [(0, 0, 0, 0)] * len(kept.classes)


def test_a_class_that_comes_back_is_a_class_like_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "IDLE_LOOKS", 0)
    monkeypatch.setattr(cache, "LOOKED_AT", 1)
    world = three_nodes()
    kept = law.equivalence_of(world)
    one, other = waiting("cpu", "one", PACKED), waiting("cpu", "two", PACKED).label(odd="label")
    before = kept.class_of(one.info())
    assert kept.class_of(other.info()) is before, "two templates of one class"
    kept.forget_idle()
    again = kept.class_of(other.info())
    assert again is not before
    assert kept.class_of(one.info()) is again
    assert kept.class_count == 1
