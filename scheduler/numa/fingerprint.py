"""The pod fingerprint: one short text for the set of pods that an agent saw on its node.

Byte for byte the ``pfp0v001`` format of the Go library that agents use. A pod is the 64-bit xxHash
of its name, seeded with the hash of its namespace; a set is the hash of its sorted pod hashes, as
little-endian bytes. Pods are identified by namespace and name alone, and the set is a multiset.
"""

from __future__ import annotations

import enum
import struct
from collections.abc import Collection, Iterable

import xxhash

PREFIX = "pfp0"
VERSION = "v001"
ALL = "all"
WITH_EXCLUSIVE_RESOURCES = "with-exclusive-resources"
"""The methods: which pods an agent has put into its fingerprint."""

_SHORTEST = 16


class FingerprintFault(enum.Enum):
    """Why a text cannot be compared with a set of pods, in the words of the Go library."""

    MALFORMED = "malformed"
    INCOMPATIBLE = "incompatible version"


def fingerprint(pods: Iterable[tuple[str, str]]) -> str:
    """The fingerprint of pods, given as (namespace, name) in any order."""
    return fingerprint_of([pod_hash(namespace, name) for namespace, name in pods])


def pod_hash(namespace: str, name: str) -> int:
    """The hash of one pod; worth keeping, since pods do not change their names."""
    seed = xxhash.xxh64_intdigest(_bytes(namespace))
    return xxhash.xxh64_intdigest(_bytes(name), seed)


def fingerprint_of(hashes: Collection[int]) -> str:
    """The fingerprint of pods whose hashes are known."""
    together = struct.pack(f"<{len(hashes)}Q", *sorted(hashes))
    return f"{PREFIX}{VERSION}{xxhash.xxh64_hexdigest(together)}"


def fault_of(candidate: str) -> FingerprintFault | None:
    """Why a text is no fingerprint of this version; None if it is one."""
    if len(candidate.encode(errors="surrogatepass")) < _SHORTEST:
        return FingerprintFault.MALFORMED
    if not candidate.startswith(PREFIX):
        return FingerprintFault.MALFORMED
    return None if candidate[4:8] == VERSION else FingerprintFault.INCOMPATIBLE


def _bytes(text: str) -> bytes:
    # JSON may hold lone surrogates. No text in an object may raise here.
    return text.encode(errors="surrogatepass")
