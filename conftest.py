"""What all tests share, wherever they are run from."""

from __future__ import annotations

import gc
import signal
from collections.abc import Iterator

import pytest

# A shell that starts something in the background has it ignore Ctrl-C, and so would the programs
# that tests start and interrupt.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Thousands of collected tests are no garbage: the collector need not look at them.

    Neither while they are collected, in each process that shares them, nor in tests.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.collect()
        gc.freeze()


def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Nor at what the tests of other modules have left in caches: that adds up to a million."""
    if nextitem is None or nextitem.path != item.path:
        gc.collect()
        gc.freeze()
