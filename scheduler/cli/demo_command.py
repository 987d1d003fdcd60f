"""``equipoise demo``: see it work, without a cluster."""

from __future__ import annotations

import asyncio
import signal
from pathlib import Path
from typing import Any

import click

from scheduler.cli.exits import USAGE, fail

_REFRESH_SECONDS = 0.25
_CHURN_SECONDS = 2.0


@click.command()
@click.option("--once", is_flag=True, help="Schedule the workload, print a summary and exit.")
@click.option("--nodes", default=100, type=click.IntRange(5, 5000), help="About how many nodes.")
@click.option("--port", default=0, type=click.IntRange(0, 65535), help="Metrics port; 0: any free.")
@click.option(
    "--config", "config_file", type=click.Path(path_type=Path), help="Configuration file."
)
def demo(once: bool, nodes: int, port: int, config_file: Path | None) -> None:
    """Run an embedded cluster with a workload and watch the scheduler place it."""
    from scheduler.config.problems import ConfigError

    config = _configuration(config_file, port)
    try:
        asyncio.run(_once(config, nodes) if once else _live(config, nodes))
    except KeyboardInterrupt:
        return
    except ConfigError as fault:  # a plugin that cannot be made
        fail(str(fault), USAGE)
    except OSError as fault:  # the address to serve on cannot be had
        fail(str(fault))


def _configuration(file: Path | None, port: int) -> Any:
    from sandbox.demo.session import DOCUMENT, for_demo
    from scheduler.assembly import configure, load
    from scheduler.config.problems import ConfigError
    from scheduler.observe.logs import setup

    setup("console", level=40)
    try:
        loaded = load(file) if file else configure([DOCUMENT])
    except OSError as fault:
        fail(f"{file}: {fault.strerror}", USAGE)
    except ConfigError as fault:
        fail(f"{file}: {fault}", USAGE)
    return for_demo(loaded, port)


async def _once(config: Any, nodes: int) -> None:
    from rich.console import Console

    from sandbox.demo.screen import cells_line, summary_line, summary_table
    from sandbox.demo.session import running

    async with running(config, nodes) as demo:
        await demo.create_nodes()
        await demo.create_pods()
        seconds = await demo.settle()
        speed = summary_line(demo, seconds)
        await demo.create_pinned_pods()
        await demo.settle_cells()
        console = Console()
        console.print(summary_table(demo))
        console.print()
        console.print(speed, highlight=False)
        console.print(cells_line(demo), highlight=False)


async def _live(config: Any, nodes: int) -> None:
    from rich.live import Live

    from sandbox.demo.screen import screen
    from sandbox.demo.session import running

    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    async with running(config, nodes) as demo:
        with Live(screen(demo), screen=True, auto_refresh=False) as live:

            async def redraw() -> None:
                while True:
                    live.update(screen(demo), refresh=True)
                    await asyncio.sleep(_REFRESH_SECONDS)

            async def play() -> None:
                await demo.create_nodes()
                await demo.create_pods()
                await demo.create_pinned_pods()
                await demo.churn(_CHURN_SECONDS)

            async with asyncio.TaskGroup() as tasks:
                players = [tasks.create_task(redraw()), tasks.create_task(play())]
                await stop.wait()
                for player in players:
                    player.cancel()
    click.echo("Stopped.")
