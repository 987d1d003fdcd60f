"""A browser that reads the page, and reports whatever goes wrong in it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Literal

import pytest
from playwright.async_api import Browser, ConsoleMessage, Page, Request, async_playwright

from tests.page.chromium import NoChromium, find
from tests.patience import PATIENCE

PATIENCE_MS = 1000 * PATIENCE
ARGUMENTS = (
    "--no-sandbox",  # Chromium refuses to start for root with one
    "--disable-dev-shm-usage",  # containers have little shared memory
    "--disable-gpu",
)
WIDE, NARROW = (1440, 900), (360, 780)

_WATCH = """
addEventListener("securitypolicyviolation", (event) => {
  console.error(`CSP: ${event.violatedDirective} ${event.blockedURI} ${event.sourceFile}`);
});
window.longTasks = [];
new PerformanceObserver((list) => {
  for (const entry of list.getEntries()) window.longTasks.push(Math.round(entry.duration));
}).observe({ type: "longtask", buffered: true });
"""

_NAMELESS = """() => [...document.querySelectorAll(
  "button, a[href], input, select, textarea, [role=application], [role=table], [role=meter]")]
  .filter((each) => each.checkVisibility({ visibilityProperty: true }))
  .filter((each) => !(
    each.getAttribute("aria-label") || each.getAttribute("aria-labelledby") || each.title ||
    each.innerText?.trim() || each.closest("label")?.innerText.trim() ||
    (each.id && document.querySelector(`label[for="${each.id}"]`)?.innerText.trim())))
  .map((each) => each.outerHTML.slice(0, 200))"""
_ILLEGIBLE = """() => {
  const pen = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const rgba = (colour) => {
    pen.clearRect(0, 0, 1, 1);
    pen.fillStyle = colour;
    pen.fillRect(0, 0, 1, 1);
    const [red, green, blue, alpha] = pen.getImageData(0, 0, 1, 1).data;
    return [red, green, blue, alpha / 255];
  };
  const over = (top, below) =>
    [0, 1, 2].map((at) => top[at] * top[3] + below[at] * (1 - top[3])).concat(1);
  const behind = (element) => {
    const layers = [];
    for (let each = element; each; each = each.parentElement)
      layers.push(rgba(getComputedStyle(each).backgroundColor));
    return layers.reduceRight((below, layer) => over(layer, below), [255, 255, 255, 1]);
  };
  const luminance = (colour) => {
    const [red, green, blue] = colour.map((value) =>
      value <= 10.3 ? value / 255 / 12.92 : ((value / 255 + 0.055) / 1.055) ** 2.4);
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  const words = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  const found = new Set();
  while (words.nextNode()) {
    const element = words.currentNode.parentElement;
    const said = words.currentNode.data.trim();
    if (!said || !element.checkVisibility({ visibilityProperty: true })) continue;
    if (element.closest(":disabled, noscript, .skip, .hidden-label")) continue;
    const ground = behind(element);
    const ink = over(rgba(getComputedStyle(element).color), ground);
    const [low, high] = [luminance(ground), luminance(ink)].sort((a, b) => a - b);
    const contrast = (high + 0.05) / (low + 0.05);
    if (contrast < 4.5) found.add(`${said.slice(0, 40)}: ${contrast.toFixed(2)}`);
  }
  return [...found];
}"""
"""Texts with less contrast to what is behind them than WCAG 2 asks for."""


class Faults:
    """What went wrong in a page: errors of its scripts and of the console, failed requests."""

    def __init__(self, page: Page) -> None:
        self.found: list[str] = []
        self.allowed: tuple[str, ...] = ()
        """Parts of messages that a test provokes."""
        page.on("pageerror", lambda error: self._add(f"script: {error}"))
        page.on("console", self._console)
        page.on("requestfailed", self._request)

    def check(self) -> None:
        """Fail if something went wrong."""
        assert not self.found, self.found

    def _add(self, text: str) -> None:
        if not any(part in text for part in self.allowed):
            self.found.append(text)

    def _console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self._add(f"console: {message.text}")

    def _request(self, request: Request) -> None:
        # Views that are left end what they have asked for.
        if "ERR_ABORTED" not in (request.failure or ""):
            self._add(f"request: {request.url} {request.failure}")


@asynccontextmanager
async def chromium() -> AsyncIterator[Browser]:
    """A Chromium without a window; the test is skipped where there is none."""
    try:
        found = find()
    except NoChromium as none:
        pytest.skip(f"no Chromium: {none}")
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(
            executable_path=found.path,
            env={**found.environment},
            args=[*ARGUMENTS],
            timeout=PATIENCE_MS,
        )
        try:
            yield browser
        finally:
            await browser.close()


@asynccontextmanager
async def reading(
    browser: Browser,
    url: str,
    place: str = "",
    *,
    size: tuple[int, int] = WIDE,
    theme: Literal["light", "dark"] = "light",
    **options: Any,
) -> AsyncIterator[tuple[Page, Faults]]:
    """A page of a fresh profile, at a place such as ``nodes?as=table``; it must have no faults."""
    width, height = size
    context = await browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme=theme,
        reduced_motion="reduce",
        **options,
    )
    context.set_default_timeout(PATIENCE_MS)
    context.set_default_navigation_timeout(PATIENCE_MS)
    page = await context.new_page()
    await page.add_init_script(_WATCH)
    faults = Faults(page)
    try:
        await page.goto(f"{url}/ui/#/{place}")
        yield page, faults
        faults.check()
    finally:
        await context.close()


async def long_tasks(page: Page) -> list[int]:
    """The milliseconds of each task of the page that took 50 or more: reported, not judged."""
    found: list[int] = await page.evaluate("window.longTasks")
    return found


async def nameless(page: Page) -> list[str]:
    """Controls that a screen reader could not call by a name."""
    found: list[str] = await page.evaluate(_NAMELESS)
    return found


async def illegible(page: Page) -> list[str]:
    """Texts that are too pale, with their contrast."""
    found: list[str] = await page.evaluate(_ILLEGIBLE)
    return found
