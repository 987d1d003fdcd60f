"""``python -m bench.core.pod_classes``: what it costs to find the class of one more pod.

Once by its controller's revision, once by its content, as for pods of a revision that are not all
alike. Both are measured alternately, pod by pod new, and the best of many rounds counts.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from scheduler.equivalence.classes import Classes
from scheduler.model.podinfo import PodInfo
from tests.builders import PodBuilder, constraint, make_pod, pod_term
from tests.equivalence.world import World

PODS = 500
ROUNDS = 30

Template = Callable[[PodBuilder], PodBuilder]


def plain(pod: PodBuilder) -> PodBuilder:
    return pod.cpu("250m").memory("512Mi")


def rich(pod: PodBuilder) -> PodBuilder:
    """Three containers, spread over zones, rather apart from its equals."""
    for _ in range(2):
        pod.container({"cpu": "100m", "memory": "64Mi"})
    zones = constraint("zone", labelSelector={"matchLabels": {"app": "web"}})
    near = pod_term("kubernetes.io/hostname", {"app": "web"})
    return plain(pod).spread(zones).rather_apart(100, near)


def replicas(template: Template, uid: str) -> list[PodInfo]:
    """New pods of one revision, with what the API server adds."""
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": uid}
    made = []
    for number in range(PODS):
        pod = make_pod(f"web-{number}").label(app="web", **{"pod-template-hash": "5c9c7d6b7f"})
        pod.meta(ownerReferences=[{**owner, "controller": True}])
        for key in ("not-ready", "unreachable"):
            pod.toleration(f"node.kubernetes.io/{key}", "Exists", effect="NoExecute")
        pod.spec(volumes=[{"name": f"kube-api-access-{number}"}])
        made.append(template(pod).info())
    return made


def microseconds(classes: Classes, pods: list[PodInfo]) -> float:
    """For each pod."""
    started = time.perf_counter()
    for pod in pods:
        classes.of(pod)
    return (time.perf_counter() - started) / len(pods) * 1e6


def main() -> None:
    world = World()
    assert world.core.equivalence is not None
    classes = world.core.equivalence.classes["equipoise"]
    for template in (plain, rich):
        classes.of(replicas(template, f"mixed {template.__name__}")[0])
        classes.of(make_odd(template))
        took: dict[str, list[float]] = {"alike": [], "mixed": []}
        for _ in range(ROUNDS):
            for uid, times in took.items():
                times.append(
                    microseconds(classes, replicas(template, f"{uid} {template.__name__}"))
                )
        revision, content = min(took["alike"]), min(took["mixed"])
        print(f"{template.__name__:6} by revision {revision:.1f} µs, by content {content:.1f} µs")


def make_odd(template: Template) -> PodInfo:
    """A pod that parts the revision ``mixed`` from its controller."""
    return replicas(lambda pod: template(pod).priority(7), f"mixed {template.__name__}")[0]


if __name__ == "__main__":
    main()
