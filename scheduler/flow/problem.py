"""A backlog and the nodes it may go to, as matrices: request and response of the solver process.

Classes of equal pods are numbered along E, nodes along M, resources along R. Costs and scores are
in *points*: what the profile's score plugins give. Messages are MessagePack, arrays in them bytes.
"""

from __future__ import annotations

from typing import Any, TypeVar

import msgspec
import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Reals = NDArray[np.float64]

UNFIT = -1
"""The score of a class on a node that does not fit."""

PRICED = 2
"""The first resources are CPU and memory: a node's load is the mean of these, as it is for most
scores. All resources bound what a node takes."""

_NO_INTS: Ints = np.zeros(0, np.int64)
_NO_REALS: Reals = np.zeros(0)


class PriceSteps(msgspec.Struct, frozen=True):
    """Arcs of which a class has several, each dearer than the one before: parallel arrays."""

    of_class: Ints = _NO_INTS
    domain: Ints = _NO_INTS
    """The domain that the arc leads to; 0 where there is none."""
    pods: Ints = _NO_INTS
    """How many pods it takes."""
    points: Reals = _NO_REALS
    """What each of them costs."""


class Problem(msgspec.Struct, frozen=True, kw_only=True):
    """One tier of a backlog. All that a cost model reads, and nothing else."""

    supplies: Ints
    """[E] The pods of each class."""
    scores: Ints
    """[E, M] The profile's total score of each node now; ``UNFIT`` where a filter rejects."""
    fit: Ints
    """[E, M] How many pods of the class a node takes if no others come; at least 1 if it fits."""
    requests: Reals
    """[E, R] What a pod takes."""
    free: Reals
    """[R, M] What is free."""
    allocatable: Reals
    """[R, M] What there is."""
    slots: Ints
    """[M] How many more pods a node may have."""
    load_price: float = 0.0
    """The points that a pod loses on a node that the batch has filled from empty."""
    repeat_price: Reals = _NO_REALS
    """[E] The points that each further pod of the class loses on the same node; empty: none."""
    leaving: PriceSteps = PriceSteps()
    """What it costs to leave pods of a class without a node, the youngest first."""
    by_volume: bool = False
    """Pods count by their requests, not one each."""
    domain_of: Ints = _NO_INTS
    """[E, M] The domain of a node that a class is spread over, from 1; 0: none. Empty: no class."""
    quotas: PriceSteps = PriceSteps()
    """How many pods of a class each domain takes, at what price."""
    soft: Ints = _NO_INTS
    """[E, M] Weights of the preferred terms that a node matches; only `CpuMemory` reads them."""
    preferring: Ints = _NO_INTS
    """[E] Whether a class prefers anything; only `CpuMemory` reads it."""
    gang: Ints = _NO_INTS
    """[E] The gang that the pods of a class are in, -1: none. Empty: there are no gangs."""
    gang_needs: Ints = _NO_INTS
    """How many pods each gang needs, or it gets none."""
    model: str = "Scores"

    @property
    def shape(self) -> tuple[int, int]:
        """Classes and nodes."""
        return self.scores.shape[0], self.scores.shape[1]


class Solution(msgspec.Struct, frozen=True, kw_only=True):
    """How many pods of which class go where, and what it took to find out."""

    of_class: Ints
    node: Ints
    pods: Ints
    arcs: int = 0
    build_seconds: float = 0.0
    solve_seconds: float = 0.0
    read_seconds: float = 0.0
    """CPU seconds: drawing the network, solving it, reading placements from the flow."""
    cost: int = 0
    """Of the flow, in the units of its network."""


T = TypeVar("T")


def encode(message: Any) -> bytes:
    """A message as bytes."""
    return _ENCODER.encode(message)


def decode(data: bytes, type_: type[T]) -> T:
    """A message from bytes; arrays share the memory of ``data`` and cannot be written to."""
    return msgspec.msgpack.decode(data, type=type_, dec_hook=_to_array)


def _from_array(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, np.ascontiguousarray(value).tobytes()
    raise NotImplementedError(type(value))


def _to_array(type_: type, value: Any) -> Any:
    dtype, shape, data = value
    return np.frombuffer(data, np.dtype(dtype)).reshape(shape)


_ENCODER = msgspec.msgpack.Encoder(enc_hook=_from_array)
