"""What is said on a pod's status: the newest word, never over a binding, never at any price."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from scheduler.kube.errors import KubeError, NotFound
from scheduler.kube.writes import ApiWriter, Binding, BindOutcome
from scheduler.model.status import SUCCESS, error
from scheduler.plugin_api.outlet import StaleReason, WriteError, never_stale
from scheduler.reporting import MAX_REPORTS, ClusterOutlet
from tests.builders import Json, make_pod
from tests.pipeline.support import turns


class RememberingWriter:
    """Stands for the API server: remembers what is written, or fails as told."""

    def __init__(self) -> None:
        self.statuses: list[tuple[str, Json]] = []
        self.requests: list[tuple[str, str]] = []
        self.outcomes: Iterator[BindOutcome] = iter(())
        self.faults: list[Exception] = []
        self.hold = asyncio.Event()
        self.hold.set()

    async def bind(
        self, namespace: str, name: str, uid: str, node: str, stale: StaleReason = never_stale
    ) -> BindOutcome:
        return next(self.outcomes)

    async def settle(self, namespace: str, name: str, uid: str, node: str) -> BindOutcome:
        return next(self.outcomes)

    async def patch_pod_status(
        self, namespace: str, name: str, patch: Json, uid: str = "", waiting_at: str = ""
    ) -> None:
        await self.hold.wait()
        if self.faults:
            raise self.faults.pop()
        self.statuses.append((name, patch["status"]))

    async def send(self, method: str, path: str, body: Any, content_type: str = "") -> None:
        if self.faults:
            raise self.faults.pop()
        self.requests.append((method, path))


@pytest.fixture
async def writer() -> RememberingWriter:
    return RememberingWriter()


@pytest.fixture
async def outlet(writer: RememberingWriter) -> ClusterOutlet:
    return ClusterOutlet(cast("ApiWriter", writer), {})


@asynccontextmanager
async def running(outlet: ClusterOutlet) -> AsyncIterator[None]:
    """The outlet's workers are at work within, and what was queued is written."""
    task = asyncio.create_task(outlet.run())
    yield
    await turns(20)
    assert not task.done()
    task.cancel()


def messages(writer: RememberingWriter) -> list[tuple[str, str]]:
    return [(name, status["conditions"][0]["message"]) for name, status in writer.statuses]


async def test_only_the_newest_condition_is_written(
    outlet: ClusterOutlet, writer: RememberingWriter
) -> None:
    pod = make_pod("p").info()
    outlet.set_condition(pod, "Unschedulable", "first")
    outlet.set_condition(pod, "Unschedulable", "second")
    async with running(outlet):
        pass
    ((name, status),) = writer.statuses
    assert name == "p"
    (condition,) = status["conditions"]
    assert condition.pop("lastTransitionTime")
    assert condition == {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "second",
    }


async def test_what_is_said_during_a_write_is_written_after_it(
    outlet: ClusterOutlet, writer: RememberingWriter
) -> None:
    pod = make_pod("p").info()
    writer.hold.clear()
    async with running(outlet):
        outlet.set_condition(pod, "Unschedulable", "first")
        await turns()
        outlet.set_condition(pod, "Unschedulable", "second")
        await turns()
        writer.hold.set()
    assert messages(writer) == [("p", "first"), ("p", "second")]


async def test_a_pod_that_says_so_already_is_left_alone(
    outlet: ClusterOutlet, writer: RememberingWriter
) -> None:
    said = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no"}
    pod = make_pod("p").status(conditions=[said]).info()
    async with running(outlet):
        outlet.set_condition(pod, "Unschedulable", "no")
    assert writer.statuses == []
    async with running(outlet):
        outlet.set_condition(pod, "Unschedulable", "still no")
    ((_, status),) = writer.statuses
    # The condition is as false as before: the time of its last transition stays.
    assert "lastTransitionTime" not in status["conditions"][0]


@pytest.mark.parametrize("writing", [False, True], ids=["queued", "being written"])
async def test_what_the_pod_says_is_said_again_over_a_word_on_its_way(
    outlet: ClusterOutlet, writer: RememberingWriter, writing: bool
) -> None:
    said = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no"}
    pod = make_pod("p").status(conditions=[said]).info()
    writer.hold.clear()
    async with running(outlet):
        outlet.set_condition(pod, "Unschedulable", "perhaps")
        if writing:
            await turns()
        outlet.set_condition(pod, "Unschedulable", "no")
        writer.hold.set()
    assert messages(writer)[-1] == ("p", "no")


