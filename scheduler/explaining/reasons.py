"""The informative part of a FailedScheduling message, for tables where room is short."""

from __future__ import annotations

import re

_COUNT = re.compile(r"^0/\d+ nodes are available: ")
_COUNTED = re.compile(r"\b0/\d+ nodes are available: ")
_NEXT = re.compile(r", (?=\d+ )")
_NODES = re.compile(r"^\d+ ")
_AFTER_FILTERS = re.compile(
    r"\.? (?:no new claims to deallocate|preemption: |still not schedulable, preemption)"
)


def informative(message: str) -> str:
    """Why filters reject the pod, without how many nodes there are and what PostFilter says.

    Messages of another form are left as they are.
    """
    if not _COUNT.match(message):
        return message
    rejections = _COUNT.sub("", message, count=1)
    found = _AFTER_FILTERS.search(rejections)
    return rejections[: found.start()] if found else rejections.removesuffix(".")


def reasons_of(message: str) -> list[str]:
    """The reasons of filters that a message counts nodes for; the whole message if it has none.

    The message of a gang has that of one of its members at its end.
    """
    counted = _COUNTED.search(message)
    if counted is None:
        return [message]
    found = informative(message[counted.start() :])
    return [_NODES.sub("", each, count=1) for each in _NEXT.split(found)]
