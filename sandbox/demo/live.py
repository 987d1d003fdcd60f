"""Shows a running demo: the live screen with its keys, or lines where there is no terminal."""

from __future__ import annotations

import asyncio
import contextlib
import io
import time
from collections.abc import Callable
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from sandbox.demo.interaction import (
    Action,
    Interaction,
    Open,
    OpenNode,
    Quit,
    Reader,
    Tab,
    ToggleChurn,
)
from sandbox.demo.screen import render
from sandbox.demo.session import Demo
from sandbox.demo.terminal import Keyboard, keyboard
from sandbox.demo.view import DemoObserver, View
from scheduler import inspection

_REFRESH_SECONDS = 0.25
_SHARE = 20
"""Looking takes at most so small a part of the time: thousands of nodes are drawn less often."""
_LINE_SECONDS = 5.0
_LONGEST_EXPLANATION = 5_000

ShowExplanation = Callable[[dict[str, Any]], None]
"""Prints an explanation, as ``equipoise explain`` does."""


class LiveScreen:
    """Draws a demo several times a second, and at once when a key is pressed."""

    def __init__(
        self,
        demo: Demo,
        show_explanation: ShowExplanation,
        tier_style: Callable[[str], str],
        stop: asyncio.Event,
    ) -> None:
        self._demo = demo
        self._show_explanation = show_explanation
        self._tier_style = tier_style
        self._stop = stop
        self._observer = DemoObserver(demo)
        self._state = Interaction()
        self._view = View()

    async def run(self) -> None:
        """Until the user quits, or it is cancelled."""
        with keyboard() as keys, Live(screen=True, auto_refresh=False) as live:
            shown: list[Text] = []
            while not self._stop.is_set():
                began = time.perf_counter()
                lines = self._draw(live.console, keys is not None)
                pause = max(_REFRESH_SECONDS, _SHARE * (time.perf_counter() - began))
                if lines != shown:
                    # A terminal may be slow or stopped (Ctrl-S); the cluster goes on.
                    await asyncio.to_thread(live.update, Group(*_joined(lines)), refresh=True)
                    shown = lines
                await self._wait(keys, pause)

    def _draw(self, console: Console, keys: bool) -> list[Text]:
        nodes = self._state.tab is Tab.NODES
        if not self._state.paused or (nodes and not self._view.lines):
            self._view = self._observer.look(every_node=nodes)
        width, height = console.size
        return render(self._view, self._state, width, height, self._tier_style, keys=keys)

    async def _wait(self, keys: Keyboard | None, pause: float) -> None:
        if keys is None:
            await asyncio.sleep(pause)
            return
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(pause):
                await keys.pressed.wait()
        while (key := keys.next()) is not None:
            listed = self._state.listed
            if (action := self._state.press(key)) is not None:
                await self._act(action)
            if self._state.listed != listed:
                return  # the next key is about rows that have to be drawn first

    async def _act(self, action: Action) -> None:
        match action:
            case Quit():
                self._stop.set()
            case ToggleChurn():
                self._demo.churning = not self._demo.churning
            case OpenNode(node):
                lines = [Text(line) for line in self._observer.node(node)]
                self._state.reader = Reader(f"node {node}", lines)
            case Open(pod):
                self._state.reader = Reader(f"explain {pod}", await self._explained(pod))

    async def _explained(self, pod: str) -> list[Text]:
        daemon = self._demo.daemon
        try:
            answer = await inspection.explain(daemon.core, daemon.pods(), pod)
        except inspection.UnknownPod:
            return [Text(f"{pod} is gone.")]
        return printed(lambda: self._show_explanation(answer))


class _Paper(io.StringIO):
    """A file that wants colours."""

    def isatty(self) -> bool:
        return True


def printed(show: Callable[[], None]) -> list[Text]:
    """What a function prints on a terminal, as lines."""
    paper = _Paper()
    with contextlib.redirect_stdout(paper):
        show()
    lines = paper.getvalue().splitlines()[:_LONGEST_EXPLANATION]
    return [Text.from_ansi(line) for line in lines]


def _joined(lines: list[Text]) -> list[Text]:
    """The lines with ends, but for the last: a screen that is full must not scroll."""
    ended = [line.copy() for line in lines]
    for line in ended[:-1]:
        line.end = "\n"
    return ended


class PlainLines:
    """A line for every change of how many pods are bound, for those without a terminal."""

    def __init__(self, demo: Demo, say: Callable[[str], None]) -> None:
        self._observer = DemoObserver(demo)
        self._say = say

    async def run(self) -> None:
        """Until it is cancelled."""
        last = ""
        while True:
            view = self._observer.look(every_node=False)
            line = summary(view)
            if line != last:
                self._say(line)
                last = line
            await asyncio.sleep(_LINE_SECONDS)


def summary(view: View) -> str:
    """Everything in one line: totals, and what waits most."""
    pending = view.pods - view.bound
    line = f"{view.bound} of {view.pods} pods bound on {view.nodes} nodes, {pending} pending"
    most = sorted(view.waiting, key=lambda group: -group.count)[:3]
    reasons = "; ".join(f"{group.count} {group.like}: {group.message}" for group in most)
    return f"{line} ({reasons})" if reasons else line
