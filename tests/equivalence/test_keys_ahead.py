"""Keys that are derived ahead, with checkpoints: changes meanwhile do not make them wrong."""

from __future__ import annotations

import pytest

from scheduler.equivalence import classes
from tests.builders import make_worker
from tests.cost.long_pods import claims_of, pod_with
from tests.cost.test_combinations import Written
from tests.pipeline.support import Stage
from tests.plugins.storage import a_class

SERVICE = {
    "kind": "Service",
    "metadata": {"name": "s", "namespace": "default"},
    "spec": {"selector": {"t-0": "yes"}},
}
"""It decides by what labels a pod without constraints of its own is spread."""


def stage() -> Stage:
    scene = Stage()
    scene.see(make_worker("n"), Written(a_class("late")))
    return scene


@pytest.mark.parametrize("another", [False, True], ids=["alone", "asked for by another task"])
@pytest.mark.parametrize("moment", [0, 7, 8, 13, 17])
async def test_a_change_at_any_checkpoint_is_in_the_class(
    moment: int, another: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    volumes, claims = claims_of("t")
    pod = Written(pod_with(("volumes", "tolerations"), "t"))
    scene, passed = stage(), 0
    scene.see(*map(Written, claims), pod)
    cache = scene.core.scheduler.class_cache
    queued = scene.core.queue.pop()
    assert cache is not None
    assert queued is not None
    attempt = scene.core.scheduler.new_attempt(queued)

    def change() -> None:
        nonlocal passed
        if passed == moment:
            scene.see(*map(Written, volumes), Written(SERVICE))
            if another:
                scene.core.scheduler.class_of(scene.core.scheduler.new_attempt(queued))
        passed += 1

    monkeypatch.setattr(classes, "checkpoint", change)
    cache.derive_keys(queued.info)
    assert passed > moment, "the change came in the midst of it"
    found = scene.core.scheduler.class_of(attempt)

    other = stage()
    other.see(*map(Written, claims), *map(Written, volumes), Written(SERVICE), pod)
    entry = other.core.queue.pop()
    assert entry is not None
    expected = other.core.scheduler.class_of(other.core.scheduler.new_attempt(entry))
    assert found is not None
    assert expected is not None
    assert found.identity == expected.identity
