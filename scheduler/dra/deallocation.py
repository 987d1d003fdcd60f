"""What PostFilter takes back for a pod that fits nowhere: one claim at a time.

A claim whose devices are out of reach, or never became ready, is deallocated if no other pod uses
it, so that the pod may get other devices. A claim that an earlier attempt made for extended
resources is deleted. Either change wakes the pod. Claims that are being deleted are no longer
reserved for the pod, so that they go.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from scheduler.dra import messages
from scheduler.dra.judging import NOT_AVAILABLE, DeviceJudge
from scheduler.dra.pod_devices import PodClaim, PodDevices, may_deallocate
from scheduler.model.devices import ResourceClaim
from scheduler.model.status import Status, unschedulable
from scheduler.plugin_api.cycle import Diagnosis
from scheduler.state.cache import ClusterState


class TakenBack(msgspec.Struct, frozen=True):
    """What PostFilter does, and says."""

    status: Status
    candidates: tuple[ResourceClaim, ...] = ()
    """Claims of which any one may be deallocated; the first is."""
    delete: ResourceClaim | None = None
    give_up: tuple[ResourceClaim, ...] = ()
    """Claims that are no longer to be reserved for the pod, all of them."""

    @property
    def acts(self) -> bool:
        """Whether anything is written."""
        return bool(self.candidates or self.give_up) or self.delete is not None


NOTHING = TakenBack(unschedulable(messages.NOTHING_TO_FREE))


def given_up(doomed: Sequence[ResourceClaim]) -> TakenBack:
    """What is to be done if claims of the pod are being deleted."""
    return TakenBack(unschedulable(messages.GIVEN_UP), give_up=tuple(doomed))


def taken_back(
    state: ClusterState, judge: DeviceJudge, devices: PodDevices | None, diagnosis: Diagnosis
) -> TakenBack:
    """What is to be done for a pod otherwise, by the verdicts on all nodes."""
    if devices is None:
        return NOTHING
    found = _unavailable(state, judge, devices, diagnosis)
    candidates = tuple(each.claim for each in found if may_deallocate(each, devices.pod))
    if candidates:
        return TakenBack(unschedulable(messages.DEALLOCATED), candidates)
    if devices.left_over is not None:
        return TakenBack(unschedulable(messages.DELETED), delete=devices.left_over)
    return TakenBack(unschedulable(messages.STILL_NOT))


def _unavailable(
    state: ClusterState, judge: DeviceJudge, devices: PodDevices, diagnosis: Diagnosis
) -> list[PodClaim]:
    """The claims that keep the pod from nodes where nothing else does."""
    if diagnosis.pre_filter is not None or not devices.limiting:
        return []
    rows = diagnosis.rows[diagnosis.codes == state.statuses.code(NOT_AVAILABLE)]
    return judge.unavailable(devices, rows) if len(rows) else []
