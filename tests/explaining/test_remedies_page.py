"""docs/remedies.md says what each kind of change costs, and the bounds, as the program has them."""

from __future__ import annotations

import re

from scheduler.explaining import replicas
from scheduler.explaining.remedies import devices, gangs, occupancy, scene, search, workloads
from scheduler.explaining.remedies.costs import COSTS, OTHER_OBJECTS, OTHER_PODS, cost
from shipping.helm import PROJECT

PAGE = (PROJECT / "docs" / "remedies.md").read_text()


def test_the_table_has_all_kinds_and_their_costs() -> None:
    rows = re.findall(r"^\| `([a-z-]+)` \| ([0-9.]+) \|", PAGE, re.M)
    assert {kind: float(text) for kind, text in rows} == COSTS
    assert [float(text) for _, text in rows] == sorted(float(text) for _, text in rows)


def test_the_size_of_a_change_never_makes_it_one_of_another_class() -> None:
    assert cost("drop-selector", 100.0) < OTHER_OBJECTS
    assert cost("untaint", 100.0) < OTHER_PODS
    assert cost("delete", 100.0) == OTHER_PODS + 100.0


def test_the_bounds_are_those_of_the_program() -> None:
    assert f"| trials for one pod | {scene.MAX_TRIALS} |" in PAGE
    assert f"| {search.MOST_REMEDIES}, of each kind at most {search.MOST_OF_A_KIND} |" in PAGE
    victims = f"{occupancy.MOST_NODES}, of the {occupancy.MOST_READ} that lack least"
    assert f"{victims}; at most {occupancy.MOST_VICTIMS} victims" in PAGE
    shapes = f"{occupancy.MOST_SHAPES}; for gangs {gangs.MOST_SHAPES}"
    assert f"{shapes}, and at most {gangs.MOST_NODES} nodes" in PAGE
    limits = f"{devices.MOST_ATOMS} each; {devices.MOST_REQUESTS} requests with fewer devices"
    assert f"{limits}, {devices.MOST_SHARES} shares" in PAGE
    assert f"{scene.TRIAL_WORK:,} steps of work" in PAGE
    assert f"| members of a gang | {gangs.MOST_MEMBERS} |" in PAGE
    assert f"| new nodes for all pods of a workload | {workloads.MOST_NEW_NODES} |" in PAGE
    assert f"for the others to get remedies | {workloads.MOST_SIBLINGS} |" in PAGE
    assert f"null if more than {workloads.MOST_PLACED} would have to" in PAGE
    assert f"up to {replicas.MOST_ONE_BY_ONE} pods are placed" in PAGE
