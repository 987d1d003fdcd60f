"""A real Prometheus scrapes the program; dashboard and alerts find in it what they ask for."""

import asyncio
import itertools
import math
from pathlib import Path

from e2e.conftest import Launch
from e2e.harness.client import ApiClient
from e2e.harness.election import PATIENT_ELECTION
from e2e.harness.objects import pod
from e2e.harness.patience import PATIENCE
from e2e.harness.prometheus import JOB, Prometheus
from e2e.harness.workspace import Workspace
from e2e.test_serving import grant_metrics, protected_config, token_of
from shipping.helm import CHART
from shipping.panels import ROWS

CHOICES = {
    "$job": JOB,
    "$instance": ".*",
    "$profile": ".*",
    "$__rate_interval": "1m",
}


def chosen(expression: str) -> str:
    """The query as Grafana sends it."""
    for variable, value in CHOICES.items():
        expression = expression.replace(variable, value)
    return expression


def unanswered(prometheus: Prometheus) -> set[str]:
    """The panels that should have data and have none, with the query that has none."""
    return {
        f"{row.title}: {panel.title}: {query.expression}"
        for row in ROWS
        for panel in row.panels
        for query in panel.queries
        if not panel.empty_until and not _has_data(prometheus, chosen(query.expression))
    }


def _has_data(prometheus: Prometheus, expression: str) -> bool:
    series = prometheus.query(expression)
    return any(not math.isnan(float(each["value"][1])) for each in series)


async def keep_busy(space: Workspace) -> None:
    """A pod that fits nowhere, and then one after the other that fits; endless."""
    await space.create_pods([pod("giant", cpu="1000")])
    for number in itertools.count():
        await space.create_pods([pod(f"small-{number}")])
        await asyncio.sleep(0.5)


async def test_dashboard_and_alerts_have_data(
    api: ApiClient, space: Workspace, launch: Launch, tmp_path: Path
) -> None:
    await space.add_nodes(2, cpu="100")
    await grant_metrics(space, "scraper")
    token = await token_of(api, space.name, "scraper")
    scheduler = launch("--config", str(protected_config(tmp_path)), *PATIENT_ELECTION, tls=True)
    target = scheduler.url.removeprefix("https://")
    rules = CHART / "files" / "alerts.yaml"

    with Prometheus(tmp_path, target, token, rules) as prometheus:
        busy = asyncio.create_task(keep_busy(space))
        try:
            async with asyncio.timeout(PATIENCE):
                while missing := await asyncio.to_thread(unanswered, prometheus):
                    await asyncio.wait([busy], timeout=1.0)
                    assert not busy.done(), busy.exception()
        except TimeoutError:
            raise AssertionError(f"no data after {PATIENCE:g} s: {sorted(missing)}") from None
        finally:
            busy.cancel()
        assert prometheus.query(f'up{{job="{JOB}"}}')[0]["value"][1] == "1"
        leading = prometheus.query("leader_election_master_status == 1")
        assert [each["metric"]["instance"] for each in leading] == [target]
        assert {rule["health"] for rule in prometheus.rules()} == {"ok"}
