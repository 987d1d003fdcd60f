"""A terminal that gives keys one by one, and is as before when the block ends, however it ends."""

from __future__ import annotations

import asyncio
import os
import sys
import termios
import tty
from collections.abc import Iterator
from contextlib import contextmanager

_LONGEST = 64
_KEYS = {
    b"\r": "enter",
    b"\n": "enter",
    b" ": "space",
    b"\t": "tab",
    b"\x7f": "backspace",
    b"\x08": "backspace",
    b"\x1b": "escape",
    b"\x1b[A": "up",
    b"\x1b[B": "down",
    b"\x1b[C": "right",
    b"\x1b[D": "left",
    b"\x1bOA": "up",
    b"\x1bOB": "down",
    b"\x1bOC": "right",
    b"\x1bOD": "left",
    b"\x1b[5~": "page up",
    b"\x1b[6~": "page down",
    b"\x1b[H": "home",
    b"\x1b[1~": "home",
    b"\x1bOH": "home",
    b"\x1b[F": "end",
    b"\x1b[4~": "end",
    b"\x1bOF": "end",
}


def keys_in(data: bytes) -> list[str]:
    """The keys that a terminal sent; sequences that mean nothing here are left out."""
    keys, at = [], 0
    while at < len(data):
        length = _sequence(data, at)
        piece = data[at : at + length]
        at += length
        if (named := _KEYS.get(piece)) is not None:
            keys.append(named)
        elif piece[:1] != b"\x1b":
            keys += [each for each in piece.decode(errors="ignore") if each.isprintable()]
    return keys


def _sequence(data: bytes, at: int) -> int:
    """The length of the key at this place: an escape sequence, a letter of several bytes, one."""
    if data[at : at + 2] == b"\x1bO":
        return min(3, len(data) - at)
    if data[at : at + 2] == b"\x1b[":
        end = at + 2
        while end < len(data) and not 0x40 <= data[end] <= 0x7E:
            end += 1
        return end + 1 - at
    first = data[at]
    return 4 if first >= 0xF0 else 3 if first >= 0xE0 else 2 if first >= 0xC0 else 1


class Keyboard:
    """The keys that were pressed; `pressed` is set when there are some."""

    def __init__(self) -> None:
        self.pressed = asyncio.Event()
        self._waiting: list[str] = []

    def next(self) -> str | None:
        """The oldest key that was not taken yet; None if there is none."""
        if not self._waiting:
            self.pressed.clear()
            return None
        return self._waiting.pop(0)

    def feed(self, data: bytes) -> None:
        """The terminal has sent something."""
        self._waiting = [*self._waiting, *keys_in(data)][-_LONGEST:]
        self.pressed.set()


@contextmanager
def keyboard() -> Iterator[Keyboard | None]:
    """The keys of the terminal on standard input, unechoed; None if there is no terminal."""
    if not sys.stdin.isatty():
        yield None
        return
    # Opened once more: the event loop makes what it reads non-blocking, and the descriptor of
    # standard input is often that of standard output, where a slow terminal then fails a write.
    descriptor = os.open(os.ttyname(sys.stdin.fileno()), os.O_RDONLY | os.O_NOCTTY)
    loop, board = asyncio.get_running_loop(), Keyboard()
    before = termios.tcgetattr(descriptor)

    def read() -> None:
        data = os.read(descriptor, 1024)
        board.feed(data)
        if not data:  # the terminal is gone
            loop.remove_reader(descriptor)

    tty.setcbreak(descriptor, termios.TCSANOW)  # what was typed already is not lost
    settings = termios.tcgetattr(descriptor)
    # Stopped in the background, the program would leave the shell a terminal without echo.
    settings[6][termios.VSUSP] = b"\0"
    termios.tcsetattr(descriptor, termios.TCSANOW, settings)
    loop.add_reader(descriptor, read)
    try:
        yield board
    finally:
        loop.remove_reader(descriptor)
        termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
        os.close(descriptor)
