"""The columns of events, which are stored in their events.k8s.io form."""

from datetime import datetime

from sandbox.printing.column import Column, at, text
from sandbox.printing.durations import age
from sandbox.store import Body


def _first_seen(event: Body, now: datetime) -> str:
    return age(event.get("deprecatedFirstTimestamp") or event.get("eventTime"), now)


def _last_seen(event: Body, now: datetime) -> str:
    if series := event.get("series"):
        return age(series.get("lastObservedTime"), now)
    if last := event.get("deprecatedLastTimestamp"):
        return age(last, now)
    return _first_seen(event, now)


def _object(event: Body, _now: datetime) -> str:
    kind, name = at(event, "regarding.kind", "").lower(), at(event, "regarding.name", "")
    return f"{kind}/{name}" if name else kind


def _source(event: Body, _now: datetime) -> str:
    source = event.get("deprecatedSource") or {}
    component = source.get("component") or event.get("reportingController") or ""
    instance = source.get("host") or event.get("reportingInstance") or ""
    return f"{component}, {instance}" if instance else component


def _count(event: Body, _now: datetime) -> int:
    return int(at(event, "series.count") or event.get("deprecatedCount") or 1)


EVENTS = (
    Column("Last Seen", _last_seen),
    text("Type", "type"),
    text("Reason", "reason"),
    Column("Object", _object),
    text("Subobject", "regarding.fieldPath", wide=True),
    Column("Source", _source, wide=True),
    Column("Message", lambda event, _: (event.get("note") or "").strip()),
    Column("First Seen", _first_seen, wide=True),
    Column("Count", _count, wide=True),
    Column("Name", lambda event, _: event["metadata"].get("name"), format="name", wide=True),
)
