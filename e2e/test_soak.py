"""Half a minute of churn on real processes leaves nothing growing; `make soak` takes half an hour.

What counts as flat is tested without processes.
"""

from pathlib import Path

import pytest

from e2e.soak.running import soak
from e2e.soak.samples import ALLOWANCES, trends
from e2e.soak.trend import Allowance, trend

SECONDS, SAMPLES = 25.0, 24
NOISE = [0, 9, -7, 3, -2, 8, -9, 1] * 8
EVEN = dict.fromkeys(ALLOWANCES, 1000.0)


async def test_churn_leaves_nothing_growing(tmp_path: Path) -> None:
    done = await soak(tmp_path, SECONDS, number=SAMPLES)
    assert done.placed > 0
    assert done.grown == []


@pytest.mark.parametrize(
    ("series", "flat"),
    [
        pytest.param([1_000.0 + each for each in NOISE], True, id="noise"),
        pytest.param([10.0 * min(each, 16) for each in range(64)], True, id="warming up"),
        pytest.param([1_000.0 + 900 * (each % 8 == 0) for each in range(64)], True, id="peaks"),
        pytest.param([1_000.0 - 5 * each for each in range(64)], True, id="falling"),
        pytest.param([1_000.0 + 5 * each for each in range(64)], False, id="a slow leak"),
        pytest.param(
            [1_000.0 + 5 * i + n for i, n in enumerate(NOISE)], False, id="a leak behind noise"
        ),
        pytest.param([1_000.0] * 40 + [1_200.0] * 24, False, id="a step that stays"),
    ],
)
def test_what_is_flat(series: list[float], flat: bool) -> None:
    assert trend("it", series, Allowance(0.1, 20)).flat is flat


def test_too_few_samples_say_nothing() -> None:
    with pytest.raises(ValueError, match="too few"):
        trend("it", [1.0] * 7, Allowance(0.1, 0))


def test_a_cache_may_fill_up_to_its_bound_and_memory_with_it() -> None:
    name = "cache told_failures, bytes"
    samples = [{**EVEN, "RSS, bytes": 1e8 + 2e5 * i, name: 2e5 * i} for i in range(64)]
    assert all(each.flat for each in trends(samples))
    unknown = [{**each, "cache new, bytes": each[name], name: 0.0} for each in samples]
    assert {each.name for each in trends(unknown) if not each.flat} == {"cache new, bytes"}
    leaking = [{**EVEN, "RSS, bytes": 1e8 + 2e6 * i} for i in range(64)]
    assert [each.name for each in trends(leaking) if not each.flat] == ["RSS, bytes"]
