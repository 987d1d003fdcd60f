"""The chart's ``values.yaml`` as its readers see it: keys, defaults and the sentence above each."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import yaml

from shipping.helm import CHART

MARK = "# --"


@dataclass(frozen=True)
class Value:
    """One key: a *leaf* has a sentence of its own, a *section* has keys that have."""

    path: tuple[str, ...]
    default: Any
    description: str
    children: tuple["Value", ...] = ()

    @property
    def name(self) -> str:
        """The path as ``--set`` takes it."""
        return ".".join(self.path)

    def leaves(self) -> Iterator["Value"]:
        """This key, or those of the section in the order of the file."""
        if not self.children:
            yield self
        for child in self.children:
            yield from child.leaves()


class ValuesFile:
    """A values file in which every key has a comment that begins with ``# --``, or is a section."""

    def __init__(self, path: Path = CHART / "values.yaml") -> None:
        self._text = path.read_text()
        self._lines = self._text.splitlines()

    @cached_property
    def values(self) -> tuple[Value, ...]:
        """The keys at the top."""
        return tuple(self._values(yaml.compose(self._text), yaml.safe_load(self._text), ()))

    def leaves(self) -> list[Value]:
        """Every documented key."""
        return [leaf for value in self.values for leaf in value.leaves()]

    def _values(self, node: Any, defaults: Any, path: tuple[str, ...]) -> Iterator[Value]:
        for key, child in node.value:
            here = (*path, key.value)
            default = defaults[key.value]
            description = self._comment_above(key.start_mark.line)
            if description:
                yield Value(here, default, description)
            elif isinstance(default, dict) and default:
                yield Value(here, default, "", tuple(self._values(child, default, here)))
            else:
                raise ValueError(f"{'.'.join(here)} has no comment that begins with {MARK!r}")

    def _comment_above(self, line: int) -> str:
        """The comment that ends right above a line, joined to one line; empty if there is none."""
        words: list[str] = []
        while line > 0 and (text := self._lines[line - 1].strip()).startswith("#"):
            line -= 1
            if text.startswith(MARK):
                return " ".join([text.removeprefix(MARK).strip(), *words])
            words.insert(0, text.removeprefix("#").strip())
        return ""
