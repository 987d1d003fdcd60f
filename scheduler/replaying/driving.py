"""Reads a recording and has it followed, run by run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from scheduler.assembly import configure
from scheduler.config.loading import Configuration
from scheduler.framework.registry import Registry
from scheduler.recording import entries
from scheduler.recording.entries import AnyEntry, Header
from scheduler.recording.reader import RecordingSegment, segments
from scheduler.replaying import virtual_time
from scheduler.replaying.following import DecisionComparison, Follower
from scheduler.replaying.virtual_time import VirtualTime


class Window(NamedTuple):
    """The part of a recording that counts, in seconds since 1970."""

    begin: float = 0.0
    end: float = float("inf")


ALWAYS = Window()


class Replayed(NamedTuple):
    """What came of following a recording."""

    comparison: DecisionComparison
    first: float
    """When the recording begins, in seconds since 1970."""
    last: float
    segments: int
    restored: int
    """How often the replay began with what a segment says was there, not with an empty cluster."""
    versions: tuple[str, ...]
    """Of the programs that recorded."""
    notes: list[str]
    walls: list[tuple[int, float]]
    """From which entry on how much has to be added to times, for seconds since 1970."""

    def wall(self, number: int, time: float) -> float:
        """The time of an entry in seconds since 1970."""
        ahead = [offset for first, offset in self.walls if first <= number]
        return time + ahead[-1]


def recorded_configuration(header: Header) -> Configuration:
    """The configuration that a recording was made with. Raises ``ConfigError``."""
    return configure(header.config, environ={})


def follow(
    directory: Path,
    config: Configuration | None = None,
    window: Window = ALWAYS,
    registry: Registry | None = None,
    *,
    exact: bool = True,
) -> Replayed:
    """Take all steps of a recording again, and compare the decisions within a window.

    Without a configuration it is the one that it was recorded with; without a registry, plugins are
    those that the configuration names. Unless ``exact``, only nodes are compared, not scores.
    Raises `UnreadableRecording`, ``ConfigError``.
    """
    found = segments(directory)
    loop = VirtualTime()
    comparison = DecisionComparison(exact=exact)
    driver = _Driver(found, config, window, registry, loop, comparison)
    return virtual_time.run(driver.run(), loop)


class _Driver:
    def __init__(
        self,
        found: list[RecordingSegment],
        config: Configuration | None,
        window: Window,
        registry: Registry | None,
        loop: VirtualTime,
        comparison: DecisionComparison,
    ) -> None:
        self._segments = found
        self._config = config
        self._window = window
        self._registry = registry
        self._loop = loop
        self._comparison = comparison
        self._follower: Follower | None = None
        self._number = 0
        self._restored = 0
        self._walls: list[tuple[int, float]] = []
        self._last = 0.0

    async def run(self) -> Replayed:
        notes: list[str] = []
        before: RecordingSegment | None = None
        for segment in self._segments:
            header = segment.header
            self._walls.append((self._number, header.wall - header.time))
            if self._after(header.wall):
                break
            continues = segment.continues(before)
            await self._segment(segment, continues=continues)
            if before is not None and before.header.run == header.run and not continues:
                notes.append(f"{segment.path.name}: steps before it are missing")
            notes += segment.notes
            before = segment
        if self._follower is not None:
            notes += [f"kind {each} is not known here" for each in self._follower.unknown_kinds]
            await self._follower.close()
        first = self._segments[0].header
        versions = dict.fromkeys(each.header.version for each in self._segments)
        return Replayed(
            self._comparison,
            first.wall,
            max(self._last, first.wall),
            len(self._segments),
            self._restored,
            tuple(versions),
            notes,
            self._walls,
        )

    def _after(self, wall: float) -> bool:
        return wall > self._window.end

    async def _segment(self, segment: RecordingSegment, *, continues: bool) -> None:
        follower, steps = self._follower, segment.entries()
        there = list(_until_complete(steps))
        if follower is None or not continues:
            if follower is not None:
                await follower.close()
            config = self._config or recorded_configuration(segment.header)
            follower = Follower(config, self._loop, self._comparison, self._registry)
            self._follower = follower
            self._restored += bool(there)
            self._loop.now = segment.header.time
            await follower.restore(there)
        offset = self._walls[-1][1]
        self._number += len(there)
        for each in steps:
            wall = self._wall(each, offset)
            if self._after(wall):
                break
            self._last = max(self._last, wall)
            follower.comparing = wall >= self._window.begin
            await follower.follow(each, self._number)
            self._number += 1

    @staticmethod
    def _wall(entry: AnyEntry, offset: float) -> float:
        if isinstance(entry, entries.Header | entries.Known | entries.Held | entries.Complete):
            return 0.0
        return entry.time + offset


def _until_complete(steps: Iterator[AnyEntry]) -> Iterator[AnyEntry]:
    for each in steps:
        if isinstance(each, entries.Complete):
            return
        yield each
