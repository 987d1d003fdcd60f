"""Objects that are made outside the interpreter's arenas are objects as any other."""

from __future__ import annotations

import gc
import subprocess
import sys
import tracemalloc

import pytest

from scheduler.model.objects import Change
from scheduler.observe.arenas import OutsideArenas, own_copy, usable
from tests.builders import make_pod, make_worker
from tests.pipeline.support import Stage

LIVES = """
from scheduler.observe.arenas import OutsideArenas
outside = OutsideArenas()
def make():
    return [{str(i): (i * 1.5, [str(i) * (i % 99)])} for i in range(20_000)]
for _ in range(3):
    inside = make()
    with outside:
        made = make()
    assert made == inside
    for some in (inside, made):
        with outside:
            for i, each in enumerate(some):
                each[str(i)][1].append("more" * 200)
        for each in some[::2]:
            each.clear()
    del made, inside, some, each
print("lived")
"""


@pytest.mark.parametrize("allocator", ["pymalloc", "malloc", "debug", "pymalloc_debug"])
def test_objects_made_there_grow_and_are_freed_anywhere(allocator: str) -> None:
    """A block that went to the wrong allocator would end the process."""
    environment = {"PYTHONMALLOC": allocator, "PYTHONPATH": ":".join(sys.path)}
    command = [sys.executable, "-c", LIVES]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (0, "lived\n"), ended.stderr


def blocks_in_arenas(outside: bool) -> int:
    gc.collect()
    before = sys.getallocatedblocks()
    if outside:
        with OutsideArenas():
            made = [str(i) * 3 for i in range(10_000)]
    else:
        made = [str(i) * 3 for i in range(10_000)]
    after = sys.getallocatedblocks()
    assert len(made) == 10_000
    return after - before


@pytest.mark.skipif(not usable(), reason="objects are not in arenas here")
def test_what_is_made_there_is_not_in_arenas() -> None:
    assert blocks_in_arenas(outside=False) > 9_000
    assert blocks_in_arenas(outside=True) < 1_000


def test_a_profiler_of_memory_sees_all() -> None:
    tracemalloc.start()
    try:
        assert not usable()
        with OutsideArenas():
            made = [str(i) * 3 for i in range(10_000)]
        assert tracemalloc.get_traced_memory()[0] > 10_000 * 50
    finally:
        tracemalloc.stop()
    assert len(made) == 10_000


@pytest.mark.skipif(not usable(), reason="objects are not in arenas here")
def test_what_is_made_of_a_pod_is_not_in_arenas() -> None:
    scene = Stage()
    scene.see(make_worker("n"))
    pods = [make_pod(f"p{i}").label(app=f"a{i}").on("n").struct() for i in range(1_000)]
    changes = [Change(None, pod) for pod in pods]
    gc.collect()
    before = sys.getallocatedblocks()
    scene.core.event_handlers.handler("Pod")(changes)
    assert scene.core.state.pod_count == 1_000
    assert sys.getallocatedblocks() - before < 1_000, "not even one block a pod"


@pytest.mark.parametrize("text", ["", "a", "uid-1", "größe", "\ud800x"])
def test_a_copy_is_equal_and_another_object(text: str) -> None:
    assert own_copy(text) == text
    assert own_copy(text) is not text or len(text) < 2
