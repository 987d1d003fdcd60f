"""Which events may have a waiting pod tried again, in words that users of Kubernetes know.

They are those that the plugins that rejected it registered for (`HintRegistration`). A plugin's
hint may still say of such an event that it does not help this pod.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from scheduler.model.events import ASSIGNED_POD, UNSCHEDULABLE_POD, Action
from scheduler.queueing.hints import ANY_KIND, HintRegistration, by_uid, own_change

_DETAILS: Mapping[Action, str] = {
    Action.NODE_ALLOCATABLE: "allocatable",
    Action.NODE_LABEL: "labels",
    Action.NODE_TAINT: "taints",
    Action.NODE_CONDITION: "conditions",
    Action.NODE_DECLARED_FEATURE: "declared features",
    Action.POD_LABEL: "labels",
    Action.POD_TOLERATION: "tolerations",
    Action.POD_GENERATED_CLAIM: "generated claims",
}
"""What of an object changes."""
_NODE = (
    Action.NODE_ALLOCATABLE
    | Action.NODE_LABEL
    | Action.NODE_TAINT
    | Action.NODE_CONDITION
    | Action.NODE_DECLARED_FEATURE
)
_POD = (
    Action.POD_LABEL
    | Action.POD_SCALE_DOWN
    | Action.POD_GATES_ELIMINATED
    | Action.POD_TOLERATION
    | Action.POD_GENERATED_CLAIM
)
_POD_KINDS = ("Pod", ASSIGNED_POD, UNSCHEDULABLE_POD)


class WakeEvents(msgspec.Struct, frozen=True):
    """What may have a pod tried again that a plugin rejected."""

    plugin: str
    events: tuple[str, ...]
    """One for each kind of object, such as ``a Node is added or its allocatable changes``."""
    message: str
    """All of them in a sentence."""


def wake_events(
    plugins: Iterable[str], registrations: Callable[[str], Sequence[HintRegistration]]
) -> tuple[WakeEvents, ...]:
    """For each of the plugins, the events it registered for; those without any are left out."""
    found = ((plugin, tuple(map(in_words, _widest(registrations(plugin))))) for plugin in plugins)
    return tuple(
        WakeEvents(plugin, tuple(dict.fromkeys(events)), "; ".join(dict.fromkeys(events)))
        for plugin, events in found
        if events
    )


def _widest(registrations: Sequence[HintRegistration]) -> list[HintRegistration]:
    """All but those of which another of the same kind says more."""
    return [
        each
        for each in registrations
        if not any(
            other.kind == each.kind and each.actions in other.actions
            for other in registrations
            if other.actions != each.actions
        )
    ]


def in_words(registration: HintRegistration) -> str:
    """The events of one registration: ``a Pod is deleted or scaled down``."""
    kind, actions = registration.kind, registration.actions
    if kind == ANY_KIND:
        return "anything in the cluster changes"
    if kind in _POD_KINDS:
        own = registration.hint is own_change or registration.column is by_uid
        return _of_own_pod(actions) if own else _of_pods(kind, actions)
    return _of_objects(f"a {kind}" if kind[0] not in "AEIO" else f"an {kind}", actions, _NODE)


def _of_own_pod(actions: Action) -> str:
    """Only the pod itself."""
    if Action.UPDATE in actions:
        return "this Pod changes"
    said = _changes(actions, "this Pod's")
    if Action.POD_GATES_ELIMINATED in actions:
        said.append("this Pod's scheduling gates are removed")
    if Action.POD_SCALE_DOWN in actions:
        said.append("this Pod is scaled down")
    return " or ".join(said)


def _of_pods(kind: str, actions: Action) -> str:
    verbs = []
    if Action.ADD in actions:
        verbs.append("added" if kind == UNSCHEDULABLE_POD else "placed on a node")
    if Action.DELETE in actions:
        verbs.append("deleted")
    if Action.POD_SCALE_DOWN in actions and Action.UPDATE not in actions:
        verbs.append("scaled down")
    said = [f"a Pod is {' or '.join(verbs)}"] if verbs else []
    if Action.UPDATE in actions:
        said.append("it changes" if said else "a Pod changes")
    else:
        said += _changes(actions & ~Action.POD_SCALE_DOWN, "its" if said else "a Pod's")
        if Action.POD_GATES_ELIMINATED in actions:
            said.append("its scheduling gates are removed")
    return " or ".join(said)


def _of_objects(what: str, actions: Action, details: Action) -> str:
    verbs = [
        word
        for action, word in ((Action.ADD, "added"), (Action.DELETE, "deleted"))
        if action in actions
    ]
    said = [f"{what} is {' or '.join(verbs)}"] if verbs else []
    if Action.UPDATE in actions:
        said.append("it changes" if said else f"{what} changes")
    else:
        said += _changes(actions & details, "its" if said else f"{what}'s")
    return " or ".join(said)


def _changes(actions: Action, whose: str) -> list[str]:
    """``its labels or taints change``; nothing if no detail is named."""
    names = list(dict.fromkeys(_DETAILS[each] for each in actions if each in _DETAILS))
    if not names:
        return []
    plural = len(names) > 1 or names[0].endswith("s")
    return [f"{whose} {_listed(names)} {'change' if plural else 'changes'}"]


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"
