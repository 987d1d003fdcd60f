"""Packed labels are the same labels, in little more memory than their JSON."""

from __future__ import annotations

import sys

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from scheduler.model.meta import ObjectMeta
from scheduler.model.packed import (
    MANY,
    PackedLabels,
    as_text,
    digest,
    encode_labels,
    pack,
    pack_labels,
    plain,
)
from tests.builders import make_pod

LETTERS = "ab-./_0Zé\U0001f600:{}"
texts = st.text(LETTERS, max_size=4)
some_labels = st.dictionaries(texts, texts, min_size=1, max_size=40)


@given(some_labels, st.lists(texts))
@example({"": ""}, ["", "a"])
@example({"a": "", "b": ""}, ["aa", "0", "c"])
def test_packed_labels_answer_as_the_dictionary_does(
    labels: dict[str, str], asked: list[str]
) -> None:
    packed = pack(labels)
    assert isinstance(packed, PackedLabels)
    for key in [*labels, *asked]:
        assert packed.get(key) == labels.get(key)
        assert (key in packed) == (key in labels)
    assert packed == labels
    assert labels == packed
    assert dict(packed.items()) == dict(packed) == labels
    assert len(packed) == len(labels)
    assert sorted(packed) == sorted(packed.keys()) == sorted(labels)
    assert sorted(packed.values()) == sorted(labels.values())


@given(some_labels, some_labels)
def test_equality_is_that_of_the_labels(one: dict[str, str], other: dict[str, str]) -> None:
    assert (pack(one) == pack(other)) == (one == other)
    assert (pack(one) == other) == (one == other)
    assert pack(dict(reversed(one.items()))) == pack(one)


strange = st.one_of(st.text(max_size=5), st.text(',":\\', max_size=4))


@given(st.dictionaries(strange, strange, min_size=1))
@example({"": ",", "0": ""})
def test_whatever_a_label_holds_is_found(labels: dict[str, str]) -> None:
    packed = pack(labels)
    assert all(packed[key] == value for key, value in labels.items())


def test_a_missing_label_raises_as_in_a_dictionary() -> None:
    with pytest.raises(KeyError, match="b"):
        pack({"a": "1"})["b"]


def test_only_many_labels_are_packed() -> None:
    few, many = ({str(i): "x" for i in range(n)} for n in (MANY, MANY + 1))
    for labels, type_ in ((few, dict), (many, PackedLabels)):
        metadata = ObjectMeta(labels=labels)
        pack_labels(metadata)
        assert type(metadata.labels) is type_
        assert metadata.labels == labels


def test_packed_labels_are_encoded_as_labels() -> None:
    metadata = ObjectMeta(labels={str(i): "x" for i in range(100)})
    before = msgspec.json.encode(metadata)
    pack_labels(metadata)
    assert msgspec.json.decode(msgspec.json.encode(metadata, enc_hook=plain)) == (
        msgspec.json.decode(before)
    )
    assert isinstance(metadata.labels, PackedLabels)
    assert metadata.labels.text in msgspec.msgpack.encode(metadata.labels, enc_hook=as_text)
    for hook in (plain, as_text):
        with pytest.raises(NotImplementedError, match="object"):
            hook(object())


def test_they_take_as_much_memory_as_their_json() -> None:
    packed = pack({f"k{i}": "" for i in range(10_000)})
    assert isinstance(packed, PackedLabels)
    assert sys.getsizeof(packed.text) < len(encode_labels(packed.unpacked())) + 64
    assert packed.digest == digest(packed.text)


def test_limits_see_packed_labels_as_any_others() -> None:
    many = {f"k{number:06}": "v" for number in range(50 * MANY)}
    as_given, packed = make_pod("p").label(**many).info(), make_pod("p").label(**many).info()
    pack_labels(packed.pod.metadata)
    assert isinstance(packed.pod.metadata.labels, PackedLabels)
    assert packed.excess == as_given.excess
    assert any("encodedBytes" in text or "labels" in text for text in packed.excess)
