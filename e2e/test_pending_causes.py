"""The table of pending causes in docs/why-pending.md is what both schedulers say now."""

from pathlib import Path

import pytest

from e2e.conftest import Launch
from e2e.harness.client import ApiClient
from e2e.harness.cluster import ControlPlane
from e2e.harness.election import NO_ELECTION
from e2e.harness.kube_scheduler import kube_scheduler
from e2e.pending_causes.causes import CAUSES
from e2e.pending_causes.collecting import (
    Told,
    configuration,
    told_by_equipoise,
    told_by_kube_scheduler,
)
from e2e.pending_causes.page import PAGE, with_table
from e2e.pending_causes.scene import scene

TOLD = Told(["it waits"], "wait")


async def test_the_page_has_what_both_schedulers_say(
    control_plane: ControlPlane, api: ApiClient, launch: Launch, tmp_path: Path
) -> None:
    async with scene(api):
        with kube_scheduler(control_plane):
            theirs = await told_by_kube_scheduler(api)
        scheduler = launch(*NO_ELECTION, configuration(tmp_path))
        ours = await told_by_equipoise(api, scheduler.url)
    text = PAGE.read_text()
    assert text == with_table(text, theirs, ours), "run make causes"
    assert [cause.name for cause in CAUSES if not ours[cause.name].facts] == []
    assert [cause.name for cause in CAUSES if not ours[cause.name].remedy] == []


def test_a_page_without_its_marks_is_refused() -> None:
    told = {cause.name: TOLD for cause in CAUSES}
    with pytest.raises(ValueError, match="lacks"):
        with_table("# A page\n", told, told)
