"""What the program holds at one moment, and what may grow by how much over a run."""

from __future__ import annotations

import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from e2e.soak.trend import Allowance, Trend, trend

MEBIBYTE = 2**20
Sample = Mapping[str, float]

GAUGES = {
    "equipoise_event_loop_tasks": "tasks",
    "equipoise_equivalence_classes": "classes",
    "equipoise_equivalence_columns": "columns of classes",
}
ALLOWANCES = {
    "RSS, bytes": Allowance(0.10, 16 * MEBIBYTE),
    "file descriptors": Allowance(0.0, 8),
    "threads": Allowance(0.0, 2),
    "tasks": Allowance(0.25, 32),
    "classes": Allowance(0.0, 16_384),
    "columns of classes": Allowance(0.0, 16_384),
    "label values of metrics": Allowance(0.05, 16),
}
CACHES = Allowance(0.25, 256 * 1024)
"""Of each cache, in bytes."""
FILLING = {
    "pod_templates": 160 * MEBIBYTE,
    "pod_classes": 160 * MEBIBYTE,
    "pod_counters": 64 * MEBIBYTE,
    "spread_grounds": 64 * MEBIBYTE,
    "verdicts": 16 * MEBIBYTE,
    "verdict_history": 8 * MEBIBYTE,
    "told_failures": 16 * MEBIBYTE,
    "event_series": 20 * MEBIBYTE,
    "decisions": 6 * MEBIBYTE,
    "samples": 2 * MEBIBYTE,
    "equivalence_columns": 64 * MEBIBYTE,
    "change_log": 16 * MEBIBYTE,
    "affinity_sayings": 16 * MEBIBYTE,
    "pod_counters_of_groups": 16 * MEBIBYTE,
    "affinity_terms_about_groups": 16 * MEBIBYTE,
}
"""Caches that keep what is past until they are full, and the bytes at which they are."""


def take(url: str, pid: int) -> dict[str, float]:
    """A sample of a running program."""
    with urllib.request.urlopen(f"{url}/metrics", timeout=60) as answer:
        text = answer.read().decode()
    process = Path("/proc") / str(pid)
    status = (process / "status").read_text()
    found: dict[str, float] = {
        "RSS, bytes": 1024.0 * int(status.partition("VmRSS:")[2].split()[0]),
        "threads": float(status.partition("Threads:")[2].split()[0]),
        "file descriptors": float(len(list((process / "fd").iterdir()))),
        "label values of metrics": 0.0,
    }
    for family in text_string_to_metric_families(text):
        for each in family.samples:
            found["label values of metrics"] += 1
            if each.name in GAUGES:
                found[GAUGES[each.name]] = each.value
            elif each.name == "equipoise_cache_bytes":
                found[f"cache {each.labels['cache']}, bytes"] = each.value
    return found


def trends(samples: Sequence[Sample]) -> list[Trend]:
    """Of all series; what caches that fill up have grown by is allowed to memory as well."""
    names = sorted({name for each in samples for name in each})
    caches = [
        _of_cache(name, [each.get(name, 0.0) for each in samples])
        for name in names
        if name.startswith("cache ")
    ]
    filled = sum(each.growth for each in caches if each.flat)
    extra = {"RSS, bytes": filled}
    others = [
        trend(name, [each.get(name, 0.0) for each in samples], allowance, extra.get(name, 0.0))
        for name, allowance in ALLOWANCES.items()
    ]
    return [*others, *caches]


def _of_cache(name: str, series: Sequence[float]) -> Trend:
    bound = FILLING.get(name.removeprefix("cache ").removesuffix(", bytes"))
    found = trend(name, series, CACHES)
    if bound is None:
        return found
    return Trend(name, found.second, found.last, max(found.allowed, bound - found.second))
