"""Facts come most telling first: what nodes lack that are nearest to fitting, then the rest."""

from typing import Any

from scheduler import simulation

Json = dict[str, Any]


def node(name: str, pool: str, cpu: str, taint: str = "") -> Json:
    amounts = {"cpu": cpu, "memory": "16Gi", "pods": "110"}
    taints = [{"key": taint, "effect": "NoSchedule"}] if taint else []
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"pool": pool}},
        "spec": {"taints": taints},
        "status": {"allocatable": amounts, "capacity": amounts},
    }


def pod(cpu: str, pool: str) -> Json:
    main = {"name": "main", "image": "x", "resources": {"requests": {"cpu": cpu}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "default"},
        "spec": {
            "schedulerName": "equipoise",
            "nodeSelector": {"pool": pool},
            "containers": [main],
        },
    }


def plugins_of_facts(nodes: list[Json], asking: Json) -> list[str]:
    answer = simulation.explain([*nodes, asking], asking)
    return [fact["plugin"] for fact in answer["facts"]]


def test_what_the_nearest_node_lacks_comes_before_what_many_others_lack() -> None:
    others = [node(f"other-{number}", "other", "64", "reserved") for number in range(5)]
    near = node("near", "wanted", "2")
    assert plugins_of_facts([*others, near], pod("4", "wanted"))[0] == "NodeResourcesFit"


def test_among_equally_near_nodes_what_rejects_more_of_them_comes_first() -> None:
    others = [node(f"other-{number}", "other", "64") for number in range(5)]
    near = node("near", "wanted", "2")
    plugins = plugins_of_facts([*others, near], pod("4", "wanted"))
    assert plugins == ["NodeAffinity", "NodeResourcesFit"]


def test_taints_of_one_node_come_in_the_same_order_in_every_process() -> None:
    tainted = node("n", "wanted", "64")
    keys = [f"taint-{number}" for number in range(8)]
    tainted["spec"]["taints"] = [{"key": key, "effect": "NoSchedule"} for key in keys]
    facts = simulation.explain([tainted], pod("1", "wanted"))["facts"]
    assert [fact["key"] for fact in facts if fact["type"] == "taint"] == keys
