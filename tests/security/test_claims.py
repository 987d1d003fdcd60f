"""Every claim of docs/security.md has tests, the tests exist, and the page says what the data say.

Whether a claim holds is what its own tests find out.
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import msgspec
import pytest

from shipping.docs import security_page
from shipping.docs.security_page import Claim, claims
from shipping.helm import PROJECT

ALL = [(section.title, claim) for section in claims().sections for claim in section.claims]


@cache
def known_tests(file: Path) -> frozenset[str]:
    """The tests of a module, those of classes as ``Class::test``."""
    return frozenset(_tests(ast.parse(file.read_text()).body, ""))


def _tests(body: list[ast.stmt], prefix: str) -> list[str]:
    found = []
    for each in body:
        if isinstance(each, ast.ClassDef):
            found += _tests(each.body, f"{prefix}{each.name}::")
        elif isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef):
            found += [f"{prefix}{each.name}"] if each.name.startswith("test_") else []
    return found


def missing(claim: Claim) -> list[str]:
    """The tests of a claim that do not exist."""
    split = (test.partition("::") for test in claim.tests)
    return [
        f"{file}::{name}"
        for file, _, name in split
        if not (PROJECT / file).is_file() or name not in known_tests(PROJECT / file)
    ]


@pytest.mark.parametrize(("section", "claim"), ALL, ids=[each.claim for _, each in ALL])
def test_every_claim_has_tests_that_exist(section: str, claim: Claim) -> None:
    assert claim.tests
    assert missing(claim) == []


def test_a_test_that_does_not_exist_is_found() -> None:
    here = "tests/security/test_claims.py"
    gone = Claim("?", (f"{here}::test_gone", "tests/none.py::test_x", f"{here}::missing"))
    assert missing(gone) == list(gone.tests)


def test_the_page_is_current() -> None:
    assert security_page.PAGE.read_text() == security_page.page(), "run make docs"


def test_a_new_claim_is_on_the_page() -> None:
    said = claims()
    new = Claim("Nobody can fly.", ("tests/birds.py::test_wings",))
    first = msgspec.structs.replace(said.sections[0], claims=(new,))
    page = security_page.page(msgspec.structs.replace(said, sections=(first,)))
    assert "| Nobody can fly. | [wings](../tests/birds.py) |" in page


def test_a_claim_without_tests_is_no_claim(tmp_path: Path) -> None:
    file = tmp_path / "claims.yaml"
    text = security_page.CLAIMS.read_text()
    file.write_text(text.replace("        tests:", "        proof:"))
    with pytest.raises(msgspec.ValidationError, match=r"unknown field `proof`|missing"):
        claims(file)
