"""``equipoise demo``: a cluster to play with, without a cluster."""

from __future__ import annotations

import asyncio
import signal
import socket
import sys
from pathlib import Path
from typing import Any

import click

from scheduler.cli.exits import USAGE, fail

_CHURN_SECONDS = 2.0
_ERROR, _CRITICAL = 40, 50
"""Levels of the log."""


@click.command()
@click.option("--once", is_flag=True, help="Schedule the workload, print a summary and exit.")
@click.option(
    "--nodes", default=100, type=click.IntRange(5, 5000), help="Approximate number of nodes."
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    help="Port of the scheduler; 0: any free.  [default: 10259, or the next that is free]",
)
@click.option(
    "--api-port",
    type=click.IntRange(0, 65535),
    help="Port of the API server; 0: any free.  [default: 18080, or the next that is free]",
)
@click.option(
    "--config", "config_file", type=click.Path(path_type=Path), help="Configuration file."
)
def demo(
    once: bool, nodes: int, port: int | None, api_port: int | None, config_file: Path | None
) -> None:
    """Run an embedded cluster: API server, nodes, controllers, pods, and the scheduler.

    It writes a kubeconfig and prints how to use it with kubectl and equipoise. Everything is
    removed when the command ends.
    """
    from sandbox.demo.ports import API_PORT, SERVING_PORT, listen, port_of
    from scheduler.config.problems import ConfigError

    config = _loaded(config_file, screen=not once and sys.stdout.isatty())
    try:
        if once:  # it ends by itself
            port, api_port = port or 0, api_port or 0
        with listen(port, SERVING_PORT) as serving, listen(api_port, API_PORT) as api:
            _note_other_port("API server", api_port, port_of(api), API_PORT)
            _note_other_port("scheduler", port, port_of(serving), SERVING_PORT)
            asyncio.run((_once if once else _play)(config, nodes, serving, api))
    except KeyboardInterrupt:
        return
    except ConfigError as fault:  # a plugin that cannot be made
        fail(str(fault), USAGE)
    except OSError as fault:  # the address to serve on cannot be had
        fail(str(fault.strerror or fault))


def _loaded(file: Path | None, *, screen: bool) -> Any:
    from sandbox.demo.settings import DOCUMENT
    from scheduler.assembly import configure, load
    from scheduler.config.problems import ConfigError
    from scheduler.observe.logs import setup

    # Lines of a log would fall into the screen, which shows failures of pods itself.
    setup("console", level=_CRITICAL if screen else _ERROR)
    try:
        return load(file) if file else configure([DOCUMENT])
    except OSError as fault:
        fail(f"{file}: {fault.strerror}", USAGE)
    except ConfigError as fault:
        fail(f"{file}: {fault}", USAGE)


async def _once(config: Any, nodes: int, serving: socket.socket, api_socket: socket.socket) -> None:
    from rich.console import Console

    from sandbox.demo.session import running
    from sandbox.demo.summary import cells_line, devices_line, summary_line, summary_table

    async with running(config, nodes, serving, api_socket) as demo:
        await demo.create_nodes()
        await demo.create_pods()
        seconds = await demo.settle()
        speed = summary_line(demo, seconds)
        await demo.create_pinned_pods()
        await demo.create_device_pods()
        await demo.settle_last()
        console = Console()
        console.print(summary_table(demo))
        console.print()
        console.print(speed, highlight=False)
        console.print(cells_line(demo), highlight=False)
        console.print(devices_line(demo), highlight=False)


async def _play(config: Any, nodes: int, serving: socket.socket, api_socket: socket.socket) -> None:
    """Until Ctrl-C or ``q``; what to type is said before the screen and after it."""
    from sandbox.demo import kubeconfig
    from sandbox.demo.live import LiveScreen, PlainLines
    from sandbox.demo.ports import API_PORT, port_of
    from sandbox.demo.session import running
    from scheduler.cli.explanation import show_explanation
    from scheduler.cli.states import style_of

    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    port, api_port = port_of(serving), port_of(api_socket)
    suffix = "" if api_port == API_PORT else f"-{api_port}"
    async with running(config, nodes, serving, api_socket) as demo:
        with kubeconfig.written(demo.api.url, suffix) as file:
            _greet(file, port)

            async def play() -> None:
                await demo.create_nodes()
                await demo.create_pods()
                await demo.create_pinned_pods()
                await demo.create_device_pods()
                await demo.churn(_CHURN_SECONDS)

            screen: LiveScreen | PlainLines = PlainLines(demo, click.echo)
            if sys.stdout.isatty():
                screen = LiveScreen(demo, show_explanation, style_of, stop)
            async with asyncio.TaskGroup() as tasks:
                players = [tasks.create_task(screen.run()), tasks.create_task(play())]
                await stop.wait()
                for player in players:
                    player.cancel()
    click.echo("Stopped.")


def _note_other_port(server: str, wanted: int | None, port: int, usual: int) -> None:
    """Say why a port is not the usual one, unless the user has chosen it."""
    if wanted is None and port != usual:
        click.echo(f"The {server} is on port {port}, because {usual} is in use.")


def _greet(file: Path, port: int) -> None:
    """Print how to use the playground."""
    from sandbox.demo.ports import HOST

    click.echo(f"Look at it in a browser:\n\n    http://{HOST}:{port}/ui/\n")
    click.echo("To use this playground, type in another terminal:\n")
    click.echo(f"    export KUBECONFIG={file.resolve()} EQUIPOISE_SERVER=http://{HOST}:{port}")
    click.echo("    kubectl get pods -A\n", nl=True)
