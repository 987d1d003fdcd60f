"""However many members a gang has, no step takes long when its PodGroup comes, changes or goes.

As many members as one pass takes become ready in one step: a pass over fewer would fail.
"""

from __future__ import annotations

import pytest

from scheduler.gangs import registry
from tests.builders import make_node
from tests.cost.counting import Cost
from tests.gangs.support import gang_stage, make_group, member

TOGETHER = 32
MEMBERS = 8 * TOGETHER
BUDGET = 75_000
"""Operations of one step."""


@pytest.mark.parametrize("ready", [False, True])
async def test_no_step_grows_with_the_members_of_a_gang(
    ready: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "MAX_MEMBERS", TOGETHER)
    stage, taken = gang_stage(), Cost()
    stage.see(make_node("n").cpu("1"))
    stage.see(*(member(f"m{i}") for i in range(MEMBERS)))
    assert set(stage.tiers().values()) == {"gated"}
    least = TOGETHER if ready else MEMBERS + 1
    taken.of(lambda: stage.see(make_group("g", least)))
    assert set(stage.tiers().values()) == {"active" if ready else "gated"}
    taken.of(lambda: stage.see(make_group("g", least + 1)))
    taken.of(lambda: stage.lose(make_group("g", least + 1)))
    assert taken.operations > 4 * BUDGET, "each member is looked at"
    assert taken.longest <= BUDGET
