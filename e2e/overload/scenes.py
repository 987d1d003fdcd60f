"""What is asked of the program, one function each; sizes are those of `make overload` or smaller.

Each scene answers what it saw in words. `run` adds how late the loop was, how long probes took and
how much memory there was.
"""

from __future__ import annotations

import asyncio
import itertools
import math
import tempfile
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from e2e.harness.objects import Json, node, pod
from e2e.overload.stand import Stand, stand

LAG_SECONDS, LIVEZ_SECONDS = 0.05, 0.1
LONG = 1_800.0
STREAM_PER_SECOND = 200
RETRY_SECONDS = 2


@dataclass(frozen=True)
class Scene:
    """One scene and its sizes."""

    name: str
    what: str
    play: Callable[[Stand, Path, Size], Awaitable[str]]
    size: Size


@dataclass(frozen=True)
class Size:
    """How much of everything."""

    nodes: int
    pods: int
    running: int = 0
    hopeless: int = 0
    seconds: int = 0


@dataclass(frozen=True)
class Result:
    """What came of a scene."""

    scene: Scene
    lag_p99: float
    livez_p99: float
    livez: float
    peak_mib: float
    seen: str

    @property
    def faults(self) -> list[str]:
        """Targets that were missed."""
        found = []
        if self.lag_p99 >= LAG_SECONDS:
            found.append(f"loop lag p99 {1000 * self.lag_p99:.0f} ms")
        if self.livez >= LIVEZ_SECONDS:
            found.append(f"/livez {1000 * self.livez:.0f} ms")
        return found


async def run(scene: Scene, size: Size | None = None) -> Result:
    """Play a scene on a cluster of its own."""
    with tempfile.TemporaryDirectory(prefix="equipoise-overload-") as directory:
        async with stand() as stage:
            seen = await scene.play(stage, Path(directory), size or scene.size)
            lag = await stage.lag_p99()
            p99, slowest = stage.livez()
            return Result(scene, lag, p99, slowest, stage.peak_mib, seen)


def nodes(size: Size) -> Iterator[Json]:
    """Ready nodes in ten zones."""
    for number in range(size.nodes):
        yield node(f"node-{number}", "32", zone=f"zone-{number % 10}")


def named(prefix: str, number: int) -> list[str]:
    """So many names."""
    return [f"{prefix}-{each}" for each in range(number)]


async def burst(stage: Stand, directory: Path, size: Size) -> str:
    """Very many equal pods at once."""
    await stage.add("nodes", nodes(size))
    await stage.begin(directory)
    names = named("burst", size.pods)
    await stage.add("pods", (pod(name, "50m", "8Mi", labels={"app": "burst"}) for name in names))
    seconds = await stage.until_bound(names, LONG)
    return f"all bound {seconds:.1f} s after the last was created"


async def large(stage: Stand, directory: Path, size: Size) -> str:
    """A cluster of the largest kind, with pods on all nodes, and some that come."""
    await stage.add("nodes", nodes(size))
    running = (
        pod(
            f"running-{each}",
            labels={"app": f"app-{each % 500}"},
            nodeName=f"node-{each % size.nodes}",
        )
        for each in range(size.running)
    )
    await stage.add("pods", running)
    await stage.begin(directory)
    names = named("new", size.pods)
    await stage.add("pods", (pod(name, labels={"app": f"app-{len(name) % 3}"}) for name in names))
    seconds = await stage.until_bound(names, LONG)
    return f"{size.pods:,} new pods bound {seconds:.1f} s after the last was created"


async def hopeless(stage: Stand, directory: Path, size: Size) -> str:
    """Pods that all differ and fit nowhere wait; others that fit come all the time."""
    await stage.add("nodes", nodes(size))
    await stage.begin(directory)
    waiting = named("hopeless", size.hopeless)
    bodies = (pod(name, f"{33_000 + each}m") for each, name in enumerate(waiting))
    await stage.add("pods", bodies)
    await stage.until_judged(waiting, LONG)
    names = await _stream(stage, size.seconds)
    await stage.until_bound(names, LONG)
    return f"pods that fit were bound after {_times(stage.waits(names))}"


async def _stream(stage: Stand, seconds: int) -> list[str]:
    """Create so many pods a second; answers their names."""
    names = named("fits", STREAM_PER_SECOND * seconds)
    loop = asyncio.get_running_loop()
    began = loop.time()
    for number, name in enumerate(names):
        await asyncio.sleep(max(0.0, began + number / STREAM_PER_SECOND - loop.time()))
        await stage.add("pods", [pod(name, "10m", "1Mi")])
    return names


async def classes(stage: Stand, directory: Path, size: Size) -> str:
    """Pods of which no two are equal, neither in requests nor in labels; then they go."""
    await stage.add("nodes", nodes(size))
    await stage.begin(directory)
    names = named("distinct", size.pods)
    bodies = (
        pod(name, f"{10 + each % 400}m", f"{1 + each // 400}Mi", labels={"app": name})
        for each, name in enumerate(names)
    )
    start = stage.rss_mib
    await stage.add("pods", bodies)
    seconds = await stage.until_bound(names, LONG)
    most = stage.rss_mib
    await stage.remove_pods(names)
    return (
        f"all bound {seconds:.1f} s after the last was created; {start:.0f} MiB before, {most:.0f} "
        "MiB when all were bound"
    )


async def throttled(stage: Stand, directory: Path, size: Size) -> str:
    """The API server's flow control refuses bindings for a while, and says when to ask again."""
    await stage.add("nodes", nodes(size))
    await stage.begin(directory)
    names = named("refused", size.pods)
    headers = {"Retry-After": str(RETRY_SECONDS)}
    # One for each pod: none is refused so often that its attempt ends and the next one asks.
    stage.server.faults.fail("POST", "/binding$", times=size.pods, status=429, headers=headers)
    await stage.add("pods", (pod(name, "10m", "1Mi") for name in names))
    seconds = await stage.until_bound(names, LONG)
    return (
        f"asked again after {shortest_pause(stage, names):.2f} s at the earliest (Retry-After: "
        f"{RETRY_SECONDS}); all bound {seconds:.1f} s after the last was created"
    )


def shortest_pause(stage: Stand, names: Sequence[str]) -> float:
    """The shortest time between two requests to bind one pod."""
    pauses = (
        later - earlier
        for name in names
        for asked in (stage.bindings.asked[name],)
        for earlier, later in itertools.pairwise(asked)
    )
    return min(pauses, default=math.inf)


def _times(waits: Sequence[float]) -> str:
    def share(number: float) -> float:
        return waits[math.ceil(number * len(waits)) - 1]

    return f"{share(0.5):.2f} s (p50), {share(0.99):.2f} s (p99), {waits[-1]:.2f} s at most"


ALL = (
    Scene("burst", "20,000 pods at once, 5,000 nodes", burst, Size(5_000, 20_000)),
    Scene(
        "large",
        "15,000 nodes, 100,000 pods on them, 2,000 more",
        large,
        Size(15_000, 2_000, running=100_000),
    ),
    Scene(
        "hopeless",
        "10,000 different pods that fit nowhere, 200 a second that fit",
        hopeless,
        Size(500, 0, hopeless=10_000, seconds=30),
    ),
    Scene("classes", "20,000 pods, each of a class of its own", classes, Size(2_000, 20_000)),
    Scene("throttled", "1,000 bindings are refused (429)", throttled, Size(500, 1_000)),
)
BY_NAME = {scene.name: scene for scene in ALL}
