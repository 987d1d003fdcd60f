"""Verdicts on rows: extended resources first, then devices for claims, then claims that hold some.

The order is kube-scheduler's, and decides which reason a node gets. The search itself is done once
for all nodes with equal devices (`devices`); here its answers become codes.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from scheduler.devices import DeviceError, DeviceSelection, Judgement, SearchOutcome
from scheduler.devices.budget import MOST_WORK
from scheduler.devices.demand import demand_key
from scheduler.dra import messages
from scheduler.dra.ledger import DeviceLedger
from scheduler.dra.names import PLUGIN
from scheduler.dra.pod_devices import PodClaim, PodDevices, key_of
from scheduler.model.devices import AllocationResult, ResourceClaim
from scheduler.model.resources import is_extended
from scheduler.model.status import error, unresolvable
from scheduler.slices import unbroken
from scheduler.state.cache import ClusterState, allocatable_of
from scheduler.state.columns import Codes, Mask, Rows, Scores

FEW_ROWS = 64
"""So many rows are judged within an attempt without a look ahead."""
MOST_SEEN = 4096
BEST = 100
"""The score of devices that leave nothing stranded."""

NOT_AVAILABLE = unresolvable(messages.NOT_AVAILABLE).by(PLUGIN)
LEFT_OVER = unresolvable(messages.LEFT_OVER).by(PLUGIN)
CANNOT_FIT = unresolvable(messages.CANNOT_FIT).by(PLUGIN)


class Group(NamedTuple):
    """Rows on which the same claims get devices."""

    places: Rows
    """Places in the list of rows that were asked for."""
    claims: Sequence[ResourceClaim]


class DeviceJudge:
    """Judges rows for pods, in the state of one cluster."""

    def __init__(
        self,
        state: ClusterState,
        ledger: DeviceLedger,
        selection: DeviceSelection,
        most_work: int = MOST_WORK,
    ) -> None:
        self._state = state
        self._ledger = ledger
        self.selection = selection
        self._allowed_work = most_work
        """What a search may do on one node."""
        self._seen: set[Hashable] = set()
        """Demands for which all rows were looked at."""
        self._looked_after = 0
        """How many changes of rows there had been then."""

    def codes(self, devices: PodDevices, rows: Rows) -> Codes:
        """A code per row."""
        statuses = self._state.statuses
        codes: Codes = np.zeros(len(rows), np.int32)
        if devices.left_over is not None:
            codes[:] = statuses.code(LEFT_OVER)
            return codes
        lacking = self._unserved(devices, rows)
        if lacking is not None:
            codes[lacking] = statuses.code(CANNOT_FIT)
        with unbroken():  # the rows of a half-done answer must not change
            for group, judgement in self._judged(devices, rows, codes == 0):
                codes[group.places] = self._as_codes(group, judgement, rows)
        codes[(codes == 0) & self._out_of_reach(devices, rows)] = statuses.code(NOT_AVAILABLE)
        return codes

    def look_ahead(self, devices: PodDevices) -> None:
        """Have all that verdicts on all rows need, in slices: searches may take long.

        What is found is kept by the index, and holds for nodes with such devices.
        """
        whole = key_of(devices)
        many = self._unseen > FEW_ROWS
        if whole in self._seen and not many:
            return
        self._ledger.follow_nodes()
        rows = self._unseen_rows() if whole in self._seen else self._state.rows()
        for group in list(self._groups(devices, rows, np.ones(len(rows), np.bool_))):
            key = demand_key(group.claims)
            if key not in self._seen or many:
                self._looked_after = self._ledger.rows_changed
                self._judge(group.claims, rows[group.places])
                self._see(key)
        self._see(whole)

    def _unseen_rows(self) -> Rows:
        """The rows of nodes that have changed since all rows were looked at, as far as is known."""
        changed = self._ledger.changed_since(self._looked_after)
        if changed is None:
            return self._state.rows()
        live = self._state.columns.live
        return np.array([row for row in changed if live[row]], np.intp)

    def _see(self, key: Hashable) -> None:
        if len(self._seen) > MOST_SEEN:
            self._seen.clear()
        self._seen.add(key)

    @property
    def _most_work(self) -> int:
        return min(self._allowed_work, self._ledger.most_work)

    @property
    def _unseen(self) -> int:
        """How many rows have changed since all rows were looked at."""
        return self._ledger.rows_changed - self._looked_after

    def code(self, devices: PodDevices, row: int) -> int:
        """The same for one row; a pod whose claims all get devices there takes the short way."""
        if devices.left_over is None and not devices.limiting and not self._foreign(devices):
            claims = devices.to_allocate(self.resources_from_devices(devices, row))
            self._ledger.follow_nodes()
            with unbroken():
                if not claims or self._judge_one(claims, row).fits:
                    return 0
        return int(self.codes(devices, np.array([row], np.intp))[0])

    def scores(self, devices: PodDevices, rows: Rows) -> Scores:
        """What the alternatives are worth that each row would give.

        By best fit, rows that give the same alternatives differ in what they would leave stranded.
        """
        scores: Scores = np.zeros(len(rows), np.int64)
        if devices.left_over is not None:
            return scores
        everywhere = np.ones(len(rows), np.bool_)
        with unbroken():
            for group, judgement in self._judged(devices, rows, everywhere):
                found = judgement.scores + devices.held_score()
                if self.selection is DeviceSelection.BEST_FIT:
                    found = found * (BEST + 1) + judgement.fit_scores
                scores[group.places] = found
        return scores

    def unavailable(self, devices: PodDevices, rows: Rows) -> list[PodClaim]:
        """The claims that keep the pod from some of these rows, where nothing else does."""
        return [
            each
            for each in devices.limiting
            if not each.usable or not self._reaches(each, rows).all()
        ]

    def allocate(
        self, devices: PodDevices, row: int
    ) -> tuple[Sequence[ResourceClaim], Sequence[AllocationResult]]:
        """The claims that get devices on a row where the pod fits, and what they get."""
        claims = devices.to_allocate(self.resources_from_devices(devices, row))
        if not claims:
            return (), ()
        self._ledger.follow_nodes()
        with unbroken():
            try:
                found = self._ledger.index.allocate(claims, row, self.selection, self._most_work)
            except DeviceError:
                return (), ()
        return ((), ()) if found is None else (claims, found)

    def resources_from_devices(self, devices: PodDevices, row: int) -> tuple[str, ...]:
        """The served resources that a row's node does not offer itself."""
        if not devices.served:
            return ()
        columns = self._state.columns
        found = []
        for name in devices.served:
            index = columns.resources.find(name)
            if index is None or not columns.allocatable.item(index, row):
                found.append(name)
        return tuple(found)

    # For explanations

    def judged(self, devices: PodDevices, rows: Rows) -> list[tuple[Group, Judgement]]:
        """What was found for each group of rows."""
        with unbroken():
            return list(self._judged(devices, rows, np.ones(len(rows), np.bool_)))

    def claims_away(self, devices: PodDevices, rows: Rows) -> list[tuple[str, ...]]:
        """For each row the claims that hold devices which cannot be used there."""
        table = [
            (each.claim.metadata.name, self._reaches(each, rows) & each.usable)
            for each in devices.limiting
        ]
        return [
            tuple(name for name, reaches in table if not reaches[place])
            for place in range(len(rows))
        ]

    # Parts

    def _judged(
        self, devices: PodDevices, rows: Rows, among: Mask
    ) -> Iterator[tuple[Group, Judgement]]:
        for group in self._groups(devices, rows, among):
            yield group, self._judge(group.claims, rows[group.places])

    def _judge(self, claims: Sequence[ResourceClaim], rows: Rows) -> Judgement:
        return self._ledger.index.judge(claims, rows, self.selection, self._most_work)

    def _judge_one(self, claims: Sequence[ResourceClaim], row: int) -> SearchOutcome:
        return self._ledger.index.judge_one(claims, row, self.selection, self._most_work)

    def _groups(self, devices: PodDevices, rows: Rows, among: Mask) -> Iterator[Group]:
        """Rows by the extended resources that come from devices there."""
        self._ledger.follow_nodes()
        places: Rows = np.flatnonzero(among)
        if not len(places):
            return
        for resources, where in self._by_resources(devices, rows, places):
            claims = devices.to_allocate(resources)
            if claims:
                yield Group(where, claims)

    def _by_resources(
        self, devices: PodDevices, rows: Rows, places: Rows
    ) -> Iterator[tuple[tuple[str, ...], Rows]]:
        names = list(devices.served)
        if not names:
            yield (), places
            return
        columns = self._state.columns
        kinds = np.zeros(len(places), np.int64)
        for bit, name in enumerate(names):
            index = columns.resources.find(name)
            if index is None:
                kinds |= 1 << bit
            else:
                kinds |= (columns.allocatable[index][rows[places]] == 0).astype(np.int64) << bit
        for kind in np.unique(kinds).tolist():
            found = tuple(name for bit, name in enumerate(names) if kind >> bit & 1)
            yield found, places[kinds == kind]

    def _unserved(self, devices: PodDevices, rows: Rows) -> Mask | None:
        """Rows that offer some extended resource neither as devices nor themselves.

        NodeResourcesFit rejects these before, unless it is told to ignore the resource.
        """
        names = self._foreign(devices)
        if not names:
            return None
        nodes = self._state.columns.nodes
        return np.array(
            [
                node is None or not all(name in allocatable_of(node) for name in names)
                for node in (nodes[row] for row in rows.tolist())
            ],
            np.bool_,
        )

    @staticmethod
    def _foreign(devices: PodDevices) -> list[str]:
        """The extended resources of a pod that are not served, beside some that are."""
        if not devices.served:
            return []
        return [
            name
            for name, amount in devices.pod.fit_requests.items()
            if amount and name not in devices.served and is_extended(name)
        ]

    def _out_of_reach(self, devices: PodDevices, rows: Rows) -> Mask:
        """Rows where some claim holds devices that cannot be used there.

        A pod whose extended resources are all the node's own needs nothing of this plugin.
        """
        found: Mask = np.zeros(len(rows), np.bool_)
        for each in devices.limiting:
            if each.usable:
                found |= ~self._reaches(each, rows)
            else:
                found[:] = True
        return found

    def _reaches(self, each: PodClaim, rows: Rows) -> Mask:
        if each.matcher is None:
            return np.ones(len(rows), np.bool_)
        return self._state.columns.labels.match(each.matcher, rows)

    def _as_codes(self, group: Group, judgement: Judgement, rows: Rows) -> Codes:
        """Codes of the rows of a group; rows with the same outcome share one, unless it is a fault.

        The text of a fault may name the node.
        """
        statuses, reason = self._state.statuses, self._ledger.index.reason
        codes: Codes = np.zeros(len(group.places), np.int32)
        for number, outcome in enumerate(judgement.outcomes):
            if outcome.fits:
                continue
            places = np.flatnonzero(judgement.codes == number)
            if outcome.fault is None:
                text = messages.INVALID_POOLS if outcome.invalid else messages.NOTHING_FITS
                codes[places] = statuses.code(unresolvable(text).by(PLUGIN))
                continue
            for place in places.tolist():
                text = reason(outcome, group.claims, int(rows[group.places[place]]))
                codes[place] = statuses.code(error(messages.wrapped(text)).by(PLUGIN))
        return codes
