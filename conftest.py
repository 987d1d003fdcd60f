"""What all tests share, wherever they are run from."""

from __future__ import annotations

import gc
import signal

import pytest

# A shell that starts something in the background has it ignore Ctrl-C, and so would the programs
# that tests start and interrupt.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_finish() -> None:
    """Thousands of collected tests are no garbage: collections in tests need not look at them."""
    gc.collect()
    gc.freeze()


def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """Nor at what the tests of other modules have left in caches: that adds up to a million."""
    if nextitem is None or nextitem.path != item.path:
        gc.collect()
        gc.freeze()
