"""Cells of tables: ages, states of pods, columns of custom resources."""

from datetime import UTC, datetime
from typing import Any

import pytest

from sandbox.printing.durations import age, human
from sandbox.printing.tables import COLUMNS, TableView
from sandbox.resources import BUILT_IN, Resource, defined_by
from sandbox.store import Version

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
DAY = 86_400


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (-5, "<invalid>"),
        (-1, "0s"),
        (0, "0s"),
        (119, "119s"),
        (120, "2m"),
        (125, "2m5s"),
        (11 * 60 + 5, "11m"),
        (3 * 3600, "3h"),
        (3 * 3600 + 600, "3h10m"),
        (9 * 3600 + 600, "9h"),
        (2 * DAY, "2d"),
        (2 * DAY + 3600, "2d1h"),
        (30 * DAY, "30d"),
        (3 * 365 * DAY, "3y"),
        (3 * 365 * DAY + 5 * DAY, "3y5d"),
        (9 * 365 * DAY + 5 * DAY, "9y"),
    ],
)
def test_durations_are_the_rougher_the_longer(seconds: int, shown: str) -> None:
    assert human(seconds) == shown


@pytest.mark.parametrize("text", [None, "", "yesterday", 5])
def test_an_age_of_no_time_is_unknown(text: object) -> None:
    assert age(text, NOW) == "<unknown>"


def cells(resource: Resource, body: dict[str, Any]) -> dict[str, Any]:
    table = TableView(resource).table([Version(("", "x"), body, 1)], {}, NOW)
    names = [each["name"] for each in table["columnDefinitions"]]
    return dict(zip(names, table["rows"][0]["cells"], strict=True))


PODS = next(each for each in BUILT_IN if each.table == "pods")


def pod_cells(status: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    containers = {"containers": [{"name": "a"}, {"name": "b"}]}
    body = {"metadata": {"name": "x", **metadata}, "spec": containers, "status": status}
    return cells(PODS, body)


def container(name: str = "a", **state: Any) -> dict[str, Any]:
    return {"name": name, "state": state}


@pytest.mark.parametrize(
    ("status", "shown"),
    [
        ({"phase": "Pending"}, "Pending"),
        ({"phase": "Failed", "reason": "TopologyAffinityError"}, "TopologyAffinityError"),
        ({"phase": "Running", "containerStatuses": [container(terminated={"exitCode": 3})]},
         "ExitCode:3"),
        ({"phase": "Running", "containerStatuses": [container(terminated={"signal": 9})]},
         "Signal:9"),
        ({"phase": "Pending", "initContainerStatuses": [container(running={})]}, "Init:0/0"),
        ({"phase": "Pending",
          "initContainerStatuses": [container(waiting={"reason": "ErrImagePull"})]},
         "Init:ErrImagePull"),
    ],
)  # fmt: skip
def test_the_state_of_a_pod_is_that_of_its_containers(status: dict[str, Any], shown: str) -> None:
    assert pod_cells(status)["Status"] == shown


def test_a_leaving_pod_terminates_and_an_ended_one_has_ended() -> None:
    leaving = {"deletionTimestamp": "2026-01-01T00:00:00Z"}
    assert pod_cells({"phase": "Running"}, **leaving)["Status"] == "Terminating"
    assert pod_cells({"phase": "Succeeded"}, **leaving)["Status"] == "Succeeded"


def test_restarts_say_when_the_last_was() -> None:
    ended = {"terminated": {"finishedAt": "2026-01-01T11:59:00Z"}}
    restarted = {**container(running={}), "ready": True, "restartCount": 4, "lastState": ended}
    shown = pod_cells({"phase": "Running", "containerStatuses": [restarted]})
    assert (shown["Ready"], shown["Restarts"]) == ("1/2", "4 (60s ago)")


def test_a_crds_own_columns() -> None:
    columns = [
        {"name": "Phase", "type": "string", "jsonPath": ".status.phase"},
        {"name": "Members", "type": "integer", "jsonPath": ".spec.minMember"},
        {"name": "Since", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ]
    version = {"name": "v1", "served": True, "additionalPrinterColumns": columns}
    names = {"plural": "things", "kind": "Thing"}
    crd = {"spec": {"group": "example.com", "names": names, "versions": [version]}}
    (resource,) = defined_by(crd)
    created = {"name": "x", "creationTimestamp": "2026-01-01T11:00:00Z"}
    shown = cells(resource, {"metadata": created, "spec": {"minMember": 3}})
    assert shown == {"Name": "x", "Phase": None, "Members": 3, "Since": "60m"}


def test_columns_are_of_kinds_that_exist() -> None:
    assert COLUMNS.keys() <= {each.table for each in BUILT_IN}
