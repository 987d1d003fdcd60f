"""Tables of the documentation are generated: they are current, and what is added shows in them."""

from collections.abc import Callable
from pathlib import Path

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
from scheduler.state.aspects import Aspect, object_aspects
from shipping.docs import configuration_page, metrics_page
from shipping.docs.invalidation_samples import INVALIDATION_SAMPLES
from shipping.rights import resource


@pytest.mark.parametrize(
    ("path", "generated"),
    [
        pytest.param(metrics_page.PAGE, lambda text: metrics_page.page(), id="metrics"),
        pytest.param(configuration_page.PAGE, configuration_page.with_table, id="configuration"),
    ],
)
def test_pages_are_current(path: Path, generated: Callable[[str], str]) -> None:
    text = path.read_text()
    assert text == generated(text), "run make docs"


def test_a_new_metric_is_documented() -> None:
    metrics = Metrics()
    metrics.registry.register(Counter("equipoise_new_total", "What is new.", ("kind",)))
    assert "| `equipoise_new_total` | counter | `kind` | What is new. |" in metrics_page.page(
        metrics
    )


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
