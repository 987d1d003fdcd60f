"""The syntax of RE2: patterns to trees. Back references and look-around do not exist in it."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, lru_cache

from scheduler.cel.recursion import room_for
from scheduler.slices import checkpoint

MAX_REPEAT = 1000
MAX_HEIGHT = 1000
_MAX_CODE = 0x10FFFF
_PACE = 4096

Ranges = tuple[tuple[int, int], ...]


class RegexError(ValueError):
    """The pattern is not one of RE2; the message is Go's."""

    def __init__(self, message: str, part: str) -> None:
        super().__init__(f"error parsing regexp: {message}: `{part}`")


@dataclass(slots=True, frozen=True)
class Chars:
    """One character out of some."""

    ranges: Ranges

    def __contains__(self, char: str) -> bool:
        code = ord(char)
        index = bisect_right(self.ranges, (code, _MAX_CODE + 1)) - 1
        return index >= 0 and code <= self.ranges[index][1]


@dataclass(slots=True, frozen=True)
class Assertion:
    """`kind` is one of ^ $ (of the text), m^ m$ (of a line), b, B."""

    kind: str


@dataclass(slots=True, frozen=True)
class Sequence:
    parts: tuple[Regex, ...]


@dataclass(slots=True, frozen=True)
class Alternation:
    parts: tuple[Regex, ...]


@dataclass(slots=True, frozen=True)
class Repeat:
    part: Regex
    low: int
    high: int | None
    greedy: bool


Regex = Chars | Assertion | Sequence | Alternation | Repeat

_POSIX: dict[str, Ranges] = {
    "alnum": ((48, 57), (65, 90), (97, 122)),
    "alpha": ((65, 90), (97, 122)),
    "ascii": ((0, 127),),
    "blank": ((9, 9), (32, 32)),
    "cntrl": ((0, 31), (127, 127)),
    "digit": ((48, 57),),
    "graph": ((33, 126),),
    "lower": ((97, 122),),
    "print": ((32, 126),),
    "punct": ((33, 47), (58, 64), (91, 96), (123, 126)),
    "space": ((9, 13), (32, 32)),
    "upper": ((65, 90),),
    "word": ((48, 57), (65, 90), (95, 95), (97, 122)),
    "xdigit": ((48, 57), (65, 70), (97, 102)),
}
_PERL: dict[str, Ranges] = {
    "d": _POSIX["digit"],
    "s": ((9, 10), (12, 13), (32, 32)),
    "w": _POSIX["word"],
}
_ESCAPES = {"a": 7, "f": 12, "t": 9, "n": 10, "r": 13, "v": 11}
_CATEGORIES = frozenset((
    "C", "Cc", "Cf", "Co", "Cs", "L", "Ll", "Lm", "Lo", "Lt", "Lu", "M", "Mc", "Me", "Mn", "N",
    "Nd", "Nl", "No", "P", "Pc", "Pd", "Pe", "Pf", "Pi", "Po", "Ps", "S", "Sc", "Sk", "Sm", "So",
    "Z", "Zl", "Zp", "Zs",
))  # fmt: skip
_SCRIPTS = frozenset((
    "Arabic", "Armenian", "Bengali", "Bopomofo", "Braille", "Cherokee", "Coptic", "Cyrillic",
    "Devanagari", "Ethiopic", "Georgian", "Gothic", "Greek", "Gujarati", "Gurmukhi", "Hangul",
    "Hebrew", "Hiragana", "Kannada", "Katakana", "Khmer", "Lao", "Latin", "Malayalam",
    "Mongolian", "Myanmar", "Ogham", "Oriya", "Runic", "Sinhala", "Syriac", "Tamil", "Telugu",
    "Thaana", "Thai", "Tibetan",
))  # fmt: skip
_NAME = re.compile(r"\(\?P?<([^>]*)>")
_COUNT = re.compile(r"\{(\d+)(?:(,)(\d*))?\}", re.ASCII)


def merged(ranges: list[tuple[int, int]]) -> Ranges:
    """The same characters in ranges that are in order and apart."""
    found: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if found and low <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(found[-1][1], high))
        else:
            found.append((low, high))
    return tuple(found)


