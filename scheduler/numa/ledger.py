"""The books of one node with cells: what it has told, and the pods it has not told about yet.

What is *believed* is one published object and the pods its fingerprint proves: those are *settled*,
their share is gone from the cells' available amounts. Every other pod there is charged to all cells
that could hold it. A later object is *offered*, and believed only when its fingerprint fits the
pods that we know of::

                    offer: fingerprint fits
        unknown ──────────────────────────────► clean ◄──────────────┐
           │                                      │ a pod comes,      │ offer or look again:
           │ offer: it does not                   │ a settled one goes│ fingerprint fits
           └────────────► dirty ◄─────────────────┘                   │
                            └─────────────────────────────────────────┘

An object that is deleted is believed for a while, and then the node is unknown again. A pod that
comes is charged at once. One that goes takes its charge along if it was not settled;
what a settled one frees is believed only from an object that no longer has it.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator

from scheduler.model.pinning import Need, Role, is_memory
from scheduler.model.podinfo import PodInfo
from scheduler.numa.fingerprint import ALL, WITH_EXCLUSIVE_RESOURCES, malformed, pod_hash
from scheduler.numa.locating import Puzzle, follows
from scheduler.numa.outlook import Charge, Frame, Outlook, span_of
from scheduler.numa.tallying import counts_more, hides, total, used, without
from scheduler.numa.tenants import NEVER, Candidate, Gone, Name, Tenant, candidates
from scheduler.numa.topology import Policy, Scope, Topology

_REMEMBERED_NAMES = 1024


class Effect(enum.Enum):
    """What news mean for the outlook of a node."""

    NONE = "none"
    LESS = "less"
    MORE = "more"
    """There may be more to be had."""


class Ledger:
    """One node. The verbs tell what they mean for the outlook."""

    def __init__(
        self, node: str, method: str | None = None, *, charge_foreign: bool = True
    ) -> None:
        """``method`` of the fingerprint, whatever objects say of it; None: as they say.

        Without ``charge_foreign``, pods of other schedulers count only once they are settled.
        """
        self.node = node
        self._charge_foreign = charge_foreign
        self.believed: Topology | None = None
        self.offered: Topology | None = None
        """The newest object."""
        self.proven = False
        """The believed object's fingerprint fitted. Otherwise the object may or may not count the
        pods on the node: all of them are charged, and the object's amounts are a limit."""
        self.rejections = 0
        """How often in a row the node was filtered out."""
        self._method = method
        self._offers = 0
        self._version = 0
        self._tenants: dict[str, Tenant] = {}
        self._finished: dict[Name, int] = {}
        self._gone: list[Gone] = []
        self._left: dict[Name, int] = {}
        """Names of pods that went, and the number of the newest object then."""
        self._unpinned: frozenset[str] = frozenset()
        self._secretive = False
        """Objects were seen that do not count all that pods hold; so none of them does."""
        self._frame: Frame | None = None
        self._outlook: Outlook | None = None
        self._changes = 0
        self._compared = (0, 0)

    # Reading

    @property
    def dirty(self) -> bool:
        """Whether something is charged or freed that the believed object does not know of."""
        if self.believed is None or not self.believed.aligns:
            return False
        return (
            not self.proven
            or bool(self._gone)
            or any(self._charges(tenant) for tenant in self._tenants.values())
        )

    @property
    def empty(self) -> bool:
        """Whether there is nothing to remember."""
        return not (self.believed or self._tenants or self._finished)

    @property
    def news(self) -> bool:
        """Whether a comparison could have another result than the last one."""
        return self.offered is not None and self._compared != (self._offers, self._changes)

    def outlook(self) -> Outlook | None:
        """What the node can be counted on for; None if it has never told about cells."""
        if self._outlook is None and (frame := self._framed()) is not None:
            self._outlook = self._build(frame)
        return self._outlook

    def _framed(self) -> Frame | None:
        if self._frame is None and self.believed is not None:
            self._frame = Frame(self.believed)
        return self._frame

    def pods(self) -> tuple[list[Name], list[Name], list[Name]]:
        """Names of the settled pods, of those that are charged, and of settled ones that went."""
        tenants = self._tenants.values()
        return (
            [tenant.name for tenant in tenants if tenant.settled],
            [tenant.name for tenant in tenants if self._charges(tenant)],
            [gone.name for gone in self._gone],
        )

    def expected(self) -> Iterator[Candidate]:
        """The sets of pods that the newest object's fingerprint is compared with."""
        method = self._method or (ALL if self.offered is None else self.offered.method)
        return candidates(
            self._tenants.values(),
            self._gone,
            self._finished.values(),
            only_exclusive=method == WITH_EXCLUSIVE_RESOURCES,
        )

    def _charges(self, tenant: Tenant) -> bool:
        unknown = tenant.pinning.pins and not tenant.settled and not tenant.vacated
        return unknown and (self._charge_foreign or not tenant.foreign)

    # Pods

    def arrive(self, info: PodInfo, *, assumed: bool, foreign: bool) -> Effect:
        """A pod is on its way here, or there is news of one that is."""
        tenant = self._tenants.get(info.uid)
        if tenant is None:
            tenant = self._tenants[info.uid] = Tenant(info, foreign=foreign, came_at=self._offers)
            tenant.update(info, assumed=assumed)
            self._changes += 1
            if tenant.admitted:
                tenant.admitted_at = self._offers
            # Objects that are under way may still speak of an earlier pod of this name.
            if tenant.name in self._left or tenant.name in self._finished:
                tenant.proven_from = self._offers + 1 if tenant.admitted else NEVER
            return self._changed(tenant, Effect.LESS)
        known, pinning = (tenant.admitted, tenant.running), tenant.pinning
        if not tenant.update(info, assumed=assumed):
            return Effect.NONE
        self._changes += 1
        if tenant.admitted and tenant.admitted_at == NEVER:
            tenant.admitted_at = self._offers
            if tenant.proven_from == NEVER:
                tenant.proven_from = self._offers + 1
        if tenant.pinning != pinning:
            tenant.settled = False
        elif (tenant.admitted, tenant.running) == known:
            return Effect.NONE
        return self._changed(tenant, Effect.MORE)

    def leave(self, uid: str, *, tried: bool = False) -> Effect:
        """A pod is gone, or finished, or does not come after all.

        No object ever speaks of one that was only ``tried``.
        """
        tenant = self._tenants.pop(uid, None)
        if tenant is None:
            return Effect.NONE
        self._changes += 1
        if not tried:
            self._remember(tenant.name)
        if tenant.settled and tenant.pinning.pins:
            hidden = tenant.hidden()
            self._gone.append(Gone(tenant.name, tenant.hash, tenant.pinning, hidden, tenant.home))
            return self._changed(tenant, Effect.LESS)
        return self._changed(tenant, Effect.MORE)

    def finish(self, name: Name) -> None:
        """A pod is finished, and may be listed until it is deleted."""
        self._finished[name] = pod_hash(*name)
        self._changes += 1

    def delete_finished(self, name: Name) -> None:
        """A finished pod is gone."""
        if self._finished.pop(name, None) is not None:
            self._changes += 1

    def _remember(self, name: Name) -> None:
        self._left[name] = self._offers
        if len(self._left) > _REMEMBERED_NAMES:
            del self._left[next(iter(self._left))]

    def _changed(self, tenant: Tenant, effect: Effect) -> Effect:
        """Forget the outlook if the tenant has a part in it."""
        if not tenant.pinning.pins or self.believed is None or not self.believed.aligns:
            return Effect.NONE
        self._outlook = None
        return effect

    # Objects

    def offer(self, topology: Topology, version: int = 0, *, rebuild: bool = True) -> None:
        """The node has told something new; ``compare`` decides whether it is believed.

        ``version`` is the API server's number for when it was written, 0 if there is none.
        ``rebuild``: a machine that is not what it was is believed at once, all pods being charged.
        """
        self.offered = topology
        self._version = version
        self._offers += 1
        self._left = {name: n for name, n in self._left.items() if n >= self._offers - 2}
        believed = self.believed
        if not topology.aligns:
            self._believe(topology, proven=True)
        elif believed is None or (rebuild and not topology.like(believed)):
            self._believe(topology, proven=False)
            self._gone.clear()
            for tenant in self._tenants.values():
                tenant.settled = tenant.vacated = False
        elif not self.proven and topology.like(believed):
            self._believe(topology, proven=False)

    def withdraw(self) -> None:
        """The node's object was deleted: what was believed holds until `forget_cells`.

        The machine and the pods on it are the same. What settled pods free is not believed, since
        no later object tells of it.
        """
        self.offered = None

    def forget_cells(self) -> None:
        """Believe nothing of the node's cells any more."""
        self.believed = self.offered = self._frame = self._outlook = None
        self.proven = False
        self._gone.clear()
        for tenant in self._tenants.values():
            tenant.settled = tenant.vacated = False

    def compare(self) -> bool:
        """Believe the newest object if its fingerprint fits the pods known here."""
        offered = self.offered
        self._compared = (self._offers, self._changes)
        if offered is None or not offered.aligns or malformed(offered.fingerprint) is not None:
            return False
        for candidate in self.expected():
            if candidate.fingerprint() == offered.fingerprint:
                self._settle(offered, candidate)
                return True
        return False

    def _settle(self, topology: Topology, candidate: Candidate) -> None:
        included = {tenant.uid for tenant in candidate.tenants}
        gone, known, hiding = self._gone, [], bool(self._gone)
        for tenant in self._tenants.values():
            listed = tenant.uid in included
            hiding = hiding or bool(tenant.pinning.hidden)
            if tenant.settled:
                known.append(tenant)
                if listed:
                    continue
            # What is being deleted and no longer listed has been stopped already; unless the object
            # is so old that it was not listed yet.
            had = tenant.settled or tenant.vacated or self._offers > tenant.admitted_at + 1
            tenant.vacated = tenant.deleting and not listed and had
            tenant.settled = listed and self._proves(tenant)
        self._gone = list(candidate.gone)
        if gone:
            self._gone += self._namesakes(topology, candidate, gone)
        self._doubt(topology)
        if hiding:
            self._locate(topology, known, [pod for pod in gone if pod not in self._gone])
        self._believe(topology, proven=True)

    def _proves(self, tenant: Tenant) -> bool:
        """Whether the newest object speaks of this pod, and not of an earlier one of its name.

        One that was written before the pod was bound does not. Where versions of pods and of these
        objects cannot be compared, it is the second that comes after the pod was seen running.
        """
        newer = not self._version or self._version > tenant.version
        return self._offers >= tenant.proven_from and (
            newer or self._offers > tenant.admitted_at + 1
        )

    def _namesakes(self, topology: Topology, candidate: Candidate, gone: list[Gone]) -> list[Gone]:
        """Pods that went, and which an object may count though nobody else of that name is proven.

        The name of a finished pod is listed while it runs, and by some kubelets afterwards; then
        nothing is counted for it.
        """
        unproven = {tenant.name for tenant in candidate.tenants if not tenant.settled}
        again = [pod for pod in gone if pod.name in unproven]
        if candidate.others:
            there = [tenant.pinning for tenant in self._tenants.values() if tenant.settled]
            there += [pod.pinning for pod in (*candidate.gone, *again)]
            ended = [pod for pod in gone if pod.name in self._finished and pod not in again]
            if counts_more(topology, (pod.pinning for pod in ended), there):
                again += ended
        return [pod for pod in again if pod not in candidate.gone]

    def _locate(self, topology: Topology, known: list[Tenant], went: list[Gone]) -> None:
        """Find out where pods are that hold more than objects show of them.

        An object that counts all that they hold has nothing to hide.
        """
        there = [tenant.pinning for tenant in self._tenants.values() if tenant.settled]
        there += [pod.pinning for pod in self._gone]
        before = {tenant.uid for tenant in known}
        came = [t for t in self._tenants.values() if t.settled and t.uid not in before]
        for tenant in came:
            tenant.home = None
        self._secretive = self._secretive or hides(topology, there)
        frame = self._framed()
        if frame is None or not self.proven or not any(follows(t.pinning) for t in came):
            return
        new = Frame(topology)
        if new.names != frame.names or len(new.available) != len(frame.available):
            return
        left = [tenant.pinning for tenant in known if not tenant.settled]
        left += [pod.pinning for pod in went]
        puzzle = Puzzle(frame.names, frame.available, new.available)
        homes = puzzle.homes(
            [tenant.pinning for tenant in came], left, whole_pod=topology.scope is Scope.POD
        )
        for tenant, home in zip(came, homes, strict=True):
            tenant.home = home if follows(tenant.pinning) else None

    def _doubt(self, topology: Topology) -> None:
        """Keep charging pods that an object lists but does not count yet.

        A kubelet lists a pod a moment before it gives it anything.
        """
        counted = used(topology)
        unused = frozenset(n for n, amount in counted.items() if is_memory(n) and not amount)
        newcomers = [t for t in self._tenants.values() if t.settled and not t.admitted]
        if not unused and not newcomers:
            self._unpinned = unused
            return
        settled = [tenant for tenant in self._tenants.values() if tenant.settled]
        certain = total(tenant.pinning.shown for tenant in settled if tenant.admitted)
        self._unpinned = unused & (self._unpinned | certain.keys())
        shown = total((*(t.pinning.shown for t in settled), *(g.pinning.shown for g in self._gone)))
        missing = {name for name, amount in counted.items() if amount < shown.get(name, 0)}
        missing -= self._unpinned
        for tenant in newcomers:
            tenant.settled = not any(name in missing for name, _ in tenant.pinning.shown)

    def _believe(self, topology: Topology, *, proven: bool) -> None:
        self.believed, self.proven = topology, proven
        self._frame = self._outlook = None

    # The outlook

    def _build(self, frame: Frame) -> Outlook:
        topology = frame.topology
        if not topology.aligns:
            return Outlook(frame)
        charged = [tenant for tenant in self._tenants.values() if self._charges(tenant)]
        limit = None
        if not self.proven:
            # The object counts none of the pods that came after it.
            later = [tenant for tenant in charged if tenant.came_at >= self._offers]
            limit = Outlook(frame, self._charge(later, topology), unpinned=self._unpinned)
            frame = Frame(without(topology, (tenant.pinning for tenant in charged)))
        settled = [tenant for tenant in self._tenants.values() if tenant.settled]
        charges = self._charge(charged, topology)
        kept = [(t.home, t.hidden()) for t in settled] + [(g.home, g.hidden) for g in self._gone]
        if self._secretive and any(hidden for _, hidden in kept):
            frame = frame.less((home, held) for home, held in kept if home is not None)
            charges += [
                Charge((Need(Role.APP, hidden),), arrived=True)
                for home, hidden in kept
                if home is None and hidden
            ]
        freed = total(
            part for gone in self._gone for part in (gone.pinning.shown, gone.pinning.hidden)
        )
        return Outlook(
            frame,
            charges,
            freed,
            [tenant.pinning.shown for tenant in settled],
            unpinned=self._unpinned,
            grouped=topology.policy is Policy.RESTRICTED and self._spread(topology),
            limit=limit,
        )

    @staticmethod
    def _charge(tenants: list[Tenant], topology: Topology) -> list[Charge]:
        whole_pod = topology.scope is Scope.POD
        return [Charge(each.pinning.needs(whole_pod=whole_pod), each.admitted) for each in tenants]

    def _spread(self, topology: Topology) -> bool:
        """Whether some pod's memory may be spread over cells."""
        return any(
            any(is_memory(name) for name, _ in need.amounts) and span_of(need.amounts, topology) > 1
            for tenant in self._tenants.values()
            for need in tenant.pinning.needs(whole_pod=topology.scope is Scope.POD)
        )
