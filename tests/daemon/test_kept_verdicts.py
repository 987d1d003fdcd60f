"""What the running daemon shows of its classes of equal pods."""

from __future__ import annotations

from tests.builders import make_pod, make_worker
from tests.daemon.support import Cluster, expect_bound, expect_pending, running_daemon
from tests.daemon.test_endpoints import fetch, fetch_json, samples, serving

CLASSES = "/debug/equivalence"


async def test_classes_of_pods_can_be_seen(cluster: Cluster) -> None:
    cluster.add(make_worker("open"), make_worker("closed").taint("keep", "out"))
    for i in range(3):
        cluster.submit(make_pod(f"small-{i}").cpu("100m"))
    async with running_daemon(cluster, serving()) as replica:
        await expect_bound(cluster, *(f"small-{i}" for i in range(3)))
        cluster.submit(make_pod("huge").cpu(64))
        await expect_pending(cluster, replica, "huge")

        seen = await fetch_json(replica, CLASSES)
        huge = next(each for each in seen["classes"] if each["feasible"] == 0)
        small = next(each for each in seen["classes"] if each["feasible"] == 1)
        assert small["pods"] >= 3

        one = await fetch_json(replica, f"{CLASSES}?class={small['hash']}&node=closed")
        assert one["nodes"]["closed"]["TaintToleration"] == {
            "valid": True,
            "fit": False,
            "reasons": ["node(s) had untolerated taint(s)"],
        }
        both = await fetch_json(replica, f"{CLASSES}?class={huge['hash']}")
        assert both["nodes"]["open"]["NodeResourcesFit"]["reasons"] == ["Insufficient cpu"]
        assert (await fetch(replica, f"{CLASSES}?class=1"))[0] == 404

        metrics = await samples(replica)
        assert metrics["equipoise_equivalence_hits_total", ()] > 0
        assert metrics["equipoise_equivalence_classes", ()] == 2
        assert metrics["equipoise_equivalence_changes_total", ("requested",)] >= 3
