"""What is not in use costs a pod nothing: no call in an attempt at a pod whose equals are known."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import pytest

import scheduler
from tests.builders import PodBuilder, constraint, make_pod, make_worker, pod_term
from tests.pipeline.support import Stage

ROOT = Path(scheduler.__file__).parent
IDLE = ("cel", "devices", "dra", "explaining", "flow", "recording", "replaying")
HOST = "kubernetes.io/hostname"
OWN = {"app": "web"}


def calls(stage: Stage) -> Counter[str]:
    """The modules of the daemon that an attempt calls, and how often."""
    found: Counter[str] = Counter()

    def enter(frame: FrameType, event: str, argument: object) -> None:
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(ROOT):
            found[path.relative_to(ROOT).as_posix()] += 1

    before = sys.getprofile()
    sys.setprofile(enter)
    try:
        assert stage.attempt() is not None
    finally:
        sys.setprofile(before)
    return found


def plain(name: str) -> PodBuilder:
    return make_pod(name).cpu("100m").memory("64Mi").label(**OWN)


def spread(name: str) -> PodBuilder:
    return plain(name).spread(constraint(HOST, labelSelector={"matchLabels": OWN}))


def apart(name: str) -> PodBuilder:
    return plain(name).apart(pod_term(HOST, OWN))


@pytest.mark.parametrize("pod", [plain, spread, apart])
async def test_an_attempt_calls_nothing_of_what_the_pod_does_not_use(
    pod: Callable[[str], PodBuilder],
) -> None:
    stage = Stage()
    stage.see(*(make_worker(f"node-{n}").label(**{HOST: f"node-{n}"}) for n in range(4)))
    for name in ("first", "second", "third"):  # the first brings terms that classes depend on
        stage.see(pod(name))
        called = calls(stage)
        await stage.idle()
    assert len(stage.outlet.bound) == 3
    assert called["pipeline/scheduler.py"], "calls are counted"
    assert {path: n for path, n in called.items() if path.split("/")[0] in IDLE} == {}


async def test_a_pod_that_may_need_devices_is_asked_about_each_time() -> None:
    """The counterpart."""
    stage = Stage()
    stage.see(make_worker("node"))
    for name in ("first", "second"):
        stage.see(plain(name).request("deviceclass.resource.kubernetes.io/gpu", 1))
        assert calls(stage)["dra/plugin.py"]
        await stage.idle()
