"""ImageLocality: prefer nodes that need not pull."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from scheduler.equivalence.reads import Key, Reads
from scheduler.model.podinfo import PodInfo
from scheduler.plugin_api import MAX_SCORE, Handle
from scheduler.plugin_api.cycle import Cycle
from scheduler.plugin_api.traits import PluginTraits
from scheduler.plugins.names import IMAGE_LOCALITY
from scheduler.state.aspects import Aspect
from scheduler.state.columns import Rows, Scores

_MIB = 1024 * 1024
_FLOOR = 23 * _MIB
_CEILING_PER_CONTAINER = 1000 * _MIB


class ImageLocality:
    """Counts the bytes already there, each image weighed by how many nodes have it.

    Without that weighing, all pods of an image would pile up on the first node that pulled it.
    """

    name = IMAGE_LOCALITY

    traits = PluginTraits(absolute=True)
    score_reads = Reads(cluster=frozenset({Aspect.IMAGES, Aspect.NODE}), claims=False)

    def __init__(self, args: Any, handle: Handle) -> None: ...

    def score_key(self, pod: PodInfo) -> Key:
        """The images, and how many containers share them."""
        spec = pod.pod.spec
        return (pod.images, len(spec.init_containers) + len(spec.containers))

    def score(self, cycle: Cycle, rows: Rows) -> Scores:
        """0 below 23 MiB of local images, 100 from 1000 MiB per container on."""
        state = cycle.state
        uses = Counter(cycle.pod.images)
        images = [(image, uses[name]) for name in uses if (image := state.images.get(name))]
        if not images:
            return np.zeros(len(rows), np.int64)
        present: Scores = np.zeros(state.columns.capacity, np.int64)
        for image, times in images:
            spread = len(image.rows) / state.node_count
            present[list(image.rows)] += times * int(image.size * spread)
        spec = cycle.pod.pod.spec
        ceiling = _CEILING_PER_CONTAINER * (len(spec.init_containers) + len(spec.containers))
        local = np.clip(present[rows], _FLOOR, max(ceiling, _FLOOR))
        return MAX_SCORE * (local - _FLOOR) // max(ceiling - _FLOOR, 1)

    def normalize(self, cycle: Cycle, scores: Scores) -> Scores:
        """Scores lie within 0..100 already."""
        return scores
