"""The bugs that tests found in this project, and whether what reproduces each of them exists."""

from __future__ import annotations

import importlib.util
import re
import shlex
from pathlib import Path
from typing import Literal, get_args

import msgspec

from shipping.helm import PROJECT
from tests.references import names_in

FILE = Path(__file__).parent / "bugs.yaml"
FoundBy = Literal["sim", "faults", "fuzz", "soak", "overload", "adversity", "laws"]
"""Which tests found it; `laws` are Hypothesis' random histories."""
FINDERS: tuple[str, ...] = get_args(FoundBy)
SENTENCE = re.compile(r"[^|\n]{10,500}\.")


class Bug(msgspec.Struct, frozen=True, rename="kebab", forbid_unknown_fields=True):
    """One entry: what went wrong, what was done about it, and what shows it without the mending."""

    found_by: FoundBy
    what: str
    """What a user would have seen; a sentence."""
    mended: str
    """What the program does instead; a sentence."""
    reproduce: str
    """A test (``tests/…/test_x.py::test_y``) or a command (``make sim SEED=7``)."""


def load(text: str | None = None) -> list[Bug]:
    """All of them, by finder and then in the order of the file; an error names entry and field."""
    entries = msgspec.yaml.decode(FILE.read_text() if text is None else text, type=list[Bug])
    for number, each in enumerate(entries):
        for name, sentence in (("what", each.what), ("mended", each.mended)):
            if not SENTENCE.fullmatch(sentence):
                raise ValueError(f"$[{number}].{name}: want one line that ends with a full stop")
    return sorted(entries, key=lambda each: FINDERS.index(each.found_by))


def exists(reproduce: str) -> bool:
    """Whether there is such a test, or such a command."""
    if "::" in reproduce:
        return _test_exists(reproduce)
    words = [word for word in shlex.split(reproduce) if not re.match(r"[A-Z_]+=", word)]
    if words[:2] == ["python", "-m"]:
        return len(words) > 2 and importlib.util.find_spec(words[2]) is not None
    targets = re.findall(r"^([a-z][a-z0-9-]*):", (PROJECT / "Makefile").read_text(), re.M)
    return words[0] == "make" and len(words) > 1 and set(words[1:]) <= set(targets)


def _test_exists(node: str) -> bool:
    file, *names = re.sub(r"\[.*\]$", "", node).split("::")
    path = PROJECT / file
    return path.is_file() and path.name.startswith("test_") and set(names) <= names_in(path)
