"""``CHANGELOG.md`` as programs read it: a section for each version, the newest first."""

import re
from dataclasses import dataclass
from pathlib import Path

from shipping.helm import PROJECT

FILE = PROJECT / "CHANGELOG.md"
UNRELEASED = "Unreleased"

_HEADING = re.compile(r"^## (?P<version>\S+)(?: - (?P<date>\S+))?$", re.M)


@dataclass(frozen=True)
class Section:
    """What changed in one version; one that is not out yet has no date."""

    version: str
    date: str
    text: str

    @property
    def kinds(self) -> list[str]:
        """The headings inside: Added, Fixed …"""
        return re.findall(r"^### (.*)$", self.text, re.M)


def sections(file: Path = FILE) -> list[Section]:
    """All sections in the order of the file."""
    text = file.read_text()
    headings = list(_HEADING.finditer(text))
    ends = [heading.start() for heading in headings[1:]] + [len(text)]
    return [
        Section(heading["version"], heading["date"] or "", text[heading.end() : end].strip())
        for heading, end in zip(headings, ends, strict=True)
    ]


def notes(version: str) -> Section:
    """The section of a version, or that of what is not released yet; raises LookupError."""
    found = {section.version: section for section in sections()}
    if section := found.get(version, found.get(UNRELEASED)):
        return section
    raise LookupError(f"{FILE.name} has neither a section {version} nor {UNRELEASED}")
