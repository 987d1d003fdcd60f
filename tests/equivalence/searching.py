"""How long random histories are, how many there are, and what happens in them.

``EQUIPOISE_LAW_EXAMPLES`` and ``EQUIPOISE_LAW_STEPS`` make a search longer. What is found is shown
as it was found, because shrinking takes minutes; ``EQUIPOISE_LAW_SHRINK=1`` asks for it.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st

from tests.equivalence.things import KINDS

EXAMPLES = int(os.environ.get("EQUIPOISE_LAW_EXAMPLES", "16"))
STEPS = int(os.environ.get("EQUIPOISE_LAW_STEPS", "30"))
SHRINKS = bool(os.environ.get("EQUIPOISE_LAW_SHRINK"))

SETTINGS = settings(
    max_examples=EXAMPLES,
    stateful_step_count=STEPS,
    deadline=None,
    phases=tuple(Phase) if SHRINKS else (Phase.explicit, Phase.reuse, Phase.generate),
    report_multiple_bugs=False,
    suppress_health_check=list(HealthCheck),
)
SHORTER = settings(SETTINGS, max_examples=max(EXAMPLES // 4, 4))

Change = tuple[str, str, dict[str, int]]
"""Kind, name, and the traits that change."""


@st.composite
def changes(draw: st.DrawFn, *kinds: str) -> Change:
    """An object that comes or changes."""
    kind = draw(st.sampled_from(kinds))
    name = draw(st.sampled_from(KINDS[kind].names))
    traits = st.sampled_from(KINDS[kind].traits)
    return kind, name, draw(st.dictionaries(traits, st.integers(0, 2), min_size=1, max_size=2))
