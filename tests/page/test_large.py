"""5,000 nodes and 10,000 pending pods: the page holds few elements, whatever it shows."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from playwright.async_api import Page, Route, expect

from scheduler.explaining.queries import DecisionsQuery, NodesQuery
from scheduler.serve.endpoints import build_app
from scheduler.serve.guards import Unavailable
from scheduler.serve.server import Server
from scheduler.views.updates import Updates
from tests.page import large
from tests.page.browser import (
    NARROW,
    PATIENCE_MS,
    chromium,
    illegible,
    long_tasks,
    nameless,
    reading,
)
from tests.page.playground import needs_page
from tests.page.screenshots import settled
from tests.patience import PATIENCE

pytestmark = needs_page
MOST_ELEMENTS = 2_500
MAP_BYTES = 1_000_000
_TOO_SMALL = """
[...document.querySelectorAll("main button, main select, main input:not([type=checkbox])")]
  .filter((each) => each.checkVisibility() && each.getBoundingClientRect().height < 36)
  .map((each) => each.outerHTML.slice(0, 120))
"""
_COUNT_KEPT = """
window.kept = 0;
const post = Worker.prototype.postMessage;
Worker.prototype.postMessage = function (question, transfer) {
  window.kept += { read: 1, forget: -1 }[question.ask] ?? 0;
  return post.call(this, question, transfer);
};
"""
"""How many explanations the worker was told to read, and not yet to forget."""


async def until_kept(page: Page, number: int) -> None:
    """Effects of a view that has gone run after the next one is drawn."""
    async with asyncio.timeout(PATIENCE):
        while await page.evaluate("kept") != number:
            await page.evaluate("new Promise(requestAnimationFrame)")


_COUNT_SORTS = """
window.sorts = 0;
const sort = Array.prototype.sort;
Array.prototype.sort = function (by) {
  if (this.length > 1000) window.sorts += 1;
  return sort.call(this, by);
};
"""
_SEEN = """element => new Promise((done) => new IntersectionObserver(([entry]) =>
  done(entry.intersectionRatio)).observe(element))"""
"""How much of an element is seen, from 0 to 1: what is beyond a frame that scrolls is not."""


async def elements(page: Page) -> int:
    found: int = await page.evaluate("document.querySelectorAll('*').length")
    return found


async def test_every_view_holds_few_elements() -> None:
    expect.set_options(timeout=PATIENCE_MS)
    app = build_app(large.backend())
    report = {}
    async with Server(app) as server, chromium() as browser:
        for place, shown in {
            "overview": "Overview",
            "pending": "Pending pods",
            "pending?view=pods": "Pending pods",
            "pods/team-1/job-00001": "job-00001",
            "nodes": "Nodes",
            "nodes?cells=1&group=none": "Nodes",
            f"nodes?cells=1&resource={large.DEVICES}": "Nodes",
            "nodes?as=table": "Nodes",
            "nodes/node-00001": "node-00001",
            "decisions": "Decisions",
            "classes": "Classes",
            "groups": "Gangs and batches",
        }.items():
            async with reading(browser, server.url, place) as (page, _):
                await expect(page.get_by_role("heading", name=shown).first).to_be_visible()
                await settled(page)
                number = await elements(page)
                shown_after: float = await page.evaluate("performance.now()")
                report[place] = (number, round(shown_after), await long_tasks(page))
                assert number <= MOST_ELEMENTS, f"{place}: {number} elements"
                assert await nameless(page) == [], place
    for place, (number, after, tasks) in report.items():
        print(f"{place}: {number} elements, shown after {after} ms, long tasks {tasks} ms")


async def test_updates_replace_what_is_shown() -> None:
    expect.set_options(timeout=PATIENCE_MS)
    async with Server(build_app(large.backend())) as server, chromium() as browser:
        async with reading(browser, server.url, "decisions") as (page, _):
            newest = page.get_by_role("row").nth(1)
            for _ in range(3):
                await settled(page)
                before = await newest.text_content() or ""
                await page.evaluate("window.longTasks = []")
                await expect(newest).not_to_have_text(before)
                print(f"decisions: an update has long tasks {await long_tasks(page)} ms")
            assert await elements(page) <= MOST_ELEMENTS
        for place, path in {"nodes": "nodes", "pending": "queue", "groups": "groups"}.items():
            async with reading(browser, server.url, place) as (page, _):
                await settled(page)
                await page.evaluate("window.longTasks = []")
                async with page.expect_response(f"**/api/v1/{path}?**") as answer:
                    pass
                assert (await answer.value).ok
                await settled(page)
                print(f"{place}: an update has long tasks {await long_tasks(page)} ms")


async def test_a_connection_that_is_silent_is_opened_again() -> None:
    expect.set_options(timeout=PATIENCE_MS)

    async def nothing(seq: int | None, taken: int) -> Updates:
        raise Unavailable("planted")

    backend = large.backend()
    backend.updates = nothing
    async with (
        Server(build_app(backend)) as server,
        chromium() as browser,
        reading(browser, server.url, "classes") as (page, _),
    ):
        await page.clock.install()
        await page.goto(f"{server.url}/ui/#/decisions")
        await expect(page.get_by_text("Live", exact=True)).to_be_visible()
        async with page.expect_request("**/api/v1/stream"):
            await page.clock.fast_forward(40_000)  # nothing that the scheduler sends comes
            await page.clock.fast_forward(1_000)
        await expect(page.get_by_text("Live", exact=True)).to_be_visible()


class Interrupted:
    """Streams end at the second look; meanwhile decisions are made."""

    def __init__(self) -> None:
        self.seq = 10
        self.looks = 0

    async def updates(self, seq: int | None, taken: int) -> Updates:
        self.looks += 1
        if self.looks == 2:
            self.seq += 5
            raise OSError("planted")
        return Updates(self.seq, [], 0, taken, None, 0.0)

    async def decisions(self, query: DecisionsQuery) -> dict[str, Any]:
        return {"decisions": [large.decision(self.seq - number) for number in range(5)]}


@pytest.mark.parametrize("place", ["overview", "decisions"])
async def test_what_was_decided_while_there_was_no_stream_is_shown(place: str) -> None:
    expect.set_options(timeout=PATIENCE_MS)
    scheduler = Interrupted()
    backend = large.backend()
    backend.updates, backend.decisions = scheduler.updates, scheduler.decisions
    async with (
        Server(build_app(backend)) as server,
        chromium() as browser,
        reading(browser, server.url, place) as (page, _),
    ):
        await expect(page.locator("main").get_by_text("job-15").first).to_be_visible()


async def test_explanations_are_forgotten_with_what_shows_them() -> None:
    expect.set_options(timeout=PATIENCE_MS)
    async with (
        Server(build_app(large.backend())) as server,
        chromium() as browser,
        reading(browser, server.url, "classes") as (page, _),
    ):
        await page.add_init_script(_COUNT_KEPT)
        await page.reload()
        table = page.get_by_role("table", name="Verdicts")
        for number in range(1, 4):
            await page.goto(f"{server.url}/ui/#/pods/team-{number}/job-{number:05}")
            await expect(page.get_by_role("heading", name=f"job-{number:05}")).to_be_visible()
            await expect(table).to_be_visible()
        await until_kept(page, 1)
        await page.goto(f"{server.url}/ui/#/what-if")
        await page.get_by_role("button", name="Try it").click()
        await expect(table).to_be_visible()
        await until_kept(page, 1)
        await page.goto(f"{server.url}/ui/#/pending")
        cause = page.locator(".cause-head")
        await cause.first.click()
        await expect(page.get_by_text("Every node and every reason").first).to_be_visible()
        await until_kept(page, 1)
        await page.goto(f"{server.url}/ui/#/classes")
        await expect(page.get_by_role("heading", level=1)).to_have_text("Classes")
        await until_kept(page, 0)


async def test_as_many_reasons_as_pods_are_shown_few_at_a_time() -> None:
    expect.set_options(timeout=PATIENCE_MS)
    backend = large.backend()
    backend.queue = large.distinct_groups
    async with (
        Server(build_app(backend)) as server,
        chromium() as browser,
        reading(browser, server.url, "pending") as (page, _),
    ):
        causes = page.locator(".cause")
        await expect(causes).to_have_count(50)
        assert await elements(page) <= MOST_ELEMENTS
        # Whatever the claim is called, the reason is the same.
        await expect(causes.first).to_contain_text("Persistentvolumeclaim … not found")
        await expect(causes.first).to_contain_text("12,500")
        await page.get_by_role("button", name="Show more").click()
        await expect(causes).to_have_count(100)
        await expect(page.get_by_text("100 of 501 reasons are shown")).to_be_visible()


async def test_a_list_that_is_cut_says_so() -> None:
    expect.set_options(timeout=PATIENCE_MS)
    backend = large.backend()
    backend.queue = large.many_groups
    async with Server(build_app(backend)) as server, chromium() as browser:
        for place, said in {
            "pending?view=pods": "These are the first 5,000 of 10,000 pods",
            "pending?view=pods&tier=unschedulable": "These are the first 5,000 of 9,700 pods",
            "pending?view=pods&filter=job-00001": "Looked for among the first 5,000 of 10,000",
            "pending?view=pods&filter=no-such": "Nothing matches “no-such”",
            "pending": "These are the 1,000 largest groups of equal pods, with 7,000 of 10,000",
            "pending?tier=unschedulable": "with 7,000 of 9,700 pods",
            "pending?filter=no-such": "with 7,000 of 10,000 pods",
        }.items():
            async with reading(browser, server.url, place) as (page, _):
                await expect(page.locator("main")).to_contain_text(said)
                await expect(page.get_by_text("No pod waits")).to_have_count(0)


async def test_a_row_that_a_key_leads_to_is_told() -> None:
    expect.set_options(timeout=PATIENCE_MS)
    async with (
        Server(build_app(large.backend())) as server,
        chromium() as browser,
        reading(browser, server.url, "pods/team-1/job-00001") as (page, _),
    ):
        told = page.locator("[aria-live=polite]", has_text="node-")
        await page.get_by_role("table", name="Verdicts").focus()
        await page.keyboard.press("ArrowDown")
        await expect(told).to_contain_text("NodeResourcesFit rejects; evictions could help")
        await page.goto(f"{server.url}/ui/#/pending?view=pods")
        await page.get_by_role("table", name="Pending pods").focus()
        await page.keyboard.press("End")
        told = page.locator("[aria-live=polite]", has_text="team-")
        await expect(told).to_have_text(
            re.compile("^team-7/job-04999, Unschedulable, Had volume node affinity conflict")
        )
        # It is cut in its middle for the eye, and read in one piece.
        link = page.get_by_role("link", name="team-7/job-04999", exact=True)
        await expect(link).to_be_visible()


async def test_rows_are_sorted_once_and_not_with_every_step_of_scrolling() -> None:
    expect.set_options(timeout=PATIENCE_MS)
    async with (
        Server(build_app(large.backend())) as server,
        chromium() as browser,
        reading(browser, server.url, "classes") as (page, _),
    ):
        await page.add_init_script(_COUNT_SORTS)
        await page.reload()
        await page.goto(f"{server.url}/ui/#/nodes?as=table")
        table = page.get_by_role("table", name="Nodes")
        await table.get_by_role("button", name="Pods").click()
        await expect(table.get_by_role("row").nth(1)).to_contain_text("109 / 110")
        await page.route("**/api/v1/nodes**", lambda route: route.abort())
        before = await page.evaluate("sorts")
        for key in ("End", "Home", "PageDown", "PageDown"):
            await table.press(key)
            await settled(page)
        assert await page.evaluate("sorts") == before


class Prepended:
    """Three decisions at each look, newest first."""

    def __init__(self) -> None:
        self.seq = large.DECISIONS

    async def updates(self, seq: int | None, taken: int) -> Updates:
        self.seq += 3
        fresh = [large.decision(number) for number in range(self.seq - 2, self.seq + 1)]
        return Updates(self.seq, fresh, 0, taken, None, 0.0)


async def test_new_rows_do_not_move_those_that_are_read() -> None:
    expect.set_options(timeout=PATIENCE_MS)
    backend = large.backend()
    backend.updates = Prepended().updates
    async with (
        Server(build_app(backend)) as server,
        chromium() as browser,
        reading(browser, server.url, "decisions") as (page, _),
    ):
        table = page.get_by_role("table", name="Decisions")
        row = table.get_by_role("row", selected=True)
        await expect(page.get_by_text("Live", exact=True)).to_be_visible()
        await table.focus()
        await page.keyboard.press("PageDown")
        await page.keyboard.press("PageDown")
        await page.keyboard.press("PageDown")
        await expect(row).to_be_visible()
        await settled(page)
        name, place = await row.text_content(), await row.bounding_box()
        shown = page.get_by_role("button", name=re.compile("^All"))
        for _ in range(2):
            before = await shown.text_content() or ""
            await expect(shown).not_to_have_text(before)
            await settled(page)
            assert await row.text_content() == name
            assert await row.bounding_box() == place


async def test_the_address_has_what_the_matrix_shows() -> None:
    expect.set_options(timeout=PATIENCE_MS)
    async with Server(build_app(large.backend())) as server, chromium() as browser:
        async with reading(browser, server.url, "pods/team-1/job-00001") as (page, _):
            table = page.get_by_role("table", name="Verdicts")
            await page.get_by_label("Equal rows together").uncheck()
            await page.get_by_role("button", name=re.compile("One plugin away")).click()
            await page.get_by_label("Rejected by").select_option("NodeResourcesFit")
            await table.get_by_role("button", name="Node", exact=True).click()
            await page.get_by_role("searchbox", name="Filter nodes by name").fill("node-0012")
            await table.get_by_text("node-00123").click()
            await expect(page).to_have_url(
                re.compile(r"\?show=near&plugin=NodeResourcesFit&sort=name&filter=node-0012&node=")
            )
            address = page.url.partition("#/")[2]
        async with reading(browser, server.url, address) as (page, _):
            await expect(page.get_by_role("complementary", name="Node node-00123")).to_be_visible()
            near = page.get_by_role("button", name=re.compile("One plugin away"))
            await expect(near).to_have_attribute("aria-pressed", "true")
            await expect(page.get_by_label("Rejected by")).to_have_value("NodeResourcesFit")
            filtered = page.get_by_role("searchbox", name="Filter nodes by name")
            await expect(filtered).to_have_value("node-0012")


async def test_on_paper_views_are_light_and_without_controls() -> None:
    expect.set_options(timeout=PATIENCE_MS)
    async with Server(build_app(large.backend())) as server, chromium() as browser:
        for place in ("overview", "pending", "pods/team-1/job-00001"):
            async with reading(browser, server.url, place, theme="dark") as (page, _):
                await settled(page)
                await page.emulate_media(media="print")
                controls = page.locator(".sidebar, .toolbar, .button, .search")
                await expect(controls.filter(visible=True)).to_have_count(0)
                async with asyncio.timeout(PATIENCE):  # colours change in steps
                    while await illegible(page):
                        await page.evaluate("new Promise(requestAnimationFrame)")


def refusing(status: int) -> Callable[[Route], Awaitable[None]]:
    """What answers every request with this status."""

    async def refuse(route: Route) -> None:
        error = {"error": {"code": status, "message": "planted"}}
        await route.fulfill(status=status, json=error)

    return refuse


async def test_what_cannot_be_read_again_is_said_to_be_old() -> None:
    expect.set_options(timeout=PATIENCE_MS)
    async with (
        Server(build_app(large.backend())) as server,
        chromium() as browser,
        reading(browser, server.url, "groups") as (page, faults),
    ):
        faults.allowed = ("500",)
        await settled(page)
        await page.route("**/api/v1/groups**", refusing(500))
        await expect(page.get_by_text("It could not be read again: planted")).to_be_visible()
        await expect(page.get_by_role("table")).to_contain_text("team/gang-0000")
        await page.unroute("**/api/v1/groups**")
        await expect(page.get_by_text("It could not be read again: planted")).to_have_count(0)


async def test_a_fault_of_a_view_is_told_and_leaves_the_others() -> None:
    expect.set_options(timeout=PATIENCE_MS)
    backend = large.backend()

    async def classes() -> dict[str, Any]:
        return {"enabled": True, "of": "another version"}

    backend.classes = classes
    async with (
        Server(build_app(backend)) as server,
        chromium() as browser,
        reading(browser, server.url, "classes") as (page, _),
    ):
        await expect(page.get_by_text("This view has a fault")).to_be_visible()
        await expect(page.get_by_role("button", name="Reload the page")).to_be_visible()
        await page.get_by_role("link", name="Nodes").click()
        await expect(page.get_by_role("application")).to_be_visible()


async def test_a_token_that_no_header_can_hold_is_not_taken() -> None:
    expect.set_options(timeout=PATIENCE_MS)
    async with (
        Server(build_app(large.backend())) as server,
        chromium() as browser,
        reading(browser, server.url, "classes") as (page, faults),
    ):
        faults.allowed = ("401",)
        await page.route("**/api/v1/**", refusing(401))
        field = page.get_by_label("Token of an account")
        sign_in = page.get_by_role("dialog").get_by_role("button", name="Sign in")
        for text in ("eyJ“quoted”", "Bearer eyJ"):
            await field.fill(text)
            await sign_in.click()
            await expect(field).to_have_value(text)
        await field.fill(" eyJ.a-b_c ")
        await sign_in.click()
        await expect(field).to_have_value("")


async def test_a_way_back_leads_to_what_was_written() -> None:
    expect.set_options(timeout=PATIENCE_MS)
    async with (
        Server(build_app(large.backend())) as server,
        chromium() as browser,
        reading(browser, server.url, "what-if") as (page, _),
    ):
        manifest = page.get_by_role("textbox", name=re.compile("Manifest"))
        written = (await manifest.input_value()).replace('cpu: "2"', 'cpu: "3"')
        await manifest.fill(written)
        await page.get_by_role("button", name="Try it").click()
        await page.get_by_role("searchbox", name="Filter nodes by name").fill("node-0012")
        await page.get_by_role("link", name="Nodes").click()
        await expect(page.get_by_role("application")).to_be_visible()
        await page.go_back()
        await expect(manifest).to_have_value(written)
        await page.reload()
        await expect(manifest).to_have_value(written)
        await page.get_by_role("link", name="Nodes").click()
        await page.get_by_role("link", name="What if").click()
        await expect(manifest).not_to_have_value(written)


async def test_fingers_find_the_controls() -> None:
    expect.set_options(timeout=PATIENCE_MS)
    async with Server(build_app(large.backend())) as server, chromium() as browser:
        for place in ("nodes", "decisions", "pending"):
            async with reading(
                browser, server.url, place, size=NARROW, has_touch=True, is_mobile=True
            ) as (page, _):
                await settled(page)
                assert await page.evaluate(_TOO_SMALL) == [], place


async def test_escape_closes_the_menu() -> None:
    expect.set_options(timeout=PATIENCE_MS)
    async with (
        Server(build_app(large.backend())) as server,
        chromium() as browser,
        reading(browser, server.url, "groups?show=batches", size=NARROW) as (page, _),
    ):
        menu = page.get_by_role("button", name="Menu", exact=True)
        await menu.press("Enter")
        views = page.get_by_role("navigation", name="Views")
        await expect(views).to_be_visible()
        await views.get_by_role("link", name="Nodes").focus()
        await page.keyboard.press("Escape")
        await expect(views).to_be_hidden()
        await expect(menu).to_be_focused()


async def test_a_batch_that_took_milliseconds_did_not_take_none() -> None:
    expect.set_options(timeout=PATIENCE_MS)
    async with (
        Server(build_app(large.backend())) as server,
        chromium() as browser,
        reading(browser, server.url, "groups?show=batches") as (page, _),
    ):
        row = page.get_by_role("row").nth(1)
        await expect(row).to_contain_text("3.50 ms")
        await expect(row).to_contain_text("4 min 32 s")


async def test_the_keyboard_goes_through_five_thousand_nodes() -> None:
    expect.set_options(timeout=PATIENCE_MS)
    async with (
        Server(build_app(large.backend())) as server,
        chromium() as browser,
        reading(browser, server.url, "nodes?group=none") as (page, _),
    ):
        nodes = page.get_by_role("application")
        await page.locator("canvas").hover(position={"x": 5, "y": 5})
        await expect(page.locator(".map-tip")).to_contain_text("node-00000")
        await expect(page.locator(".map-tip")).to_contain_text("Cordoned")
        await nodes.focus()
        await page.keyboard.press("ArrowRight")
        told = page.locator("[aria-live=polite]", has_text="requested")
        await expect(told).to_contain_text("node-00001, zone zone-1: 12 % of cpu requested, 1 pod")
        await page.keyboard.press("End")
        await expect(told).to_contain_text("node-04999")
        assert await page.locator(".map-tip").evaluate(_SEEN) == pytest.approx(1, abs=0.01)
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("heading", name="node-04999")).to_be_visible()
        await page.go_back()
        await page.get_by_role("searchbox").fill("node-0012")
        await expect(page.get_by_role("application", name="Map of 10 nodes")).to_be_visible()


async def test_the_node_that_a_key_has_led_to_stays_it_when_others_come() -> None:
    expect.set_options(timeout=PATIENCE_MS)
    come = asyncio.Event()

    async def nodes(query: NodesQuery) -> dict[str, Any]:
        answer = await large.nodes(query)
        if not come.is_set():
            columns = answer["nodes"]
            for name, column in columns.items():
                if isinstance(column, list):
                    columns[name] = column[1:]
                elif isinstance(column, dict):
                    columns[name] = {resource: each[1:] for resource, each in column.items()}
            answer["count"] -= 1
        return answer

    backend = large.backend()
    backend.nodes = nodes
    async with (
        Server(build_app(backend)) as server,
        chromium() as browser,
        reading(browser, server.url, "nodes?group=none") as (page, _),
    ):
        await page.get_by_role("application", name="Map of 4,999 nodes").press("Home")
        come.set()
        await page.get_by_role("application", name="Map of 5,000 nodes").press("Enter")
        await expect(page.get_by_role("heading", name="node-00001")).to_be_visible()


async def test_a_map_of_five_thousand_nodes_is_small() -> None:
    for resource in ("memory", large.DEVICES):
        answer = await large.nodes(NodesQuery(large.NODES, resource))
        assert len(json.dumps(answer, separators=(",", ":"))) < MAP_BYTES, resource
