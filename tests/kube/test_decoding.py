"""Bytes to lines to structs, for any chunking and any nonsense."""

import json
from itertools import pairwise

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from scheduler.kube.decoding import (
    Identity,
    LineSplitter,
    LineTooLong,
    ObjectDecoder,
    PageSize,
    share_labels,
)
from scheduler.model.objects import ObjectMeta, Pod
from scheduler.model.packed import PackedLabels
from scheduler.observe.metrics import Metrics

from .support import sample


@given(
    st.lists(st.binary(max_size=20).map(lambda line: line.replace(b"\n", b"")), min_size=1),
    st.lists(st.integers(min_value=0, max_value=60)),
)
def test_any_chunking_gives_the_same_lines(lines: list[bytes], cuts: list[int]) -> None:
    stream = b"".join(line + b"\n" for line in lines)
    bounds = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    splitter = LineSplitter()
    found: list[bytes] = []
    for begin, end in pairwise(bounds):
        found += splitter.feed(stream[begin:end])
    assert found == lines


def test_a_very_long_line_arrives_whole() -> None:
    splitter = LineSplitter()
    for _ in range(200):
        assert splitter.feed(b"x" * 100_000) == []
    assert [len(line) for line in splitter.feed(b"y\nz\nrest")] == [20_000_001, 1]


def test_a_line_without_end_is_given_up() -> None:
    splitter = LineSplitter(limit=10)
    splitter.feed(b"0123456789")
    with pytest.raises(LineTooLong):
        splitter.feed(b"x")


def test_the_length_limit_is_per_line() -> None:
    splitter = LineSplitter(limit=10)
    for _ in range(5):
        assert splitter.feed(b"0123\n56789") != []


def decoder(metrics: Metrics | None = None) -> ObjectDecoder[Pod]:
    return ObjectDecoder("Pod", Pod, metrics or Metrics())


META = {"name": "x", "namespace": "a", "uid": "u", "resourceVersion": "7"}


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param({"nodeName": 5}, id="a number for a name"),
        pytest.param({"tolerations": {"a": "b"}}, id="an object for a list"),
        pytest.param([], id="a list for the spec"),
    ],
)
def test_an_object_that_does_not_decode_is_counted_and_identified(spec: object) -> None:
    metrics = Metrics()
    raw = msgspec.Raw(json.dumps({"metadata": META, "spec": spec}).encode())
    assert decoder(metrics).decode(raw) == Identity("x", "a", "u", "7")
    assert sample(metrics, "equipoise_watch_decode_errors_total", kind="Pod") == 1


@pytest.mark.parametrize("raw", [b'{"metadata": {"name": 5}}', b"[]", b"7", b"{", b'{"spec": []}'])
def test_nonsense_has_no_identity_and_raises_nothing(raw: bytes) -> None:
    assert decoder().decode(msgspec.Raw(raw)) == Identity()


def test_nesting_deeper_than_the_decoder_follows_raises_nothing() -> None:
    deep = b'{"metadata": {"name": "x"}, "spec": {"nodeName": %s}}' % (b"[" * 5000 + b"]" * 5000)
    assert isinstance(decoder().decode(msgspec.Raw(deep)), Identity)


def test_nulls_count_as_absent() -> None:
    raw = msgspec.Raw(json.dumps({"metadata": META, "spec": {"nodeName": None}}).encode())
    decoded = decoder().decode(raw)
    assert isinstance(decoded, Pod)
    assert decoded.spec.node_name == ""


def test_a_version_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    objects = decoder()
    for version in ("7", "7", "8"):
        meta = {**META, "resourceVersion": version}
        objects.decode(msgspec.Raw(json.dumps({"metadata": meta, "spec": 1}).encode()))
    assert len(caplog.records) == 2


def test_what_was_logged_is_not_remembered_without_bound() -> None:
    objects = decoder()
    for version in range(3000):
        meta = {**META, "resourceVersion": str(version)}
        objects.decode(msgspec.Raw(json.dumps({"metadata": meta, "spec": 1}).encode()))
    assert len(objects._logged) <= 1024


def test_many_labels_are_packed_and_shared_by_versions_that_have_the_same() -> None:
    decoder = ObjectDecoder("Pod", Pod, Metrics())
    many = {f"k{i}": "v" for i in range(1000)}
    raw = json.dumps({"metadata": {"name": "p", "labels": many}}).encode()
    one, other = decoder.decode(msgspec.Raw(raw)), decoder.decode(msgspec.Raw(raw))
    assert isinstance(one, Pod)
    assert isinstance(other, Pod)
    assert isinstance(one.metadata.labels, PackedLabels)
    assert one.metadata.labels is not other.metadata.labels
    share_labels(one.metadata, other.metadata)
    assert one.metadata.labels is other.metadata.labels
    relabelled = ObjectMeta(labels={"a": "b"})
    share_labels(one.metadata, relabelled)
    assert relabelled.labels == {"a": "b"}


def test_explicit_nulls_do_not_keep_labels_from_being_packed() -> None:
    many = {f"k{i}": "v" for i in range(1000)}
    raw = json.dumps({"metadata": {"name": "p", "labels": many}, "status": None}).encode()
    decoded = ObjectDecoder("Pod", Pod, Metrics()).decode(msgspec.Raw(raw))
    assert isinstance(decoded, Pod)
    assert isinstance(decoded.metadata.labels, PackedLabels)


@pytest.mark.parametrize(
    ("object_bytes", "limits"),
    [
        pytest.param(4_000, [25, 100, 400, 500], id="ordinary objects come in large pages"),
        pytest.param(650_000, [25, 12, 12, 12], id="large objects come few at a time"),
        pytest.param(100_000_000, [25, 1, 1, 1], id="at least one at a time"),
    ],
)
def test_pages_are_as_long_as_their_bytes_allow(object_bytes: int, limits: list[int]) -> None:
    size = PageSize()
    asked = []
    for _ in limits:
        asked.append(size.limit)
        size.learn(size.limit * object_bytes, size.limit)
    assert asked == limits


def test_a_page_without_items_teaches_nothing() -> None:
    size = PageSize()
    size.learn(100, 0)
    assert size.limit == PageSize.FIRST
