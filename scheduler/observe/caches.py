"""What all caches, indexes and queues hold, for graphs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from scheduler.bounded import Usage
from scheduler.observe.readings import Reading

Source = Callable[[], Mapping[str, Usage]]
"""Says what some caches hold, by name. Called from the thread of a scrape: it must not iterate
over what the event loop changes."""


class Caches:
    """Collects what caches hold, at the moment of a scrape."""

    def __init__(self) -> None:
        self._sources: dict[str, Source] = {}

    def follow(self, whose: str, source: Source) -> None:
        """Ask this source from now on, instead of any other of the same name."""
        self._sources[whose] = source

    def usage(self) -> dict[str, Usage]:
        """What each cache holds; those of one name, as of several profiles, together."""
        found: dict[str, Usage] = {}
        for source in list(self._sources.values()):
            for name, usage in source().items():
                before = found.get(name, Usage(0, 0))
                found[name] = Usage(*map(sum, zip(before, usage, strict=True)))
        return found

    def readings(self) -> Iterator[Reading]:
        """All of it as metrics."""
        found = self.usage()
        yield Reading(
            "equipoise_cache_bytes",
            "Memory that a cache, an index or a queue holds, about; of watched objects their JSON.",
            {name: usage.bytes for name, usage in found.items()},
            "cache",
        )
        yield Reading(
            "equipoise_cache_entries",
            "Entries of a cache, an index or a queue.",
            {name: usage.entries for name, usage in found.items()},
            "cache",
        )
        yield Reading(
            "equipoise_cache_evictions_total",
            "Entries that went to make room for others, because of a bound on bytes or entries.",
            {name: usage.evictions for name, usage in found.items()},
            "cache",
        )
