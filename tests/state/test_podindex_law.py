"""The law of the pod index: whatever happened, it says what counting all pods would say."""

from __future__ import annotations

from collections import Counter
from unittest.mock import patch

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from scheduler.model.affinity import AffinityTerm, PodSet
from scheduler.model.objects import Namespace, from_dict
from scheduler.model.podinfo import PodInfo
from scheduler.model.selectors import Requirement, Selector, equals
from scheduler.state import podindex
from scheduler.state.bundle import PodBundle
from scheduler.state.cache import ClusterState
from scheduler.state.podindex import ROLES
from scheduler.state.scratch import scratch
from tests.builders import PodBuilder, make_node, make_pod, pod_term

NODES = [f"n{i}" for i in range(70)]  # more than the rows of an empty state, so that it must grow
LABELS = [{}, {"app": "x"}, {"app": "x", "tier": "t"}, {"app": "y"}]
HOMES = ("one", "two")

APP_X = Selector((equals("app", "x"),))
NOT_X = Selector((Requirement("app", "NotIn", frozenset("x")),))
PROD = Selector((equals("env", "prod"),))
NOT_PROD = Selector((Requirement("env", "NotIn", frozenset(("prod",))),))
SETS = [
    PodSet(frozenset(HOMES), APP_X),
    PodSet(frozenset(("one",)), NOT_X),
    PodSet(frozenset(), Selector(), PROD),
    PodSet(frozenset(("one",)), Selector((equals("tier", "t"),)), NOT_PROD),
    PodSet(frozenset(HOMES), Selector(nothing=True)),
]
TERMS = [
    pod_term("zone", {"app": "x"}),
    pod_term("zone", {"app": "x"}, namespaces=list(HOMES)),
    pod_term("host", {}, namespaceSelector={"matchLabels": {"env": "prod"}}),
]

names = st.sampled_from(NODES[:4])


@st.composite
def pods(draw: st.DrawFn) -> PodBuilder:
    """A pod of one of few uids, so that they change, move and come back."""
    pod = make_pod(f"p{draw(st.integers(0, 5))}", draw(st.sampled_from(HOMES)))
    pod.label(**draw(st.sampled_from(LABELS))).on(draw(names))
    pod.near(*draw(st.lists(st.sampled_from(TERMS), max_size=2)))
    pod.apart(*draw(st.lists(st.sampled_from(TERMS), max_size=1)))
    pod.rather_near(draw(st.sampled_from((1, 2))), TERMS[0])
    return pod.deleting() if draw(st.booleans()) else pod


