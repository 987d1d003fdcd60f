"""Every list and map of a pod that its author writes, and how long `limits` lets it be."""

from __future__ import annotations

import json
import re
from functools import cache

from scheduler.model.limits import DEFAULT_LIMITS, excess
from scheduler.model.objects import from_dict
from scheduler.model.pods import Pod
from scheduler.model.volumes import MONITORS
from tests.builders import Json
from tests.cost.fields import Field, fields
from tests.cost.test_law import named

LARGEST = 1_500_000
"""Bytes of an object that the API server accepts."""
READ = {"Pod spec.volumes.rbd.monitors": MONITORS}
"""Lists of which no more entries are read, however many there may be."""
_EXCESS = re.compile(r"(\d+) (?:bytes )?exceed the limit of (\d+) \(limits\.(\w+)\)")


def pod_fields() -> list[Field]:
    """Those of metadata and spec; the API server drops a status that the author writes."""
    return [each for each in fields() if each.kind == "Pod" and each.steps[0] != "status"]


def written(field: Field, number: int, role: str = "ours") -> Json:
    """A pod with so many entries there."""
    return named(field, field.object(number), role)


def most(field: Field) -> int:
    """How many entries fit into the largest object."""
    size = (len(json.dumps(field.object(200))) - len(json.dumps(field.object(100)))) / 100
    return int(LARGEST / size)


@cache
def bound(field: Field) -> tuple[int, str]:
    """How many entries an attempt reads at most, and the setting that bounds them.

    The bound follows from what is said about a pod with as many as the API server accepts: so many
    of them exceed the limit. Raises LookupError if nothing is said.
    """
    number = most(field)
    said = excess(from_dict(written(field, number), Pod), DEFAULT_LIMITS)
    found = _EXCESS.search("; ".join(said))
    if found is None:
        raise LookupError(f"{field}: {number} entries exceed no limit")
    counted, limit = int(found[1]), int(found[2])
    return min(number * limit // counted, READ.get(str(field), number)), found[3]
