"""``python -m bench.core.gangs``: how long a pass over one gang takes, beside a fixed loop.

CPU times of the one thread there is, during which nothing else is scheduled.
"""

from __future__ import annotations

import argparse
import asyncio
import time

from bench.core.micro import calibrate
from tests.builders import make_node
from tests.gangs.support import gang_stage, make_group, member
from tests.pipeline.support import Stage


def world(nodes: int, cpus: int, members: int, *, alike: bool = True) -> Stage:
    """Empty nodes and a complete gang, each member of which asks for about one CPU."""
    stage = gang_stage()
    stage.see(*(make_node(f"n{i}").cpu(str(cpus)).memory("64Gi") for i in range(nodes)))
    stage.see(make_group("g", members))
    sizes = ("1" if alike else f"{1000 + i}m" for i in range(members))
    stage.see(*(member(f"p{i}", cpu=size) for i, size in enumerate(sizes)))
    return stage


async def timed_pass(stage: Stage, result: str) -> float:
    """CPU milliseconds of one pass, which must have this result."""
    started = time.thread_time()
    stage.attempt()
    elapsed = time.thread_time() - started
    assert stage.sample("equipoise_gang_passes_total", result=result) == 1
    await stage.idle()
    return elapsed * 1000


async def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=5000)
    nodes = parser.parse_args().nodes
    print(f"{'a pass over':<48} {'CPU ms':>9} {'calibration':>12}")
    for what, stage, result in (
        ("500 equal members", world(nodes, 8, 500), "placed"),
        ("2,000 equal members", world(nodes, 8, 2000), "placed"),
        ("500 members, each unlike the others", world(nodes, 8, 500, alike=False), "placed"),
        ("500 equal members, room for 450, all undone", world(450, 1, 500), "unplaced"),
    ):
        milliseconds = await timed_pass(stage, result)
        print(f"{what:<48} {milliseconds:>9.1f} {calibrate(rounds=200):>12.3f}")


if __name__ == "__main__":
    asyncio.run(main())