def negated(ranges: Ranges) -> Ranges:
    found: list[tuple[int, int]] = []
    start = 0
    for low, high in ranges:
        if low > start:
            found.append((start, low - 1))
        start = high + 1
    if start <= _MAX_CODE:
        found.append((start, _MAX_CODE))
    return tuple(found)


@cache
def _categories() -> dict[str, Ranges]:
    """All characters by general category, of one letter and of two."""
    found: dict[str, list[tuple[int, int]]] = {name: [] for name in _CATEGORIES}
    for code in _codes():
        category = unicodedata.category(chr(code))
        if category != "Cn":
            found[category].append((code, code))
            found[category[0]].append((code, code))
    return {name: merged(ranges) for name, ranges in found.items()}


@cache
def _script(name: str) -> Ranges:
    """The characters of a script: those whose names begin with it."""
    if name == "Han":
        return (
            (0x2E80, 0x2FD5), (0x3005, 0x3007), (0x3021, 0x3029), (0x3038, 0x303B),
            (0x3400, 0x4DBF), (0x4E00, 0x9FFF), (0xF900, 0xFAD9), (0x20000, 0x3134A),
        )  # fmt: skip
    prefix = f"{name.upper()} "
    named = (code for code in _codes() if unicodedata.name(chr(code), "").startswith(prefix))
    return merged([(code, code) for code in named])


def _codes() -> Iterator[int]:
    for code in range(_MAX_CODE + 1):
        if code % _PACE == 0:
            checkpoint()
        yield code


def _unicode_class(name: str) -> Ranges:
    if name == "Any":
        return ((0, _MAX_CODE),)
    return _categories()[name] if name in _CATEGORIES else _script(name)


@lru_cache(maxsize=4096)
def _folded(code: int) -> tuple[int, ...]:
    """All characters that differ from one only in case."""
    char = chr(code)
    found = {char, char.lower(), char.upper(), char.title()}
    if char in "kK\u212a":
        found = {"k", "K", "\u212a"}
    elif char in "sS\u017f":
        found = {"s", "S", "\u017f"}
    elif char in "\u00e5\u00c5\u212b":
        found = {"\u00e5", "\u00c5", "\u212b"}
    return tuple(ord(other) for other in found if len(other) == 1)


def _fold(ranges: Ranges) -> Ranges:
    found = list(ranges)
    for low, high in ranges:
        if high - low > 2000:
            continue  # ranges this wide have both cases
        for code in range(low, high + 1):
            found += ((other, other) for other in _folded(code))
    return merged(found)


def parse(pattern: str) -> Regex:
    """The tree of a pattern. Raises `RegexError`."""
    parser = _PatternParser(pattern)
    with room_for(6 * MAX_HEIGHT):
        tree = parser.choice(0)
    if parser.at < len(pattern):
        raise RegexError("unexpected )", pattern)
    return tree


