"""Tables of the documentation are generated: they are current, and what is added shows in them."""

import re
from collections.abc import Callable
from pathlib import Path

import click
import msgspec
import pytest

from sandbox.resources import Catalog
from scheduler.config.loading import from_dicts
from scheduler.config.problems import ConfigError
from scheduler.config.schema import (
    OWN_API_VERSION,
    OWN_KIND,
    EquipoiseConfiguration,
    PositiveInt,
    Section,
)
from scheduler.model.objects import KINDS, Kind
from scheduler.observe.instruments import Counter
from scheduler.observe.metrics import Metrics
from scheduler.serve import openapi
from scheduler.serve.openapi import Operation, Parameter
from scheduler.state.aspects import Aspect, object_aspects
from shipping.docs import api_page, cli_page, configuration_page, metrics_page, pending_page
from shipping.docs.invalidation_samples import INVALIDATION_SAMPLES
from shipping.queries import alert_queries, metrics_in
from shipping.rights import resource


@pytest.mark.parametrize(
    ("path", "generated"),
    [
        pytest.param(metrics_page.PAGE, lambda text: metrics_page.page(), id="metrics"),
        pytest.param(api_page.PAGE, lambda text: api_page.page(), id="api"),
        pytest.param(cli_page.PAGE, lambda text: cli_page.page(), id="commands"),
        pytest.param(pending_page.PAGE, pending_page.with_example, id="pending"),
        pytest.param(configuration_page.PAGE, configuration_page.with_table, id="configuration"),
    ],
)
def test_pages_are_current(path: Path, generated: Callable[[str], str]) -> None:
    text = path.read_text()
    assert text == generated(text), "run make docs"


def test_a_new_metric_is_documented() -> None:
    metrics = Metrics()
    metrics.registry.register(Counter("equipoise_new_total", "What is new.", ("kind",)))
    assert "| `equipoise_new_total` | counter | `kind` | What is new. |  |" in metrics_page.page(
        metrics
    )


def test_a_metric_names_the_alerts_and_panels_that_ask_for_it() -> None:
    rows = {line.split("`")[1]: line for line in metrics_page.page().splitlines() if "| `" in line}
    lag = rows["equipoise_event_loop_lag_seconds"]
    assert "[EquipoiseEventLoopLag](runbooks/EquipoiseEventLoopLag.md)" in lag
    assert "Process: Event loop lag" in lag
    asked = {name for _, query in alert_queries() for name in metrics_in(query)} - {"up"}
    shown = {re.sub("_(bucket|sum|count)$", "", name) for name in asked}
    assert [name for name in shown if "runbooks/" not in rows[name]] == []


class _Found(msgspec.Struct):
    """What was found."""

    depth: int
    """How deep, in metres."""
    names: list[str] = []


def test_a_new_operation_is_documented(monkeypatch: pytest.MonkeyPatch) -> None:
    limit = Parameter("limit", "At most.", {"type": "integer", "minimum": 1, "maximum": 9})
    added = Operation("get", "/api/v1/holes", "All holes.", _Found, (limit,))
    monkeypatch.setattr(openapi, "OPERATIONS", (*openapi.OPERATIONS, added))
    page = api_page.page(openapi.OPERATIONS)
    assert "| GET | `/api/v1/holes` | All holes. |" in page
    assert "| `limit` | query | integer, 1 to 9 | At most. |" in page
    assert "| `depth` | integer | How deep, in metres. |" in page
    assert "| `names` | list of string, may be absent |  |" in page


def test_every_command_has_an_example() -> None:
    assert [each.path for each in cli_page.commands() if each.path not in cli_page.EXAMPLES] == []


def test_every_exit_code_has_a_meaning() -> None:
    assert cli_page.exit_codes().keys() == cli_page.EXIT_CODES.keys()


def test_a_new_command_is_documented() -> None:
    @click.command()
    @click.option("--depth", type=int, default=7, show_default=True, help="How deep.")
    def dig(depth: int) -> None:
        """Dig a hole.

        \b
        bash:  dig
        zsh:   dig
        """

    group = click.Group(commands={"dig": dig})
    page = cli_page.page(group)
    assert "## equipoise dig\n\nUsage: `equipoise dig [OPTIONS]`\n\nDig a hole.\n" in page
    assert "\n```text\nbash:  dig\nzsh:   dig\n```\n" in page
    assert "| `--depth` | `INTEGER` | `7` | How deep. |" in page


class _Extended(Section, frozen=True):
    answer: PositiveInt = 42
    """What it means."""


def test_a_new_field_is_documented() -> None:
    assert list(configuration_page.rows(_Extended, "more.")) == [
        ("more.answer", "42", "What it means.")
    ]


def test_every_field_of_ours_has_a_meaning() -> None:
    rows = configuration_page.rows(EquipoiseConfiguration)
    assert [path for path, _, meaning in rows if not meaning] == []


def test_the_annotation_of_a_field_is_its_validation() -> None:
    document = {"apiVersion": OWN_API_VERSION, "kind": OWN_KIND, "events": {"queueSize": 0}}
    with pytest.raises(ConfigError, match=r"events\.queueSize: must be greater than 0, not 0"):
        from_dicts([document], None, environ={})


@pytest.mark.parametrize("kind", [kind for kind in KINDS.values() if not kind.optional])
def test_every_watched_kind_is_served_by_the_sandbox(kind: Kind) -> None:
    group, plural = resource(kind.name)
    assert Catalog().find(group, "v1", plural) is not None


def test_every_kind_that_touches_an_aspect_has_a_sample() -> None:
    touching = {name for name in KINDS if object_aspects(name, None, object())}
    assert touching <= {sample.kind for sample in INVALIDATION_SAMPLES}
    assert len(Aspect) > len(touching)
