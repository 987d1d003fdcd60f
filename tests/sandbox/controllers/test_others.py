"""Jobs, DaemonSets, StatefulSets and disruption budgets."""

from __future__ import annotations

from typing import Any

from sandbox.controllers import conditions
from tests.sandbox.controllers.support import World, template, workload, world

Body = dict[str, Any]


def job(**more: Any) -> Body:
    return {"template": template(restartPolicy="Never"), **more}


def is_complete(found: World, name: str = "sum") -> bool:
    return conditions.is_true(found.get("jobs", name) or {}, "Complete")


async def test_a_job_runs_so_many_at_a_time_and_so_many_in_all() -> None:
    async with world() as found:
        found.create("jobs", "sum", job(completions=5, parallelism=2))
        await found.until(lambda: is_complete(found))
        alive = [
            sum(pod["status"]["phase"] in ("Pending", "Running") for pod in pods.values())
            for pods in found.history("pods")
        ]
        assert max(alive) == 2
        assert found.status("jobs", "sum")["succeeded"] == 5
        assert found.status("jobs", "sum").get("active") is None
        assert len(found.pods()) == 5
        assert found.all("pods")[0]["metadata"]["labels"]["job-name"] == "sum"


async def test_completed_pods_that_are_deleted_still_count() -> None:
    async with world() as found:
        slow = template(restartPolicy="Never", container={"command": ["sleep", "999"]})
        found.create("jobs", "sum", {"template": slow, "completions": 2})
        await found.until(lambda: found.status("jobs", "sum").get("ready") == 1)
        (first,) = found.all("pods")
        done = {**first["status"], "phase": "Succeeded"}
        resource = found.registry.builtin("pods")
        key = ("default", first["metadata"]["name"])
        found.registry.update(resource, key, {**first, "status": done}, "status")
        await found.until(lambda: found.status("jobs", "sum").get("succeeded") == 1)
        found.delete("pods", first["metadata"]["name"])
        await found.until(lambda: found.status("jobs", "sum").get("ready") == 1)
        assert found.status("jobs", "sum")["succeeded"] == 1


async def test_an_indexed_job_runs_every_index_once() -> None:
    async with world() as found:
        found.create("jobs", "sum", job(completions=4, parallelism=4, completionMode="Indexed"))
        await found.until(lambda: is_complete(found))
        assert found.status("jobs", "sum")["completedIndexes"] == "0-3"
        names = sorted(pod.rsplit("-", 1)[0] for pod in found.pods())
        assert names == ["sum-0", "sum-1", "sum-2", "sum-3"]


async def test_a_job_that_keeps_failing_ends() -> None:
    async with world() as found:
        failing = template(restartPolicy="Never", container={"command": ["false"]})
        found.create("jobs", "sum", {"template": failing, "backoffLimit": 1})
        await found.until(lambda: conditions.is_true(found.get("jobs", "sum") or {}, "Failed"))
        assert found.status("jobs", "sum")["failed"] == 2


async def test_a_suspended_job_has_no_pods_until_it_is_resumed() -> None:
    async with world() as found:
        found.create("jobs", "sum", job(suspend=True))
        await found.until(lambda: found.status("jobs", "sum").get("conditions"))
        assert found.pods() == []
        found.change("jobs", "sum", {"spec": {"suspend": False}})
        await found.until(lambda: is_complete(found))


async def test_a_job_that_is_over_goes_when_its_time_is_up() -> None:
    async with world() as found:
        found.create("jobs", "sum", job(ttlSecondsAfterFinished=0))
        await found.until(lambda: found.get("jobs", "sum") is None and not found.pods())


async def test_a_daemon_set_has_a_pod_on_each_node_it_matches() -> None:
    async with world(0) as found:
        found.create("nodes", "a", {}, labels={"disk": "ssd"})
        found.create("nodes", "b", {}, labels={"disk": "ssd"})
        found.create("nodes", "hdd", {})
        taint = {"key": "k", "effect": "NoSchedule"}
        found.create("nodes", "tainted", {"taints": [taint]}, labels={"disk": "ssd"})
        spec = workload(0)
        del spec["replicas"]
        spec["template"]["spec"]["nodeSelector"] = {"disk": "ssd"}
        found.create("daemonsets", "agent", spec)
        await found.until(lambda: found.status("daemonsets", "agent").get("numberReady") == 2)
        assert sorted(pod["spec"]["nodeName"] for pod in found.all("pods")) == ["a", "b"]
        found.create("nodes", "c", {}, labels={"disk": "ssd"})
        await found.until(lambda: found.status("daemonsets", "agent").get("numberReady") == 3)
        found.change("nodes", "a", {"metadata": {"labels": {"disk": "hdd"}}})
        await found.until(lambda: len(found.pods()) == 2)
        update = {"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "2"}]}}}}
        found.change("daemonsets", "agent", update)
        await found.until(lambda: found.images() == ["2"])

        def all_new() -> bool:
            status = found.status("daemonsets", "agent")
            counts = (status.get("numberReady"), status.get("updatedNumberScheduled"))
            return counts == (2, 2)

        await found.until(all_new)


async def test_a_stateful_set_grows_and_shrinks_in_order() -> None:
    async with world() as found:
        claim = {"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"]}}
        found.create("statefulsets", "db", workload(3, volumeClaimTemplates=[claim]))

        def ready(count: int) -> bool:
            status = found.status("statefulsets", "db")
            return bool(status.get("readyReplicas") == count and len(found.pods()) == count)

        await found.until(lambda: ready(3))
        for pods in found.history("pods"):
            *before, _ = sorted(pods)
            assert all(conditions.is_true(pods[name], "Ready") for name in before)
        assert found.pods() == ["db-0", "db-1", "db-2"]
        claims = [each["metadata"]["name"] for each in found.all("persistentvolumeclaims")]
        assert claims == ["data-db-0", "data-db-1", "data-db-2"]
        found.change("statefulsets", "db", {"spec": {"replicas": 1}})
        await found.until(lambda: ready(1))
        assert found.pods() == ["db-0"]
        found.change("statefulsets", "db", {"spec": {"template": template("db:2")}})
        await found.until(lambda: found.images() == ["db:2"] and ready(1))

        def all_new() -> bool:
            status = found.status("statefulsets", "db")
            return bool(status["currentRevision"] == status["updateRevision"])

        await found.until(all_new)


async def test_a_budget_says_how_many_may_go() -> None:
    async with world() as found:
        selector = {"matchLabels": {"app": "web"}}
        found.create("poddisruptionbudgets", "b", {"selector": selector, "minAvailable": "50%"})
        found.create("deployments", "web", workload(4))
        await found.until(
            lambda: found.status("poddisruptionbudgets", "b").get("disruptionsAllowed") == 2
        )