class PodIndexLaw(RuleBasedStateMachine):
    """Drives a state through its verbs; the index is only changed through it."""

    def __init__(self) -> None:
        super().__init__()
        self.state = ClusterState()
        self.pods: dict[str, PodInfo] = {}

    @rule(name=names)
    def set_node(self, name: str) -> None:
        self.state.set_node(make_node(name).struct())

    @rule()
    def fill_up(self) -> None:
        """So many nodes at once that the counters must grow."""
        for name in NODES:
            self.set_node(name)

    @rule(name=names)
    def remove_node(self, name: str) -> None:
        self.state.remove_node(name)

    @rule(pod=pods())
    def set_pod(self, pod: PodBuilder) -> None:
        info = pod.info()
        self.pods[info.uid] = info
        self.state.set_pod(info)

    @rule(number=st.integers(0, 5))
    def remove_pod(self, number: int) -> None:
        self.pods.pop(f"uid-p{number}", None)
        self.state.remove_pod(f"uid-p{number}")

    @rule(pod=pods(), gone=st.integers(0, 5))
    def imagine(self, pod: PodBuilder, gone: int) -> None:
        """A question that leaves no trace."""
        with scratch(self.state) as changes:
            for info in [self.pods.get(f"uid-p{gone}"), self.pods.get(pod.info().uid)]:
                if info is not None:
                    changes.remove(info)
            changes.add(pod.info(), pod.info().node_name)

    @rule(name=names, back=st.integers(0, 5), again=st.booleans())
    def imagine_that_all_left(self, name: str, back: int, again: bool) -> None:
        """Pods that leave together count no more, and one of them may return."""
        pods = self.state.pods_on(name)
        bundle = PodBundle(name, pods)
        real = self.pods
        if not pods:
            return
        for _ in range(1 + again):
            with scratch(self.state) as changes:
                changes.remove_all(bundle)
                one = next((pod for pod in pods if pod.uid == f"uid-p{back}"), None)
                if one is not None:
                    changes.restore(one)
                self.pods = {uid: pod for uid, pod in real.items() if uid not in bundle.pods}
                self.counters_are_right()
                if one is not None:
                    changes.remove(one)
            self.pods = real
            assert {pod.uid for pod in self.state.pods_on(name)} == {pod.uid for pod in pods}
            self.counters_are_right()

    def counters_are_right(self) -> None:
        for chosen in SETS:
            self.counters_count([chosen], living=False)
        for node in NODES[:4]:
            row = self.state.row(node)
            there = sum(pod.node_name == node for pod in self.pods.values())
            assert row is None or self.state.columns.pod_count[row] == there

    @rule(name=st.sampled_from(HOMES), env=st.sampled_from(("prod", "test", "")))
    def set_namespace(self, name: str, env: str) -> None:
        raw = {"metadata": {"name": name, "labels": {"env": env} if env else {}}}
        self.state.set_object("Namespace", name, from_dict(raw, Namespace))

    @rule(name=st.sampled_from(HOMES))
    def remove_namespace(self, name: str) -> None:
        self.state.set_object("Namespace", name, None)

    # The law; asking in only some steps lets counters both be made late and be kept true.

    @rule(chosen=st.lists(st.sampled_from(SETS), min_size=1, max_size=2), living=st.booleans())
    def counters_count(self, chosen: list[PodSet], living: bool) -> None:
        counter = self.state.index.counter(*chosen, living_only=living)
        want = Counter(
            self.state.row(info.node_name)
            for info in self.on_nodes()
            if not (living and info.pod.deleting)
            and all(self.waiting_means(s, info) for s in chosen)
        )
        got = {row: int(number) for row, number in enumerate(counter.counts) if number}
        assert got == want
        assert counter.total == want.total()

    @invariant()
    def terms_are_those_of_the_pods(self) -> None:
        for home in HOMES:
            for labels in LABELS:
                self.terms_about(make_pod("asks", home).label(**labels).info())

    def terms_about(self, pod: PodInfo) -> None:
        want: Counter[tuple[str, AffinityTerm, int | None]] = Counter(
            (role, term, self.state.row(info.node_name))
            for info in self.on_nodes()
            for role in ROLES
            for term in getattr(info.affinity, role)
            if self.running_means(term.pods, pod)
        )
        about = self.state.index.terms_about(pod)
        got = {
            (each.role, each.term, int(row)): int(number)
            for each in about
            for row, number in zip(each.rows, each.counts, strict=True)
        }
        assert got == want
        assert sum(each.total for each in about) == want.total()
        assert all(each.total for each in about), "a term that nobody states any more is forgotten"

    def on_nodes(self) -> list[PodInfo]:
        return [i for i in self.pods.values() if self.state.row(i.node_name) is not None]

    def running_means(self, pods: PodSet, info: PodInfo) -> bool:
        metadata = info.pod.metadata
        its = self.state.namespaces.get(metadata.namespace, {})
        return pods.includes(metadata.namespace, metadata.labels, its)

    def waiting_means(self, pods: PodSet, info: PodInfo) -> bool:
        metadata = info.pod.metadata
        unlabelled = pods.includes(metadata.namespace, metadata.labels, {})
        return unlabelled or self.running_means(pods, info)


TestPodIndexLaw = PodIndexLaw.TestCase
TestPodIndexLaw.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)


class TightPodIndexLaw(PodIndexLaw):
    """The same with room for next to nothing, so that all that may be given up is."""

    def __init__(self) -> None:
        self._tight = patch.multiple(
            podindex, _KEPT_COUNTERS=1, _MEMO_BYTES=600, _KEPT_KEYS=1, _LONG_LABELS=8
        )
        self._tight.start()
        super().__init__()

    def teardown(self) -> None:
        self._tight.stop()


TestTightPodIndexLaw = TightPodIndexLaw.TestCase
TestTightPodIndexLaw.settings = settings(max_examples=30, stateful_step_count=30, deadline=None)
