"""A user of the demo opens a pending pod, follows the remedy, and sees the pod bound."""

from __future__ import annotations

from functools import partial

from sandbox.demo.session import Demo
from tests.builders import make_pod
from tests.page.browser import chromium, reading
from tests.page.playground import create, follow, needs_page, playground, url_of
from tests.page.story import read_follow_and_see_it_bound

pytestmark = needs_page


def tainted_node(demo: Demo) -> str:
    """A node of the demo that only some pods tolerate."""
    state = demo.daemon.core.state
    return next(
        state.name(row)
        for row in state.rows().tolist()
        if any(taint.effect == "NoSchedule" for taint in state.columns.taints.of(row))
    )


async def test_a_pod_that_waits_is_explained_cured_and_bound() -> None:
    async with playground() as demo, chromium() as browser:
        pod = make_pod("wants-that-node").cpu("10m")
        pod.node_selector(**{"kubernetes.io/hostname": tainted_node(demo)})
        await create(demo, pod.obj())
        async with reading(browser, url_of(demo)) as (page, _):
            await read_follow_and_see_it_bound(
                page, "default/wants-that-node", partial(follow, demo)
            )
