"""The chart makes a valid configuration of the webhook example's values."""

from pathlib import Path

import yaml

from scheduler.assembly import available
from scheduler.config.loading import from_dicts
from tests.charts.support import Rendered

EXAMPLE = Path(__file__).parents[2] / "deploy" / "examples" / "webhook"


def test_the_configuration_calls_the_examples_service() -> None:
    rendered = Rendered(yaml.safe_load((EXAMPLE / "values.yaml").read_text()))
    loaded = from_dicts(rendered.configuration, available(), environ={})
    assert loaded.warnings == ()
    (webhook,) = loaded.equipoise.webhooks
    manifests = yaml.safe_load_all((EXAMPLE / "webhook.yaml").read_text())
    (service,) = (obj for obj in manifests if obj["kind"] == "Service")
    port = service["spec"]["ports"][0]["port"]
    assert webhook.url == f"http://{service['metadata']['name']}.default.svc:{port}"
