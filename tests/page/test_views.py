"""Every view of the page, reached by its address and by the keyboard, on the demo."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Literal

import pytest
from playwright.async_api import Page, Route, expect

from sandbox.devices.driver import DRIVER as BOARDS
from tests.builders import make_pod
from tests.page.browser import (
    NARROW,
    PATIENCE_MS,
    chromium,
    illegible,
    nameless,
    reading,
)
from tests.page.playground import create, needs_page, playground, url_of
from tests.page.screenshots import places, settled
from tests.patience import PATIENCE

pytestmark = needs_page

VIEWS = {
    "p": ("pending", "Pending pods"),
    "n": ("nodes", "Nodes"),
    "d": ("decisions", "Decisions"),
    "c": ("classes", "Classes"),
    "b": ("groups", "Gangs and batches"),
    "w": ("what-if", "What if"),
    "o": ("overview", "Overview"),
}
"""By key; the one that a page begins with comes last, so that its key matters."""
ALLOWED = ("404", "500", "403")
"""Answers that a test provokes; browsers print them."""

_PAINTED = """(hatched) => new Promise((done) => {
  const look = () => {
    const map = document.querySelector("canvas.map-canvas")?.getContext("2d");
    const corner = map?.getImageData(2, 2, 24, 8).data.buffer;
    const colours = corner ? new Set(new Uint32Array(corner)).size : 0;
    if (hatched ? colours > 1 : colours === 1) done();
    else requestAnimationFrame(look);
  };
  look();
})"""
"""Until there are several colours in a corner of the first square, or only one."""
_TOO_HIGH = "document.documentElement.scrollHeight - innerHeight"
_BELOW_TABLE = "innerHeight - document.querySelector('[role=table]').getBoundingClientRect().bottom"
_CUT_TABLES = """
[...document.querySelectorAll(".table:not(.wide)")]
  .filter((table) => table.scrollWidth > table.clientWidth)
  .map((table) => table.getAttribute("aria-label"))
