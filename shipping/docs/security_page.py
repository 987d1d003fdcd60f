"""docs/security.md: who can talk to what, what each of them can do, and the tests that hold it."""

from __future__ import annotations

from pathlib import Path

import msgspec

from scheduler.model.limits import PodLimits
from shipping.docs.configuration_page import rows
from shipping.helm import PROJECT

PAGE = PROJECT / "docs" / "security.md"
CLAIMS = PROJECT / "tests" / "security" / "claims.yaml"


class Way(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A connection to or from the scheduler: who uses it, and how it is protected."""

    way: str
    who: str
    authentication: str
    authorisation: str
    tls: str


class Claim(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A sentence, and the tests that fail where it does not hold."""

    claim: str
    tests: tuple[str, ...]


class Threat(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A possible attacker: what they can do, and what they cannot."""

    title: str
    text: str
    claims: tuple[Claim, ...]


class Claims(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All that the page says."""

    intro: str
    ways: tuple[Way, ...]
    sections: tuple[Threat, ...]


def claims(file: Path = CLAIMS) -> Claims:
    """What is claimed; raises msgspec.ValidationError for a field that is missing or unknown."""
    return msgspec.yaml.decode(file.read_bytes(), type=Claims)


def page(said: Claims | None = None) -> str:
    """The whole page."""
    said = said or claims()
    lines = ["# Security", "", *said.intro.splitlines(), "", "## Who can talk to what", ""]
    lines += ["| Connection | Who | Authentication | Authorization | TLS |"]
    lines += ["|---|---|---|---|---|"]
    for each in said.ways:
        lines.append(f"| {' | '.join(msgspec.structs.astuple(each))} |")
    for section in said.sections:
        lines += ["", f"## {section.title}", "", *section.text.splitlines(), ""]
        lines += ["| Claim | Test |", "|---|---|"]
        lines += [f"| {each.claim} | {_tests(each)} |" for each in section.claims]
        if section is said.sections[0]:
            lines += ["", *_limits()]
    return "\n".join([*lines, ""])


def _tests(claim: Claim) -> str:
    named = (test.partition("::") for test in claim.tests)
    return ", ".join(f"[{name.removeprefix('test_')}](../{file})" for file, _, name in named)


def _limits() -> list[str]:
    """What bounds a pod, with the settings' defaults and meanings."""
    lines = ["### Bounds of one pod", "", "| Setting | Default | What it bounds |", "|---|---|---|"]
    for path, default, meaning in rows(PodLimits, "limits."):
        lines.append(f"| `{path}` | {default} | {meaning} |")
    return lines


def write() -> None:
    """Write the page."""
    PAGE.write_text(page())
