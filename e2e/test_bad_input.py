"""Pods that the API server accepts and no scheduler can place do not affect other pods."""

from e2e.conftest import Launch
from e2e.harness.election import NO_ELECTION
from e2e.harness.objects import Json, condition, is_bound, pod
from e2e.harness.workspace import Workspace

NOT_A_NUMBER = {"key": "example.com/disks", "operator": "Gt", "values": ["many"]}
TOO_LONG = {"key": "example.com/disks", "operator": "Lt", "values": ["9" * 40]}


def required(expression: Json) -> Json:
    terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": terms}}


def preferred(expression: Json) -> Json:
    term = {"weight": 1, "preference": {"matchExpressions": [expression]}}
    return {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term]}}


BAD_PODS = [
    pod("required-text-as-number", affinity=required(NOT_A_NUMBER)),
    pod("required-number-too-long", affinity=required(TOO_LONG)),
    pod("preferred-text-as-number", affinity=preferred(NOT_A_NUMBER)),
    pod("cpu-beyond-64-bits", cpu="1e30"),
    pod("cpu-at-the-limit-of-64-bits", cpu="9223372036854775807"),
    pod("memory-beyond-64-bits", memory="123456789123456789E"),
]
REMOTE_ANSWERS = {
    # A term that makes no sense matches no node, for kube-scheduler and for us.
    "required-text-as-number": "5 node(s) didn't match Pod's node affinity/selector",
    "required-number-too-long": "5 node(s) didn't match Pod's node affinity/selector",
    "preferred-text-as-number": "[0].preference.matchExpressions[0].values",
    "cpu-beyond-64-bits": "5 Insufficient cpu",
    "cpu-at-the-limit-of-64-bits": "5 Insufficient cpu",
    "memory-beyond-64-bits": "5 Insufficient memory",
}
GOOD_PODS = [pod(f"good-{number}") for number in range(50)]


def settled(pod: Json) -> bool:
    """A good pod is bound; a bad one has been told what is to blame."""
    fragment = REMOTE_ANSWERS.get(pod["metadata"]["name"])
    if fragment is None:
        return is_bound(pod)
    return fragment in condition(pod, "PodScheduled").get("message", "") and not is_bound(pod)


async def test_pods_without_sense_are_told_so_and_others_are_bound(
    space: Workspace, launch: Launch
) -> None:
    await space.add_nodes(5)
    scheduler = launch(*NO_ELECTION)

    await space.create_pods(BAD_PODS)
    await space.create_pods(GOOD_PODS)

    await space.wait_for_pods(len(BAD_PODS) + len(GOOD_PODS), settled)
    assert scheduler.process.exit_code is None
