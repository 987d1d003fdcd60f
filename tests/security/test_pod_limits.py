"""Every list and map of a pod has a bound, also those that are added to the model later."""

from __future__ import annotations

import pytest

from scheduler.model.limits import DEFAULT_LIMITS, excess
from scheduler.model.objects import from_dict
from scheduler.model.pods import Pod
from tests.cost.fields import Field
from tests.security.pod_fields import bound, most, pod_fields, written


@pytest.mark.parametrize("field", pod_fields(), ids=str)
def test_every_list_of_a_pod_has_a_bound(field: Field) -> None:
    number, _ = bound(field)
    assert number < most(field)
    few = from_dict(written(field, min(number // 2, 64)), Pod)
    assert excess(few, DEFAULT_LIMITS) == (), "what is far below the bound is let through"
