"""What a user does with the page: a pod waits, the page says why and what helps, and it runs.

The same story is told on the demo and on a real API server.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from playwright.async_api import Page, expect

from tests.page.browser import PATIENCE_MS

REASON = "had untolerated taint(s)"


async def read_follow_and_see_it_bound(
    page: Page, pod: str, follow: Callable[[str], Awaitable[None]]
) -> None:
    """From the list of pending pods to one of them, its reason and remedy, and to its node."""
    expect.set_options(timeout=PATIENCE_MS)
    namespace, _, name = pod.partition("/")
    await page.get_by_role("navigation", name="Views").get_by_text("Pending pods").click()
    await page.get_by_role("button", name="All pods").click()
    await page.get_by_role("searchbox").fill(name)
    await page.locator(f'a[href="#/pods/{namespace}/{name}"]').first.click()
    await expect(page.get_by_role("heading", name=name)).to_be_visible()
    await expect(page.locator("main")).to_contain_text(REASON)
    await follow(await first_command(page))
    await expect(page.locator("h1 .badge")).to_have_text("Bound")


async def first_command(page: Page) -> str:
    """The command of the first remedy that needs no new pod: those say that they do."""
    remedies = page.locator(".remedy")
    await expect(remedies.first).to_be_visible()
    for each in await remedies.all():
        head = each.get_by_role("button").first
        if await head.get_attribute("aria-expanded") == "false":
            await head.click()
        said = await each.inner_text()
        if "Kubernetes does not let this be changed" not in said:
            return await each.locator(".command code").inner_text()
    raise AssertionError("every remedy needs a new pod")
