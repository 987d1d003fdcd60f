"""Answers of webhooks and extenders from a recording, in place of calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from scheduler.webhooks.transport import CallFailed

T = TypeVar("T")


class RecordedAnswers:
    """The last answer of each plugin about each pod, as bytes; or why there was none."""

    def __init__(self) -> None:
        self._answers: dict[tuple[str, str, str], tuple[bytes, str]] = {}

    def record(self, plugin: str, path: str, pod: str, answer: bytes, fault: str) -> None:
        """Keep an answer; the one before is dropped."""
        self._answers[plugin, path, pod] = answer, fault

    def drop(self, pod: str) -> None:
        """A pod is gone: nothing will be asked about it any more."""
        for key in [key for key in self._answers if key[2] == pod]:
            del self._answers[key]

    def find(self, plugin: str, path: str, pod: str) -> tuple[bytes, str]:
        """The answer, or a fault."""
        return self._answers.get((plugin, path, pod), (b"", "broken:it is not recorded"))


class RecordedCalls:
    """Stands for the calls of one webhook or extender."""

    def __init__(self, name: str, answers: RecordedAnswers) -> None:
        self._name = name
        self._answers = answers

    async def call(
        self,
        point: str,
        path: str,
        body: Callable[[], bytes],
        read: Callable[[bytes], T],
        *,
        namespace: str,
        repeatable: bool = True,
        pod: str = "",
    ) -> T:
        """What ``read`` returns for the recorded answer. Raises CallFailed."""
        answer, fault = self._answers.find(self._name, path, pod)
        if fault:
            result, _, message = fault.partition(":")
            raise CallFailed(result, message)
        try:
            return read(answer)
        except (ValueError, RecursionError) as unclear:
            raise CallFailed("invalid", f"its answer makes no sense: {unclear}") from unclear

    async def close(self) -> None:
        """There is nothing to close."""
