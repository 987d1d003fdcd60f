"""Pods of the demo are replaced now and then, whatever becomes of a request."""

from __future__ import annotations

import asyncio

import pytest

from sandbox.demo.ports import listen
from sandbox.demo.session import running
from tests.daemon.support import eventually
from tests.page.playground import configured


@pytest.mark.parametrize("processed", [False, True], ids=["request", "answer"])
async def test_what_is_lost_does_not_end_the_demo(processed: bool) -> None:
    async with running(configured(), 5, listen(0, 0), listen(0, 0)) as demo:
        await demo.create_nodes()
        await demo.create_pods()
        await demo.settle()
        before = {pod.metadata.uid for pod in demo.pods()}

        def replaced() -> int:
            return sum(pod.metadata.uid not in before for pod in demo.pods())

        for method in ("DELETE", "POST"):
            demo.api.faults.drop(method, r"/pods(/|$)", processed=processed)
        churning = asyncio.create_task(demo.churn(0.01))
        try:
            await eventually(lambda: churning.done() or replaced() > 5, "pods are replaced")
            assert not churning.done(), churning.exception()
        finally:
            churning.cancel()
            await asyncio.wait((churning,))
