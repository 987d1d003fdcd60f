"""Everything that a plugin of one's own imports; nothing else of ``scheduler`` is stable.

The modules of this package hold the contract; each extension point is explained at its protocol in
``extension_points``. The names below are gathered from there and from the layers underneath::

    from scheduler.plugin_api import SUCCESS, Cycle, Handle, NodeView, Status, unresolvable

- `extension_points`: the contract between the scheduler and its plugins: one protocol per extension
  point.
- `traits`: what a plugin promises about its answers, besides the methods that it has.
- `cycle`: what lives as long as one attempt to place one pod.
- `handle`: what a plugin gets to work with: a handle of a few facets, given to its constructor.
- `node_view`: one node as plugins that answer for one node at a time see it.
- `registration`: plugins made of functions: ``register("pre-filter", function)``.
- `memory`: what plugins remember of pods and nodes beyond one cycle.
- `outlet`: what a scheduler writes.
- `facts`: what a rejection rests on, for explanations.
- `groups`: the contract with the plugin that knows pod groups: pods placed together or not at all.
- `waiting`: pods that wait on permit, between reservation and binding.
- `scoring`: normalisation that several score plugins share.
"""

from __future__ import annotations

from scheduler.equivalence.reads import Key, Reads
from scheduler.model.events import (
    ASSIGNED_POD,
    UNSCHEDULABLE_POD,
    Action,
    Event,
    Hint,
)
from scheduler.model.podinfo import PodInfo
from scheduler.model.selectors import Requirement
from scheduler.model.status import (
    SKIP,
    SUCCESS,
    Code,
    Status,
    error,
    unresolvable,
    unschedulable,
)
from scheduler.observe.logs import get_logger
from scheduler.plugin_api.cycle import STALE, Cycle, Diagnosis, Slot
from scheduler.plugin_api.extension_points import (
    MAX_SCORE,
    AfterFilterPlugin,
    BindPlugin,
    CountedPods,
    CountingPlugin,
    EnqueueExtensions,
    EquivalentFilter,
    EquivalentScore,
    FilterPlugin,
    InterestedPlugin,
    LessPlugin,
    LevelScore,
    LookAheadPlugin,
    NodeFilterPlugin,
    NodeScorePlugin,
    Observer,
    OneRowFilter,
    OneRowScore,
    PermitPlugin,
    Plugin,
    PostBindPlugin,
    PostFilterPlugin,
    PostFilterPreview,
    PostFilterPreviewPlugin,
    PostFilterResult,
    PostScorePlugin,
    PreBindPlugin,
    PreBindPreFlight,
    PreEnqueuePlugin,
    PreFilterPlugin,
    PreFilterResult,
    PreScorePlugin,
    QueueSortPlugin,
    QuickFilter,
    RankingPlugin,
    ReservePlugin,
    ScorePlugin,
    SpreadingPlugin,
    UnreservePlugin,
    WhatIfPlugin,
)
from scheduler.plugin_api.facts import (
    DescribingPlugin,
    Fact,
    FactsPlugin,
    NodeFactsPlugin,
    fact,
)
from scheduler.plugin_api.groups import GroupPlugin, PodGroupState
from scheduler.plugin_api.handle import (
    Handle,
    PluginFactory,
    PluginPermits,
    PluginQueue,
    PluginRun,
    Victims,
)
from scheduler.plugin_api.memory import Memories, Memory
from scheduler.plugin_api.node_view import NodeView
from scheduler.plugin_api.outlet import Outlet, WriteError
from scheduler.plugin_api.registration import RegistrationError, Registrations, register
from scheduler.plugin_api.scoring import normalize_by_max
from scheduler.plugin_api.traits import PluginTraits
from scheduler.plugin_api.waiting import WaitingPod
from scheduler.queueing.columns import Alike, Indexed, WaitingColumn, alike
from scheduler.queueing.hints import ANY_KIND, HintRegistration, by_uid, own_change
from scheduler.queueing.queued_pod import QueuedPod
from scheduler.state.aspects import Aspect
from scheduler.state.columns import Codes, Mask, Rows, Scores

__all__ = [
    "ANY_KIND",
    "ASSIGNED_POD",
    "MAX_SCORE",
    "SKIP",
    "STALE",
    "SUCCESS",
    "UNSCHEDULABLE_POD",
    "Action",
    "AfterFilterPlugin",
    "Alike",
    "Aspect",
    "BindPlugin",
    "Code",
    "Codes",
    "CountedPods",
    "CountingPlugin",
    "Cycle",
    "DescribingPlugin",
    "Diagnosis",
    "EnqueueExtensions",
    "EquivalentFilter",
    "EquivalentScore",
    "Event",
    "Fact",
    "FactsPlugin",
    "FilterPlugin",
    "GroupPlugin",
    "Handle",
    "Hint",
    "HintRegistration",
    "Indexed",
    "InterestedPlugin",
    "Key",
    "LessPlugin",
    "LevelScore",
    "LookAheadPlugin",
    "Mask",
    "Memories",
    "Memory",
    "NodeFactsPlugin",
    "NodeFilterPlugin",
    "NodeScorePlugin",
    "NodeView",
    "Observer",
    "OneRowFilter",
    "OneRowScore",
    "Outlet",
    "PermitPlugin",
    "Plugin",
    "PluginFactory",
    "PluginPermits",
    "PluginQueue",
    "PluginRun",
    "PluginTraits",
    "PodGroupState",
    "PodInfo",
    "PostBindPlugin",
    "PostFilterPlugin",
    "PostFilterPreview",
    "PostFilterPreviewPlugin",
    "PostFilterResult",
    "PostScorePlugin",
    "PreBindPlugin",
    "PreBindPreFlight",
    "PreEnqueuePlugin",
    "PreFilterPlugin",
    "PreFilterResult",
    "PreScorePlugin",
    "QueueSortPlugin",
    "QueuedPod",
    "QuickFilter",
    "RankingPlugin",
    "Reads",
    "RegistrationError",
    "Registrations",
    "Requirement",
    "ReservePlugin",
    "Rows",
    "ScorePlugin",
    "Scores",
    "Slot",
    "SpreadingPlugin",
    "Status",
    "UnreservePlugin",
    "Victims",
    "WaitingColumn",
    "WaitingPod",
    "WhatIfPlugin",
    "WriteError",
    "alike",
    "by_uid",
    "error",
    "fact",
    "get_logger",
    "normalize_by_max",
    "own_change",
    "register",
    "unresolvable",
    "unschedulable",
]
