"""Every command of the tutorial, typed into a playground, with kubectl of two versions."""

from __future__ import annotations

import asyncio
import re
import shlex
import sys
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest

from e2e.controlplane.binaries import locate
from e2e.controlplane.debian import KUBERNETES_CLIENT
from e2e.harness.patience import PATIENCE
from e2e.harness.shell import CommandFailed, Shell
from shipping.helm import PROJECT
from tests.demo.support import Terminal, environment, finished, started
from tests.documents import Page

POLL_SECONDS = 0.2
PAGE = Page(PROJECT / "docs/tutorial.md", (PROJECT / "docs/tutorial.md").read_text())

SAYS = {
    "kubectl get nodes": ("numa-000", "Ready", "ssd"),
    "equipoise version": ("equipoise",),
    "kubectl get pods -o wide": ("web-", "Running"),
    "equipoise explain deployment/web": (
        "3 of 3 pods have nodes",
        "if scheduled now, it would go to",
    ),
    "kubectl get pods -l app=big": ("Pending", "Running"),
    "kubectl get events": ("FailedScheduling", "pod/big-", "Insufficient cpu"),
    "equipoise explain deployment/big": ("requests", "cpu", "What would help"),
    "equipoise queue": ("default/big", "unschedulable"),
    "equipoise explain job/ring": ("30 of 40 members can be placed", "from 40 to 30"),
    "kubectl get podgroup ring": ("Running   30          30          30",),
    "equipoise explain deployment/pinned": ("NUMA cell",),
    "equipoise config check": ("plugin Maintenance (filter) from file", "valid"),
    "equipoise explain deployment/late": ("were under maintenance",),
}
"""What commands print in the end: a reader types slower than a test, and sees the outcome."""


class Playground:
    """``make run`` on a terminal of its own, and the line that it says to type."""

    def __init__(self, directory: Path, stack: AsyncExitStack) -> None:
        self._directory = directory
        self._stack = stack
        self._terminal = Terminal(80, 24)
        stack.callback(self._terminal.close)
        self._process: asyncio.subprocess.Process | None = None

    async def start(self, arguments: list[str]) -> str:
        """Start, or quit and start again; returns the line to type."""
        await self.stop()
        self._terminal.forget()
        env = {**environment(self._directory), "TERM": "xterm-256color"}
        del env["COLUMNS"]
        self._process = await self._stack.enter_async_context(
            started(
                *("demo", "--port", "0", "--api-port", "0", *arguments),
                env=env,
                terminal=self._terminal.theirs,
                cwd=self._directory,
            )
        )
        printed = await self._terminal.shows("kubectl get pods -A")
        (line,) = re.findall(r"export KUBECONFIG=.*EQUIPOISE_SERVER=\S+", printed)
        await self._terminal.shows("Latest decisions")
        self._terminal.press("c")
        await self._terminal.shows("no churn", "numa")
        self._stack.push_async_callback(self.stop)
        return str(line)

    async def stop(self) -> None:
        """Quit by the key, as a reader does; it must not have ended by itself."""
        process, self._process = self._process, None
        if process is not None:
            ended = process.returncode is not None
            self._terminal.press("q")
            code, _, errors = await finished(process)
            assert (ended, code, errors) == (False, 0, "")
            await self._terminal.shows("Stopped.")
            assert not (self._directory / ".equipoise").exists()


@pytest.fixture
async def playground(tmp_path: Path) -> AsyncIterator[Playground]:
    async with AsyncExitStack() as stack:
        yield Playground(tmp_path, stack)


@pytest.mark.parametrize("version", ["ours", "debian"])
async def test_every_command_of_the_tutorial_does_what_it_says(
    playground: Playground, tmp_path: Path, version: str
) -> None:
    kubectl = locate("kubectl") if version == "ours" else KUBERNETES_CLIENT.locate("kubectl")
    said: set[str] = set()
    with Shell(tmp_path, surroundings(tmp_path, kubectl)) as shell:
        for command in PAGE.commands():
            if command.startswith("make run"):
                line = await playground.start(options(command))
                await asyncio.to_thread(shell.type, line)
            elif not command.startswith("export "):  # what was printed has been typed instead
                said |= await asyncio.to_thread(type_until_it_says, shell, command)
    assert said == set(SAYS)


def options(command: str) -> list[str]:
    """What ``make run ARGS=…`` passes on."""
    arguments = [word.removeprefix("ARGS=") for word in shlex.split(command)[2:]]
    return [each for word in arguments for each in shlex.split(word)]


def type_until_it_says(shell: Shell, command: str) -> set[str]:
    """Type a command, and again until it prints what the page leads to expect."""
    expected = {start: texts for start, texts in SAYS.items() if command.startswith(start)}
    texts = [text for each in expected.values() for text in each]
    deadline = time.monotonic() + PATIENCE
    while True:
        printed = shell.type(command)
        if all(text in printed for text in texts):
            print(f"$ {command}\n{printed}")
            return set(expected)
        if time.monotonic() > deadline:
            raise CommandFailed(f"$ {command}\nnot all of {texts} in:\n{printed}")
        time.sleep(POLL_SECONDS)


def surroundings(directory: Path, kubectl: Path) -> dict[str, str]:
    """The files that the page shows, and the programs that it names."""
    for block in PAGE.blocks():
        titled = re.match(r"# (\S+\.(?:py|yaml))$", block.lines[0]) if block.lines else None
        if titled is not None:
            file = directory / titled[1]
            file.parent.mkdir(exist_ok=True)
            file.write_text("\n".join([*block.lines, ""]))
    programs = directory / "bin"
    programs.mkdir()
    # Who explains a pod that gets no node ends with 3; the page means that, too.
    explained = f'"{sys.executable}" -m e2e.harness.patient "$@"\ncode=$?\n'
    explained += 'case "$1:$code" in explain:3) exit 0;; esac\nexit $code'
    for name, script in {"equipoise": explained, "kubectl": f'exec "{kubectl}" "$@"'}.items():
        (programs / name).write_text(f"#!/bin/sh\n{script}\n")
        (programs / name).chmod(0o755)
    known = environment(directory)
    return {**known, "PATH": f"{programs}:{known['PATH']}", "PYTHONPATH": str(PROJECT)}
