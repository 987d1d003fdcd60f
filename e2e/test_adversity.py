"""Attacks on the real daemon: the leader keeps the lease, no replica ends, others find nodes.

`make adversity` carries out all of them and shows how long things took.
"""

from pathlib import Path

import pytest

from e2e.adversity.attacks import ALL, Attack, run


@pytest.mark.parametrize("attack", [each for each in ALL if each.quick], ids=lambda each: each.name)
async def test_attack(attack: Attack, tmp_path: Path) -> None:
    assert (await run(attack, tmp_path)).faults == []
