"""How many examples of a property are drawn where each of them takes long."""

from __future__ import annotations

from hypothesis import settings

USUAL = 60
"""As the profile of `make test` has it."""


def few(number: int) -> int:
    """So many in `make test`; as many as the profile says if that is for thorough searches."""
    profile = settings().max_examples
    return number if profile <= USUAL else profile
