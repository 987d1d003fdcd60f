"""Why a pod moved in the queue, besides events: labels of ``queue_incoming_pods_total``."""

from __future__ import annotations

from scheduler.model.events import UNSCHEDULED_POD, Action, Event

POD_ADD = Event(UNSCHEDULED_POD, Action.ADD).label
POD_UPDATE = Event(UNSCHEDULED_POD, Action.UPDATE).label
SCHEDULE_ATTEMPT_FAILURE = "ScheduleAttemptFailure"
BACKOFF_COMPLETE = "BackoffComplete"
POP_FROM_BACKOFF = "PopFromBackoffQ"
FORCE_ACTIVATE = "ForceActivate"
UNSCHEDULABLE_TIMEOUT = "UnschedulableTimeout"
STILL_REJECTED = "StillRejected"
"""An event may have cured the pod, and when its turn came that was no longer so."""
SCOUT_SETTLED = "ScoutSettled"
DECISION_OUTDATED = "DecisionOutdated"
"""An equal pod that went ahead has found a node, or can no longer speak for the others."""
