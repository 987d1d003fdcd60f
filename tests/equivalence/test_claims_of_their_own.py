"""Pods of which each has a claim of its own: what they share, and which keys are made for each."""

from __future__ import annotations

from scheduler.equivalence.classes import FILTER, SCORE, Classes
from scheduler.equivalence.reads import Declaration, Key, Reads
from scheduler.model.podinfo import PodInfo
from scheduler.state.aspects import ChangeLog
from tests.builders import make_pod


class Keys:
    """A plugin's keys: the names of a pod's claims; and how often one was made."""

    def __init__(self) -> None:
        self.made = 0

    def __call__(self, pod: PodInfo) -> Key:
        self.made += 1
        return tuple(use.name for use in pod.volumes.claims)


def with_claim(name: str, *, cpu: str = "1") -> PodInfo:
    claim = {"name": "data", "persistentVolumeClaim": {"claimName": f"claim-of-{name}"}}
    return make_pod(name).cpu(cpu).spec(volumes=[claim]).info()


def classes_of(keys: Keys, reads: Reads | None) -> Classes:
    declared = {FILTER: [Declaration("P", reads, keys)], SCORE: []}
    return Classes("equipoise", declared, ChangeLog())


def test_a_key_that_claims_do_not_enter_is_made_once_for_all() -> None:
    keys = Keys()
    classes = classes_of(keys, Reads(claims=False))
    assert classes.of(with_claim("a")) is classes.of(with_claim("b"))
    assert keys.made == 1
    assert classes.usage().templates == 1


def test_a_key_that_claims_may_enter_is_made_for_each_pod() -> None:
    keys = Keys()
    classes = classes_of(keys, Reads())
    first, second = with_claim("a"), with_claim("b")
    assert classes.of(first) is not classes.of(second)
    assert classes.of(second) is classes.of(second) is not classes.of(first)
    assert classes.usage().templates == 1


def test_pods_that_differ_in_more_share_no_template() -> None:
    classes = classes_of(Keys(), Reads(claims=False))
    classes.of(with_claim("a"))
    classes.of(with_claim("b", cpu="2"))
    assert classes.usage().templates == 2


def test_each_pod_keeps_its_own_claims() -> None:
    classes = classes_of(Keys(), Reads(claims=False))
    pods = [with_claim(name) for name in "ab"]
    for pod in pods:
        classes.of(pod)
    assert [pod.volumes.claims[0].name for pod in pods] == ["claim-of-a", "claim-of-b"]
