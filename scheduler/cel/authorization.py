"""Functions of the authorizer. The environment declares them, but no selector can have a value
to call them on: whatever arrives here came through `dyn` and is of another type."""

from __future__ import annotations

from collections.abc import Callable

from scheduler.cel.errors import no_such_overload
from scheduler.cel.values import Value, type_name

_NAMES = (
    "path", "group", "serviceAccount", "resource", "subresource", "namespace", "name", "check",
    "errored", "error", "allowed", "reason", "fieldSelector", "labelSelector",
)  # fmt: skip


def _refused(function: str) -> Callable[..., Value]:
    def refuse(*args: Value) -> Value:
        raise no_such_overload(function, *(type_name(arg) for arg in args))

    return refuse


FUNCTIONS: dict[str, Callable[..., Value]] = {name: _refused(name) for name in _NAMES}
