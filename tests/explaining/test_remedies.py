"""What is proposed for the commonest causes, and how it is ranked; each is followed as well."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from scheduler import inspection
from scheduler.model.objects import KINDS, from_dict
from scheduler.model.pods import Pod
from scheduler.model.workloads import POD_GROUP_LABEL
from scheduler.simulation import explain
from tests.builders import (
    Json,
    NodeBuilder,
    PodBuilder,
    constraint,
    make_node,
    make_pod,
    make_worker,
    pod_term,
    requirement,
    term,
)
from tests.explaining.support import fits, summaries
from tests.gangs.support import gang_stage, make_group, member
from tests.numa.support import make_topology, pinned

HOSTNAME, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
DEFAULT_CLASS = "storageclass.kubernetes.io/is-default-class"


def remedies(objects: list[Json], pod: PodBuilder) -> list[Json]:
    """What is proposed, after it was followed."""
    found: list[Json] = explain(objects, pod.obj())["remedies"]
    for remedy in found:
        assert fits(objects, pod.obj(), remedy["changes"]) == remedy["opens"], remedy
    return found


def proposed(objects: list[Json], pod: PodBuilder) -> list[str]:
    return [remedy["summary"] for remedy in remedies(objects, pod)]


def patch(remedy: Json) -> Any:
    (change,) = remedy["changes"]
    return change["patch"]


def test_a_pod_that_fits_has_no_remedies() -> None:
    assert proposed([make_worker("a").obj()], make_pod("p").cpu(1)) == []


def test_a_cluster_without_nodes_has_no_remedies() -> None:
    assert proposed([], make_pod("p").cpu(1)) == []


def test_a_request_is_lowered_to_what_the_best_node_has_free() -> None:
    objects = [make_worker("a").obj(), make_pod("q").on("a").cpu("700m").obj()]
    first = remedies([*objects, make_worker("b").taint("x").obj()], make_pod("p").cpu(5))[0]
    assert first["summary"] == "lower the request for cpu from 5 to 3300m"
    assert first["opens"] == ["a"]
    (container,) = patch(first)["spec"]["containers"]
    assert container == {"name": "main", "resources": {"requests": {"cpu": "3300m"}}}


def test_all_that_one_node_lacks_is_lowered_together() -> None:
    pod = make_pod("p").cpu(5).memory("20Gi")
    assert proposed([make_worker("a").obj()], pod) == [
        "lower the requests for cpu from 5 to 4 and memory from 20Gi to 16Gi"
    ]


def test_the_largest_container_pays_and_nothing_of_the_others_is_lost() -> None:
    pod = make_pod("p").cpu(2).container({"cpu": 3, "memory": "1Gi"}, image="x:1")
    (first,) = remedies([make_worker("a").obj()], pod)
    assert first["summary"] == "lower the request for cpu from 5 to 4, in container c1"
    main, other = patch(first)["spec"]["containers"]
    assert main == pod.obj()["spec"]["containers"][0]
    assert other["image"] == "x:1"
    assert other["resources"]["requests"] == {"cpu": "2", "memory": "1Gi"}


def test_limits_follow_where_they_must() -> None:
    pod = make_pod("p").request("example.com/gpu", 3).obj()
    pod["spec"]["containers"][0]["resources"]["limits"] = {"example.com/gpu": 3}
    node = make_worker("a").offer("example.com/gpu", 2).obj()
    (first,) = explain([node], pod)["remedies"]
    resources = patch(first)["spec"]["containers"][0]["resources"]
    assert resources == {"requests": {"example.com/gpu": "2"}, "limits": {"example.com/gpu": "2"}}


@pytest.mark.parametrize("guaranteed", [True, False])
def test_a_guaranteed_pod_stays_guaranteed(guaranteed: bool) -> None:
    pod = make_pod("p").cpu(5).memory("1Gi").obj()
    limits = {"cpu": "5", "memory": "1Gi" if guaranteed else "2Gi"}
    pod["spec"]["containers"][0]["resources"]["limits"] = limits
    (first,) = explain([make_worker("a").obj()], pod)["remedies"]
    resources = patch(first)["spec"]["containers"][0]["resources"]
    assert resources["limits"]["cpu"] == ("4" if guaranteed else "5")


def test_pods_with_requests_of_their_own_level() -> None:
    pod = make_pod("p").cpu(3).pod_level({"cpu": "6"})
    (first,) = remedies([make_node("a").cpu(2).obj()], pod)
    assert patch(first)["spec"]["resources"] == {"requests": {"cpu": "2"}}
    assert patch(first)["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "2"}


def test_a_misspelt_resource() -> None:
    pod = make_pod("p").request("nvidia.com/gpus", 1)
    objects = [make_worker("a").offer("nvidia.com/gpu", 2).obj()]
    assert proposed(objects, pod) == [
        "ask for nvidia.com/gpu in place of nvidia.com/gpus, which no node offers"
    ]


def test_a_resource_that_nobody_offers() -> None:
    assert proposed([make_worker("a").obj()], make_pod("p").request("x.io/tpu", 1)) == [
        "do not ask for x.io/tpu, which no node offers"
    ]


def test_tolerations_are_added_to_those_there_are() -> None:
    pod = make_pod("p").toleration("other", "Exists")
    objects = [make_worker("a").taint("gpu", "yes").taint("team", effect="NoExecute").obj()]
    found = remedies(objects, pod)
    assert found[0]["summary"] == "tolerate the taints gpu=yes:NoSchedule, team:NoExecute"
    assert patch(found[0])["spec"]["tolerations"][1:] == [
        {"key": "gpu", "operator": "Equal", "value": "yes", "effect": "NoSchedule"},
        {"key": "team", "operator": "Exists", "effect": "NoExecute"},
    ]
    assert found[1]["summary"].startswith("remove the taints gpu=yes:NoSchedule")
    assert found[1]["affects"] == ["node a: other pods may come there too"]


def test_nobody_is_told_to_tolerate_a_broken_node() -> None:
    broken = make_worker("a").taint("node.kubernetes.io/not-ready", effect="NoExecute").obj()
    assert proposed([broken], make_pod("p")) == ["add 1 node like a"]


def test_a_cordoned_node() -> None:
    node = make_worker("a").taint("x").taint("node.kubernetes.io/unschedulable").cordoned()
    found = remedies([node.obj()], make_pod("p").toleration("x", "Exists"))
    assert found[0]["summary"] == "uncordon node a"
    assert patch(found[0]) == {
        "spec": {
            "taints": [{"key": "x", "value": "", "effect": "NoSchedule"}],
            "unschedulable": None,
        }
    }


def test_a_selector_with_a_typing_error() -> None:
    objects = [make_worker("a").label(disk="ssd").obj(), make_worker("b").obj()]
    assert proposed(objects, make_pod("p").node_selector(disk="sdd")) == [
        "ask for nodes with disk=ssd in place of disk=sdd",
        "drop the node requirement disk=sdd",
    ]
    assert proposed(objects, make_pod("p").node_selector(disc="ssd"))[0] == (
        "ask for nodes with disk=ssd in place of disc=ssd"
    )


@pytest.mark.parametrize("key", ["matchFields", "matchExpressions", "term", "nodeSelector", ""])
def test_a_selector_may_have_any_key(key: str) -> None:
    objects = [make_worker("a").label(**{key: "ssd"}).obj(), make_worker("b").obj()]
    assert proposed(objects, make_pod("p").node_selector(**{key: "sdd"})) == [
        f"ask for nodes with {key}=ssd in place of {key}=sdd",
        f"drop the node requirement {key}=sdd",
    ]


def test_terms_of_node_affinity() -> None:
    objects = [make_worker("a").label(disk="ssd", tier="x").obj()]
    pod = make_pod("p").required(
        term(requirement("disk", "In", "ssd"), requirement("tier", "NotIn", "x")),
        term(requirement("gone", "Exists")),
    )
    found = remedies(objects, pod)
    assert summaries({"remedies": found}) == [
        "drop the node requirement gone Exists",
        "drop the node requirement tier NotIn x",
    ]
    terms = patch(found[1])["spec"]["affinity"]["nodeAffinity"][
        "requiredDuringSchedulingIgnoredDuringExecution"
    ]["nodeSelectorTerms"]
    assert terms[0] == {"matchExpressions": [requirement("disk", "In", "ssd")]}
    assert patch(found[0]) == {"spec": {"affinity": None}}


def test_affinity_to_nobody() -> None:
    pod = make_pod("p").near(pod_term(HOSTNAME, {"app": "cache"}))
    objects = [make_worker("a").label(**{HOSTNAME: "a"}).obj()]
    assert proposed(objects, pod) == [
        f"prefer, and do not require, affinity to pods with app=cache by {HOSTNAME}"
    ]


def test_only_the_terms_that_stand_in_the_way_are_relaxed() -> None:
    pod = make_pod("p").near(
        *(pod_term(HOSTNAME, {"app": app}) for app in ("there", "gone", "lost"))
    )
    objects = [
        make_worker("a").label(**{HOSTNAME: "a"}).obj(),
        make_pod("q").label(app="there").on("a").obj(),
    ]
    (first,) = remedies(objects, pod)
    assert "app=there" not in first["summary"]
    assert "app=gone" in first["summary"]
    assert "app=lost" in first["summary"]


def test_skew_is_raised_as_little_as_helps() -> None:
    own: Json = {"labelSelector": {"matchLabels": {"app": "x"}}}
    pod = make_pod("p").cpu(1).label(app="x").spread(constraint(ZONE, 1, **own))
    objects = [
        make_worker("a").label(**{ZONE: "a"}).obj(),
        make_node("b").label(**{ZONE: "b"}).obj(),
        *(make_pod(f"q{i}").label(app="x").on("a").obj() for i in range(5)),
    ]
    assert f"raise maxSkew by {ZONE} from 1 to 6" in proposed(objects, pod)


def test_an_absent_topology_label() -> None:
    own: Json = {"labelSelector": {"matchLabels": {"app": "x"}}}
    pod = make_pod("p").label(app="x").spread(constraint("rack", 1, **own))
    assert proposed([make_worker("a").obj()], pod) == [
        "prefer, and do not require, to be spread by rack",
        "label node a with rack=rack-1",
    ]
    pod = make_pod("p").label(app="x").spread(constraint("topology.kubernetes.io/zon", 1, **own))
    objects = [make_worker("a").label(**{ZONE: "a"}).obj()]
    assert proposed(objects, pod)[0] == (
        f"use the topology key {ZONE} in place of topology.kubernetes.io/zon, which no node has"
    )


@pytest.mark.parametrize("host_network", [True, False])
def test_a_host_port_that_is_taken(host_network: bool) -> None:
    objects = [make_worker("a").obj(), make_pod("q").on("a").host_port(80).obj()]
    pod = make_pod("p").host_port(80).spec(hostNetwork=host_network)
    assert proposed(objects, pod) == [
        "use other host ports than 80/TCP: 81" if host_network else "give up the host port 80/TCP",
        "add 1 node like a",
        "delete pod default/q on node a, or move it elsewhere",
    ]


def test_a_claim_with_a_typing_error() -> None:
    claim = {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data", "namespace": "default"},
        "spec": {"storageClassName": "local", "resources": {"requests": {"storage": "1Gi"}}},
    }
    late = {
        "kind": "StorageClass",
        "metadata": {"name": "local"},
        "provisioner": "example.com/disks",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    volume = {"name": "v", "persistentVolumeClaim": {"claimName": "dtaa"}}
    pod = make_pod("p").spec(volumes=[volume])
    found = remedies([make_worker("a").obj(), claim, late], pod)
    assert found[0]["summary"] == "use the claim data in place of dtaa, which does not exist"


def test_as_many_pods_are_deleted_as_needed_none_of_higher_priority() -> None:
    objects = [
        make_worker("a").obj(),
        make_pod("vip").on("a").cpu(1).priority(9).obj(),
        make_pod("small").on("a").cpu("500m").owner("ReplicaSet", "web-1").obj(),
        make_pod("large").on("a").cpu(2).owner("ReplicaSet", "web-1").obj(),
        make_pod("agent").on("a").cpu("100m").owner("DaemonSet", "agent").obj(),
    ]
    found = remedies(objects, make_pod("p").cpu("1500m"))
    last = found[-1]
    assert last["summary"] == "delete pod default/large on node a, or move it elsewhere"
    assert last["affects"] == ["pod default/large of ReplicaSet web-1, priority 0"]
    assert not any(
        "delete" in each["summary"] for each in remedies(objects, make_pod("p").cpu("3900m"))
    )


@pytest.mark.parametrize("older", ["small", "large"])
def test_a_budget_that_spares_one_pod_is_not_violated_by_one(older: str) -> None:
    """Whichever of its pods it would spare first."""
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "b", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "a"}}},
        "status": {"disruptionsAllowed": 1},
    }
    pods = [
        make_pod(name)
        .label(app="a")
        .cpu(cpu)
        .on("a")
        .status(startTime=f"2026-01-0{1 if name == older else 2}T00:00:00Z")
        .obj()
        for name, cpu in (("small", 1), ("large", 3))
    ]
    found = remedies([make_worker("a").cpu(4).obj(), *pods, budget], make_pod("p").cpu(3))
    delete = next(each for each in found if each["summary"].startswith("delete"))
    assert delete["affects"] == ["pod default/large, priority 0"]


def test_budgets_are_kept_where_that_is_possible() -> None:
    budget = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "b", "namespace": "default"},
        "spec": {"selector": {"matchLabels": {"app": "db"}}},
        "status": {"disruptionsAllowed": 0},
    }
    protected = make_pod("db").on("a").cpu(3).label(app="db").obj()
    objects = [make_worker("a").obj(), protected, budget]
    (only,) = [r for r in remedies(objects, make_pod("p").cpu(2)) if "delete" in r["summary"]]
    assert "violates a PodDisruptionBudget of pod default/db" in only["affects"]
    objects += [make_worker("b").obj(), make_pod("web").on("b").cpu(3).obj()]
    found = [r for r in remedies(objects, make_pod("p").cpu(2)) if "delete" in r["summary"]]
    assert found[0]["summary"] == "delete pod default/web on node b, or move it elsewhere"


def test_pods_that_leave_are_waited_for() -> None:
    objects = [make_worker("a").obj(), make_pod("q").on("a").cpu(3).deleting().obj()]
    first, *others = remedies(objects, make_pod("p").cpu(2))
    assert first["summary"] == "wait: pod default/q on node a is being deleted"
    assert not any("delete pod" in other["summary"] for other in others)


def test_a_full_node_and_one_like_it() -> None:
    objects = [make_worker("a").label(**{HOSTNAME: "a"}).pods(1).obj(), make_pod("q").on("a").obj()]
    first, _ = remedies(objects, make_pod("p").cpu(1))
    assert first["summary"] == "add 1 node like a"
    assert first["opens"] == ["a-copy-1"]
    assert first["changes"][0]["object"]["metadata"]["labels"] == {HOSTNAME: "a-copy-1"}


def test_pairs_where_no_single_change_helps() -> None:
    objects = [make_worker("a").taint("gpu").obj()]
    assert proposed(objects, make_pod("p").cpu(5)) == [
        "tolerate the taint gpu:NoSchedule; and lower the request for cpu from 5 to 4"
    ]


def test_gates_and_other_schedulers() -> None:
    objects = [make_worker("a").obj()]
    assert proposed(objects, make_pod("p").gate("x/y")) == ["remove the scheduling gate x/y"]
    assert proposed(objects, make_pod("p").scheduler("theirs")) == [
        "set schedulerName to equipoise"
    ]
    assert proposed(objects, make_pod("p").gate("x/y").cpu(5)) == [
        "remove the scheduling gate x/y; and lower the request for cpu from 5 to 4"
    ]


@pytest.mark.parametrize("others", [(), (term(requirement("disk", "In", "ssd")),)])
def test_a_term_without_requirements_matches_no_node_and_is_dropped(others: tuple[Json]) -> None:
    pod = make_pod("p").required({}, *others)
    objects = [make_worker("a").label(disk="hdd").obj()]
    answer = explain(objects, pod.obj())
    assert "it is empty, or compares with something that is no integer" in str(answer["facts"])
    (entry,) = answer["nodes"]["a"]["all"]
    assert "no label" not in entry["facts"][0]["message"]
    assert "drop the node requirement of an empty term, which no node meets" in proposed(
        objects, pod
    )


def test_a_bound_that_is_no_number_is_not_told_as_a_label() -> None:
    pod = make_pod("p").required(term(requirement("disk", "Gt", "x")))
    (told,) = explain([make_worker("a").label(disk="5").obj()], pod.obj())["facts"]
    assert told["message"] == (
        "no node matches nodeAffinity: it is empty, or compares with something that is no integer"
    )


def full(node: NodeBuilder) -> list[Json]:
    """A node without room, of which nobody may be asked to go."""
    name = node.obj()["metadata"]["name"]
    return [node.obj(), make_pod(f"on-{name}").on(name).cpu(4).priority(1000).obj()]


def test_a_change_of_the_pod_and_a_new_node_where_all_nodes_are_full() -> None:
    objects = [*full(make_worker("a").label(disk="ssd")), *full(make_worker("b").taint("gpu"))]
    pod = make_pod("p").cpu(2).node_selector(disk="sdd")
    assert proposed(objects, pod) == [
        "ask for nodes with disk=ssd in place of disk=sdd; and add 1 node like a",
        "drop the node requirement disk=sdd; and add 1 node like a",
    ]


def test_two_changes_that_satisfy_one_plugin_are_a_pair_too() -> None:
    objects = [make_worker("a").label(disk="ssd").obj()]
    assert proposed(objects, make_pod("p").node_selector(disk="sdd", tier="x"))[:2] == [
        "drop the node requirements disk=sdd, tier=x",
        "ask for nodes with disk=ssd in place of disk=sdd; and drop the node requirement tier=x",
    ]
    objects = full(make_worker("a"))
    objects[1]["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "3"
    assert proposed(objects, make_pod("p").cpu(2).request("example.com/x", 1)) == [
        "do not ask for example.com/x, which no node offers; "
        "and lower the request for cpu from 2 to 1"
    ]


def test_a_change_of_the_pod_and_pods_that_go() -> None:
    node, other = full(make_worker("a").taint("gpu"))
    other["spec"]["priority"] = 0
    found = proposed([node, other], make_pod("p").cpu(2))
    assert "tolerate the taint gpu:NoSchedule; and add 1 node like a" in found
    assert (
        "tolerate the taint gpu:NoSchedule; "
        "and delete pod default/on-a on node a, or move it elsewhere"
    ) in found


def test_a_pod_that_is_larger_than_any_node_asks_for_less_on_a_new_one() -> None:
    objects = full(make_worker("a"))
    (only,) = remedies(objects, make_pod("p").cpu(6))
    assert only["summary"] == "lower the request for cpu from 6 to 4; and add 1 node like a"
    assert only["opens"] == ["a-copy-1"]


def test_all_that_it_takes_ends_with_a_new_node() -> None:
    objects = full(make_worker("a").taint("gpu").label(disk="hdd"))
    pod = make_pod("p").cpu(6).node_selector(tier="x")
    assert proposed(objects, pod) == [
        "tolerate the taint gpu:NoSchedule; and drop the node requirement tier=x; "
        "and lower the request for cpu from 6 to 4; and add 1 node like a"
    ]


def test_a_wrong_name_of_a_resource_of_which_nothing_is_free() -> None:
    node = make_worker("g").offer("example.com/gpu", 1).taint("gpu").obj()
    taken = make_pod("q").on("g").request("example.com/gpu", 1).priority(1000).obj()
    objects = [make_worker("a").obj(), node, taken]
    assert proposed(objects, make_pod("p").request("example.com/gpus", 1)) == [
        "tolerate the taint gpu:NoSchedule; "
        "and ask for example.com/gpu in place of example.com/gpus, which no node offers; "
        "and add 1 node like g"
    ]


def test_a_new_node_is_like_one_that_is_large_enough_however_many_are_not() -> None:
    objects = [make_node(f"n{cpu:02}").cpu(cpu).obj() for cpu in range(1, 13)]
    objects.append(make_pod("q").on("n12").cpu(12).priority(1000).obj())
    assert "add 1 node like n12" in proposed(objects, make_pod("p").cpu(12))


def test_what_a_new_node_makes_needless_is_left_out() -> None:
    """On a host of its own the pod is spread by host; by racks, which nodes lack, it is not."""
    objects = full(make_worker("a").label(**{HOSTNAME: "a"}))
    objects[1]["metadata"]["labels"] = {"app": "web"}
    pod = make_pod("p").cpu(4).label(app="web")
    by_host = constraint(HOSTNAME, labelSelector={"matchLabels": {"app": "web"}}, minDomains=2)
    pod.spread(by_host, constraint("rack", labelSelector={}))
    assert proposed(objects, pod) == [
        "prefer, and do not require, to be spread by rack; and add 1 node like a"
    ]


def test_the_daemons_of_a_new_node_are_reckoned_with() -> None:
    daemon = make_pod("agent-a").on("a").cpu(1).owner("DaemonSet", "agent").obj()
    objects = [*full(make_worker("a")), daemon]
    assert "add 1 node like a" in proposed(objects, make_pod("p").cpu(3))
    assert proposed(objects, make_pod("p").cpu(4)) == [
        "lower the request for cpu from 4 to 3; and add 1 node like a"
    ]


def test_a_gang_gets_nodes_on_which_daemons_run_too() -> None:
    node = make_worker("n").label(**{HOSTNAME: "n"}).obj()
    daemon = make_pod("agent-n").on("n").cpu(2).owner("DaemonSet", "agent").obj()
    objects = [node, daemon, make_group("g", 3).obj(), *(member(f"m{i}").obj() for i in range(2))]
    pod = member("m2", cpu="1")
    assert "add 1 node like n, for all members" in proposed(objects, pod)
    for each in objects[3:]:
        each["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "2"
    assert "add 2 nodes like n, for all members" in proposed(objects, member("m2", cpu="2"))


def test_a_gang_that_is_short_of_members() -> None:
    objects = [make_worker("a").obj(), make_group("g", 5).obj()]
    objects += [member(f"m{i}").obj() for i in range(2)]
    (only,) = remedies(objects, member("m2"))
    assert only["summary"] == (
        "lower minMember of pod group default/g from 5 to 3, or create 2 more of its pods"
    )
    assert patch(only) == {"spec": {"minMember": 3}}


def test_a_member_that_fits_nowhere_does_not_keep_the_next_ones_from_being_counted() -> None:
    """As in a pass: m1 keeps apart from m0, and m2 runs all the same."""
    apart = member("m1").apart(pod_term(HOSTNAME, {POD_GROUP_LABEL: "g"}))
    node = make_worker("a").label(**{HOSTNAME: "a"}).obj()
    objects = [node, make_group("g", 2).obj(), member("m0").obj(), apart.obj()]
    assert proposed(objects, member("m2").gate("x/y")) == ["remove the scheduling gate x/y"]
    objects[1] = make_group("g", 3).obj()
    (fewer,) = [s for s in proposed(objects, member("m2").gate("x/y")) if "lower" in s]
    assert fewer.endswith("lower minMember of pod group default/g from 3 to 2, which fit together")


def test_as_many_nodes_as_a_gang_needs() -> None:
    nodes = [make_worker(f"n{i}").label(**{HOSTNAME: f"n{i}"}).obj() for i in range(2)]
    objects = [
        *nodes,
        make_group("g", 5).obj(),
        *(member(f"m{i}", cpu="3").obj() for i in range(4)),
    ]
    fewer, more = remedies(objects, member("m4", cpu="3"))
    assert fewer["summary"].startswith("lower minMember of pod group default/g from 5 to 2")
    assert more["summary"] == "add 3 nodes like n0, for all members"
    assert [change["op"] for change in more["changes"]] == ["add"] * 3


def test_the_running_scheduler_says_the_same() -> None:
    async def asked() -> Json:
        stage = gang_stage()
        stage.see(make_worker("a").taint("gpu"))
        pod = make_pod("p").cpu(5).image("x:1").toleration("other").obj()
        decoded = from_dict(pod, Pod)
        return await inspection.explain(stage.core, {decoded.key: decoded}, decoded.key)

    answer = asyncio.run(asked())
    (remedy,) = answer["remedies"]
    assert remedy["summary"] == (
        "tolerate the taint gpu:NoSchedule; and lower the request for cpu from 5 to 4"
    )
    spec = patch(remedy)["spec"]
    # Not all of a pod is known here: containers are given by name, with what changes.
    assert spec["containers"] == [{"name": "main", "resources": {"requests": {"cpu": "4"}}}]
    assert len(spec["tolerations"]) == 2


def asked_live(pod: PodBuilder, *objects: Any) -> list[Json]:
    """What a running scheduler proposes, which knows of a pod what it reads."""

    async def asked() -> Json:
        stage = gang_stage()
        stage.see(*objects)
        decoded = from_dict(pod.obj(), Pod)
        return await inspection.explain(stage.core, {decoded.key: decoded}, decoded.key)

    found: list[Json] = asyncio.run(asked())["remedies"]
    return found


def test_what_is_to_go_is_null_in_patches_of_the_running_scheduler() -> None:
    """They are strategic merge patches, which keep what they leave out."""
    worker = make_worker("a").offer("x.com/gpu", 1)
    rename = asked_live(make_pod("p").request("x.com/gpus", 1), worker)[0]
    (container,) = patch(rename)["spec"]["containers"]
    assert container["resources"]["requests"] == {"x.com/gpus": None, "x.com/gpu": 1}
    holder = make_pod("q").host_port(80).on("a")
    free = next(
        each
        for each in asked_live(make_pod("p").host_port(80), worker, holder)
        if "host port" in each["summary"]
    )
    (container,) = patch(free)["spec"]["containers"]
    (port,) = container["ports"]
    assert port["hostPort"] is None
    assert "containerPort" in port


def test_tolerations_that_are_known_to_the_running_scheduler_stay_as_they_are() -> None:
    """Every pod has two that end after five minutes: without that it would stay forever."""
    before = {
        "key": "node.kubernetes.io/not-ready",
        "operator": "Exists",
        "effect": "NoExecute",
        "tolerationSeconds": 300,
    }

    async def asked() -> Json:
        stage = gang_stage()
        stage.see(make_worker("a").taint("gpu"))
        decoded = from_dict(make_pod("p").spec(tolerations=[before]).obj(), Pod)
        return await inspection.explain(stage.core, {decoded.key: decoded}, decoded.key)

    tolerate = asyncio.run(asked())["remedies"][0]
    assert patch(tolerate)["spec"]["tolerations"][0] == before


def test_a_misspelt_label_of_others() -> None:
    pod = make_pod("p").near(pod_term(HOSTNAME, {"app": "cahce"}))
    objects = [
        make_worker("a").label(**{HOSTNAME: "a"}).obj(),
        make_pod("q").label(app="cache").on("a").obj(),
    ]
    assert proposed(objects, pod)[0] == (
        "stay near pods with app=cache in place of app=cahce, which none has"
    )


def test_a_claim_that_is_missing_is_created() -> None:
    late = {
        "kind": "StorageClass",
        "metadata": {"name": "fast", "annotations": {DEFAULT_CLASS: "true"}},
        "provisioner": "example.com/disks",
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    other = {**late, "metadata": {"name": "slow"}}
    volume = {"name": "v", "persistentVolumeClaim": {"claimName": "data"}}
    pod = make_pod("p").spec(volumes=[volume])
    (only,) = remedies([make_worker("a").obj(), late, other], pod)
    assert only["summary"] == "create the claim data, 1Gi of storage class fast or as needed"
    assert only["opens"] == ["a"]
    immediate = {**late, "volumeBindingMode": "Immediate"}
    assert proposed([make_worker("a").obj(), immediate], pod) == []


def storage_class(name: str, provisioner: str = "example.com/disks", **fields: Any) -> Json:
    made = {"kind": "StorageClass", "metadata": {"name": name}, "provisioner": provisioner}
    return {**made, "volumeBindingMode": "WaitForFirstConsumer", **fields}


def unbound(name: str, of: str) -> Json:
    storage = {"requests": {"storage": "5Gi"}}
    spec = {"storageClassName": of, "accessModes": ["ReadWriteOnce"], "resources": storage}
    metadata = {"name": name, "namespace": "default"}
    return {"kind": "PersistentVolumeClaim", "metadata": metadata, "spec": spec}


def using(*claims: str) -> PodBuilder:
    sources = [{"name": each, "persistentVolumeClaim": {"claimName": each}} for each in claims]
    return make_pod("p").spec(volumes=sources)


def test_without_a_default_class_a_missing_claim_may_be_of_each_that_waits() -> None:
    classes = [storage_class("b"), storage_class("a"), storage_class("0")]
    now = storage_class("now", volumeBindingMode="Immediate")
    now["metadata"]["annotations"] = {DEFAULT_CLASS: "true"}
    assert proposed([make_worker("n").obj(), now, *classes], using("data")) == [
        f"create the claim data, 1Gi of storage class {of} or as needed" for of in ("0", "a", "b")
    ]


def test_a_misspelt_storage_class_is_corrected_in_all_claims_or_created() -> None:
    objects = [
        make_worker("n").obj(),
        storage_class("fast-disks", parameters={"type": "ssd"}),
        *(unbound(name, "fast-dsiks") for name in ("data", "logs", "other")),
    ]
    correct, create = remedies(objects, using("data", "logs"))
    meant = "use the storage class fast-disks in place of fast-dsiks, which does not exist,"
    assert correct["summary"] == f"{meant} in claim data and {meant} in claim logs"
    assert correct["affects"] == [
        f"PersistentVolumeClaim {name}: its spec cannot be changed, so create it anew"
        for name in ("data", "logs")
    ]
    assert create["summary"] == (
        "create the storage class fast-dsiks like fast-disks, "
        "with the provisioner example.com/disks and WaitForFirstConsumer"
    )
    assert create["affects"] == ["1 more claim asks for the new class: volumes are made for all"]
    (change,) = create["changes"]
    assert change["object"] == {
        "apiVersion": "storage.k8s.io/v1",
        **storage_class("fast-dsiks", parameters={"type": "ssd"}),
    }


def test_a_missing_storage_class_is_made_with_each_provisioner_that_there_is() -> None:
    kinds = [
        storage_class("a", "example.com/a", volumeBindingMode="Immediate"),
        storage_class("b", "example.com/b"),
        storage_class("like-b", "example.com/b"),
        storage_class("local", "kubernetes.io/no-provisioner"),
    ]
    objects = [make_worker("n").obj(), unbound("data", "database"), *kinds]
    assert proposed(objects, using("data")) == [
        f"create the storage class database like {name}, "
        f"with the provisioner example.com/{name} and WaitForFirstConsumer"
        for name in ("a", "b")
    ]


@pytest.mark.parametrize("size", ["10Gi", "1Gi"])
def test_a_missing_storage_class_is_made_for_volumes_that_there_are(size: str) -> None:
    disk = {
        "kind": "PersistentVolume",
        "metadata": {"name": "disk"},
        "spec": {
            "storageClassName": "manual",
            "accessModes": ["ReadWriteOnce"],
            "capacity": {"storage": size},
            "hostPath": {"path": "/disk"},
        },
        "status": {"phase": "Available"},
    }
    found = proposed([make_worker("n").obj(), unbound("data", "manual"), disk], using("data"))
    without = "without a provisioner, for the volumes that there are"
    assert found == ([f"create the storage class manual {without}"] if size == "10Gi" else [])


def test_where_there_is_no_storage_class_none_is_proposed() -> None:
    assert proposed([make_worker("n").obj(), unbound("data", "fast")], using("data")) == []
    assert proposed([make_worker("n").obj()], using("data")) == []


def test_the_running_scheduler_says_that_it_does_not_know_the_parameters() -> None:
    async def asked() -> Json:
        stage = gang_stage()
        stage.see(make_worker("n"))
        for body in (storage_class("slow"), unbound("data", "database")):
            stage.core.state.set_object(body["kind"], decoded(body).metadata.key, decoded(body))
        pod = from_dict(using("data").obj(), Pod)
        return await inspection.explain(stage.core, {pod.key: pod}, pod.key)

    (only,) = asyncio.run(asked())["remedies"]
    assert only["affects"] == [
        "StorageClass slow: its parameters, if it has any, belong into the new one"
    ]


def decoded(body: Json) -> Any:
    return from_dict(body, KINDS[body["kind"]].type)


def test_a_volume_in_a_zone_without_nodes() -> None:
    claim = {
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": "data",
            "namespace": "default",
            "annotations": {"pv.kubernetes.io/bind-completed": "yes"},
        },
        "spec": {"volumeName": "disk", "storageClassName": "fast"},
        "status": {"phase": "Bound"},
    }
    reachable = {"nodeSelectorTerms": [term(requirement(ZONE, "In", "b"))]}
    disk = {
        "kind": "PersistentVolume",
        "metadata": {"name": "disk"},
        "spec": {
            "nodeAffinity": {"required": reachable},
            "claimRef": {"namespace": "default", "name": "data", "uid": "default/data"},
        },
        "status": {"phase": "Bound"},
    }
    volume = {"name": "v", "persistentVolumeClaim": {"claimName": "data"}}
    objects = [make_worker("a").label(**{ZONE: "a", HOSTNAME: "a"}).obj(), claim, disk]
    (only,) = remedies(objects, make_pod("p").spec(volumes=[volume]))
    assert only["summary"] == (f"add 1 node like a with {ZONE}=b, where the pod's volumes are")


def test_the_owner_of_the_pod_is_told() -> None:
    pod = make_pod("p").cpu(5).owner("ReplicaSet", "web-1")
    (only,) = remedies([make_worker("a").obj()], pod)
    assert only["affects"] == ["ReplicaSet web-1: new pods from its template need the same change"]
    deployment = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "controller": True}
    metadata = {"name": "web-1", "namespace": "default", "ownerReferences": [deployment]}
    replica_set = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": metadata}
    (only,) = remedies([make_worker("a").obj(), replica_set], pod)
    assert only["affects"] == ["Deployment web: new pods from its template need the same change"]


def test_a_request_is_lowered_to_what_a_cell_holds() -> None:
    objects = [make_node(name).cpu(32).memory("128Gi").obj() for name in ("n1", "n2")]
    objects.append(make_topology("n1").cell(6).cell(4).obj())
    objects.append(make_topology("n2", scope="pod").cell(7, "2Gi").cell(3).obj())
    pod = pinned("p", 8, "1Gi")
    first = explain(objects, pod.obj())["remedies"][0]
    assert first["summary"] == "lower the request for cpu from 8 to 7"
    assert first["opens"] == ["n2"]
    # A pod that is aligned has limits that are its requests.
    (container,) = patch(first)["spec"]["containers"]
    assert container["resources"]["requests"] == container["resources"]["limits"]
    assert fits(objects, pod.obj(), first["changes"]) == ["n2"]


def test_where_no_pair_helps_all_that_it_takes_is_listed() -> None:
    node = make_worker("gpu-0").label(disk="ssd").taint("dedicated", "ml").offer("x.com/gpu", 8)
    pod = make_pod("p").node_selector(disk="sdd").cpu(70).request("x.com/gpus", 1)
    assert proposed([node.obj(), make_worker("a").cordoned().obj()], pod) == [
        "ask for nodes with disk=ssd in place of disk=sdd; "
        "and ask for x.com/gpu in place of x.com/gpus, which no node offers; "
        "and tolerate the taint dedicated=ml:NoSchedule; "
        "and lower the request for cpu from 70 to 4"
    ]


def test_objects_with_nulls_in_all_places() -> None:
    node = make_worker("a").taint("gpu").cordoned().obj()
    node["metadata"] |= {"labels": None, "annotations": None}
    node["spec"]["taints"].append(None)
    bare = make_worker("b").obj()
    bare["spec"] = None
    other = make_pod("q").on("b").cpu(3).obj()
    other["spec"]["containers"].append(None)
    pod = make_pod("p").cpu(3).obj()
    pod["spec"] |= {
        "tolerations": None,
        "nodeSelector": None,
        "affinity": {"nodeAffinity": None, "podAffinity": {}},
        "topologySpreadConstraints": [None],
        "initContainers": None,
        "volumes": [None],
    }
    pod["spec"]["containers"] += [None, {"name": "c", "resources": None, "ports": None}]
    found = explain([node, bare, other], pod)["remedies"]
    assert len(found) >= 3
    for remedy in found:
        assert fits([node, bare, other], pod, remedy["changes"]) == remedy["opens"]


def test_a_limit_that_is_no_quantity_stops_nothing() -> None:
    pod = make_pod("p").cpu(9).obj()
    pod["spec"]["containers"][0]["resources"]["limits"] = {"cpu": "much"}
    assert explain([make_worker("a").obj()], pod)["remedies"] == []


def test_on_the_network_of_the_host_no_port_is_given_up() -> None:
    holder = make_pod("q").host_port(65535).on("a").spec(hostNetwork=True).obj()
    pod = make_pod("p").host_port(65535).spec(hostNetwork=True)
    summaries = proposed([make_worker("a").obj(), holder], pod)
    assert summaries
    assert not any("port" in summary for summary in summaries)
