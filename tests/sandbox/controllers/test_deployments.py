"""Deployments and their ReplicaSets."""

from __future__ import annotations

from functools import partial

from sandbox.controllers import conditions
from tests.sandbox.controllers.support import World, template, workload, world


def rolled_out(found: World, count: int) -> bool:
    """As `kubectl rollout status` judges it."""
    status = found.status("deployments", "web")
    metadata = (found.get("deployments", "web") or {})["metadata"]
    counts = ("replicas", "updatedReplicas", "availableReplicas", "readyReplicas")
    return status.get("observedGeneration") == metadata["generation"] and all(
        status.get(each) == count for each in counts
    )


def serves(found: World, count: int, image: str) -> bool:
    return rolled_out(found, count) and found.images() == [image]


async def test_a_deployment_gets_its_pods_and_says_so() -> None:
    async with world() as found:
        found.create("deployments", "web", workload(3))
        await found.until(lambda: rolled_out(found, 3))
        (only,) = found.all("replicasets")
        assert only["metadata"]["name"].startswith("web-")
        name = only["metadata"]["labels"]["pod-template-hash"]
        for pod in found.all("pods"):
            assert pod["metadata"]["name"].startswith(f"web-{name}-")
            assert pod["metadata"]["labels"] == {"app": "web", "pod-template-hash": name}
        deployment = found.get("deployments", "web") or {}
        assert conditions.is_true(deployment, "Available")
        progressing = conditions.find(deployment, "Progressing") or {}
        assert progressing["reason"] == "NewReplicaSetAvailable"
        assert deployment["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "1"
        assert {"ScalingReplicaSet", "SuccessfulCreate"} <= found.reasons()


async def test_scaling_up_and_down() -> None:
    async with world() as found:
        found.create("deployments", "web", workload(2))
        await found.until(lambda: rolled_out(found, 2))
        found.change("deployments", "web", {"spec": {"replicas": 120}})
        await found.until(lambda: rolled_out(found, 120))
        found.change("deployments", "web", {"spec": {"replicas": 1}})
        await found.until(lambda: rolled_out(found, 1) and len(found.pods()) == 1)


async def test_a_deleted_pod_is_replaced() -> None:
    async with world() as found:
        found.create("deployments", "web", workload(2))
        await found.until(lambda: rolled_out(found, 2))
        first = found.pods()[0]
        found.delete("pods", first)
        await found.until(lambda: first not in found.pods() and rolled_out(found, 2))


async def test_a_new_template_is_rolled_out_within_its_bounds() -> None:
    async with world() as found:
        rolling = {"rollingUpdate": {"maxSurge": 1, "maxUnavailable": 1}}
        found.create("deployments", "web", workload(4, strategy=rolling))
        await found.until(lambda: rolled_out(found, 4))
        begun = len(found.history("pods"))
        found.change("deployments", "web", {"spec": {"template": template("web:2")}})
        await found.until(lambda: rolled_out(found, 4) and found.images() == ["web:2"])
        for pods in found.history("pods")[begun:]:
            active = [p for p in pods.values() if "deletionTimestamp" not in p["metadata"]]
            assert sum(conditions.is_true(pod, "Ready") for pod in active) >= 3
        for sets in found.history("replicasets"):
            assert sum(each["spec"]["replicas"] for each in sets.values()) <= 5
        assert sorted(s["spec"]["replicas"] for s in found.all("replicasets")) == [0, 4]


async def test_going_back_takes_the_earlier_replica_set_as_the_latest_revision() -> None:
    async with world() as found:
        found.create("deployments", "web", workload(2))
        await found.until(lambda: rolled_out(found, 2))
        for image in ("web:2", "web:1"):
            found.change("deployments", "web", {"spec": {"template": template(image)}})
            await found.until(partial(serves, found, 2, image))
        assert len(found.all("replicasets")) == 2
        annotations = (found.get("deployments", "web") or {})["metadata"]["annotations"]
        assert annotations["deployment.kubernetes.io/revision"] == "3"


async def test_recreate_has_no_pods_of_two_templates() -> None:
    async with world() as found:
        found.create("deployments", "web", workload(3, strategy={"type": "Recreate"}))
        await found.until(lambda: rolled_out(found, 3))
        found.change("deployments", "web", {"spec": {"template": template("web:2")}})
        await found.until(lambda: rolled_out(found, 3) and found.images() == ["web:2"])
        for pods in found.history("pods"):
            assert len({pod["spec"]["containers"][0]["image"] for pod in pods.values()}) <= 1


async def test_a_paused_deployment_does_not_roll_out() -> None:
    async with world() as found:
        found.create("deployments", "web", workload(2))
        await found.until(lambda: rolled_out(found, 2))
        change = {"spec": {"paused": True, "template": template("web:2")}}
        found.change("deployments", "web", change)
        await found.until(lambda: found.status("deployments", "web")["observedGeneration"] == 2)
        assert found.images() == ["web:1"]
        found.change("deployments", "web", {"spec": {"paused": False}})
        await found.until(lambda: rolled_out(found, 2) and found.images() == ["web:2"])


async def test_history_is_bounded() -> None:
    async with world() as found:
        found.create("deployments", "web", workload(1, revisionHistoryLimit=1))
        await found.until(lambda: rolled_out(found, 1))
        for i in range(2, 5):
            found.change("deployments", "web", {"spec": {"template": template(f"web:{i}")}})
            await found.until(partial(serves, found, 1, f"web:{i}"))
        await found.until(lambda: len(found.all("replicasets")) == 2)


async def test_pods_without_nodes_are_not_available() -> None:
    async with world(scheduled=False) as found:
        found.create("deployments", "web", workload(2, progressDeadlineSeconds=1))

        def late() -> bool:
            deployment = found.get("deployments", "web") or {}
            progressing = conditions.find(deployment, "Progressing") or {}
            return bool(progressing.get("reason") == "ProgressDeadlineExceeded")

        def without_nodes() -> bool:
            status = found.status("deployments", "web")
            return (status.get("replicas"), status.get("unavailableReplicas")) == (2, 2)

        # A busy machine may take longer than the deadline to make them.
        await found.until(lambda: late() and without_nodes())


async def test_what_cannot_be_made_is_said_and_stops_nothing() -> None:
    async with world() as found:
        broken = workload(1)
        broken["template"]["spec"]["priorityClassName"] = "absent"
        found.create("deployments", "broken", broken)
        found.create("deployments", "odd", {**workload(1), "replicas": "many"})
        found.create("deployments", "web", workload(1))
        await found.until(lambda: rolled_out(found, 1))
        await found.until(lambda: {"FailedCreate", "FailedSync"} <= found.reasons())
        messages = " ".join(event["note"] for event in found.all("events"))
        assert "no PriorityClass with name absent" in messages
        assert "replicas" in messages
