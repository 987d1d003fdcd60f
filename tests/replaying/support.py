"""A core whose steps are recorded, and what a replay makes of them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from scheduler.assembly import available
from scheduler.config.loading import Configuration, from_dicts
from scheduler.framework.registry import Registry
from scheduler.observe.metrics import Metrics
from scheduler.plugins.table import IN_TREE
from scheduler.recording.segments import Bounds
from scheduler.recording.tape import Tape
from scheduler.replaying.driving import ALWAYS, Replayed, Window, follow
from tests.builders import Json, PodBuilder
from tests.pipeline.evicting import EvictingOutlet
from tests.pipeline.support import FakeClock, Stage, turns

BOUNDS = Bounds(1 << 26, 1 << 24, 0.0)


class RecordedStage(Stage):
    """A stage with preemption whose core is recorded into a directory."""

    outlet: EvictingOutlet

    def __init__(
        self,
        directory: Path,
        config: tuple[Json, ...] = (),
        registry: Registry = IN_TREE,
        bounds: Bounds = BOUNDS,
        outlet: EvictingOutlet | None = None,
        *,
        begin: bool = True,
    ) -> None:
        clock = FakeClock()
        super().__init__(registry, config, outlet or EvictingOutlet(), clock)
        self.directory = directory
        self._registry = registry
        settings = self.core.config.for_others()
        self.tape = Tape(directory, bounds, settings, Metrics(), clock)
        self.tape.start()
        self.core.state.journal = self.tape
        self.pods: dict[str, PodBuilder] = {}
        if begin:
            self.core.scheduler.begin()

    async def settle(self) -> None:
        """Attempt what is ready, let bindings and evictions end, and show what came of them."""
        for _ in range(50):
            if self.attempt() is None:
                break
            await turns(3)
        await turns(8)
        for key, node in self.outlet.bound:
            name = key.split("/")[1]
            if name in self.pods:
                self.see(self.pods[name].on(node))
        self.outlet.bound.clear()
        for name in self.outlet.evicted:
            if name in self.pods:
                self.lose(self.pods.pop(name))
        self.outlet.evicted.clear()

    def replayed(self, config: Configuration | None = None, window: Window = ALWAYS) -> Replayed:
        """Close the recording, and follow it; with the configuration of the stage unless told."""
        self.tape.close()
        given = config or self.core.config
        return follow(self.directory, given, window, self._registry, exact=config is None)


def assert_equal(replayed: Replayed, decisions: int = 1) -> None:
    """All decisions, of which there are so many at least, came out the same."""
    comparison = replayed.comparison
    assert comparison.differences == []
    assert comparison.reasons == {}
    assert comparison.decisions >= decisions


def configured(*documents: Mapping[str, Any]) -> Configuration:
    return from_dicts(documents, available(IN_TREE), environ={})
