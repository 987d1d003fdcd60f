"""Pods that controllers of other kinds than Deployment make."""

from e2e.conftest import Launch
from e2e.harness.election import NO_ELECTION
from e2e.harness.objects import controller, is_running, node_of, template
from e2e.harness.workspace import Workspace


async def test_daemon_set_runs_on_every_node_that_it_tolerates(
    space: Workspace, launch: Launch
) -> None:
    cordoned, tainted, foreign, *others = await space.add_nodes(6)
    await space.api.patch(f"/api/v1/nodes/{cordoned}", {"spec": {"unschedulable": True}})
    for name, value in ((tainted, "batch"), (foreign, "foreign")):
        taint = {"key": "dedicated", "value": value, "effect": "NoSchedule"}
        await space.api.patch(f"/api/v1/nodes/{name}", {"spec": {"taints": [taint]}})
    launch(*NO_ELECTION)
    tolerated = {"key": "dedicated", "value": "batch", "effect": "NoSchedule"}

    await space.apply(controller("DaemonSet", "agent", template("agent", tolerations=[tolerated])))

    pods = await space.wait_for_pods(5, is_running)
    assert sorted(map(node_of, pods)) == sorted([cordoned, tainted, *others])
    (late,) = await space.add_nodes(1)
    pods = await space.wait_for_pods(6, is_running)
    assert late in map(node_of, pods)


async def test_job_completes_on_a_node_with_room_for_a_part_of_it(
    space: Workspace, launch: Launch
) -> None:
    await space.add_nodes(1, cpu="1")
    launch(*NO_ELECTION)
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "sums"},
        "spec": {
            "parallelism": 4,
            "completions": 6,
            "template": template("sums", cpu="400m", restartPolicy="Never"),
        },
    }

    await space.apply(job)

    jobs = f"/apis/batch/v1/namespaces/{space.name}/jobs/sums"
    done = await space.api.wait_until(jobs, lambda job: job["status"].get("completionTime"))
    assert done["status"]["succeeded"] == 6
