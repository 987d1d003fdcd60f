"""What all tests share: how hard Hypothesis tries, and whose asserts pytest rewrites."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from tests.examples import USUAL
from tests.patience import PATIENCE

# Examples take as long as the machine lets them: deadlines would only measure the neighbours. The
# same code gets the same examples, so that a change is judged by what it changed; whoever looks for
# faults, old ones included, says HYPOTHESIS_PROFILE=search or thorough.
settings.register_profile(
    "search", deadline=None, max_examples=USUAL, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("default", settings.get_profile("search"), derandomize=True)
settings.register_profile("thorough", settings.get_profile("search"), max_examples=2000)
PROFILE = os.environ.get("HYPOTHESIS_PROFILE", "default")
settings.load_profile(PROFILE)

# Before any test is collected: a module that was imported already cannot be rewritten.
pytest.register_assert_rewrite("tests.apicontract")


@pytest.fixture(autouse=True, scope="session")
def recordings_are_written_to_their_end() -> Iterator[None]:
    """Wait for a slow disk: a replica that ends gives up on it, and its recording is shorter."""
    with pytest.MonkeyPatch.context() as patience:
        patience.setattr("scheduler.recording.tape.CLOSE_SECONDS", PATIENCE)
        yield


@pytest.fixture(autouse=True, scope="session")
def daemons_leave_the_collector_alone() -> Iterator[None]:
    """A daemon freezes all that is alive. Here that is what thousands of tests have left.

    To be freed after its test it would have to be unfrozen with all the rest, and each daemon would
    look at a million objects. `tests/observe` is about freezing, and e2e runs whole processes.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("scheduler.process.freeze_while_syncing", lambda sync: sync)
        patch.setattr("scheduler.process.freeze_after_sync", lambda: None)
        yield


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let thousands of examples take as long as they take."""
    if PROFILE == "thorough":
        for item in items:
            item.add_marker(pytest.mark.timeout(0))
