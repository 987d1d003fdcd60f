"""What caches hold shows in metrics, by name."""

from __future__ import annotations

from scheduler.bounded import Usage
from scheduler.observe.metrics import Metrics


def test_usage_is_read_at_the_moment_of_a_scrape() -> None:
    metrics, held = Metrics(), 1
    metrics.caches.follow("shop", lambda: {"shelf": Usage(held, 10 * held, 2)})
    held = 3
    read = metrics.registry.get_sample_value
    assert read("equipoise_cache_entries", {"cache": "shelf"}) == 3
    assert read("equipoise_cache_bytes", {"cache": "shelf"}) == 30
    assert read("equipoise_cache_evictions_total", {"cache": "shelf"}) == 2


def test_caches_of_one_name_are_added_up_and_a_source_can_be_replaced() -> None:
    metrics = Metrics()
    metrics.caches.follow("one", lambda: {"shelf": Usage(1, 10)})
    metrics.caches.follow("two", lambda: {"shelf": Usage(2, 20, 5)})
    assert metrics.caches.usage() == {"shelf": Usage(3, 30, 5)}
    metrics.caches.follow("two", lambda: {"box": Usage(7, 70)})
    assert metrics.caches.usage() == {"shelf": Usage(1, 10), "box": Usage(7, 70)}
