"""Members wait at the gate until their group makes sense and is complete."""

from __future__ import annotations

import pytest

from scheduler.model.workloads import POD_GROUP_LABEL
from tests.builders import make_pod, make_worker
from tests.gangs.support import bound, gang_stage, make_group, member, messages


async def test_a_gang_waits_until_enough_members_exist() -> None:
    stage = gang_stage()
    stage.see(make_worker("n1"), make_group("g", 3), member("a"), member("b"))
    await stage.run()
    assert stage.tiers() == {"a": "gated", "b": "gated"}
    assert messages(stage)["a"] == "pod group default/g: 1 of 3 members exist"
    assert messages(stage)["b"] == "pod group default/g: 2 of 3 members exist"
    stage.see(member("c"))
    assert stage.tiers() == {"a": "active", "b": "active", "c": "active"}
    await stage.run()
    assert bound(stage) == ["a", "b", "c"]
    assert stage.sample("equipoise_gang_passes_total", result="placed") == 1
    assert stage.sample("equipoise_gang_placement_duration_seconds_count") == 1


async def test_a_group_may_come_after_its_members() -> None:
    stage = gang_stage()
    stage.see(make_worker("n1"), member("a"), member("b"))
    assert messages(stage)["a"] == "pod group default/g does not exist"
    stage.see(make_group("g", 2))
    await stage.run()
    assert bound(stage) == ["a", "b"]


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        pytest.param(
            {"minMember": 0}, "spec.minMember: must be at least 1, not 0", id="nobody is needed"
        ),
        pytest.param(
            {"minMember": 2001},
            "spec.minMember: must be at most 2000, not 2001",
            id="more than can be tried at once",
        ),
        pytest.param(
            {"scheduleTimeoutSeconds": -1},
            "spec.scheduleTimeoutSeconds: must not be negative, not -1",
            id="time runs backwards",
        ),
        pytest.param({"minResources": {"cpu": "many"}}, "spec.minResources", id="no such quantity"),
    ],
)
async def test_a_group_that_makes_no_sense_names_the_field(
    spec: dict[str, object], words: str
) -> None:
    stage = gang_stage()
    stage.see(make_worker("n1"), make_group("g", 1).spec(**spec), member("a"))
    await stage.run()
    assert stage.tiers() == {"a": "gated"}
    assert f"pod group default/g: {words}" in messages(stage)["a"]
    stage.see(make_group("g", 1))
    await stage.run()
    assert bound(stage) == ["a"]


async def test_the_minimum_may_be_lowered() -> None:
    stage = gang_stage()
    stage.see(make_worker("n1"), make_group("g", 3), member("a"), member("b"))
    await stage.run()
    stage.see(make_group("g", 2))
    await stage.run()
    assert bound(stage) == ["a", "b"]


async def test_members_of_other_namespaces_do_not_count() -> None:
    stage = gang_stage()
    stranger = make_pod("b", "elsewhere").label(**{POD_GROUP_LABEL: "g"})
    stage.see(make_worker("n1"), make_group("g", 2), member("a"), stranger)
    await stage.run()
    assert stage.tiers() == {"a": "gated", "b": "gated"}


async def test_pods_without_a_group_and_with_an_empty_label_are_pods_like_others() -> None:
    stage = gang_stage()
    stage.see(make_worker("n1"), make_pod("a"), make_pod("b").label(**{POD_GROUP_LABEL: ""}))
    await stage.run()
    assert bound(stage) == ["a", "b"]


async def test_finished_members_count_if_they_have_succeeded() -> None:
    stage = gang_stage()
    done = member("done").on("n1").phase("Succeeded")
    lost = member("lost").on("n1").phase("Failed")
    stage.see(make_worker("n1"), make_group("g", 3), done, lost, member("a"))
    await stage.run()
    assert messages(stage)["a"] == "pod group default/g: 2 of 3 members exist"
    stage.see(member("b"))
    await stage.run()
    assert bound(stage) == ["a", "b"]


async def test_a_change_of_status_wakes_nobody() -> None:
    stage = gang_stage()
    stage.see(make_worker("n1").cpu("1"), make_group("g", 2), member("a"), member("b"))
    await stage.run()
    before = stage.sample("equipoise_gang_passes_total", result="unplaced")
    stage.see(make_group("g", 2).status(phase="Scheduling"))
    await stage.run()
    assert stage.sample("equipoise_gang_passes_total", result="unplaced") == before == 1


async def test_groups_are_counted_by_phase() -> None:
    stage = gang_stage()

    def count(phase: str) -> float:
        return stage.sample("equipoise_gang_groups", phase=phase)

    stage.see(make_worker("n1"), make_group("g", 2), make_group("h", 1))
    assert count("Pending") == 2
    stage.see(member("a"), member("b"))
    assert (count("Pending"), count("Scheduling")) == (1, 1)
    stage.see(member("a").on("n1"), member("b").on("n1"))
    assert (count("Scheduling"), count("Scheduled")) == (0, 1)
    running = [member(name).on("n1").phase("Running") for name in "ab"]
    stage.see(*running)
    assert count("Running") == 1
    stage.see(member("a").on("n1").phase("Failed"))
    assert (count("Running"), count("Failed")) == (0, 1)
    stage.lose(make_group("g", 2), make_group("h", 1))
    assert (count("Failed"), count("Pending")) == (0, 0)
