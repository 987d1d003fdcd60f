"""Protobuf: bodies become the JSON that a client would have sent; other bytes become a 400."""

import struct
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sandbox import openapi_v2
from sandbox.errors import ApiFailure
from sandbox.protobuf import field, fields, flag, varint
from sandbox.protobuf_bodies import decoded
from sandbox.resources import Catalog


def number(position: int, value: int) -> bytes:
    return varint(position << 3) + varint(value)


def body(api_version: str, kind: str, message: bytes) -> bytes:
    head = field(1, api_version) + field(2, kind)
    return b"k8s\x00" + field(1, head) + field(2, message)


def test_a_deployment() -> None:
    quantity = field(1, "cpu") + field(2, field(1, "100m"))
    port = field(1, "") + number(2, 0) + number(3, 80)
    container = field(1, "c") + field(2, "") + field(6, port) + field(8, field(2, quantity))
    pod = field(2, container) + number(11, 0)
    quarter = number(1, 1) + number(2, 0) + field(3, "25%")
    surge = field(2, field(2, quarter))
    spec = number(1, 0) + field(3, field(2, pod)) + field(4, surge) + number(7, 0)
    metadata = field(1, "d") + field(8, b"") + field(11, field(1, "app") + field(2, "x"))
    sent = body("apps/v1", "Deployment", field(1, metadata) + field(2, spec))
    assert decoded(sent) == {
        "kind": "Deployment",
        "apiVersion": "apps/v1",
        "metadata": {"name": "d", "labels": {"app": "x"}},
        "spec": {
            # A pointer: zero is a value. All other zeros are no values.
            "replicas": 0,
            "strategy": {"rollingUpdate": {"maxSurge": "25%"}},
            "template": {
                "spec": {
                    "containers": [
                        {
                            "name": "c",
                            "ports": [{"containerPort": 80}],
                            "resources": {"requests": {"cpu": "100m"}},
                        }
                    ]
                }
            },
        },
    }


def test_times_negative_numbers_bytes_and_inlined_sources() -> None:
    moment = number(1, 1_767_225_600)
    secret = field(1, field(1, "s") + field(8, moment)) + field(
        2, field(1, "k") + field(2, b"\x00")
    )
    assert decoded(body("v1", "Secret", secret)) == {
        "kind": "Secret",
        "apiVersion": "v1",
        "metadata": {"name": "s", "creationTimestamp": "2026-01-01T00:00:00Z"},
        "data": {"k": "AA=="},
    }
    options = decoded(body("policy/v1", "DeleteOptions", number(1, (1 << 64) - 1)))
    assert options["gracePeriodSeconds"] == -1
    empty_dir = field(2, field(1, "Memory"))
    volume = field(1, "v") + field(2, empty_dir)
    pod = decoded(body("v1", "Pod", field(2, field(1, volume))))
    assert pod["spec"]["volumes"] == [{"name": "v", "emptyDir": {"medium": "Memory"}}]


@pytest.mark.parametrize(
    "raw",
    [b"", b"{}", b"k8s\x00\xff", body("v1", "Nonsense", b""), body("v1", "Pod", b"\x0a\x7f")],
)
def test_other_bytes_are_refused(raw: bytes) -> None:
    with pytest.raises(ApiFailure) as refused:
        decoded(raw)
    assert refused.value.code == 400


@given(st.binary(max_size=200))
def test_no_bytes_break_the_decoder(raw: bytes) -> None:
    with suppress(ApiFailure):
        assert decoded(body("v1", "Pod", raw))["kind"] == "Pod"


@given(st.integers(0, 2**64 - 1))
def test_numbers_are_read_as_they_are_written(value: int) -> None:
    assert list(fields(number(5, value))) == [(5, value)]


def test_fixed_widths_are_skipped_as_such() -> None:
    raw = varint(3 << 3 | 1) + struct.pack("<d", 1.5) + flag(4)
    assert list(fields(raw)) == [(3, struct.pack("<d", 1.5)), (4, 1)]


def test_openapi_v2_has_a_definition_per_kind_and_a_path_to_dry_run_it() -> None:
    document = dict(fields(openapi_v2.document(Catalog())))
    paths, definitions = document[8], document[9]
    assert isinstance(paths, bytes)
    assert isinstance(definitions, bytes)
    assert b"io.k8s.api.core.v1.Pod" in definitions
    assert b"/api/v1/namespaces/{namespace}/pods/{name}" in paths
    assert b"dryRun" in paths
