"""Equal parts of pods are kept once, and no pod gets what it has not said."""

from __future__ import annotations

import sys

import pytest

from scheduler.model.podinfo import PodInfo
from scheduler.model.sharing import share_status, share_template
from tests.builders import Json, PodBuilder, make_pod


def a_pod(name: str) -> PodBuilder:
    return make_pod(name).cpu("1").label(app="a").owner("ReplicaSet", "r")


def token(name: str) -> dict[str, str]:
    return {"name": f"kube-api-access-{name}"}


@pytest.mark.parametrize("others", [(), ("y",)])
@pytest.mark.parametrize("mine", [(), ("x",)])
def test_a_pod_keeps_its_own_volumes(mine: tuple[str, ...], others: tuple[str, ...]) -> None:
    pod = a_pod("p").spec(volumes=[token(each) for each in mine]).struct()
    twin = a_pod("q").spec(volumes=[token(each) for each in others]).struct()
    said, volumes = pod.spec.containers, pod.spec.volumes
    PodInfo(pod).adopt(PodInfo(twin))
    assert pod.spec.volumes == volumes
    assert pod.spec.containers == said
    assert pod.spec.containers is twin.spec.containers
    assert pod.metadata.labels is twin.metadata.labels
    assert pod.metadata.name == "p"


def test_a_version_shares_its_spec_and_keeps_its_node() -> None:
    first, same, bound = (a_pod("p").struct() for _ in range(3))
    bound = a_pod("p").on("n").struct()
    info = PodInfo(first)
    assert info.renewed(same).pod.spec is first.spec
    renewed = info.renewed(bound)
    assert renewed.pod.spec.node_name == "n"
    assert renewed.pod.spec.containers is first.spec.containers
    assert not first.spec.node_name


def test_what_a_pod_adopts_takes_a_word_for_each_attribute() -> None:
    pods = [PodInfo(a_pod(f"p{n}").struct()) for n in range(100)]
    for each in pods[1:]:
        each.adopt(pods[0])
    attributes = vars(pods[-1])
    assert sys.getsizeof(attributes) <= 8 * len(attributes) + 128


@pytest.mark.parametrize("status", [{}, {"phase": "Pending"}], ids=["none", "pending"])
def test_pods_that_nobody_has_attempted_share_their_status(status: Json) -> None:
    one, other = (make_pod(name).status(**status).struct() for name in "ab")
    for pod in (one, other):
        share_status(pod)
    assert one.status is other.status
    assert one.status.phase == status.get("phase", "")


def test_a_status_that_says_more_is_kept() -> None:
    pod = make_pod("a").phase("Pending").status(nominatedNodeName="n").struct()
    share_status(pod)
    assert pod.status.nominated_node_name == "n"


def test_pods_of_one_template_share_their_status_unless_it_differs() -> None:
    first, alike = (make_pod(name).phase("Pending").struct() for name in "ab")
    other = make_pod("c").phase("Pending").status(nominatedNodeName="n").struct()
    for pod in (alike, other):
        share_template(pod, first)
    assert alike.status is first.status
    assert other.status.nominated_node_name == "n"
