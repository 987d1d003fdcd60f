"""Label and node selectors: what they select, and what they say when they cannot be understood."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.model.meta import LabelSelector
from scheduler.model.nodes import NodeSelector, NodeSelectorTerm
from scheduler.model.objects import from_dict
from scheduler.model.selectors import (
    NodeMatcher,
    Selector,
    SelectorError,
    compile_label_selector,
    compile_node_selector,
    compile_node_term,
    compile_set,
)
from tests.builders import Json, make_node, requirement, term
from tests.model.selector_oracle import labels, requirements, satisfied


@given(labels, labels, st.lists(requirements(ordered=False), max_size=3))
def test_a_label_selector_is_a_conjunction(
    having: dict[str, str], match: dict[str, str], expressions: list[Json]
) -> None:
    raw = {"matchLabels": match, "matchExpressions": expressions}
    selector = compile_label_selector(from_dict(raw, LabelSelector), "s")
    want = match.items() <= having.items() and all(satisfied(e, having) for e in expressions)
    assert selector.matches(having) == want


@given(labels, st.lists(requirements(ordered=True), min_size=9, max_size=20))
def test_many_requirements_mean_what_each_of_them_does(
    having: dict[str, str], expressions: list[Json]
) -> None:
    """Likely keys come several times, and likely ones are met: else nothing would be selected."""
    met = [each for each in expressions if satisfied(each, having)]
    for some in (expressions, [*met, *met, *met, *met, *met]):
        compiled = compile_node_term(from_dict(term(*some), NodeSelectorTerm), "t")
        want = all(satisfied(each, having) for each in some)
        assert Selector(compiled.labels).matches(having) == want


@given(
    labels,
    labels,
    st.none() | st.lists(st.lists(requirements(ordered=True), max_size=2), max_size=3),
)
def test_a_node_matches_its_selector_and_any_one_term(
    having: dict[str, str], selector: dict[str, str], terms: list[list[Json]] | None
) -> None:
    node = make_node("n").label(**having).struct()
    raw = None if terms is None else {"nodeSelectorTerms": [term(*each) for each in terms]}
    required = None if raw is None else from_dict(raw, NodeSelector)
    matcher = NodeMatcher(compile_set(selector), compile_node_selector(required, "s"))
    # A term without requirements selects nothing, and so does a selector without terms.
    any_term = terms is None or any(
        each and all(satisfied(e, having) for e in each) for each in terms
    )
    assert matcher.matches(node) == (selector.items() <= having.items() and any_term)


@pytest.mark.parametrize(
    ("value", "greater"),
    [
        pytest.param("6", True, id="plain"),
        pytest.param("+6", True, id="with a sign"),
        pytest.param("0" * 40 + "6", True, id="leading zeros count for nothing"),
        pytest.param("5", False, id="equal is not greater"),
        pytest.param("-6", False, id="negative"),
        pytest.param("9223372036854775807", True, id="the largest of 64 bits"),
        pytest.param("9223372036854775808", False, id="beyond 64 bits is no number"),
        pytest.param("6.0", False, id="a fraction is no number"),
        pytest.param("1_0", False, id="an underscore is no digit"),
        pytest.param(" 6", False, id="a space is no digit"),
        pytest.param("٦", False, id="only ASCII digits"),
        pytest.param("", False, id="nothing"),
    ],
)
def test_numbers_are_read_as_the_api_reads_them(value: str, greater: bool) -> None:
    raw = from_dict(term(requirement("gen", "Gt", "5")), NodeSelectorTerm)
    node = make_node("n").label(gen=value).struct()
    assert compile_node_term(raw, "t").matches(node) is greater


def test_an_absent_label_selector_selects_nothing_and_an_empty_one_everything() -> None:
    assert not compile_label_selector(None, "s").matches({})
    assert compile_label_selector(LabelSelector(), "s").matches({"a": "b"})


@pytest.mark.parametrize(
    ("operator", "name", "matches"),
    [("In", "n1", True), ("In", "n2", False), ("NotIn", "n1", False), ("NotIn", "n2", True)],
)
def test_a_field_requirement_is_about_the_name(operator: str, name: str, matches: bool) -> None:
    raw = from_dict(term(fields=(requirement("metadata.name", operator, name),)), NodeSelectorTerm)
    assert compile_node_term(raw, "t").matches(make_node("n1").struct()) is matches


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        pytest.param(
            term(requirement("a", "Near", "b")),
            "t.matchExpressions[0].operator: unknown operator 'Near' "
            "(one of In, NotIn, Exists, DoesNotExist, Gt, Lt)",
            id="an unknown operator",
        ),
        pytest.param(
            term(requirement("a", "Exists"), requirement("", "Exists")),
            "t.matchExpressions[1].key: missing",
            id="no key",
        ),
        pytest.param(
            term(requirement("a", "In")),
            "t.matchExpressions[0].values: must not be empty for operator In",
            id="In without values",
        ),
        pytest.param(
            term(requirement("a", "Exists", "b")),
            "t.matchExpressions[0].values: must be empty for operator Exists",
            id="Exists with a value",
        ),
        pytest.param(
            term(requirement("a", "Gt", "many")),
            "t.matchExpressions[0].values: must be one integer for operator Gt",
            id="Gt of a word",
        ),
        pytest.param(
            term(requirement("a", "Lt", "1", "2")),
            "t.matchExpressions[0].values: must be one integer for operator Lt",
            id="Lt of two",
        ),
        pytest.param(
            term(fields=(requirement("metadata.name", "Exists"),)),
            "t.matchFields[0].operator: unknown operator 'Exists' (one of In, NotIn)",
            id="a field that exists",
        ),
        pytest.param(
            term(fields=(requirement("spec.nodeName", "In", "a"),)),
            "t.matchFields[0].key: unknown field 'spec.nodeName' (only metadata.name)",
            id="an unknown field",
        ),
        pytest.param(
            term(fields=(requirement("metadata.name", "In", "a", "b"),)),
            "t.matchFields[0].values: must have one element",
            id="a field with two values",
        ),
    ],
)
def test_what_cannot_be_understood_is_named_by_its_field(raw: Json, message: str) -> None:
    with pytest.raises(SelectorError, match=re.escape(message)):
        compile_node_term(from_dict(raw, NodeSelectorTerm), "t")
