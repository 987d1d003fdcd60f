"""Regular expressions with the semantics of RE2, in time linear in the text.

A pattern becomes a program; matching tries its threads in order of preference and never visits a
state at a position twice. Python's `re` would be faster for most patterns, but for some it takes
exponential time, and it accepts what RE2 refuses; a pattern of a user must do neither.
"""

from __future__ import annotations

from scheduler.bounded import MEBIBYTE, Recent, Usage
from scheduler.cel.errors import CostLimitExceeded
from scheduler.cel.recursion import room_for
from scheduler.cel.regex_syntax import (
    MAX_HEIGHT,
    Alternation,
    Assertion,
    Chars,
    Regex,
    RegexError,
    Repeat,
    Sequence,
    parse,
)
from scheduler.slices import checkpoint

_MAX_PROGRAM = 100_000
_MAX_STEPS = 2_000_000
_PACE = 8192
_CACHED_BYTES = 8 * MEBIBYTE
_INSTRUCTION_BYTES = 120

_CHAR, _SET, _SPLIT, _ASSERT, _MATCH = range(5)


class Pattern:
    """A compiled pattern."""

    __slots__ = ("_arguments", "_nexts", "_operations", "_others", "_start", "source", "steps")

    def __init__(self, source: str) -> None:
        self.source = source
        self.steps = 0
        self._operations: list[int] = []
        self._arguments: list[str | Chars | None] = []
        self._nexts: list[int] = []
        self._others: list[int] = []
        tree = parse(source)
        with room_for(4 * MAX_HEIGHT):
            end = self._emit(_MATCH, None, 0)
            self._start = self._compile(tree, end)

    def _emit(self, operation: int, argument: str | Chars | None, then: int, other: int = 0) -> int:
        if len(self._operations) >= _MAX_PROGRAM:
            raise RegexError("expression too large", self.source[:32])
        if len(self._operations) % _PACE == 0:
            checkpoint()
        self._operations.append(operation)
        self._arguments.append(argument)
        self._nexts.append(then)
        self._others.append(other)
        return len(self._operations) - 1

    def _compile(self, tree: Regex, then: int) -> int:
        """Instructions for a tree that continue at `then`; where they begin."""
        if isinstance(tree, Chars):
            if len(tree.ranges) == 1 and tree.ranges[0][0] == tree.ranges[0][1]:
                return self._emit(_CHAR, chr(tree.ranges[0][0]), then)
            return self._emit(_SET, tree, then)
        if isinstance(tree, Assertion):
            return self._emit(_ASSERT, tree.kind, then)
        if isinstance(tree, Sequence):
            for part in reversed(tree.parts):
                then = self._compile(part, then)
            return then
        if isinstance(tree, Alternation):
            begin = self._compile(tree.parts[-1], then)
            for part in reversed(tree.parts[:-1]):
                begin = self._emit(_SPLIT, None, self._compile(part, then), begin)
            return begin
        return self._repeat(tree, then)

    def _repeat(self, tree: Repeat, then: int) -> int:
        if tree.high is None:
            loop = self._emit(_SPLIT, None, then, then)
            body = self._compile(tree.part, loop)
            self._nexts[loop], self._others[loop] = (body, then) if tree.greedy else (then, body)
            begin = body if tree.low else loop
            for _ in range(tree.low - 1):
                begin = self._compile(tree.part, begin)
            return begin
        begin = then
        for _ in range(tree.high - tree.low):
            body = self._compile(tree.part, begin)
            order = (body, then) if tree.greedy else (then, body)
            begin = self._emit(_SPLIT, None, *order)
        for _ in range(tree.low):
            begin = self._compile(tree.part, begin)
        return begin

    def search(self, text: str, start: int = 0) -> tuple[int, int] | None:
        """The leftmost match from a position on, by preference as Perl has it.

        `steps` then says how many states were visited.
        """
        visited: set[int] = set()
        steps = 0
        width = len(text) + 1
        operations, arguments = self._operations, self._arguments
        nexts, others = self._nexts, self._others
        for begin in range(start, width):
            threads = [self._start * width + begin]
            while threads:
                thread = threads.pop()
                if thread in visited:
                    continue
                visited.add(thread)
                steps += 1
                self.steps = steps
                if steps % _PACE == 0:
                    if steps > _MAX_STEPS:
                        raise CostLimitExceeded
                    checkpoint()
                at, position = divmod(thread, width)
                operation = operations[at]
                if operation == _SPLIT:
                    threads.append(others[at] * width + position)
                    threads.append(nexts[at] * width + position)
                elif operation == _MATCH:
                    return begin, position
                elif operation == _ASSERT:
                    if _holds(str(arguments[at]), text, position):
                        threads.append(nexts[at] * width + position)
                elif position + 1 < width and self._accepts(at, text[position]):
                    threads.append(nexts[at] * width + position + 1)
        return None

    def _accepts(self, at: int, char: str) -> bool:
        argument = self._arguments[at]
        return argument == char if isinstance(argument, str) else char in argument  # type: ignore[operator]

    @property
    def size(self) -> int:
        """How many bytes it takes, about."""
        return len(self._operations) * _INSTRUCTION_BYTES

    def matches(self, text: str) -> bool:
        return self.search(text) is not None

    def find(self, text: str) -> str:
        found = self.search(text)
        return "" if found is None else text[found[0] : found[1]]

    def find_all(self, text: str, limit: int) -> list[str]:
        """Matches one after the other, none empty right behind another; all if limit < 0."""
        found: list[str] = []
        start, previous = 0, -1
        while start <= len(text) and (limit < 0 or len(found) < limit):
            match = self.search(text, start)
            if match is None:
                break
            begin, end = match
            if end > begin or begin != previous:
                found.append(text[begin:end])
            start = end if end > begin else end + 1
            previous = end
        return found


def _word(text: str, position: int) -> bool:
    if not 0 <= position < len(text):
        return False
    char = text[position]
    return char == "_" or (char.isascii() and char.isalnum())


def _holds(kind: str, text: str, position: int) -> bool:
    if kind == "^":
        return position == 0
    if kind == "$":
        return position == len(text)
    if kind == "m^":
        return position == 0 or text[position - 1] == "\n"
    if kind == "m$":
        return position == len(text) or text[position] == "\n"
    return (_word(text, position - 1) != _word(text, position)) == (kind == "b")


def compile_pattern(source: str) -> Pattern:
    """A pattern, kept for the next time. Raises `RegexError`."""
    found = _patterns.find(source)
    if found is None:
        found = Pattern(source)
        _patterns.put(source, found)
    return found


_patterns: Recent[str, Pattern] = Recent(
    _CACHED_BYTES, lambda source, pattern: len(source) + pattern.size
)


def patterns_usage() -> Usage:
    """How much is kept of patterns."""
    return _patterns.usage()
