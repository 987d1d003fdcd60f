"""Normalisation that several score plugins share."""

from __future__ import annotations

import numpy as np

from scheduler.plugin_api.extension_points import MAX_SCORE
from scheduler.state.columns import Scores


def normalize_by_max(scores: Scores, *, reverse: bool = False) -> Scores:
    """Scores as a share of the highest one, 0..100; ``reverse`` makes the lowest the best.

    Integer division truncates. When all are zero they stay zero, or are all 100 in reverse.
    """
    highest = int(scores.max(initial=0))
    if highest == 0:
        return np.full_like(scores, MAX_SCORE) if reverse else scores
    shares = scores * MAX_SCORE // highest
    return MAX_SCORE - shares if reverse else shares
