"""Which pods take part in a batch: those whose results are kept in columns for their class."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from scheduler.equivalence.classes import FILTER, SCORE, PodClass
from scheduler.framework.runtime import Framework
from scheduler.model.podinfo import PodInfo
from scheduler.model.storage import PersistentVolumeClaim
from scheduler.model.volumes import fully_bound
from scheduler.pipeline.evaluation import ClassCache, evaluate, nominated_row
from scheduler.plugin_api.cycle import Cycle
from scheduler.plugin_api.extension_points import SpreadingPlugin
from scheduler.queueing.queued_pod import QueuedPod
from scheduler.state.cache import ClusterState


class Member(msgspec.Struct, eq=False):
    """A pod of the backlog."""

    queued: QueuedPod
    place: int
    """In queue order."""
    framework: Framework
    cycle: Cycle
    pod_class: PodClass
    stamp: tuple[int, ...]
    """Of the moment at which the class was determined."""
    spreading: Sequence[SpreadingPlugin]
    """The plugins that keep pods of its profile evenly spread."""
    group: str = ""
    """Its gang, with which it is placed or not at all; empty if it is in none."""

    @property
    def key(self) -> tuple[PodClass, str]:
        """What interchangeable pods have in common."""
        return self.pod_class, self.group


Key = tuple[PodClass, str]
Membership = dict[Key, list[Member]]
"""Members by class and gang, each in queue order."""


class BatchEligibility:
    """Sorts pods into members of a batch and those that are scheduled one by one."""

    def __init__(
        self, frameworks: Mapping[str, Framework], state: ClusterState, classes: ClassCache
    ) -> None:
        self._frameworks = frameworks
        self._state = state
        self._classes = classes
        self._stamps: dict[str, tuple[int, ...]] = {}
        self._spreading = {
            name: [p for p in framework.plugins.values() if isinstance(p, SpreadingPlugin)]
            for name, framework in frameworks.items()
        }

    def admit(self, queued: QueuedPod, place: int, group: str = "") -> Member | str:
        """A member, or the reason (one word) why the pod is scheduled one by one."""
        info, framework = queued.info, self._frameworks[queued.profile]
        cycle = Cycle(info, self._state)
        if framework.remote.enabled or framework.judges_choice:
            return "asked"
        if nominated_row(cycle) is not None:
            return "promised"
        pod_class = self._classes.class_of(cycle)
        if pod_class is None or not declared(pod_class):
            return "undeclared"
        if info.faults:
            return "invalid"
        if pod_class.own:  # its claims, or resources that come as devices: the node decides
            return "claims"
        if self._volumes_to_bind(info):
            return "volumes"
        cycle.equivalence_class = pod_class
        stamp = self._stamp(queued.profile)
        spreading = self._spreading[queued.profile]
        return Member(queued, place, framework, cycle, pod_class, stamp, spreading, group)

    def classes_may_change(self) -> None:
        """Other tasks have run: the classes of pods may have changed."""
        self._stamps.clear()

    def _stamp(self, profile: str) -> tuple[int, ...]:
        stamp = self._stamps.get(profile)
        if stamp is None:
            stamp = self._stamps[profile] = self._classes.stamp(profile)
        return stamp

    def prepare(self, member: Member) -> bool:
        """Run PreFilter for a member; False if it is no longer eligible, or rejected as a whole.

        Pods of one class may part when pods arrive whose terms match the labels of one of them.
        """
        cycle = member.cycle = Cycle(member.queued.info, self._state)
        stamp = self._stamp(member.framework.profile)
        if stamp != member.stamp:
            if self._classes.class_of(cycle) is not member.pod_class:
                return False
            member.stamp = stamp
        cycle.equivalence_class = member.pod_class
        evaluation = evaluate(member.framework, cycle, member.pod_class)
        return evaluation.rejection is None and evaluation.node_names is None

    def _volumes_to_bind(self, info: PodInfo) -> bool:
        """Whether some claim of the pod has no volume yet: its node decides about that too."""
        for use in info.volumes.claims:
            claim = self._state.objects.get(PersistentVolumeClaim, use.key)
            if claim is None or not fully_bound(claim):
                return True
        return False

    def drawn_together(self, members: Membership) -> set[Key]:
        """The classes with required affinity to pods of this batch, whose nodes are not known yet.

        O(classes with such terms by kinds of labels in the batch).
        """
        seeking = [
            (key, tuple(term.pods for term in each[0].cycle.pod.affinity.required))
            for key, each in members.items()
            if each[0].cycle.pod.affinity.required
        ]
        if not seeking:
            return set()
        kinds = _kinds(member.cycle.pod for each in members.values() for member in each)
        index = self._state.index
        return {key for key, sets in seeking if any(index.belongs(other, sets) for other in kinds)}


def declared(pod_class: PodClass) -> bool:
    """Whether all plugins that filter or score the class declare what they read."""
    return all(
        each.reads is not None for point in (FILTER, SCORE) for each, _ in pod_class.plugins[point]
    )


def _kinds(pods: Iterable[PodInfo]) -> list[PodInfo]:
    """One pod of each namespace and set of labels."""
    kinds: dict[object, PodInfo] = {}
    for pod in pods:
        metadata = pod.pod.metadata
        kinds.setdefault((metadata.namespace, frozenset(metadata.labels.items())), pod)
    return list(kinds.values())
