"""A real Prometheus that scrapes one scheduler as it would in a cluster, and answers queries."""

import json
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlencode

import yaml

from e2e.controlplane.debian import PROMETHEUS
from e2e.harness.processes import REQUEST_SECONDS, Process, answers_ok, start_on_free_ports

JOB = "equipoise"


class Prometheus:
    """One process; a context manager that is ready when the block begins."""

    def __init__(self, directory: Path, target: str, token: str, rules: Path) -> None:
        self._directory = directory
        self._target = target
        self._token = token
        self._rules = rules
        self._process: Process | None = None
        self._url = ""

    def __enter__(self) -> Self:
        self._process = start_on_free_ports(1, self._start)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._process is not None:
            self._process.stop()
            print(self._process.tail())

    def query(self, expression: str) -> list[dict[str, Any]]:
        """The series of an instant query, now."""
        result: list[dict[str, Any]] = self._ask("query", query=expression)["result"]
        return result

    def rules(self) -> list[dict[str, Any]]:
        """All rules with their health."""
        return [rule for group in self._ask("rules")["groups"] for rule in group["rules"]]

    def _ask(self, what: str, **query: str) -> dict[str, Any]:
        url = f"{self._url}/api/v1/{what}?{urlencode(query)}"
        with urllib.request.urlopen(url, timeout=REQUEST_SECONDS) as response:
            data: dict[str, Any] = json.load(response)["data"]
            return data

    def _start(self, port: int) -> Process:
        self._url = f"http://127.0.0.1:{port}"
        config = self._directory / "prometheus.yaml"
        config.write_text(yaml.safe_dump(self._config()))
        command: list[str | Path] = [
            PROMETHEUS.locate("prometheus"),
            f"--config.file={config}",
            f"--storage.tsdb.path={self._directory / 'data'}",
            f"--web.listen-address=127.0.0.1:{port}",
        ]
        process = Process(command, self._directory / "prometheus.log")
        process.wait_ready(lambda: answers_ok(f"{self._url}/-/ready"))
        return process

    def _config(self) -> dict[str, Any]:
        token = self._directory / "token"
        token.write_text(self._token)
        scrape = {
            "job_name": JOB,
            "scheme": "https",
            "authorization": {"credentials_file": str(token)},
            # The scheduler's certificate is one that it made for itself.
            "tls_config": {"insecure_skip_verify": True},
            "static_configs": [{"targets": [self._target]}],
        }
        return {
            "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
            "rule_files": [str(self._rules)],
            "scrape_configs": [scrape],
        }