"""
"""Tables with columns beyond their edge; those that are wide say so, and scroll."""
_TOO_WIDE = "document.documentElement.scrollWidth - document.documentElement.clientWidth"


async def _go(page: Page, key: str, path: str) -> None:
    """Press ``g`` and a key, again if the machine was so slow that these were two single keys."""
    async with asyncio.timeout(PATIENCE):
        while not page.url.endswith(f"#/{path}"):
            await page.locator("body").press("g")
            await page.keyboard.press(key)


async def test_every_view_is_reached_by_its_address_and_by_keys() -> None:
    expect.set_options(timeout=PATIENCE_MS)
    async with playground() as demo, chromium() as browser:
        for name, place in places(demo).items():
            async with reading(browser, url_of(demo), place, size=NARROW) as (page, faults):
                faults.allowed = ALLOWED
                await settled(page)
                assert await page.evaluate(_TOO_WIDE) <= 0, f"{name} is too wide for 360 px"
                assert await page.evaluate(_CUT_TABLES) == [], f"columns of {name} are cut off"
                assert await nameless(page) == [], name
        async with reading(browser, url_of(demo)) as (page, _):
            await settled(page)
            for key, (path, title) in VIEWS.items():
                await _go(page, key, path)
                await expect(page).to_have_url(f"{url_of(demo)}/ui/#/{path}")
                await expect(page.get_by_role("heading", level=1)).to_have_text(title)
                await settled(page)
            await _go(page, "n", "nodes")
            await page.get_by_role("application").focus()
            await page.keyboard.press("Home")
            await page.keyboard.press("ArrowRight")
            await page.keyboard.press("Enter")
            await expect(page.get_by_text("All nodes")).to_be_visible()
            await page.keyboard.press("?")
            await expect(page.get_by_role("dialog")).to_contain_text("Decisions")
            await page.keyboard.press("Escape")
            await page.keyboard.press("t")
            await expect(page.locator("html")).to_have_attribute("data-theme", "light")


@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_every_text_is_legible(theme: Literal["light", "dark"]) -> None:
    expect.set_options(timeout=PATIENCE_MS)
    async with playground() as demo, chromium() as browser:
        bound = {"bound": "pods/demo/web-0000"}
        for name, place in (places(demo) | bound).items():
            async with reading(browser, url_of(demo), place, theme=theme) as (page, faults):
                faults.allowed = ALLOWED
                await settled(page)
                if place.startswith("pods/demo/") and "none" not in place:
                    await expect(page.locator(".legend")).to_be_visible()
                assert await illegible(page) == [], name


@pytest.mark.parametrize(
    ("status", "said"), [(500, "This could not be read"), (403, "You may not see this")]
)
async def test_views_say_when_they_cannot_be_read(status: int, said: str) -> None:
    expect.set_options(timeout=PATIENCE_MS)

    async def refuse(route: Route) -> None:
        error = {"error": {"code": status, "message": "planted"}}
        await route.fulfill(status=status, json=error)

    async with playground() as demo, chromium() as browser:
        for path in ("nodes", "nodes/n", "decisions", "classes", "groups", "pending"):
            async with reading(browser, url_of(demo)) as (page, faults):
                faults.allowed = ALLOWED
                await page.route("**/api/v1/**", refuse)
                await page.goto(f"{url_of(demo)}/ui/#/{path}")
                await expect(page.get_by_role("heading", name=said)).to_be_visible()
                await expect(page.get_by_role("heading", level=1)).to_be_visible()
                await expect(page.locator("main").get_by_role("alert")).to_have_text("planted")
                # Nobody has counted anything: no number stands beside a choice.
                await expect(page.locator("main .segments .number")).to_have_count(0)


async def test_the_map_of_nodes_goes_down_to_devices() -> None:
    expect.set_options(timeout=PATIENCE_MS)
    async with (
        playground() as demo,
        chromium() as browser,
        reading(browser, url_of(demo), "nodes") as (page, _),
    ):
        await page.get_by_label("Resource").select_option(f"{BOARDS} devices")
        shown = page.get_by_role("application")
        await expect(shown).to_have_attribute(
            "aria-label", re.compile(f"share of {BOARDS} devices that is reserved")
        )
        await page.get_by_label("Each device").check()
        await expect(page.get_by_text("above whether it is reserved")).to_be_visible()
        await expect(page.get_by_text("struck out if other devices have")).to_be_visible()
        await expect(page).to_have_url(re.compile("cells=1"))


async def test_of_a_board_in_parts_the_others_are_not_available() -> None:
    expect.set_options(timeout=PATIENCE_MS)
    async with (
        playground() as demo,
        chromium() as browser,
        reading(browser, url_of(demo), "nodes/gpu-000") as (page, _),
    ):
        table = page.get_by_role("table", name="Devices")
        await expect(table.get_by_text("not available").first).to_be_visible()
        await expect(
            page.get_by_text(re.compile(r"\d+ allocated, \d+ not available"))
        ).to_be_visible()


@pytest.mark.parametrize("theme", ["light", "dark"])
async def test_nodes_without_the_devices_are_hatched(theme: Literal["light", "dark"]) -> None:
    expect.set_options(timeout=PATIENCE_MS)
    async with (
        playground() as demo,
        chromium() as browser,
        reading(browser, url_of(demo), "nodes?group=none", theme=theme) as (page, faults),
    ):
        faults.allowed = ("willReadFrequently",)  # what is painted is read here, not by the page
        await page.evaluate(_PAINTED, False)
        legend = page.locator(".map-legend")
        shown = page.get_by_role("application")
        await expect(legend).not_to_contain_text("has no")
        await expect(shown).not_to_have_attribute("aria-label", re.compile("hatched"))
        await page.get_by_label("Resource").select_option(f"{BOARDS} devices")
        await expect(legend).to_contain_text(f"has no {BOARDS} devices")
        said = re.compile(rf"\d of them: no {re.escape(BOARDS)} devices, hatched")
        await expect(shown).to_have_attribute("aria-label", said)
        await page.evaluate(_PAINTED, True)


async def test_the_longest_names_widen_no_view() -> None:
    expect.set_options(timeout=PATIENCE_MS)
    name = ".".join(["n" * 60] * 4)
    pod = make_pod(name).cpu("900").node_selector(**{f"{'p' * 60}.example/{'k' * 63}": "v" * 63})
    async with playground() as demo, chromium() as browser:
        await create(demo, pod.obj())
        await demo.settle()
        for place in (f"pods/default/{name}", "pending?view=pods", "pending", "decisions"):
            for size in (NARROW, (1280, 800)):
                async with reading(browser, url_of(demo), place, size=size) as (page, _):
                    await settled(page)
                    if place.startswith("pods/"):
                        await expect(page.get_by_text("kubectl get").first).to_be_visible()
                    assert await page.evaluate(_TOO_WIDE) <= 0, (place, size)
                    assert await page.evaluate(_CUT_TABLES) == [], (place, size)


_OVERLAPPING = """() => [...document.querySelectorAll(".compared > [role=row]")].filter((row) => {
  const spaces = [...row.children].map((each) => {
    const range = document.createRange();
    range.selectNodeContents(each);
    return range.getBoundingClientRect();
  });
  return spaces.some((a, i) => spaces.slice(i + 1).some((b) =>
    a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom));
}).map((row) => row.innerText)"""
"""Rows of the comparison of two nodes of which one cell covers another."""


async def test_what_tipped_it_is_legible_on_a_narrow_screen() -> None:
    expect.set_options(timeout=PATIENCE_MS)
    async with (
        playground() as demo,
        chromium() as browser,
        reading(browser, url_of(demo), "pods/demo/web-0000", size=NARROW) as (page, _),
    ):
        shown = page.locator(".compared").get_by_text("NodeResourcesBalancedAllocation")
        await expect(shown).to_be_visible()
        assert await page.evaluate(_OVERLAPPING) == []


async def test_decisions_are_shown_as_they_are_made() -> None:
    expect.set_options(timeout=PATIENCE_MS)
    async with (
        playground() as demo,
        chromium() as browser,
        reading(browser, url_of(demo), "decisions?filter=fresh-pod") as (page, _),
    ):
        await expect(page.get_by_text("Live", exact=True)).to_be_visible()
        await expect(page.get_by_text("No decision is so")).to_be_visible()
        await create(demo, make_pod("fresh-pod").cpu("10m").obj())
        await expect(page.get_by_role("row").nth(1)).to_contain_text("fresh-pod")


async def test_the_overview_shows_decisions_that_were_made_before_it_was_opened() -> None:
    expect.set_options(timeout=PATIENCE_MS)
    async with (
        playground() as demo,
        chromium() as browser,
        reading(browser, url_of(demo), "overview") as (page, _),
    ):
        latest = demo.daemon.core.decisions.latest(1)[0].pod.split("/")[1]
        shown = page.get_by_role("region", name="Latest decisions").get_by_role("listitem")
        await expect(shown.first).to_contain_text(latest)


@pytest.mark.parametrize("size", [(1280, 800), (3840, 2160)])
async def test_a_table_takes_the_height_that_the_window_has(size: tuple[int, int]) -> None:
    expect.set_options(timeout=PATIENCE_MS)
    async with (
        playground(200) as demo,
        chromium() as browser,
        reading(browser, url_of(demo), "decisions", size=size) as (page, _),
    ):
        await settled(page)
        await expect(page.get_by_role("row").nth(20)).to_be_attached()
        left: float = await page.evaluate(_BELOW_TABLE)
        assert 0 <= left < size[1] / 10
        assert await page.evaluate(_TOO_HIGH) <= 0


async def test_a_remedy_says_how_many_replicas_it_lets_in() -> None:
    expect.set_options(timeout=PATIENCE_MS)
    async with (
        playground() as demo,
        chromium() as browser,
        reading(browser, url_of(demo), "what-if") as (page, _),
    ):
        pod = make_pod("large").cpu("90").obj()
        await page.get_by_role("textbox", name=re.compile("Manifest")).fill(json.dumps(pod))
        await page.get_by_label("How many of them").fill("5")
        await page.get_by_role("button", name="Try it").click()
        heads = page.locator(".remedy-head")
        await expect(heads.first).to_be_visible()
        said = await heads.all_inner_texts()
        assert any("all 5 fit" in text for text in said), said
        assert any("1 of 5 fit together" in text for text in said), said
