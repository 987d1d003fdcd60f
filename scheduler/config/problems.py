"""Problems of a configuration: path, message, and the nearest valid name."""

import difflib
import json
from collections.abc import Iterable
from typing import Any, NamedTuple

_LONGEST_VALUE = 60


class ConfigProblem(NamedTuple):
    """One finding: where (`profiles[0].plugins.score`) and what."""

    path: str
    message: str

    def __str__(self) -> str:
        return f"{self.path}: {self.message}" if self.path else self.message


class ConfigError(ValueError):
    """The configuration cannot be used; `problems` lists every reason."""

    def __init__(self, problems: Iterable[ConfigProblem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(map(str, self.problems)))


def join(path: str, name: str) -> str:
    """The path of a field inside the object at `path`."""
    return f"{path}.{name}" if path else name


def show(value: Any) -> str:
    """A value as its author wrote it, shortened when long."""
    try:
        text = json.dumps(value, default=str, ensure_ascii=False)
    except ValueError:  # YAML has integers of more digits than Python writes, and may be recursive
        return "a value that is too long to be shown"
    return text if len(text) <= _LONGEST_VALUE else text[: _LONGEST_VALUE - 1] + "…"


def suggest(name: str, valid: Iterable[str]) -> str:
    """` (did you mean "x"?)`, or the valid names where none is near; starts with a space."""
    by_folded = {v.lower(): v for v in valid}
    near = difflib.get_close_matches(name.lower(), by_folded, n=1)
    if near:
        return f' (did you mean "{by_folded[near[0]]}"?)'
    return f" (expected one of {', '.join(sorted(by_folded.values()))})" if by_folded else ""