async def test_what_the_pod_says_is_said_again_over_a_word_the_watch_has_not_shown(
    outlet: ClusterOutlet, writer: RememberingWriter
) -> None:
    said = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "no"}
    pod = make_pod("p").status(conditions=[said]).info()
    for word in ("perhaps", "no", "no"):
        async with running(outlet):
            outlet.set_condition(pod, "Unschedulable", word)
    assert messages(writer) == [("p", "perhaps"), ("p", "no")]


async def test_too_many_words_at_once_are_dropped_and_one_is_logged(
    outlet: ClusterOutlet, writer: RememberingWriter, caplog: pytest.LogCaptureFixture
) -> None:
    pods = [make_pod(f"p{number}").info() for number in range(MAX_REPORTS + 5)]
    with caplog.at_level(logging.WARNING, logger="scheduler"):
        for pod in pods:
            outlet.set_condition(pod, "Unschedulable", "no")
    assert len(caplog.records) == 1
    assert len(outlet._reports) == len(outlet._said) == MAX_REPORTS


async def test_a_binding_makes_what_was_to_be_said_obsolete(
    outlet: ClusterOutlet, writer: RememberingWriter
) -> None:
    pod = make_pod("p").info()
    outlet.set_condition(pod, "Unschedulable", "no")
    writer.outcomes = iter([BindOutcome(Binding.BOUND)])
    assert await outlet.bind(pod, "n1") == SUCCESS
    async with running(outlet):
        pass
    assert writer.statuses == []


async def test_nothing_is_written_to_a_pod_that_is_gone(
    outlet: ClusterOutlet, writer: RememberingWriter
) -> None:
    outlet.set_condition(make_pod("gone").info(), "Unschedulable", "no room")
    outlet.set_condition(make_pod("stays").info(), "Unschedulable", "no room")
    outlet.drop(make_pod("gone").info().uid)
    outlet.drop("never heard of")
    async with running(outlet):
        await turns(20)
    assert [name for name, _ in writer.statuses] == ["stays"]


async def test_an_unknown_outcome_is_asked_for_again(
    outlet: ClusterOutlet, writer: RememberingWriter
) -> None:
    writer.outcomes = iter([BindOutcome(Binding.UNKNOWN), BindOutcome(Binding.GONE, "not found")])
    text = "deleted, or replaced by a pod of the same name: not found"
    assert await outlet.bind(make_pod("p").info(), "n1") == error(text)


@pytest.mark.parametrize("fault", [NotFound(404), KubeError("broken"), RuntimeError("bug")])
async def test_a_status_that_cannot_be_written_stops_nothing(
    outlet: ClusterOutlet, writer: RememberingWriter, fault: Exception
) -> None:
    writer.faults = [fault]
    async with running(outlet):
        outlet.set_condition(make_pod("p").info(), "Unschedulable", "no")
        await turns(10)
        outlet.set_condition(make_pod("q").info(), "Unschedulable", "no")
    assert messages(writer) == [("q", "no")]


async def test_a_nomination_is_written_and_taken_back(
    outlet: ClusterOutlet, writer: RememberingWriter
) -> None:
    async with running(outlet):
        outlet.nominate(make_pod("p").info(), "n1")
        await turns(10)
        outlet.nominate(make_pod("p").info(), "")
    assert writer.statuses == [
        ("p", {"nominatedNodeName": "n1"}),
        ("p", {"nominatedNodeName": None}),
    ]


async def test_other_objects_are_patched_where_they_are(
    outlet: ClusterOutlet, writer: RememberingWriter
) -> None:
    await outlet.patch("PersistentVolumeClaim", "web/data", {})
    await outlet.patch("PersistentVolume", "pv-1", {})
    assert writer.requests == [
        ("PATCH", "/api/v1/namespaces/web/persistentvolumeclaims/data"),
        ("PATCH", "/api/v1/persistentvolumes/pv-1"),
    ]
    writer.faults = [KubeError("broken")]
    with pytest.raises(WriteError, match="broken"):
        await outlet.patch("PersistentVolume", "pv-1", {})
