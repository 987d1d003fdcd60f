"""What comes out of the logger, as JSON and for people."""

import io
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest

from scheduler.observe.logs import (
    MAX_DEPTH,
    MAX_ITEMS,
    MAX_TEXT,
    Format,
    get_logger,
    level_for_verbosity,
    setup,
    setup_nothing,
)


@pytest.fixture(autouse=True)
def logging_as_it_was() -> Iterator[None]:
    root, ours = logging.getLogger(), logging.getLogger("scheduler")
    before = (root.level, ours.level, list(root.handlers))
    yield
    root.setLevel(before[0])
    ours.setLevel(before[1])
    root.handlers[:] = before[2]


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


class Unprintable:
    """An object whose text cannot be had."""

    def __str__(self) -> str:
        raise RuntimeError("no text")


log = get_logger("scheduler.kube.watch")


def emit(**fields: Any) -> dict[str, Any]:
    """Log one line as JSON and parse it back strictly."""
    stream = io.StringIO()
    setup("json", stream=stream)
    log.info("Pod bound", **fields)
    entry = json.loads(stream.getvalue(), parse_constant=pytest.fail)
    assert isinstance(entry, dict)
    return entry


def test_json_line_has_time_level_logger_message_and_fields() -> None:
    entry = emit(pod="ns/name", attempts=3)
    assert entry.pop("ts").endswith("Z")
    assert entry == {
        "level": "info",
        "logger": "kube.watch",
        "msg": "Pod bound",
        "pod": "ns/name",
        "attempts": 3,
    }


def test_console_line_quotes_values_so_that_none_can_forge_a_line() -> None:
    stream = io.StringIO()
    setup("console", stream=stream)
    log.warning("Watch ended", kind="Pod", reason="gone\nFAKE", retries=2)
    line = stream.getvalue()
    tail = 'WARNING kube.watch: Watch ended kind="Pod" reason="gone\\nFAKE" retries=2\n'
    assert line.endswith(tail)
    assert line.count("\n") == 1


@pytest.mark.parametrize(
    ("format_", "stream", "is_json"),
    [
        pytest.param("auto", io.StringIO(), True, id="auto without a terminal is JSON"),
        pytest.param("auto", Terminal(), False, id="auto on a terminal is console"),
        pytest.param("json", Terminal(), True, id="JSON when asked, even on a terminal"),
        pytest.param("console", io.StringIO(), False, id="console when asked"),
    ],
)
def test_format_is_chosen(format_: Format, stream: io.StringIO, is_json: bool) -> None:
    setup(format_, stream=stream)
    log.info("Hello")
    assert stream.getvalue().startswith("{") == is_json


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        pytest.param(float("nan"), "nan", id="NaN is not JSON"),
        pytest.param(float("inf"), "inf", id="infinity is not JSON"),
        pytest.param(2**63, 2**63, id="a 64-bit number stays a number"),
        pytest.param(1 << 80, str(1 << 80), id="a larger one becomes text"),
        pytest.param(10**5000, "<int that cannot be printed: ValueError>", id="absurd number"),
        pytest.param(b"\xff", "b'\\xff'", id="bytes"),
        pytest.param("\ud800", "\ud800", id="lone surrogate"),
        pytest.param({"a": {1: {2}}}, {"a": {"1": [2]}}, id="nested containers"),
        pytest.param(
            Unprintable(), "<Unprintable that cannot be printed: RuntimeError>", id="unprintable"
        ),
        pytest.param("x" * (MAX_TEXT + 1), "x" * MAX_TEXT + "…", id="text too long"),
        pytest.param(range(3), "range(0, 3)", id="any other object is its text"),
        pytest.param(list(range(1000)), list(range(MAX_ITEMS)), id="list too long"),
    ],
)
def test_odd_field_values_never_raise_and_stay_bounded(value: Any, shown: Any) -> None:
    assert emit(value=value)["value"] == shown


def test_warnings_have_their_fields_where_nobody_set_logs_up(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    handler = logging._StderrHandler(logging.WARNING)  # type: ignore[attr-defined]  # private there
    monkeypatch.setattr(logging, "lastResort", handler)
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    setup_nothing()
    get_logger("scheduler.state").warning("Odd node", node="n1")
    assert capsys.readouterr().err.endswith('WARNING state: Odd node node="n1"\n')


def test_a_list_within_itself_ends() -> None:
    loop: list[Any] = []
    loop.append(loop)
    value = emit(value=loop)["value"]
    for _ in range(MAX_DEPTH - 1):
        value = value[0]
    assert value == ["[[...]]"]


def test_fields_cannot_hide_the_fixed_keys() -> None:
    entry = emit(msg="other", level=7)
    assert (entry["msg"], entry["level"]) == ("Pod bound", "info")
    assert (entry["msg_"], entry["level_"]) == ("other", 7)


@pytest.mark.parametrize("format_", ["json", "console"])
def test_exceptions_come_with_their_traceback(format_: Format) -> None:
    stream = io.StringIO()
    setup(format_, stream=stream)
    try:
        raise OSError("connection cut")
    except OSError as error:
        log.error("Bind failed", exc=error, pod="ns/name")
    text = json.loads(stream.getvalue())["traceback"] if format_ == "json" else stream.getvalue()
    assert "test_exceptions_come_with_their_traceback" in text
    assert text.rstrip().endswith("OSError: connection cut")


def test_level_off_touches_no_field() -> None:
    stream = io.StringIO()
    setup("json", level=logging.WARNING, stream=stream)
    log.debug("Quiet", value=Unprintable())
    log.info("Quiet", value=Unprintable())
    assert stream.getvalue() == ""


@pytest.mark.parametrize(
    ("verbosity", "level"), [(0, logging.INFO), (3, logging.INFO), (4, logging.DEBUG)]
)
def test_klog_verbosity(verbosity: int, level: int) -> None:
    assert level_for_verbosity(verbosity) == level


def test_other_libraries_come_out_in_the_same_form_from_warning_up() -> None:
    stream = io.StringIO()
    setup("json", stream=stream)
    other = logging.getLogger("somebody.else")
    other.info("chatter")
    other.warning("%d of %d", 1, 2)
    entry = json.loads(stream.getvalue())
    assert (entry["logger"], entry["msg"]) == ("somebody.else", "1 of 2")


def test_a_second_setup_replaces_the_first() -> None:
    first, second = io.StringIO(), io.StringIO()
    setup("json", stream=first)
    setup("json", stream=second)
    log.info("Once")
    assert first.getvalue() == ""
    assert second.getvalue().count("\n") == 1
