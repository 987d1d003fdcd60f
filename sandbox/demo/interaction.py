"""What keys do to the live screen: pure, from a state and a key to the next state."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from rich.text import Text


class Tab(Enum):
    """The views of the screen; the value is the key that opens it."""

    OVERVIEW = "1"
    NODES = "2"
    QUEUE = "3"
    DECISIONS = "4"
    CELLS = "5"

    @property
    def title(self) -> str:
        """As the screen shows it."""
        return "NUMA cells" if self is Tab.CELLS else self.name.capitalize()


@dataclass(frozen=True)
class Open:
    """Show the explanation of a pod."""

    pod: str


@dataclass(frozen=True)
class OpenNode:
    """Show a node and its pods."""

    node: str


@dataclass(frozen=True)
class Quit:
    """Stop everything."""


@dataclass(frozen=True)
class ToggleChurn:
    """Let pods come and go, or not."""


Target = Open | OpenNode | None
"""What is behind a row."""

Action = Open | OpenNode | Quit | ToggleChurn


@dataclass
class Reader:
    """A text that is read page by page."""

    title: str
    lines: list[Text]
    top: int = 0


@dataclass
class Interaction:
    """What the user has chosen: view, row, filter, pause; and what is open above it."""

    tab: Tab = Tab.OVERVIEW
    row: int = 0
    filter: str = ""
    typing: bool = False
    paused: bool = False
    help: bool = False
    reader: Reader | None = None
    page: int = 10
    """Rows on the screen; the screen says."""
    targets: list[Target] = field(default_factory=list)
    """What is behind each row; the screen says."""

    @property
    def listed(self) -> tuple[Tab, str]:
        """What decides which rows there are; when it changes, `targets` is outdated."""
        return self.tab, self.filter

    def press(self, key: str) -> Action | None:
        """Take a key; returns what is to be done beyond the screen."""
        if self.typing:
            self._type(key)
            return None
        if self.help:
            self.help = False
            return Quit() if key == "q" else None
        if self.reader is not None:
            return self._read(self.reader, key)
        return self._choose(key)

    def _type(self, key: str) -> None:
        match key:
            case "enter":
                self.typing = False
            case "escape":
                self.typing, self.filter = False, ""
            case "backspace":
                self.filter = self.filter[:-1]
            case _ if len(key) == 1 and key.isprintable():
                self.filter = (self.filter + key)[:60]
        self.row = 0

    def _read(self, reader: Reader, key: str) -> Action | None:
        if key in ("escape", "enter", "left", "h", "backspace", "q"):
            self.reader = None
        elif key in _STEPS:
            bottom = max(0, len(reader.lines) - self.page)
            reader.top = _moved(reader.top, key, self.page, bottom)
        return None

    def _choose(self, key: str) -> Action | None:
        match key:
            case "q":
                return Quit()
            case "c":
                return ToggleChurn()
            case "?":
                self.help = True
            case "/":
                self.typing = True
            case "space":
                self.paused = not self.paused
            case "escape":
                self.filter, self.row = "", 0
            case "tab" | "right" | "left":
                tabs = list(Tab)
                step = -1 if key == "left" else 1
                self._open(tabs[(tabs.index(self.tab) + step) % len(tabs)])
            case "enter" if self.row < len(self.targets):
                return self.targets[self.row]
            case _ if key in _STEPS:
                self.row = _moved(self.row, key, self.page, max(0, len(self.targets) - 1))
            case _ if key in {tab.value for tab in Tab}:
                self._open(Tab(key))
        return None

    def _open(self, tab: Tab) -> None:
        self.tab, self.row = tab, 0


_STEPS = {"up": -1, "k": -1, "down": 1, "j": 1, "page up": 0, "page down": 0, "home": 0, "end": 0,
          "g": 0, "G": 0}  # fmt: skip


def _moved(position: int, key: str, page: int, last: int) -> int:
    target = {
        "page up": position - page,
        "page down": position + page,
        "home": 0,
        "g": 0,
        "end": last,
        "G": last,
    }.get(key, position + _STEPS[key])
    return max(0, min(last, target))
