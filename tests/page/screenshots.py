"""``python -m tests.page.screenshots DIR``: every view, light and dark, narrow and wide."""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path
from typing import Literal

from playwright.async_api import Browser, Page, expect

from sandbox.demo.session import Demo
from sandbox.devices.driver import DRIVER as BOARDS
from tests.page.browser import NARROW, PATIENCE_MS, WIDE, chromium, reading
from tests.page.playground import playground, url_of

HUGE = (3840, 2160)
SIZES = {"360": NARROW, "1440": WIDE}
Theme = Literal["light", "dark"]
THEMES: tuple[Theme, ...] = ("light", "dark")


def places(demo: Demo) -> dict[str, str]:
    """Every view, and the address of it that shows most."""
    waiting = demo.daemon.core.queue.view.snapshot()
    cells = next(iter(demo.numa.kubelets), "")
    pod = waiting[0].pod if waiting else "demo/none"
    return {
        "overview": "overview",
        "pending": "pending",
        "pending-pods": "pending?view=pods",
        "pod": f"pods/{pod}",
        "nodes": "nodes",
        "nodes-cells": "nodes?cells=1",
        "nodes-devices": f"nodes?cells=1&resource=device:{BOARDS}",
        "nodes-table": "nodes?as=table&resource=memory",
        "node": f"nodes/{cells}",
        "decisions": "decisions",
        "classes": "classes",
        "gangs": "groups",
        "batches": "groups?show=batches",
        "what-if": f"what-if?pod={pod}",
        "unknown-pod": "pods/demo/none",
        "unknown-node": "nodes/none",
    }


async def settled(page: Page) -> None:
    """Until nothing loads any more, and charts are drawn."""
    await page.wait_for_selector("main h1, main h2")
    await expect(page.locator(".bones")).to_have_count(0, timeout=PATIENCE_MS)
    await page.evaluate(
        "new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))"
    )


async def shoot(
    browser: Browser, url: str, name: str, place: str, folder: Path, theme: Theme, size: str
) -> None:
    """One picture of one view."""
    dimensions = HUGE if size == "4k" else SIZES[size]
    async with reading(browser, url, place, size=dimensions, theme=theme) as (page, faults):
        faults.allowed = ("404",)
        await settled(page)
        await page.screenshot(path=folder / f"{name}-{size}-{theme}.png", full_page=size != "4k")


async def main() -> None:
    """Take all pictures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="", help="views whose names hold this")
    parser.add_argument("--size", choices=[*SIZES, "4k"], help="only this width")
    parser.add_argument("--nodes", type=int, default=24)
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    sizes = [given.size] if given.size else [*SIZES]
    async with playground(given.nodes) as demo, chromium() as browser:
        for name, place in places(demo).items():
            for theme in THEMES:
                for size in sizes:
                    if given.only in name:
                        await shoot(browser, url_of(demo), name, place, given.folder, theme, size)


if __name__ == "__main__":
    asyncio.run(main())
