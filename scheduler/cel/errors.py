"""What can go wrong with a selector: it does not compile, or it fails for a device."""

from __future__ import annotations


class CelCompileError(ValueError):
    """The API server refuses the expression; the message is the one it gives."""


class CelRuntimeError(Exception):
    """The evaluation fails for one device; the message is the one of cel-go."""


class Aborted(Exception):
    """The evaluation ends here. Not an error of CEL: no operator absorbs it."""


class CostLimitExceeded(Aborted):
    """The evaluation costs more than is allowed."""

    def __init__(self) -> None:
        super().__init__("operation cancelled: actual cost limit exceeded")


class Panicked(Aborted):
    """cel-go would have run into an error of its own, which ends the evaluation, too."""

    def __init__(self, message: str) -> None:
        super().__init__(f"internal error: {message}")


def no_such_overload(function: str | None = None, *types: str) -> CelRuntimeError:
    """No variant of the function takes values of these types."""
    if function is None:
        return CelRuntimeError("no such overload")
    return CelRuntimeError(f"no such overload: {function}({', '.join(types)})")
