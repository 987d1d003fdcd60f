"""Pods beyond the limits: the condition of ours names the field, others count in part."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from scheduler import slices
from scheduler.config.schema import OWN_API_VERSION, OWN_KIND
from scheduler.model.packed import pack_labels
from tests.builders import PodBuilder, make_pod, make_worker
from tests.pipeline.support import Change, Stage

HOST = "kubernetes.io/hostname"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
SMALL = {
    "labels": 4,
    "nodeRequirements": 4,
    "podAffinityTerms": 4,
    "topologySpreadConstraints": 4,
    "selectorEntries": 40,
    "tolerations": 4,
    "containers": 4,
    "resourceEntries": 4,
    "ports": 4,
    "volumes": 4,
    "encodedBytes": 20_000,
}
OWN = {"apiVersion": OWN_API_VERSION, "kind": OWN_KIND, "limits": SMALL}


def expressions(number: int, values: int = 1) -> list[dict[str, Any]]:
    return [
        {"key": f"key-{i}", "operator": "NotIn", "values": [f"value-{j}" for j in range(values)]}
        for i in range(number)
    ]


def term(i: int, **more: Any) -> dict[str, Any]:
    selector = {"matchLabels": {"app": f"app-{i}"}}
    return {"topologyKey": HOST, "labelSelector": selector, **more}


def near(number: int) -> dict[str, Any]:
    return {"podAffinity": {PREFERRED: [weighted(i) for i in range(number)]}}


def weighted(i: int) -> dict[str, Any]:
    return {"weight": 1, "podAffinityTerm": term(i)}


def apart(number: int, **more: Any) -> dict[str, Any]:
    return {"podAntiAffinity": {REQUIRED: [term(i, **more) for i in range(number)]}}


def nodes_by(**parts: Any) -> dict[str, Any]:
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [parts]}}}


def labelled(number: int) -> PodBuilder:
    return make_pod("large").label(**{f"key-{i}": "a" for i in range(number)})


def with_spec(**spec: Any) -> PodBuilder:
    return make_pod("large").spec(**spec)


def containers(number: int, **each: Any) -> list[dict[str, Any]]:
    return [{"name": f"c-{i}", **each} for i in range(number)]


def constraint(i: int, **more: Any) -> dict[str, Any]:
    return {
        "maxSkew": 1,
        "topologyKey": HOST,
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": {"app": f"app-{i}"}},
        **more,
    }


def requests(number: int) -> dict[str, Any]:
    return {"requests": {f"example.com/r-{i}": "0" for i in range(number)}}


CASES = [
    ("metadata.labels", "labels", labelled),
    (
        "spec.nodeSelector",
        "nodeRequirements",
        lambda n: with_spec(nodeSelector={f"key-{i}": "a" for i in range(n)}),
    ),
    (
        f"spec.affinity.nodeAffinity.{REQUIRED}",
        "nodeRequirements",
        lambda n: with_spec(affinity=nodes_by(matchExpressions=expressions(n))),
    ),
    (
        f"spec.affinity.nodeAffinity.{PREFERRED}",
        "nodeRequirements",
        lambda n: with_spec(
            affinity={
                "nodeAffinity": {
                    PREFERRED: [{"weight": 1, "preference": {"matchExpressions": expressions(n)}}]
                }
            }
        ),
    ),
    (
        "spec.affinity.podAffinity",
        "podAffinityTerms",
        lambda n: with_spec(affinity=near(n)),
    ),
    (
        "spec.affinity.podAntiAffinity",
        "podAffinityTerms",
        lambda n: with_spec(affinity=apart(n)),
    ),
    (
        "spec.topologySpreadConstraints",
        "topologySpreadConstraints",
        lambda n: with_spec(topologySpreadConstraints=[constraint(i) for i in range(n)]),
    ),
    (
        "spec.tolerations",
        "tolerations",
        lambda n: with_spec(
            tolerations=[{"key": f"key-{i}", "operator": "Exists"} for i in range(n)]
        ),
    ),
    ("spec.containers", "containers", lambda n: with_spec(containers=containers(n))),
    (
        "spec.containers",
        "containers",
        lambda n: with_spec(initContainers=containers(n - 1)),
    ),
    (
        "spec.containers[*].resources",
        "resourceEntries",
        lambda n: with_spec(containers=containers(1, resources=requests(n))),
    ),
    (
        "spec.containers[*].ports",
        "ports",
        lambda n: with_spec(
            containers=containers(
                1, ports=[{"containerPort": i + 1, "hostPort": i + 1} for i in range(n)]
            )
        ),
    ),
    (
        "spec.volumes",
        "volumes",
        lambda n: with_spec(volumes=[{"name": f"v-{i}"} for i in range(n)]),
    ),
]


@pytest.mark.parametrize(
    ("field", "setting", "pod"), CASES, ids=[f"{field} {i}" for i, (field, *_) in enumerate(CASES)]
)
async def test_a_pod_is_placed_at_the_limit_and_told_its_field_beyond_it(
    field: str, setting: str, pod: Any
) -> None:
    stage = Stage(config=(OWN,))
    stage.see(make_worker("n1").label(**{f"key-{i}": "a" for i in range(4)}))
    stage.see(pod(4))
    await stage.run()
    assert [name for name, _ in stage.outlet.bound] == ["default/large"]
    stage.see(pod(5).uid("another").meta(name="larger"))
    await stage.run()
    (word,) = stage.outlet.conditions
    assert word.reason == "Unschedulable"
    assert word.message.startswith("0/1 nodes are available: pod too large: ")
    assert f"{field}: 5 exceed the limit of 4 (limits.{setting})" in word.message


async def test_selectors_of_a_pod_have_a_limit_together() -> None:
    stage = Stage(config=(OWN,))
    stage.see(make_worker("n1"))
    stage.see(with_spec(affinity=nodes_by(matchExpressions=expressions(4, values=9))))
    await stage.run()
    assert len(stage.outlet.bound) == 1
    wide = {"matchExpressions": expressions(3, values=6)}
    stage.see(
        make_pod("larger").spec(
            affinity=nodes_by(matchExpressions=expressions(3, values=6)),
            topologySpreadConstraints=[constraint(0, labelSelector=wide)],
        )
    )
    await stage.run()
    (word,) = stage.outlet.conditions
    assert "spec: 42 exceed the limit of 40 (limits.selectorEntries)" in word.message


async def test_a_pod_has_a_limit_in_bytes() -> None:
    stage = Stage(config=(OWN,))
    stage.see(make_worker("n1"))
    stage.see(with_spec(containers=containers(4, image="i" * 20_000)))
    await stage.run()
    (word,) = stage.outlet.conditions
    assert "bytes exceed the limit of 20000 (limits.encodedBytes)" in word.message


async def test_labels_that_are_kept_in_one_piece_count_too() -> None:
    stage = Stage()
    stage.see(make_worker("n1"))
    pod = labelled(1025).struct()
    pack_labels(pod.metadata)
    stage.core.event_handlers.handler("Pod")([Change(None, pod)])
    await stage.run()
    (word,) = stage.outlet.conditions
    assert "metadata.labels: 1025 exceed the limit of 1024" in word.message


async def test_only_a_change_of_the_pod_brings_it_back() -> None:
    stage = Stage(config=(OWN,))
    stage.see(make_worker("n1"), labelled(5))
    await stage.run()
    stage.see(make_worker("n2"), make_pod("other").on("n2"))
    stage.lose(make_pod("other").on("n2"))
    await stage.later(60)
    assert stage.tiers() == {"large": "unschedulable"}
    stage.see(labelled(4))
    await stage.later(60)
    assert len(stage.outlet.bound) == 1


async def test_what_a_large_pod_asks_for_is_not_compiled() -> None:
    info = make_pod("large").spec(affinity=nodes_by(matchExpressions=expressions(513))).info()
    assert info.faults == info.excess != ()
    assert info.node_matcher.terms == ()


async def test_each_large_pod_is_counted_once() -> None:
    stage = Stage(config=(OWN,))
    stage.see(make_worker("n1"), labelled(5), labelled(6))
    running = make_pod("running").scheduler("another").spec(affinity=apart(5)).on("n1")
    stage.see(running, running.status(phase="Running"))
    stage.see(make_pod("foreign").scheduler("another").spec(affinity=apart(5)))
    name = "equipoise_pods_over_limits_total"
    assert stage.sample(name, state="waiting") == 1
    assert stage.sample(name, state="placed") == 1


class TestOnNodes:
    """What pods on nodes that are beyond the limits still forbid."""

    async def place(self, stage: Stage, pod: PodBuilder) -> str:
        stage.see(pod)
        await stage.run()
        return dict(stage.outlet.bound).get(f"{pod.struct().metadata.key}", "")

    def stage(self, **spec: Any) -> Stage:
        stage = Stage(config=(OWN,))
        stage.see(make_worker("n1").label(**{HOST: "n1"}))
        stage.see(make_pod("running").scheduler("another").spec(**spec).on("n1"))
        return stage

    @pytest.mark.parametrize("app", ["app-0", "app-3", "app-4", "of its namespace"])
    async def test_anti_affinity_counts_term_by_term_and_then_for_the_namespace(
        self, app: str
    ) -> None:
        stage = self.stage(affinity=apart(9))
        assert await self.place(stage, make_pod("new").label(app=app)) == ""
        elsewhere = make_pod("elsewhere", "other").label(app=app)
        assert await self.place(stage, elsewhere) == "n1"

    async def test_at_the_limit_only_what_terms_speak_of_is_kept_away(self) -> None:
        stage = self.stage(affinity=apart(4))
        assert await self.place(stage, make_pod("new").label(app="app-3")) == ""
        assert await self.place(stage, make_pod("newer").label(app="app-4")) == "n1"

    async def test_anti_affinity_by_labels_of_namespaces_may_speak_of_everybody(self) -> None:
        stage = self.stage(affinity=apart(9, namespaceSelector={"matchLabels": {"a": "b"}}))
        assert await self.place(stage, make_pod("new", "other")) == ""

    async def test_one_term_that_is_too_long_counts_as_speaking_of_its_namespaces(self) -> None:
        wide = {"matchExpressions": expressions(41)}
        affinity = {"podAntiAffinity": {REQUIRED: [term(0, labelSelector=wide, namespaces=["b"])]}}
        stage = self.stage(affinity=affinity)
        assert await self.place(stage, make_pod("new", "b")) == ""
        assert await self.place(stage, make_pod("new", "c")) == "n1"

    async def test_further_host_ports_take_all_ports(self) -> None:
        ports = [{"containerPort": i + 1, "hostPort": i + 1} for i in range(5)]
        stage = self.stage(containers=containers(1, ports=ports))
        wants = containers(1, ports=[{"containerPort": 1, "hostPort": 9000}])
        assert await self.place(stage, make_pod("new").spec(containers=wants)) == ""
        assert await self.place(stage, make_pod("newer")) == "n1"
        stage.lose(make_pod("running").on("n1"))
        await stage.later(60)
        assert dict(stage.outlet.bound)["default/new"] == "n1"

    async def test_requests_count_in_full(self) -> None:
        stage = self.stage(containers=containers(9, resources={"requests": {"cpu": "100m"}}))
        assert stage.cpu("n1") == 900
        stage.check()

    async def test_a_large_pod_is_read_in_slices_before_anything_is_changed(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Other tasks that run at its checkpoints see the state as it was."""
        monkeypatch.setattr(slices, "SLICE_SECONDS", 0.0)
        monkeypatch.setattr(slices, "PACE", 4)
        stage = Stage(config=(OWN,))
        stage.see(make_worker("n1"))
        seen: list[int] = []

        async def look() -> None:
            while not seen or seen[-1] == 0:
                seen.append(stage.cpu("n1"))
                await asyncio.sleep(0)

        each = {"requests": {"cpu": "100m"}}
        pod = (
            make_pod("running").scheduler("another").spec(containers=containers(40, resources=each))
        )
        await asyncio.gather(slices.in_slices(stage.see, pod.on("n1")), look())
        assert set(seen) == {0, 4000}
        assert len(seen) > 10
        stage.check()
