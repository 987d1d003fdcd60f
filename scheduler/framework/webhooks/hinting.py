"""Which events may cure what a webhook or an extender has rejected."""

from __future__ import annotations

from collections.abc import Sequence

from scheduler.config.schema import Webhook
from scheduler.model.events import Action
from scheduler.queueing.hints import ANY_KIND, HintRegistration, by_uid, own_change

ANY_EVENT = (HintRegistration(ANY_KIND, ~Action(0)),)
_ACTIONS = {"Add": Action.ADD, "Delete": Action.DELETE, "Update": Action.UPDATE}
_AT_THE_GATE = frozenset(("preEnqueue", "queueSort"))
_LATE = frozenset(("score", "preScore", "postBind"))


def hints_of(webhook: Webhook) -> Sequence[HintRegistration]:
    """What a webhook listens to: all events, or those that the configuration names.

    One that only stands at the gate is asked again in its own time, and when the pod changes.
    """
    own = HintRegistration("Pod", Action.UPDATE, own_change, by_uid)
    if frozenset(webhook.points) <= _AT_THE_GATE | _LATE:
        return (own,)
    if not webhook.retry_on:
        return ANY_EVENT
    named = (event.split("/") for event in webhook.retry_on)
    return (own, *(HintRegistration(kind, _ACTIONS[action]) for kind, action in named))
