"""Small overloads: what must hold at any size. `make overload` has the large ones, with times."""

from pathlib import Path

import pytest

from e2e.overload.__main__ import BEGIN, END, with_rows
from e2e.overload.scenes import (
    ALL,
    BY_NAME,
    RETRY_SECONDS,
    Result,
    Size,
    hopeless,
    named,
    shortest_pause,
    throttled,
)
from e2e.overload.stand import quantile, stand


async def test_a_refused_binding_is_not_asked_for_before_its_time(tmp_path: Path) -> None:
    async with stand() as stage:
        await throttled(stage, tmp_path, Size(nodes=5, pods=20))
        names = named("refused", 20)
        assert sum(len(stage.bindings.asked[name]) for name in names) == 40
        assert shortest_pause(stage, names) >= RETRY_SECONDS


async def test_pods_that_fit_do_not_wait_for_those_that_do_not(tmp_path: Path) -> None:
    async with stand() as stage:
        await hopeless(stage, tmp_path, Size(nodes=20, pods=0, hopeless=300, seconds=1))
        assert len(stage.bindings.bound) == 200
        assert not any(name.startswith("hopeless") for name in stage.bindings.asked)


@pytest.mark.parametrize(
    ("counts", "expected"),
    [
        pytest.param({}, 0.0, id="nothing"),
        pytest.param({0.1: 100.0, 0.2: 100.0, float("inf"): 100.0}, 0.099, id="all in the first"),
        pytest.param({0.1: 98.0, 0.2: 100.0, float("inf"): 100.0}, 0.15, id="half of the second"),
        pytest.param({0.1: 0.0, 0.2: 50.0, float("inf"): 100.0}, 0.2, id="beyond the last"),
    ],
)
def test_quantiles_are_those_of_prometheus(counts: dict[float, float], expected: float) -> None:
    assert quantile(0.99, counts) == pytest.approx(expected)


def test_rows_replace_those_of_the_same_scene() -> None:
    old = Result(BY_NAME["burst"], 0.5, 0.5, 0.5, 10, "old")
    new = Result(BY_NAME["burst"], 0.01, 0.002, 0.003, 200, "new")
    other = Result(BY_NAME["large"], 0.01, 0.002, 0.003, 200, "other")
    page = with_rows(with_rows(f"a\n\n{BEGIN}\n{END}\n\nb\n", [old, other]), [new])
    assert "old" not in page
    assert page.index("| new |") < page.index("| other |"), "in the order of the scenes"
    assert page.startswith("a\n\n<!--")
    assert page.endswith("-->\n\nb\n")
    assert len(ALL) == 5