class _PatternParser:
    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.at = 0
        self.ignore_case = False
        self.lines = False
        self.dot_all = False
        self.lazy = False

    def peek(self, text: str) -> bool:
        return self.pattern.startswith(text, self.at)

    def choice(self, height: int) -> Regex:
        if height > MAX_HEIGHT:
            raise RegexError("expression nests too deeply", self.pattern)
        parts = [self.sequence(height)]
        while self.peek("|"):
            self.at += 1
            parts.append(self.sequence(height))
        return parts[0] if len(parts) == 1 else Alternation(tuple(parts))

    def sequence(self, height: int) -> Regex:
        parts: list[Regex] = []
        while self.at < len(self.pattern) and self.pattern[self.at] not in "|)":
            if self.peek("\\Q"):
                parts += self.quoted()
                continue
            start = self.at
            part = self.atom(height)
            if part is not None:
                parts.append(self.repeated(part, start))
        return parts[0] if len(parts) == 1 else Sequence(tuple(parts))

    def quoted(self) -> list[Regex]:
        end = self.pattern.find("\\E", self.at)
        text = self.pattern[self.at + 2 : len(self.pattern) if end < 0 else end]
        self.at = len(self.pattern) if end < 0 else end + 2
        parts: list[Regex] = [self.char(ord(char)) for char in text]
        if parts:
            parts[-1] = self.repeated(parts[-1], self.at)
        return parts

    def repeated(self, part: Regex, start: int) -> Regex:
        """The part with the repetition after it, of which there can be one."""
        before = self.at
        bounds = self.bounds()
        if bounds is None:
            return part
        greedy = not self.lazy
        if self.peek("?"):
            self.at += 1
            greedy = not greedy
        operator = self.pattern[before : self.at]
        low, high = bounds
        if low > MAX_REPEAT or (high or 0) > MAX_REPEAT or (high is not None and high < low):
            raise RegexError("invalid repeat count", operator)
        made = Repeat(part, low, high, greedy)
        if _expansion(made) > MAX_REPEAT:
            raise RegexError("invalid repeat count", operator)
        after = self.at
        if self.bounds() is not None:
            text = self.pattern[before : self.at]
            raise RegexError("invalid nested repetition operator", text)
        self.at = after
        return made

    def bounds(self) -> tuple[int, int | None] | None:
        if self.at >= len(self.pattern):
            return None
        mark = self.pattern[self.at]
        simple: dict[str, tuple[int, int | None]] = {"*": (0, None), "+": (1, None), "?": (0, 1)}
        if mark in simple:
            self.at += 1
            return simple[mark]
        match = _COUNT.match(self.pattern, self.at) if mark == "{" else None
        if match is None:
            return None
        self.at = match.end()
        low = _small(match[1])
        if match[2] is None:
            return low, low
        return low, _small(match[3]) if match[3] else None

    def char(self, code: int) -> Chars:
        return Chars(merged([(other, other) for other in _folded(code)])
                     if self.ignore_case else ((code, code),))  # fmt: skip

    def atom(self, height: int) -> Regex | None:
        mark = self.pattern[self.at]
        if mark == "(":
            return self.group(height)
        if mark == "[":
            return Chars(self.char_class())
        if mark == "\\":
            return self.escape()
        if mark in "*+?":
            raise RegexError("missing argument to repetition operator", mark)
        if mark == "{" and _COUNT.match(self.pattern, self.at):
            raise RegexError("missing argument to repetition operator", self.pattern[self.at :])
        self.at += 1
        if mark == ".":
            return Chars(((0, _MAX_CODE),) if self.dot_all else ((0, 9), (11, _MAX_CODE)))
        if mark in "^$":
            return Assertion(f"m{mark}" if self.lines else mark)
        return self.char(ord(mark))

    def group(self, height: int) -> Regex | None:
        flags = self.ignore_case, self.lines, self.dot_all, self.lazy
        if self.peek("(?"):
            named = _NAME.match(self.pattern, self.at)
            if named is not None:
                self.name(named)
            elif not self.flags():
                return None
        else:
            self.at += 1
        tree = self.choice(height + 1)
        if not self.peek(")"):
            raise RegexError("missing closing )", self.pattern)
        self.at += 1
        self.ignore_case, self.lines, self.dot_all, self.lazy = flags
        return tree

    def name(self, match: re.Match[str]) -> None:
        name = match[1]
        if re.fullmatch(r"[A-Za-z0-9_]+", name) is None:
            raise RegexError("invalid named capture", match[0])
        self.at = match.end()

    def flags(self) -> bool:
        """Read `(?flags` and what ends it; whether a group follows."""
        start = self.at
        self.at += 2
        value, seen = True, False
        while self.at < len(self.pattern):
            mark = self.pattern[self.at]
            self.at += 1
            if mark == "i":
                self.ignore_case, seen = value, True
            elif mark == "m":
                self.lines, seen = value, True
            elif mark == "s":
                self.dot_all, seen = value, True
            elif mark == "U":
                self.lazy, seen = value, True
            elif mark == "-" and value:
                value, seen = False, False
            elif mark in ":)" and (value or seen):
                return mark == ":"
            else:
                break
        text = self.pattern[start : self.at]
        if self.at >= len(self.pattern):
            raise RegexError("missing closing )", self.pattern)
        raise RegexError("invalid or unsupported Perl syntax", text)

    def escape(self) -> Regex:
        mark = self.pattern[self.at + 1 : self.at + 2]
        if mark in {"A", "z", "b", "B"}:
            self.at += 2
            return Assertion({"A": "^", "z": "$"}.get(mark, mark))
        named = self.named_class()
        if named is not None:
            return Chars(named)
        return self.char(self.escaped_code())

    def named_class(self) -> Ranges | None:
        r"""\d, \pL and their kin, if one is here."""
        mark = self.pattern[self.at + 1 : self.at + 2]
        if mark and mark.lower() in _PERL:
            self.at += 2
            found = _PERL[mark.lower()]
            found = _fold(found) if self.ignore_case else found
            return negated(found) if mark.isupper() else found
        if mark not in {"p", "P"}:
            return None
        start = self.at
        self.at += 2
        name = self.pattern[self.at : self.at + 1]
        self.at += 1
        if name == "{":
            end = self.pattern.find("}", self.at)
            if end < 0:
                raise RegexError("invalid character class range", self.pattern[start:])
            name = self.pattern[self.at : end]
            self.at = end + 1
        opposite = mark == "P"
        if name.startswith("^"):
            name, opposite = name[1:], not opposite
        if name not in _CATEGORIES and name not in _SCRIPTS and name not in {"Any", "Han"}:
            raise RegexError("invalid character class range", self.pattern[start : self.at])
        found = _unicode_class(name)
        found = _fold(found) if self.ignore_case else found
        return negated(found) if opposite else found

    def escaped_code(self) -> int:
        start = self.at
        self.at += 2
        mark = self.pattern[start + 1 : start + 2]
        if not mark:
            raise RegexError("trailing backslash at end of expression", "")
        octal = re.compile(r"[0-7]{1,3}").match(self.pattern, start + 1)
        if octal is not None and (mark == "0" or len(octal[0]) > 1):
            self.at = octal.end()
            return int(octal[0], 8)
        if mark == "x":
            match = re.compile(r"[0-9A-Fa-f]{2}|\{[0-9A-Fa-f]+\}").match(self.pattern, self.at)
            if match is not None and len(match[0]) < 12:
                code = int(match[0].strip("{}"), 16)
                self.at = match.end()
                if code <= _MAX_CODE:
                    return code
        elif mark in _ESCAPES:
            return _ESCAPES[mark]
        elif ord(mark) < 128 and not mark.isalnum():
            return ord(mark)
        raise RegexError("invalid escape sequence", self.pattern[start : start + 2])

    def char_class(self) -> Ranges:
        start = self.at
        self.at += 1
        opposite = self.peek("^")
        self.at += opposite
        found: list[tuple[int, int]] = []
        first = True
        while first or not self.peek("]"):
            if self.at >= len(self.pattern):
                raise RegexError("missing closing ]", self.pattern[start:])
            if self.peek("-") and not first and not self.peek("-]"):
                following = self.pattern[self.at : self.at + 2]
                raise RegexError("invalid character class range", following)
            first = False
            found += self.class_item()
        self.at += 1
        ranges = merged(found)
        if self.ignore_case:
            ranges = _fold(ranges)
        return negated(ranges) if opposite else ranges

    def class_item(self) -> Ranges:
        if self.peek("[:"):
            end = self.pattern.find(":]", self.at + 2)
            if end >= 0:
                text = self.pattern[self.at : end + 2]
                name = text[2:-2]
                found = _POSIX.get(name.removeprefix("^"))
                if found is None:
                    raise RegexError("invalid character class range", text)
                self.at = end + 2
                return negated(found) if name.startswith("^") else found
        if self.peek("\\"):
            named = self.named_class()
            if named is not None:
                return named
        start = self.at
        low = high = self.class_code()
        if self.peek("-") and not self.peek("-]") and self.at + 1 < len(self.pattern):
            self.at += 1
            high = self.class_code()
            if high < low:
                raise RegexError("invalid character class range", self.pattern[start : self.at])
        return ((low, high),)

    def class_code(self) -> int:
        if self.at >= len(self.pattern):
            raise RegexError("missing closing ]", self.pattern)
        if self.peek("\\"):
            return self.escaped_code()
        self.at += 1
        return ord(self.pattern[self.at - 1])


def _small(digits: str) -> int:
    return int(digits) if len(digits) < 6 else MAX_REPEAT + 1


def _expansion(tree: Regex) -> int:
    """How often the innermost part of nested counted repetitions is repeated."""
    if isinstance(tree, Repeat):
        count = tree.low if tree.high is None else tree.high
        inner = _expansion(tree.part)
        return inner if count < 2 else count * inner
    if isinstance(tree, Sequence | Alternation):
        return max((_expansion(part) for part in tree.parts), default=1)
    return 1
