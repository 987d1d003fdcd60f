"""The ledger of one node with cells: the object in use, and the pods that it counts or does not.

The ledger uses one published object. Pods whose share that object counts are *confirmed by
fingerprint*: the object's fingerprint matched a set of pods with them. Every other pod on the node
is *charged* to all cells that could hold it. A newer object is used once its fingerprint matches::

                     published, fingerprint matches
        UNKNOWN ──────────────────────────────────────► CONFIRMED ◄────────────┐
           │                                                │ another machine    │ fingerprint
           │ published, no match                            ▼                    │ matches
           └─────────────────────────────────────────► UNCONFIRMED ─────────────┘

An object that is deleted is used until its grace period ends. ``life_cycle`` has all transitions of
objects and of pods. A pod that comes is charged at once. A charged pod that is removed takes its
charge along; what a confirmed one releases is counted only from an object without it.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator

from scheduler.model.pinning import Need, Pinning, Role, is_memory
from scheduler.model.podinfo import PodInfo
from scheduler.numa.capacity import Charge, NodeCapacityView, TopologyVectors, span_of
from scheduler.numa.fingerprint import ALL, WITH_EXCLUSIVE_RESOURCES, fault_of, pod_hash
from scheduler.numa.life_cycle import (
    OBJECT_TABLE,
    NodePodEvent,
    NodePodState,
    ObjectEffect,
    ObjectEvent,
    ObjectState,
)
from scheduler.numa.node_pods import (
    NEVER,
    CandidatePods,
    CellInference,
    HeldAmounts,
    NamespacedName,
    NodePod,
    candidates,
    counts_more,
    hides_init_resources,
    keeps_init_resources_in_cell,
    total,
    used_amounts,
    without,
)
from scheduler.numa.topology import ManagerPolicy, ManagerScope, Topology

_MAX_REMEMBERED = 1024

_CHARGED, _CONFIRMED = NodePodState.CHARGED, NodePodState.CONFIRMED


class CapacityChange(enum.Enum):
    """What an event means for the capacity of a node."""

    NONE = "none"
    LESS = "less"
    MORE = "more"
    """There may be more."""


class Ledger:
    """One node. Every event costs O(pods on the node) at most, besides the search for cells."""

    def __init__(
        self, node: str, method: str | None = None, *, charge_foreign: bool = True
    ) -> None:
        """``method`` of the fingerprint, whatever objects say of it; None: as they say.

        Without ``charge_foreign``, pods of other schedulers count only once they are confirmed.
        """
        self.node = node
        self.state = ObjectState.UNKNOWN
        self.in_use: Topology | None = None
        self.newest: Topology | None = None
        """The object that was published last, unless it was deleted."""
        self.rejections = 0
        """How often in a row the node was filtered out."""
        self._charge_foreign = charge_foreign
        self._method = method
        self._published = 0
        """How many objects were published: the number of the newest."""
        self._version = 0
        self._pods: dict[str, NodePod] = {}
        self._released: list[NodePod] = []
        self._finished: dict[NamespacedName, int] = {}
        self._removed: dict[tuple[NamespacedName, str], int] = {}
        """Names and uids of removed pods, and the number of the newest object then."""
        self._unpinned: frozenset[str] = frozenset()
        """Kinds of memory that this kubelet does not pin."""
        self._hides_init_resources = False
        """An object did not count what pods keep of their init containers; so none of them does."""
        self._vectors: TopologyVectors | None = None
        self._view: NodeCapacityView | None = None
        self._pod_changes = 0
        self._compared = (0, 0)

    # Reading

    @property
    def confirmed(self) -> bool:
        """Whether the object in use was confirmed by its fingerprint."""
        return self.state is ObjectState.CONFIRMED

    @property
    def dirty(self) -> bool:
        """Whether something is charged or released that the object in use does not count."""
        if self.state is ObjectState.CONFIRMED:
            return bool(self._released) or any(map(self._charges, self._pods.values()))
        return self.state is ObjectState.UNCONFIRMED

    @property
    def empty(self) -> bool:
        """Whether there is nothing to remember."""
        return not (self.in_use or self._pods or self._finished)

    @property
    def needs_comparison(self) -> bool:
        """Whether a comparison could have another result than the last one."""
        return self.newest is not None and self._compared != (self._published, self._pod_changes)

    def capacity_view(self) -> NodeCapacityView | None:
        """The capacity of the node; None if no object is in use."""
        if self._view is None and (vectors := self._topology_vectors()) is not None:
            self._view = self._build_view(vectors)
        return self._view

    def _topology_vectors(self) -> TopologyVectors | None:
        if self._vectors is None and self.in_use is not None:
            self._vectors = TopologyVectors(self.in_use)
        return self._vectors

    def pods(self) -> tuple[list[NamespacedName], list[NamespacedName], list[NamespacedName]]:
        """Names of the confirmed pods, of the charged ones, and of the released ones."""
        pods = self._pods.values()
        return (
            [pod.name for pod in pods if pod.state is _CONFIRMED],
            [pod.name for pod in pods if self._charges(pod)],
            [pod.name for pod in self._released],
        )

    def candidates(self) -> Iterator[CandidatePods]:
        """The sets of pods that the newest object's fingerprint is compared with."""
        method = self._method or (ALL if self.newest is None else self.newest.method)
        return candidates(
            self._pods.values(),
            self._released,
            self._finished.values(),
            only_exclusive=method == WITH_EXCLUSIVE_RESOURCES,
        )

    def _charges(self, pod: NodePod) -> bool:
        return (
            pod.state is _CHARGED and pod.pinning.pins and (self._charge_foreign or not pod.foreign)
        )

    # Pods

    def pod_changed(self, info: PodInfo, *, assumed: bool, foreign: bool) -> CapacityChange:
        """A pod is on its way to the node, or has changed."""
        pod = self._pods.get(info.uid)
        if pod is None:
            return self._pod_came(info, assumed=assumed, foreign=foreign)
        before, pinning = (pod.admitted, pod.running), pod.pinning
        if not pod.update(info, assumed=assumed):
            return CapacityChange.NONE
        self._pod_changes += 1
        if pod.admitted and pod.admitted_at == NEVER:
            pod.admitted_at = self._published
            if pod.confirmed_from == NEVER:
                pod.confirmed_from = self._published + 1
        if pod.pinning != pinning:
            pod.apply(NodePodEvent.RESIZED)
        elif (pod.admitted, pod.running) == before:
            return CapacityChange.NONE
        return self._change_of(pod, CapacityChange.MORE)

    def _pod_came(self, info: PodInfo, *, assumed: bool, foreign: bool) -> CapacityChange:
        pod = self._pods[info.uid] = NodePod(info, foreign=foreign, came_at=self._published)
        pod.update(info, assumed=assumed)
        self._pod_changes += 1
        if pod.admitted:
            pod.admitted_at = self._published
        # Objects that are under way may still be about an earlier pod of this name.
        if self._had_earlier(pod) or pod.name in self._finished:
            pod.confirmed_from = self._published + 1 if pod.admitted else NEVER
        return self._change_of(pod, CapacityChange.LESS)

    def pod_removed(self, uid: str, *, tried: bool = False) -> CapacityChange:
        """A pod was deleted, has finished, or does not come after all.

        A pod that was only ``tried`` was never bound, so no object lists it.
        """
        pod = self._pods.pop(uid, None)
        if pod is None:
            return CapacityChange.NONE
        self._pod_changes += 1
        if not tried:
            self._remember(pod)
        pod.apply(NodePodEvent.REMOVED)
        if pod.state is NodePodState.RELEASED and pod.pinning.pins:
            self._released.append(pod)
            return self._change_of(pod, CapacityChange.LESS)
        return self._change_of(pod, CapacityChange.MORE)

    def pod_finished(self, name: NamespacedName) -> None:
        """A pod has finished. Older kubelets list it until it is deleted."""
        self._finished[name] = pod_hash(*name)
        self._pod_changes += 1

    def finished_pod_deleted(self, name: NamespacedName) -> None:
        """A finished pod was deleted."""
        if self._finished.pop(name, None) is not None:
            self._pod_changes += 1

    def _remember(self, pod: NodePod) -> None:
        self._removed[pod.name, pod.uid] = self._published
        if len(self._removed) > _MAX_REMEMBERED:
            del self._removed[next(iter(self._removed))]

    def _had_earlier(self, pod: NodePod) -> bool:
        """Whether another pod of this name was removed. One that comes again is no other."""
        return any(name == pod.name and uid != pod.uid for name, uid in self._removed)

    def _change_of(self, pod: NodePod, change: CapacityChange) -> CapacityChange:
        """Drop the view if the pod is part of it."""
        if not pod.pinning.pins or self.in_use is None or not self.in_use.enforced:
            return CapacityChange.NONE
        self._view = None
        return change

    # The object

    def object_published(
        self, topology: Topology, version: int = 0, *, other_machine_at_once: bool = True
    ) -> None:
        """The node has published an object; ``compare`` decides whether it is confirmed.

        ``version`` is its resourceVersion as a number, 0 if it has none. ``other_machine_at_once``:
        use an object of another machine before it is confirmed.
        """
        self.newest = topology
        self._version = version
        self._published += 1
        self._removed = {
            which: at for which, at in self._removed.items() if at >= self._published - 2
        }
        self._apply(self._publication(topology, other_machine_at_once))

    def _publication(self, topology: Topology, other_machine_at_once: bool) -> ObjectEvent:
        if not topology.enforced:
            return ObjectEvent.PUBLISHED_NOT_ENFORCED
        if self.in_use is not None and topology.same_machine(self.in_use):
            return ObjectEvent.PUBLISHED_SAME_MACHINE
        if self.in_use is None or other_machine_at_once:
            return ObjectEvent.PUBLISHED_OTHER_MACHINE
        return ObjectEvent.PUBLISHED_OTHER_MACHINE_LATER

    def object_deleted(self) -> None:
        """The node's object was deleted. It is used until ``object_expired``."""
        self._apply(ObjectEvent.DELETED)

    def object_expired(self) -> None:
        """The grace period of a deleted object is over."""
        self._apply(ObjectEvent.EXPIRED)

    def compare(self) -> bool:
        """Use the newest object if its fingerprint matches the pods known here."""
        newest = self.newest
        self._compared = (self._published, self._pod_changes)
        if newest is None or not newest.enforced or fault_of(newest.fingerprint) is not None:
            return False
        for candidate in self.candidates():
            if candidate.fingerprint() == newest.fingerprint:
                self._apply(ObjectEvent.MATCHED, candidate)
                return True
        return False

    def _apply(self, event: ObjectEvent, matched: CandidatePods | None = None) -> None:
        """Make the transition that the table of life cycles has for an event."""
        transition = OBJECT_TABLE[self.state, event]
        for effect in transition.effects:
            match effect:
                case ObjectEffect.CONFIRM_PODS:
                    self._confirm_pods(matched or CandidatePods())
                case ObjectEffect.USE_NEWEST:
                    self._use(self.newest)
                case ObjectEffect.RESET_PODS:
                    self._reset_pods()
                case ObjectEffect.DROP_NEWEST:
                    self.newest = None
                case ObjectEffect.FORGET_OBJECT:
                    self.newest = None
                    self._use(None)
        self.state = transition.state

    def _use(self, topology: Topology | None) -> None:
        self.in_use = topology
        self._vectors = self._view = None

    def _reset_pods(self) -> None:
        for pod in (*self._pods.values(), *self._released):
            pod.apply(NodePodEvent.RESET)
        self._keep_released(self._released)

    def _keep_released(self, pods: Iterable[NodePod]) -> None:
        self._released = [pod for pod in pods if pod.state is NodePodState.RELEASED]

    # Confirming pods

    def _confirm_pods(self, matched: CandidatePods) -> None:
        """Send the pods the events that follow from the newest object, which stands for a set."""
        newest, released = self.newest, self._released
        if newest is None:
            return
        listed = {pod.uid for pod in matched.pods}
        known, hidden = [], bool(released)
        for pod in self._pods.values():
            hidden = hidden or bool(pod.pinning.hidden)
            if pod.state is _CONFIRMED:
                known.append(pod)
                if pod.uid in listed:
                    continue
            pod.apply(self._listing(pod, pod.uid in listed))
        if released:
            self._sort_out_released(newest, matched)
        self._charge_uncounted(newest)
        if hidden:
            gone = [pod for pod in released if pod.state is NodePodState.GONE]
            self._find_cells(newest, known, gone)

    def _listing(self, pod: NodePod, listed: bool) -> NodePodEvent:
        if listed:
            return NodePodEvent.LISTED if self._is_about(pod) else NodePodEvent.LISTED_BEFORE
        # A pod that is being deleted and not listed any more has been stopped; unless the object
        # is so old that the pod was not listed yet.
        was_listed = pod.state is not _CHARGED or self._published > pod.admitted_at + 1
        return NodePodEvent.STOPPED if pod.deleting and was_listed else NodePodEvent.UNLISTED

    def _is_about(self, pod: NodePod) -> bool:
        """Whether the newest object is about this pod, and not about an earlier one of its name.

        An object that was written before the pod was bound is not. Where versions of pods and
        objects cannot be compared, it is the second one after the pod was seen running.
        """
        newer = not self._version or self._version > pod.version
        return self._published >= pod.confirmed_from and (
            newer or self._published > pod.admitted_at + 1
        )

    def _sort_out_released(self, newest: Topology, matched: CandidatePods) -> None:
        """Keep the released pods that the newest object still counts, or may count."""
        still_counted = [*matched.released, *self._counted_by_name(newest, matched)]
        for pod in self._released:
            counted = pod in still_counted
            pod.apply(NodePodEvent.LISTED if counted else NodePodEvent.UNLISTED)
        self._keep_released(still_counted)

    def _counted_by_name(self, newest: Topology, matched: CandidatePods) -> list[NodePod]:
        """Released pods that the object may count because it lists their name.

        It may list the name for a later pod that it does not confirm. A finished pod is listed
        while it runs, and by older kubelets afterwards; then nothing is counted for it.
        """
        unconfirmed = {pod.name for pod in matched.pods if pod.state is not _CONFIRMED}
        again = [pod for pod in self._released if pod.name in unconfirmed]
        if matched.finished:
            others = [pod.pinning for pod in self._pods.values() if pod.state is _CONFIRMED]
            others += [pod.pinning for pod in (*matched.released, *again)]
            finished = [p for p in self._released if p.name in self._finished and p not in again]
            if counts_more(newest, (pod.pinning for pod in finished), others):
                again += finished
        return [pod for pod in again if pod not in matched.released]

    def _charge_uncounted(self, newest: Topology) -> None:
        """Keep charging pods that an object lists but does not count yet.

        A kubelet lists a pod a moment before it allocates anything to it. Such a pod shows only in
        the sums: the object counts less of a resource than its pods hold. Memory of which it counts
        nothing at all is another matter: then the kubelet does not pin it.
        """
        used = used_amounts(newest)
        unused = frozenset(n for n, amount in used.items() if is_memory(n) and not amount)
        newcomers = [p for p in self._pods.values() if p.state is _CONFIRMED and not p.admitted]
        if not unused and not newcomers:
            self._unpinned = unused
            return
        confirmed = [pod for pod in self._pods.values() if pod.state is _CONFIRMED]
        allocated = total(pod.pinning.shown for pod in confirmed if pod.admitted)
        self._unpinned = unused & (self._unpinned | allocated.keys())
        held = total(pod.pinning.shown for pod in (*confirmed, *self._released))
        missing = {name for name, amount in used.items() if amount < held.get(name, 0)}
        missing -= self._unpinned
        for pod in newcomers:
            if any(name in missing for name, _ in pod.pinning.shown):
                pod.apply(NodePodEvent.UNCOUNTED)

    def _find_cells(self, newest: Topology, known: list[NodePod], gone: list[NodePod]) -> None:
        """Find the cells of pods that hold more than objects count for them.

        The amounts that init containers leave are missing in the object, so that they have to be
        taken from a cell here; with the cell known that costs no other cell anything.
        """
        confirmed = [pod for pod in self._pods.values() if pod.state is _CONFIRMED]
        before = {pod.uid for pod in known}
        came = [pod for pod in confirmed if pod.uid not in before]
        for pod in came:
            pod.cell = None
        self._hides_init_resources = self._hides_init_resources or hides_init_resources(
            newest, _pinnings((*confirmed, *self._released))
        )
        if not any(keeps_init_resources_in_cell(pod.pinning) for pod in came):
            return
        inference = self._inference(newest)
        if inference is None:
            return
        left = [pod for pod in known if pod.state is not _CONFIRMED] + gone
        cells = inference.cells_of(
            _pinnings(came), _pinnings(left), whole_pod=newest.scope is ManagerScope.POD
        )
        for pod, cell in zip(came, cells, strict=True):
            pod.cell = cell if keeps_init_resources_in_cell(pod.pinning) else None

    def _inference(self, newest: Topology) -> CellInference | None:
        """From the object in use to the newest; None if the two cannot be compared."""
        before = self._topology_vectors()
        if before is None or self.state is ObjectState.UNCONFIRMED:
            return None
        after = TopologyVectors(newest)
        if after.names != before.names or len(after.available) != len(before.available):
            return None
        return CellInference(before.names, before.available, after.available)

    # The view

    def _build_view(self, vectors: TopologyVectors) -> NodeCapacityView:
        topology = vectors.topology
        if not topology.enforced:
            return NodeCapacityView(vectors)
        charged = [pod for pod in self._pods.values() if self._charges(pod)]
        confirmed = [pod for pod in self._pods.values() if pod.state is _CONFIRMED]
        limit = None
        if self.state is ObjectState.UNCONFIRMED:
            limit = self._limit(vectors, charged)
            vectors = TopologyVectors(without(topology, _pinnings(charged)))
        charges = _charges_of(charged, topology)
        leftovers = self._init_leftovers((*confirmed, *self._released))
        if leftovers:
            vectors = vectors.less((cell, held) for cell, held in leftovers if cell is not None)
            charges += [
                Charge((Need(Role.APP, held),), arrived=True)
                for cell, held in leftovers
                if cell is None and held
            ]
        return NodeCapacityView(
            vectors,
            charges,
            total(part for p in self._released for part in (p.pinning.shown, p.pinning.hidden)),
            [pod.pinning.shown for pod in confirmed],
            unpinned=self._unpinned,
            grouped=topology.policy is ManagerPolicy.RESTRICTED and self._may_span_memory(topology),
            limit=limit,
        )

    def _limit(self, vectors: TopologyVectors, charged: list[NodePod]) -> NodeCapacityView:
        """The object as it is, less the pods that came after it: it may count all others."""
        later = [pod for pod in charged if pod.came_at >= self._published]
        charges = _charges_of(later, vectors.topology)
        return NodeCapacityView(vectors, charges, unpinned=self._unpinned)

    def _init_leftovers(self, pods: Iterable[NodePod]) -> list[tuple[int | None, HeldAmounts]]:
        """What pods keep of their init containers and the object does not count, by cell."""
        if not self._hides_init_resources:
            return []
        held = [(pod.cell, pod.hidden()) for pod in pods]
        return held if any(hidden for _, hidden in held) else []

    def _may_span_memory(self, topology: Topology) -> bool:
        """Whether the memory of some pod may span several cells."""
        return any(
            any(is_memory(name) for name, _ in need.amounts) and span_of(need.amounts, topology) > 1
            for pod in self._pods.values()
            for need in pod.pinning.needs(whole_pod=topology.scope is ManagerScope.POD)
        )


def _pinnings(pods: Iterable[NodePod]) -> list[Pinning]:
    return [pod.pinning for pod in pods]


def _charges_of(pods: list[NodePod], topology: Topology) -> list[Charge]:
    whole_pod = topology.scope is ManagerScope.POD
    return [Charge(pod.pinning.needs(whole_pod=whole_pod), pod.admitted) for pod in pods]
