"""What a volume touches: the verdicts of pods with its claims, and no others."""

from __future__ import annotations

import pytest

from scheduler.assembly import Core, assemble, available
from scheduler.config.loading import from_dicts
from scheduler.equivalence.classes import PodClass
from scheduler.model.podinfo import PodInfo
from scheduler.observe.metrics import Metrics
from scheduler.pipeline.evaluation import ClassCache, evaluate
from scheduler.plugin_api.cycle import Cycle
from scheduler.plugins.volume_binding import VolumeBinding
from scheduler.state.cache import ClusterState
from scheduler.state.columns import Codes, Rows
from tests.builders import Json, make_node
from tests.pipeline.support import RecordingOutlet
from tests.plugins.storage import (
    a_claim,
    a_class,
    a_driver,
    a_pod,
    a_room,
    a_volume,
    csi,
    lose,
    put,
    within,
)

NFS = {"nfs": {"server": "s", "path": "/"}}
HOST = "kubernetes.io/hostname"
PODS = ("slow", "fast", "bound", "share")
"""Named after the claims that they use."""


class Cluster:
    """Nodes, claims, a pod for each, and a count of the rows that VolumeBinding judges."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._judged: dict[str, int] = {}
        judge = VolumeBinding.filter

        def counted(plugin: VolumeBinding, cycle: Cycle, rows: Rows) -> Codes:
            name = cycle.pod.pod.metadata.name
            self._judged[name] = self._judged.get(name, 0) + len(rows)
            return judge(plugin, cycle, rows)

        monkeypatch.setattr(VolumeBinding, "filter", counted)
        self.core: Core = assemble(
            from_dicts([], available(), environ={}), RecordingOutlet(), Metrics()
        )
        assert self.core.equivalence is not None
        self._cache = ClassCache(self.core.equivalence)
        for name in ("a", "b", "c"):
            self.state.set_node(make_node(name).label(**{HOST: name}).struct())
        put(self.state, a_class("slow"), a_class("fast"))
        put(self.state, a_claim("slow", "slow"), a_claim("fast", "fast"))
        put(self.state, a_claim("bound", "slow", "v"), V)
        put(
            self.state,
            a_claim("share", "", "nfs"),
            a_volume("nfs", "", spec=claimed("share", **NFS)),
        )
        self.judged()

    @property
    def state(self) -> ClusterState:
        return self.core.state

    def class_of(self, name: str) -> PodClass | None:
        """The class of the pod that uses a claim."""
        return self.class_of_pod(a_pod(name).claim(name).info())

    def class_of_pod(self, pod: PodInfo) -> PodClass | None:
        """The class of a pod."""
        return self._cache.class_of(Cycle(pod, self.state))

    def judged(self) -> dict[str, int]:
        """Judge all pods; how many rows VolumeBinding was asked about, by pod."""
        self._judged.clear()
        (framework,) = self.core.frameworks.values()
        for name in PODS:
            cycle = Cycle(a_pod(name).claim(name).info(), self.state)
            pod_class = self._cache.class_of(cycle)
            assert pod_class is not None
            evaluate(framework, cycle, pod_class, self._cache).feasible()
        return self._judged


def claimed(claim: str, **spec: Json) -> Json:
    """The spec of a volume that a claim has, or that is kept for it."""
    return {"claimRef": {"namespace": "default", "name": claim}, **spec}


V = a_volume("v", "slow", spec=claimed("bound", **within(HOST, "a")))
MOVED = a_volume("v", "slow", spec=claimed("bound", **within(HOST, "b")))
NEWER = a_volume("v", "slow", spec=claimed("bound", **within(HOST, "a")), version="2")
KEPT = a_volume("w", "fast", spec=claimed("fast"))
FREE, FREE_NEWER = a_volume("w", "slow"), a_volume("w", "slow", version="2")

CASES: list[tuple[str, list[Json], list[Json], dict[str, int]]] = [
    ("an NFS volume of no class comes", [], [a_volume("w", "", spec=NFS)], {}),
    ("a volume of another class comes", [], [a_volume("w", "other")], {}),
    ("a free volume of a class comes", [], [FREE], {"slow": 3}),
    ("a free volume has a new version only", [FREE], [FREE_NEWER], {}),
    ("one is bound to somebody else", [], [a_volume("w", "slow", spec=claimed("other"))], {}),
    ("one that is kept for a claim comes", [], [KEPT], {"fast": 3}),
    ("a bound volume moves", [], [MOVED], {"bound": 3}),
    ("a bound volume has a new version only", [], [NEWER], {}),
    ("a claim of somebody else comes", [], [a_claim("other", "slow")], {}),
    ("a claim grows", [], [a_claim("fast", "fast", size="6Gi")], {"fast": 3}),
    ("another class comes", [], [a_class("other")], {}),
    ("a class changes", [], [a_class("fast", "other")], {"fast": 3}),
    ("a driver of nobody's comes", [], [a_driver("other")], {}),
    ("the driver of both classes comes", [], [a_driver()], {"slow": 3, "fast": 3}),
    ("room of a class comes", [], [a_room("r", "fast", "9Gi", nodeTopology={})], {"fast": 3}),
    ("room of another class comes", [], [a_room("r", "x", "9Gi", nodeTopology={})], {}),
]


@pytest.mark.parametrize(
    ("there", "comes", "touched"), [pytest.param(*case[1:], id=case[0]) for case in CASES]
)
def test_an_object_voids_what_it_concerns(
    monkeypatch: pytest.MonkeyPatch, there: list[Json], comes: list[Json], touched: dict[str, int]
) -> None:
    cluster = Cluster(monkeypatch)
    put(cluster.state, *there)
    cluster.judged()
    assert cluster.judged() == {}, "nothing has happened"
    put(cluster.state, *comes)
    assert cluster.judged() == touched


def test_volumes_that_go_concern_those_who_might_have_got_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Cluster(monkeypatch)
    free, foreign = a_volume("w", "slow"), a_volume("x", "", spec=NFS)
    put(cluster.state, free, foreign)
    cluster.judged()
    lose(cluster.state, foreign)
    assert cluster.judged() == {}
    lose(cluster.state, free)
    assert cluster.judged() == {}, "as it was before: those verdicts are still kept"
    put(cluster.state, free)
    assert cluster.judged() == {"slow": 3}, "but the same volume may be another one later"


def test_pods_with_volumes_of_equal_reach_share_verdicts(monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(monkeypatch)
    here = within(HOST, "b")
    w = a_volume("w", "slow", spec=claimed("fast", **here))
    put(cluster.state, a_claim("fast", "slow", "w"), w)
    assert cluster.judged() == {"fast": 3}
    u = a_volume("u", "slow", spec=claimed("slow", **here))
    put(cluster.state, a_claim("slow", "slow", "u"), u)
    assert cluster.judged() == {}


def test_pods_with_a_volume_of_their_own_are_alike_until_somebody_uses_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Cluster(monkeypatch)
    for name in ("slow", "fast"):
        volume = a_volume(f"of-{name}", name, spec=claimed(name, **csi(f"handle-{name}")))
        put(cluster.state, a_claim(name, name, f"of-{name}"), volume)
    assert cluster.class_of("slow") is cluster.class_of("fast")
    user = a_pod("user").claim("fast").info()
    cluster.state.assume(user, "a")
    assert cluster.class_of("slow") is not cluster.class_of("fast")
    cluster.state.forget(user.uid)
    assert cluster.class_of("slow") is cluster.class_of("fast")


def test_pods_with_claims_of_their_own_derive_everything_else_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cluster = Cluster(monkeypatch)
    slow, fast = (a_pod(name).claim(name).cpu("1").info() for name in ("slow", "fast"))
    large = a_pod("large").claim("bound").cpu("2").info()
    for pod in (slow, fast, large):
        cluster.class_of_pod(pod)
    assert fast.fit_requests is slow.fit_requests
    assert [use.name for use in fast.volumes.claims] == ["fast"]
    assert large.fit_requests != slow.fit_requests
