"""What callers of the serving API ask for; endpoints read it from requests, inspection answers."""

from __future__ import annotations

from typing import Literal, get_args

import msgspec

from scheduler.model.pods import Pod
from scheduler.model.selectors import Selector
from scheduler.model.storage import PersistentVolumeClaim

QueueTier = Literal[
    "active",
    "backoff",
    "error-backoff",
    "unschedulable",
    "gated",
    "waiting-on-permit",
    "suspended",
]
"""Where a pending pod is: a tier of the queue, or what comes after it is popped."""
TIERS: tuple[str, ...] = get_args(QueueTier)

MAX_REPLICAS = 10_000
"""How many equal pods can be asked about at once."""


class QueueQuery(msgspec.Struct, frozen=True):
    """Which pending pods are shown."""

    limit: int
    namespace: str = ""
    tier: str = ""
    selector: Selector = Selector()
    """On the labels of the pods."""
    group: bool = False
    """Whether equal pods share a line."""


class NodesQuery(msgspec.Struct, frozen=True):
    """Which nodes are shown, and how."""

    limit: int
    resource: str = ""
    """Of a map; empty: a list."""


class DecisionsQuery(msgspec.Struct, frozen=True):
    """Which decisions are shown, the newest first."""

    limit: int
    pod: str = ""
    """``namespace/name``; empty: all."""


class ExplainQuery(msgspec.Struct, frozen=True):
    """Which pod is explained."""

    pod: str
    """``namespace/name``."""
    manifest: Pod | None = None
    """A pod that does not exist, or that would replace the one of its name."""
    claims: tuple[PersistentVolumeClaim, ...] = ()
    """Claims that are made with it, if they are not there yet."""
    count: int | None = None
    """How many pods like it are to be placed together; None: that is not asked."""
