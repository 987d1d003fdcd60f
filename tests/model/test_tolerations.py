"""Which taints a pod puts up with."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.model.nodes import Taint
from scheduler.model.pods import Toleration
from scheduler.model.tolerations import Cover, repelled, tolerates, tolerates_any

TAINT = Taint("dedicated", "db", "NoSchedule")


@pytest.mark.parametrize(
    ("toleration", "tolerated"),
    [
        pytest.param(Toleration("dedicated", "Equal", "db", "NoSchedule"), True, id="all equal"),
        pytest.param(Toleration("dedicated", "", "db"), True, id="no operator means Equal"),
        pytest.param(Toleration("dedicated", "Equal", "web"), False, id="another value"),
        pytest.param(Toleration("dedicated", "Equal"), False, id="no value equals the empty one"),
        pytest.param(Toleration("dedicated", "Exists"), True, id="Exists takes any value"),
        pytest.param(Toleration("", "Exists"), True, id="no key with Exists takes everything"),
        pytest.param(Toleration("other", "Exists"), False, id="another key"),
        pytest.param(
            Toleration("dedicated", "Exists", "", "NoExecute"), False, id="another effect"
        ),
        pytest.param(Toleration("dedicated", "Near", "db"), False, id="unknown operator: nothing"),
    ],
)
def test_one_toleration_and_one_taint(toleration: Toleration, tolerated: bool) -> None:
    assert tolerates(toleration, TAINT) is tolerated


def test_hard_taints_repel_and_soft_ones_are_counted() -> None:
    taints = [
        Taint("a", "", "PreferNoSchedule"),
        Taint("b", "", "PreferNoSchedule"),
        Taint("c", "", "NoExecute"),
    ]
    assert repelled((), taints)
    assert not repelled((Toleration("c", "Exists"),), taints)
    assert Cover(()).disliked(taints) == 2
    assert Cover((Toleration("a", "Exists"),)).disliked(taints) == 1


WORDS = st.sampled_from(["", "a", "b"])
EFFECTS = st.sampled_from(["", "NoSchedule", "PreferNoSchedule", "NoExecute"])
OPERATORS = st.sampled_from(["", "Equal", "Exists", "Near"])


@given(
    st.lists(st.builds(Toleration, WORDS, OPERATORS, WORDS, EFFECTS)),
    st.builds(Taint, WORDS, WORDS, EFFECTS),
)
def test_tolerations_cover_together_what_any_of_them_does(
    tolerations: list[Toleration], taint: Taint
) -> None:
    assert Cover(tolerations).covers(taint) == tolerates_any(tolerations, taint)
