"""Attacks on the real daemon: the leader keeps the lease, no replica ends, others find nodes.

`make adversity` carries out all of them and shows how long things took.
"""

from pathlib import Path

import pytest

from e2e.adversity.attacks import ALL, Attack, all_of, run
from e2e.harness.objects import is_bound, pod


@pytest.mark.parametrize("attack", [each for each in ALL if each.quick], ids=lambda each: each.name)
async def test_attack(attack: Attack, tmp_path: Path) -> None:
    assert (await run(attack, tmp_path, patient=True)).faults == []


def test_a_list_that_lags_behind_settles_nothing() -> None:
    bound = pod("p", nodeName="n")
    settled = all_of(2, is_bound)
    assert [settled(pods) for pods in ([], [bound], [bound, pod("q")], [bound] * 2)] == [
        *(False, False, False, True)
    ]
