"""One more pod of a known class takes few calls, from the queue to the end of its binding.

Most of what a scheduler does all day is this. Calls are counted, since time is not the same on any
two machines; whoever adds some to every pod raises the bound here, and says what for.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import pytest

import scheduler
from tests.builders import PodBuilder, constraint, make_pod, make_worker, pod_term
from tests.pipeline.support import Stage

ROOT = str(Path(scheduler.__file__).parent)
HOST, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
OWN = {"app": "web"}


def plain(name: str) -> PodBuilder:
    return make_pod(name).cpu("100m").memory("64Mi").label(**OWN)


def spread(name: str) -> PodBuilder:
    return plain(name).spread(constraint(ZONE, labelSelector={"matchLabels": OWN}))


def apart(name: str) -> PodBuilder:
    return plain(name).apart(pod_term(HOST, OWN))


class Calls:
    """Counts calls of the daemon's functions while it is entered."""

    def __init__(self) -> None:
        self.made = 0

    def __enter__(self) -> Calls:
        sys.setprofile(self._see)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _see(self, frame: FrameType, event: str, argument: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(ROOT):
            self.made += 1


@pytest.mark.parametrize(("pod", "most"), [(plain, 277), (spread, 345), (apart, 347)])
async def test_one_more_pod_takes_few_calls(pod: Callable[[str], PodBuilder], most: int) -> None:
    stage = Stage()
    labels = [{HOST: f"node-{n}", ZONE: f"zone-{n % 3}"} for n in range(30)]
    stage.see(*(make_worker(each[HOST]).label(**each) for each in labels))
    for number in range(12):
        stage.see(pod(f"pod-{number}"))
        with Calls() as calls:
            assert stage.attempt() is not None
            await stage.idle()
    assert len(stage.outlet.bound) == 12
    assert 100 < calls.made <= most
