"""Fingerprints byte for byte as the Go library makes them."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

from scheduler.numa.fingerprint import (
    FingerprintFault,
    fault_of,
    fingerprint,
    fingerprint_of,
    pod_hash,
)

DATA: dict[str, Any] = json.loads(
    (Path(__file__).parents[1] / "data" / "podfingerprint.json").read_text()
)


@pytest.mark.parametrize("vector", DATA["vectors"], ids=lambda vector: vector["id"])
def test_every_vector_of_the_library(vector: dict[str, Any]) -> None:
    pods = [(namespace, name) for namespace, name in vector["pods"]]
    assert fingerprint(pods) == vector["fingerprint"]


@pytest.mark.parametrize("vector", DATA["check"], ids=lambda vector: vector["id"])
def test_every_comparison_of_the_library(vector: dict[str, Any]) -> None:
    pods = [(namespace, name) for namespace, name in vector["pods"]]
    fault = fault_of(vector["candidate"])
    equal = vector["candidate"] == fingerprint(pods)
    assert (fault.value if fault else "ok" if equal else "mismatch") == vector["result"]


@pytest.mark.parametrize(
    ("pods", "expected"),
    [
        pytest.param([], "pfp0v001ef46db3751d8e999", id="nobody"),
        pytest.param([("", "")], "pfp0v001c47d32effa0690e8", id="a pod without a name"),
        pytest.param([("default", "nginx")], "pfp0v0016a5a78cfbc52d821", id="one pod"),
    ],
)
def test_known_sets(pods: list[tuple[str, str]], expected: str) -> None:
    assert fingerprint(pods) == expected


def test_another_version_is_not_compared() -> None:
    assert fault_of("pfp0v002" + "0" * 16) is FingerprintFault.INCOMPATIBLE


def test_the_order_of_pods_does_not_matter_but_their_number_does() -> None:
    pods = [("team", f"pod-{i}") for i in range(9)]
    shuffled = random.Random(1).sample(pods, len(pods))
    assert fingerprint(shuffled) == fingerprint(pods)
    assert fingerprint([*pods, pods[0]]) != fingerprint(pods)


def test_kept_hashes_give_the_same_fingerprint() -> None:
    pods = [("team", f"pod-{i}") for i in range(5)]
    assert fingerprint_of([pod_hash(*pod) for pod in pods]) == fingerprint(pods)


def test_a_name_that_is_no_text_does_not_raise() -> None:
    assert fingerprint([("team", "\ud800")]).startswith("pfp0v001")
