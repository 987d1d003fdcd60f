"""TaintToleration against taints and tolerations read one by one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from scheduler.model.status import SUCCESS, unresolvable
from scheduler.plugins.taint_toleration import TaintToleration
from tests.builders import Json, make_node, make_pod
from tests.plugins.support import Bench

EFFECTS = ("NoSchedule", "NoExecute", "PreferNoSchedule")
UNTOLERATED = unresolvable("node(s) had untolerated taint(s)").by("TaintToleration")

taints = st.fixed_dictionaries(
    {
        "key": st.sampled_from("ab"),
        "value": st.sampled_from(("", "x", "y")),
        "effect": st.sampled_from(EFFECTS),
    }
)
tolerations = st.fixed_dictionaries(
    {
        "key": st.sampled_from(("", "a", "b")),
        "operator": st.sampled_from(("", "Equal", "Exists")),
        "value": st.sampled_from(("", "x", "y")),
        "effect": st.sampled_from(("", *EFFECTS)),
    }
)


def covers(toleration: Json, taint: Json) -> bool:
    return (
        toleration["effect"] in ("", taint["effect"])
        and toleration["key"] in ("", taint["key"])
        and (toleration["operator"] == "Exists" or toleration["value"] == taint["value"])
    )


@given(
    st.lists(st.lists(taints, max_size=3), min_size=1, max_size=6),
    st.lists(tolerations, max_size=3),
)
def test_every_node(tainted: list[list[Json]], tolerated: list[Json]) -> None:
    pod = make_pod("p")
    for toleration in tolerated:
        pod.toleration(**toleration)
    nodes = {f"n{i}": make_node(f"n{i}") for i in range(len(tainted))}
    open_taints: dict[str, list[str]] = {}
    for (name, node), its_taints in zip(nodes.items(), tainted, strict=True):
        for taint in its_taints:
            node.taint(**taint)
        open_taints[name] = [
            taint["effect"] for taint in its_taints if not any(covers(t, taint) for t in tolerated)
        ]
    bench = Bench(TaintToleration, nodes.values())

    assert bench.verdicts(pod) == {
        name: SUCCESS if set(effects) <= {"PreferNoSchedule"} else UNTOLERATED
        for name, effects in open_taints.items()
    }
    soft = {name: effects.count("PreferNoSchedule") for name, effects in open_taints.items()}
    most = max(soft.values()) or 1
    assert bench.scores(pod) == {name: 100 - 100 * count // most for name, count in soft.items()}


def test_answers_follow_taints_that_turn_up_later() -> None:
    bench = Bench(TaintToleration, [make_node("n1").taint("a")])
    pod = make_pod("p").toleration("a", "Exists")
    assert bench.verdicts(pod) == {"n1": SUCCESS}
    bench.state.set_node(make_node("n2").taint("b").struct())
    assert bench.verdicts(pod) == {"n1": SUCCESS, "n2": UNTOLERATED}
