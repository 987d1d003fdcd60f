"""However large an object is that the API server accepts, no step of its work takes long.

A step is what runs between two checkpoints. Tracing an object of 1.5 MB instruction by instruction
takes minutes, so the growth of the longest step is measured on small objects, with limits and pace
made small likewise: entries beyond the limits are what an object has most of.
"""

from __future__ import annotations

import json

import msgspec
import pytest

from scheduler import slices
from scheduler.model import volumes
from scheduler.model.limits import PodLimits
from scheduler.model.objects import KINDS
from scheduler.numa.topology import MAX_CELLS
from scheduler.state import cache
from tests.cost import test_law
from tests.cost.counting import UNLIMITED
from tests.cost.fields import Field, fields
from tests.cost.test_law import cases, encoders, everything_is_imported, everything_went_well, life

__all__ = ["encoders", "everything_is_imported", "everything_went_well"]

LARGEST = 1_500_000
"""Bytes of an object that the API server accepts."""
LIMIT = 16
SMALL = {
    **UNLIMITED,
    "limits": {field.encode_name: LIMIT for field in msgspec.structs.fields(PodLimits)},
}
BUDGET = 750_000
"""Operations of one step, about 10 ms, for what the users of a namespace may write."""
BUDGET_OF_ADMINISTRATORS = 10_000_000
"""For what kubelets and administrators write: nodes, volumes, storage classes, namespaces."""
BOUNDED = {"NodeResourceTopology zones": MAX_CELLS}
ACCEPTED = {"ResourceClaim status.allocation.devices.results": 32}
"""Entries of lists of which the API server takes no more, where more would exceed the budget."""


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits and pace that small objects exceed."""
    monkeypatch.setattr(slices, "PACE", LIMIT)
    monkeypatch.setattr(cache, "MAX_RESOURCES", LIMIT)
    monkeypatch.setattr(volumes, "MONITORS", LIMIT)
    monkeypatch.setattr(test_law, "UNLIMITED", SMALL)


def most(field: Field) -> int:
    """How many entries fit into the largest object."""
    size = (len(json.dumps(field.object(200))) - len(json.dumps(field.object(100)))) / 100
    return min(int(LARGEST / size), ACCEPTED.get(str(field), LARGEST))


@pytest.mark.parametrize(("field", "role"), cases())
async def test_no_step_exceeds_its_budget(field: Field, role: str) -> None:
    few = max(2 * LIMIT, BOUNDED.get(str(field), 0))
    one, other = life(field, few, role).longest, life(field, 2 * few, role).longest
    growth = max(other - one, 0) / few
    budget = BUDGET if KINDS[field.kind].namespaced else BUDGET_OF_ADMINISTRATORS
    assert other + growth * most(field) <= budget


def test_there_are_fields_to_look_at() -> None:
    assert len(fields()) > 150
