"""Verdicts are values: what a plugin says about a pod, or about a pod on a node."""

from __future__ import annotations

import enum

import msgspec


class Code(enum.Enum):
    """The outcome of a plugin call, and what the scheduler does about it."""

    SUCCESS = "Success"
    ERROR = "Error"
    """A fault, not a verdict: the pod is tried again after an error back-off."""
    UNSCHEDULABLE = "Unschedulable"
    """No, but evicting pods might help."""
    UNRESOLVABLE = "UnschedulableAndUnresolvable"
    """No, and evicting pods cannot help."""
    WAIT = "Wait"
    """Permit only: hold the pod until it is allowed or rejected."""
    SKIP = "Skip"
    """Nothing to do for this pod: the plugin's later points of the cycle are left out."""
    PENDING = "Pending"
    """Not yet: the event that is waited for puts the pod straight back, without back-off."""

    __hash__ = object.__hash__  # that of Enum is written in Python, and hashes the name


_SUCCESS = Code.SUCCESS
"""Read for every pod: a member of an enumeration takes many times what a name does."""


class Status(msgspec.Struct, frozen=True, cache_hash=True):
    """A verdict: code, the reasons shown to people, and the plugin that gave it."""

    code: Code = Code.SUCCESS
    reasons: tuple[str, ...] = ()
    plugin: str = ""

    @property
    def ok(self) -> bool:
        """Whether scheduling of the pod continues after this verdict."""
        return self.code is _SUCCESS

    @property
    def rejected(self) -> bool:
        """Whether this is a verdict against the pod (and not a fault)."""
        return self.code in (Code.UNSCHEDULABLE, Code.UNRESOLVABLE, Code.PENDING)

    @property
    def message(self) -> str:
        """The reasons as one text."""
        return ", ".join(self.reasons)

    def by(self, plugin: str) -> Status:
        """The same verdict, signed by a plugin."""
        return msgspec.structs.replace(self, plugin=plugin)


SUCCESS = Status()
SKIP = Status(Code.SKIP)


def unschedulable(*reasons: str) -> Status:
    """A verdict that evictions might overturn."""
    return Status(Code.UNSCHEDULABLE, reasons)


def unresolvable(*reasons: str) -> Status:
    """A verdict that evictions cannot overturn."""
    return Status(Code.UNRESOLVABLE, reasons)


def error(*reasons: str) -> Status:
    """A fault inside a plugin or on the way to the API server."""
    return Status(Code.ERROR, reasons)
