"""Why this node and not the next best: what tipped the choice between the two."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from scheduler.pipeline.placement import tie_ranks
from scheduler.slices import checkpoint

_AS_IF = "if scheduled now: "
_HOW = "the choice among equals depends on a hash of the names of pod and node (tieBreakSeed)"


def comparison(
    answer: Mapping[str, Any], bound_to: str | None = None, seed: int = 0
) -> dict[str, Any] | None:
    """The scores of the node that would be chosen against those of the next best.

    None if no node would be. A pod that is bound is compared as if it were placed now; if that
    were elsewhere, the node that it is on takes the place of the next best. O(nodes that fit), has
    checkpoints.
    """
    node, scores = answer["node"], answer["scores"]
    if node is None:
        return None
    own = scores.get(node)
    if own is None:
        return _said(node, f"{node} was not compared with others", bound_to)
    ties = _with_total(scores, own["total"], node)
    elsewhere = bound_to if bound_to != node and bound_to in scores else None
    other = elsewhere or _next_best(answer["pod"], scores, node, ties, seed)
    if node == answer["nominated"]:
        taken = f"the pod is nominated to {node} and fits there, so no other node was compared"
        return _said(node, taken, bound_to)
    if other is None:
        return _said(node, f"{node} is the only node that fits", bound_to)
    parts = _parts(own["plugins"], scores[other]["plugins"])
    margin = own["total"] - scores[other]["total"]
    tipped = _tipped(parts)
    if elsewhere and margin:
        text = f"it would go to {node}, not to {other}, where it is: {tipped}"
    elif ties:
        equals = "1 other node has" if len(ties) == 1 else f"{len(ties)} other nodes have"
        text = f"{equals} the same total as {node}; {_HOW}"
    elif margin < 0:
        text = f"{other} has a higher total, but {node} was taken"
    else:
        text = f"{node} is ahead of {other} by {margin}: {tipped}"
    said = _said(node, text, bound_to)
    return {**said, "runnerUp": other, "ties": len(ties), "margin": margin, "parts": parts}


def _said(node: str, message: str, bound_to: str | None) -> dict[str, Any]:
    return {
        "node": node,
        "runnerUp": None,
        "ties": 0,
        "margin": 0,
        "parts": [],
        "message": (_AS_IF if bound_to else "") + message,
    }


def _with_total(scores: Mapping[str, Any], total: int, node: str) -> list[str]:
    """The other nodes with this total."""
    equal = []
    for name, score in scores.items():
        checkpoint()
        if score["total"] == total and name != node:
            equal.append(name)
    return equal


def _next_best(
    pod: str, scores: Mapping[str, Any], node: str, ties: list[str], seed: int
) -> str | None:
    """The node that would be chosen without this one; ties are broken as for the choice."""
    rest = ties
    if not rest:
        best = max((score["total"] for name, score in scores.items() if name != node), default=None)
        if best is None:
            return None
        checkpoint()
        rest = _with_total(scores, best, node)
    return rest[int(tie_ranks(pod, rest, seed).argmin())]


def _parts(own: Mapping[str, int], others: Mapping[str, int]) -> list[dict[str, Any]]:
    """Each plugin's weighted score of both nodes, what speaks most for the first one first."""
    parts: list[dict[str, Any]] = [
        {
            "plugin": plugin,
            "node": own[plugin],
            "runnerUp": others[plugin],
            "difference": own[plugin] - others[plugin],
        }
        for plugin in own
    ]
    return sorted(parts, key=lambda part: -part["difference"])


def _tipped(parts: list[dict[str, Any]]) -> str:
    """What spoke most for the node, and what against it."""
    first, last = parts[0], parts[-1]
    text = f"{first['plugin']} made the difference ({first['difference']:+})"
    if last["difference"] < 0 < first["difference"]:
        return f"{text}, against {last['plugin']} ({last['difference']})"
    return text
