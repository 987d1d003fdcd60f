"""Answers of webhooks: what is accepted, and which field is named when one is not."""

from __future__ import annotations

import re

import pytest

from scheduler.model.status import Code
from scheduler.webhooks import extender_protocol as wire
from scheduler.webhooks.protocol import (
    MAX_REASON_LENGTH,
    MAX_REASONS,
    PATHS,
    Rejection,
    read_answer,
    status_of,
)

BAD = {
    "no JSON": ("filter", b"nonsense", "JSON is malformed"),
    "not an object": ("filter", b"[]", "Expected `object`, got `array`"),
    "an unknown field": ("filter", b'{"rejcted": {}}', "unknown field `rejcted`"),
    "a field of the wrong type": ("filter", b'{"rejected": []}', "at `$.rejected`"),
    "an unknown code": ("filter", b'{"code": "Maybe"}', "code: must be one of Success, Error"),
    "a code of another point": ("filter", b'{"code": "Wait"}', "code: must be one of"),
    "a node that is not in question": (
        "filter",
        b'{"rejected": {"n9": {}}}',
        "rejected['n9']: is not one of the nodes in question",
    ),
    "a code that rejects no node": (
        "filter",
        b'{"rejected": {"n1": {"code": "Success"}}}',
        "rejected['n1'].code: must be Unschedulable or UnschedulableAndUnresolvable",
    ),
    "an unknown field of a rejection": (
        "filter",
        b'{"rejected": {"n1": {"reason": "x"}}}',
        "rejected['n1']: Object contains unknown field `reason`",
    ),
    "a score of a stranger": ("score", b'{"scores": {"n9": 1}}', "scores['n9']: is not one of"),
    "a score that is too high": (
        "score",
        b'{"scores": {"n1": 101}}',
        "scores['n1']: must be between 0 and 100, not 101",
    ),
    "a score that is no integer": ("score", b'{"scores": {"n1": 0.5}}', "at `$.scores[...]`"),
    "a key that is no number": ("queueSort", b'{"key": "first"}', "at `$.key`"),
    "a key out of range": ("queueSort", b'{"key": 1e999}', "out of range"),
    "a time before now": (
        "permit",
        b'{"code": "Wait", "timeoutSeconds": -1}',
        "timeoutSeconds: must be between 0 and 86400, not -1",
    ),
    "a time beyond all times": (
        "preEnqueue",
        b'{"code": "Pending", "retryAfterSeconds": 1e300}',
        "retryAfterSeconds: must be between 0 and 86400, not 1e+300",
    ),
    "a time that is no number": ("permit", b'{"retryAfterSeconds": NaN}', "JSON is malformed"),
    "a score beyond all scores": (
        "score",
        b'{"scores": {"n1": 99999999999999999999}}',
        "scores['n1']: must be between 0 and 100",
    ),
    "a score that is no number": ("score", b'{"scores": {"n1": NaN}}', "JSON is malformed"),
    "a node's name without end": (
        "filter",
        b'{"rejected": {"%s": {}}}' % (b"n" * 100_000),
        "nnn…']: is not one of the nodes in question",
    ),
    "more names than clusters have nodes": (
        "preFilter",
        b'{"nodeNames": [%s]}' % b",".join(b'"n%d"' % i for i in range(100_001)),
        "nodeNames: must not have more than 100000 items",
    ),
    "more strings than nodes explain": (
        "filter",
        b'{"rejected": {%s}}' % b",".join(b'"n%d": {}' % i for i in range(300_000)),
        "more strings than an answer about 1 nodes can have",
    ),
    "reasons that are no list": ("bind", b'{"reasons": "x"}', "at `$.reasons`"),
}


@pytest.mark.parametrize(("point", "body", "said"), BAD.values(), ids=BAD)
def test_the_field_is_named(point: str, body: bytes, said: str) -> None:
    with pytest.raises(ValueError, match=re.escape(said)):
        read_answer(point, body, {"n1"})


@pytest.mark.parametrize("point", PATHS)
@pytest.mark.parametrize("body", [b"", b"{}"])
def test_an_empty_answer_has_no_objection(point: str, body: bytes) -> None:
    assert read_answer(point, body).code == "Success"


def test_reasons_are_shortened_to_what_fits_an_event() -> None:
    status = status_of(Rejection(reasons=("a\n b" + "x" * 1000,) * 20), "W")
    assert len(status.reasons) == MAX_REASONS
    assert status.reasons[0].startswith("a bx")
    assert len(status.reasons[0]) == MAX_REASON_LENGTH
    assert status.code is Code.UNSCHEDULABLE
    assert status_of(Rejection(), "W").reasons == ("rejected by W",)


class TestExtenderAnswers:
    """Field names in whatever case, nulls as absent, and faults by their field."""

    @pytest.mark.parametrize("name", ["NodeNames", "nodenames", "nodeNames"])
    def test_case_does_not_matter(self, name: str) -> None:
        result = wire.read_filter(f'{{"{name}": ["a"], "Nodes": null}}'.encode())
        assert result.node_names == frozenset({"a"})
        assert result.nodes is None

    def test_priorities(self) -> None:
        body = b'[{"Host": "a", "Score": 3}, {"host": "b", "score": 10}]'
        assert wire.read_priorities(body) == {"a": 3, "b": 10}
        assert wire.read_priorities(b"null") == {}

    def test_victims(self) -> None:
        body = b'{"NodeNameToMetaVictims": {"n": {"Pods": [{"UID": "u"}], "numPDBViolations": 2}}}'
        assert wire.read_preemption(body) == {"n": wire.VictimRefs(("u",), 2)}

    @pytest.mark.parametrize(
        ("body", "said"),
        [
            (b'{"FailedNodes": ["a"]}', "FailedNodes: Expected `object`"),
            (b'{"Nodes": {"items": [{"metadata": {"name": 1}}]}}', "Nodes: Expected `str`"),
            (b"<html>", "JSON is malformed"),
        ],
    )
    def test_faults_name_the_field(self, body: bytes, said: str) -> None:
        with pytest.raises(ValueError, match=re.escape(said)):
            wire.read_filter(body)
