"""Structured logs: a constant message and key-values, as JSON lines or for a person at a terminal.

    log = get_logger(__name__)
    log.info("Pod bound", pod="default/web-0", node="n1")

A thin adapter over the standard library's logging, so that the records of other libraries come out
in the same form. A call below the level costs one method call and a dictionary of its fields.
"""

import json
import logging
import math
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from itertools import islice
from typing import Any, Literal, TextIO

Format = Literal["json", "console", "auto"]

ROOT = "scheduler"
DEBUG_VERBOSITY = 4

MAX_INT_BITS = 64
MAX_TEXT = 8192
MAX_ITEMS = 64
MAX_DEPTH = 4


class Logger:
    """Logs constant messages with fields, and with the traceback of `exc` if one is given.

    Never raises, whatever the fields are. Thread-safe.
    """

    __slots__ = ("_logger",)

    def __init__(self, logger: logging.Logger) -> None:
        self._logger = logger

    def debug(self, message: str, /, exc: BaseException | None = None, **fields: Any) -> None:
        """Log what helps to find a fault."""
        if self._logger.isEnabledFor(logging.DEBUG):
            self._emit(logging.DEBUG, message, exc, fields)

    def info(self, message: str, /, exc: BaseException | None = None, **fields: Any) -> None:
        """Log a step of normal work."""
        if self._logger.isEnabledFor(logging.INFO):
            self._emit(logging.INFO, message, exc, fields)

    def warning(self, message: str, /, exc: BaseException | None = None, **fields: Any) -> None:
        """Log trouble that the program has dealt with."""
        if self._logger.isEnabledFor(logging.WARNING):
            self._emit(logging.WARNING, message, exc, fields)

    def error(self, message: str, /, exc: BaseException | None = None, **fields: Any) -> None:
        """Log a fault that needs attention."""
        if self._logger.isEnabledFor(logging.ERROR):
            self._emit(logging.ERROR, message, exc, fields)

    def _emit(
        self, level: int, message: str, exc: BaseException | None, fields: dict[str, Any]
    ) -> None:
        # Builds the record itself: Logger.log would walk the stack for a caller, not printed.
        exc_info = (type(exc), exc, exc.__traceback__) if exc is not None else None
        record = self._logger.makeRecord(
            self._logger.name, level, "", 0, message, (), exc_info, extra={"fields": fields}
        )
        self._logger.handle(record)


def get_logger(name: str) -> Logger:
    """Return the logger of a module; `name` is its ``__name__``."""
    return Logger(logging.getLogger(name))


def level_for_verbosity(verbosity: int) -> int:
    """Translate klog's ``-v``: 4 and above are debugging, below is what a cluster keeps on."""
    return logging.DEBUG if verbosity >= DEBUG_VERBOSITY else logging.INFO


def setup(
    format: Format = "auto",  # noqa: A002  because users know the option by this name
    level: int = logging.INFO,
    stream: TextIO | None = None,
) -> None:
    """Send all logs of the process to `stream` (default stderr); replaces an earlier setup.

    ``auto`` is console on a terminal, else JSON. Other libraries log from WARNING up, or from
    INFO when our own level is DEBUG.
    """
    target = stream or sys.stderr
    console = format == "console" or (format == "auto" and target.isatty())
    handler = _Handler(target)
    handler.setFormatter(ConsoleFormatter() if console else JsonFormatter())
    root = logging.getLogger()
    for earlier in [each for each in root.handlers if isinstance(each, _Handler)]:
        root.removeHandler(earlier)
    root.addHandler(handler)
    root.setLevel(logging.INFO if level <= logging.DEBUG else max(level, logging.WARNING))
    logging.getLogger(ROOT).setLevel(level)


def setup_nothing() -> None:
    """Without a setup of logs, write warnings to stderr with their fields."""
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(ConsoleFormatter())


class _Handler(logging.StreamHandler[TextIO]):
    """Marks the handler that `setup` installed, so that it removes no other."""


class JsonFormatter(logging.Formatter):
    """One JSON object per line: ts, level, logger, msg, then the fields, then a traceback."""

    def format(self, record: logging.LogRecord) -> str:
        """Render the record; a field named like a fixed key gets a trailing underscore."""
        entry: dict[str, Any] = {
            "ts": _timestamp(record),
            "level": record.levelname.lower(),
            "logger": _short_name(record),
            "msg": _text(record.getMessage()),
        }
        for key, value in _fields(record).items():
            entry[f"{key}_" if key in entry else key] = _plain(value)
        if record.exc_info:
            entry["traceback"] = _text(self.formatException(record.exc_info))
        return json.dumps(entry)


class ConsoleFormatter(logging.Formatter):
    """One readable line: time, level, logger, message, then ``key=value`` with quoted text."""

    def format(self, record: logging.LogRecord) -> str:
        """Render the record; a traceback follows on lines of its own."""
        head = f"{_timestamp(record)} {record.levelname:<7} {_short_name(record)}: "
        pairs = [f"{key}={json.dumps(_plain(value))}" for key, value in _fields(record).items()]
        line = head + " ".join([_text(record.getMessage()), *pairs])
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


def _timestamp(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _short_name(record: logging.LogRecord) -> str:
    return record.name.removeprefix(f"{ROOT}.")


def _fields(record: logging.LogRecord) -> Mapping[str, Any]:
    fields: Mapping[str, Any] = getattr(record, "fields", {})
    return fields


def _plain(value: Any, depth: int = 0) -> Any:
    """Return `value` as JSON can hold it: bounded in size and depth, odd things as text."""
    if value is None or (isinstance(value, int) and value.bit_length() <= MAX_INT_BITS):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if depth < MAX_DEPTH:
        if isinstance(value, dict):
            return {_text(k): _plain(v, depth + 1) for k, v in islice(value.items(), MAX_ITEMS)}
        if isinstance(value, list | tuple | set | frozenset):
            return [_plain(each, depth + 1) for each in islice(value, MAX_ITEMS)]
    return _text(value)


def _text(value: object) -> str:
    try:
        text = str(value)
    except Exception as error:
        text = f"<{type(value).__name__} that cannot be printed: {type(error).__name__}>"
    return text if len(text) <= MAX_TEXT else text[:MAX_TEXT] + "…"
