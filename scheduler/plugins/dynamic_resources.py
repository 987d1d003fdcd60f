"""DynamicResources: keeps pods that claim devices from running without them.

Devices are not allocated yet. A pod that was bound without its claims would hang on its node or
fail there, so it is held here, visibly: a rejection before filtering gives it a condition and an
event, while a pod kept out of the queue (as kube-scheduler does until claims exist) gets neither.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from scheduler.equivalence.reads import Key, Reads
from scheduler.model.events import Action
from scheduler.model.podinfo import PodInfo
from scheduler.model.status import SKIP, Code, Status, unresolvable, unschedulable
from scheduler.plugin_api import Handle, PostFilterResult, PreFilterResult, RoomPreview
from scheduler.plugin_api.cycle import Cycle, Diagnosis
from scheduler.plugin_api.traits import PluginTraits
from scheduler.plugins.names import DYNAMIC_RESOURCES
from scheduler.queueing.hints import HintRegistration, by_uid, own_change


class DynamicResources:
    """Rejects every pod that has resource claims."""

    name = DYNAMIC_RESOURCES
    NOT_BUILT = Status(
        Code.UNRESOLVABLE,
        (
            "dynamic resource allocation is not built yet: "
            "a pod with resource claims is never bound without them",
        ),
        DYNAMIC_RESOURCES,
    )

    filter_reads = Reads()
    traits = PluginTraits(answers_for_class=True)
    NOTHING_TO_FREE = unschedulable("no new claims to deallocate")

    def __init__(self, args: Any, handle: Handle) -> None: ...

    def filter_key(self, pod: PodInfo) -> Key:
        """Whether it has claims."""
        return True if pod.pod.spec.resource_claims else None

    def pre_filter(self, cycle: Cycle) -> PreFilterResult:
        """Hold pods with claims; nothing to do for others."""
        claims = cycle.pod.pod.spec.resource_claims
        return PreFilterResult(self.NOT_BUILT if claims else SKIP)

    def post_filter(self, cycle: Cycle, diagnosis: Diagnosis) -> PostFilterResult:
        """Leave pods without claims to others, in kube-scheduler's words; end it for those with."""
        claims = cycle.pod.pod.spec.resource_claims
        return PostFilterResult(unresolvable() if claims else self.NOTHING_TO_FREE)

    def preview(self, cycle: Cycle, diagnosis: Diagnosis) -> RoomPreview:
        """The same for explanations: this plugin frees nothing."""
        if not cycle.pod.pod.spec.resource_claims:
            return RoomPreview()
        return RoomPreview(self.NOT_BUILT.message, final=True)

    def hints(self) -> Sequence[HintRegistration]:
        """Only the pod itself can change that, and the API server forbids it to."""
        return (HintRegistration("Pod", Action.UPDATE, own_change, by_uid),)
