"""One colour per state, everywhere: explanations, queue, decisions, simulations, live screens."""

from __future__ import annotations

GOOD = "green"
BAD = "red"
WARN = "yellow"
DIM = "dim"
BUSY = "cyan"
HELD = "blue"

STYLES = {
    # It has a node, or would get one.
    "bound": GOOD,
    "scheduled": GOOD,
    "chosen": f"bold {GOOD}",
    "fits": GOOD,
    # It is on its way.
    "new": BUSY,
    "active": BUSY,
    "in-flight": BUSY,
    "binding": BUSY,
    "standby": BUSY,
    # Something outside the scheduler has to answer first.
    "permit": HELD,
    "waiting-on-permit": HELD,
    "suspended": HELD,
    # It is tried again, by itself or with others.
    "backoff": WARN,
    "error-backoff": WARN,
    "group": WARN,
    # It was refused.
    "unschedulable": BAD,
    "rejected": BAD,
    "refused": BAD,
    "evicted": BAD,
    "error": BAD,
    # It is not tried at all.
    "gated": DIM,
    "terminating": DIM,
    "ended": DIM,
    "other-scheduler": DIM,
}
"""By state of a pod (`explain`), tier of the queue, result of a decision, or verdict on a node."""


def style_of(state: str) -> str:
    """The style of a state on a terminal; none for one that is not known here."""
    return STYLES.get(state, "")
