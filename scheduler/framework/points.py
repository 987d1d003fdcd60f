"""The extension points as a table: what configuration, code and metrics call them."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from scheduler.framework import interface
from scheduler.framework.interface import PostFilterResult, PreFilterResult
from scheduler.model.status import Status


class Point(msgspec.Struct, frozen=True):
    """An extension point: its key in configuration, its method, its name in metrics."""

    key: str
    method: str
    label: str
    protocol: type
    returns: type | None = None
    """What the method must return; None where that is checked elsewhere, or is nothing."""
    awaited: bool = False
    """Whether the method is a coroutine."""


POINTS: Mapping[str, Point] = {
    point.key: point
    for point in (
        Point("preEnqueue", "pre_enqueue", "PreEnqueue", interface.PreEnqueuePlugin, Status),
        Point("queueSort", "sort_key", "QueueSort", interface.QueueSortPlugin),
        Point("preFilter", "pre_filter", "PreFilter", interface.PreFilterPlugin, PreFilterResult),
        Point("filter", "filter", "Filter", interface.FilterPlugin),
        Point("afterFilter", "after_filter", "AfterFilter", interface.AfterFilterPlugin, Status),
        Point(
            "postFilter", "post_filter", "PostFilter", interface.PostFilterPlugin, PostFilterResult
        ),
        Point("preScore", "pre_score", "PreScore", interface.PreScorePlugin, Status),
        Point("score", "score", "Score", interface.ScorePlugin),
        Point("postScore", "post_score", "PostScore", interface.PostScorePlugin, Status),
        Point("reserve", "reserve", "Reserve", interface.ReservePlugin, Status),
        Point("permit", "permit", "Permit", interface.PermitPlugin, tuple),
        Point("preBind", "pre_bind", "PreBind", interface.PreBindPlugin, Status, True),
        Point("bind", "bind", "Bind", interface.BindPlugin, Status, True),
        Point("postBind", "post_bind", "PostBind", interface.PostBindPlugin),
    )
}
"""All points, in the order in which a pod meets them."""
