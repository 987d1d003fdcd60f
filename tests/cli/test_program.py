"""The program itself: its version in one format, completion, and kubectl's plugin."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from e2e.controlplane.binaries import cache_dir, locate
from scheduler import __main__, __version__
from scheduler.cli import completion_command, remote
from scheduler.cli.main import cli
from shipping.helm import PROJECT
from tests.cli.api_server import api_server

CACHE = str(cache_dir().parent)
LINE = f"equipoise {__version__}\n"


@pytest.fixture(autouse=True)
def alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No scheduler here, and no kubeconfig."""
    monkeypatch.setattr(remote, "LOCAL_SERVER", "http://127.0.0.1:1")
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("EQUIPOISE_CACHE", CACHE)
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "EQUIPOISE_SERVER"):
        monkeypatch.delenv(name, raising=False)


@pytest.mark.parametrize("arguments", [["--version"], ["version"], ["version", "--client"]])
def test_the_version_has_one_format(arguments: list[str]) -> None:
    result = CliRunner().invoke(cli, arguments)
    assert (result.exit_code, result.stdout, result.stderr) == (0, LINE, "")


def test_the_version_of_the_scheduler_is_told_too(tmp_path: Path) -> None:
    with api_server(tmp_path) as api:
        api.lead("lead_1")
        api.serve("lead", "/version", {"version": "0.0.9"})
        env = {"KUBECONFIG": api.kubeconfig({"token": "secret"})}
        result = CliRunner().invoke(cli, ["version"], env=env)
        assert result.stdout == LINE + "equipoise 0.0.9 (server)\n"
        told = json.loads(CliRunner().invoke(cli, ["version", "-o", "json"], env=env).stdout)
        assert told == {"client": {"version": __version__}, "server": {"version": "0.0.9"}}


def test_a_scheduler_that_does_not_answer_is_no_error() -> None:
    result = CliRunner().invoke(cli, ["version", "--server", "http://127.0.0.1:1"])
    assert (result.exit_code, result.stdout) == (0, LINE)
    assert result.stderr.startswith("note: no scheduler was asked: no answer from ")
    alone = json.loads(CliRunner().invoke(cli, ["version", "-o", "json"]).stdout)
    assert alone["server"] is None


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_gets_a_script(shell: str) -> None:
    result = CliRunner().invoke(cli, ["completion", shell])
    assert result.exit_code == 0
    assert f"_EQUIPOISE_COMPLETE={shell}_complete" in result.stdout


def program(directory: Path, name: str, module: str, function: str) -> None:
    """A script as an installation makes it."""
    script = directory / name
    code = f"import sys\nsys.argv[0] = {name!r}\nfrom {module} import {function}\n{function}()\n"
    script.write_text(f"#!{sys.executable}\n{code}")
    script.chmod(0o755)


@pytest.fixture
def installed(tmp_path: Path) -> dict[str, str]:
    """An environment whose PATH has the programs of an installation."""
    main = (__main__.__name__, "main")
    completer = (completion_command.__name__, "complete_for_kubectl")
    program(tmp_path, "equipoise", *main)
    program(tmp_path, "kubectl-equipoise", *main)
    program(tmp_path, "kubectl_complete-equipoise", *completer)
    path = os.pathsep.join([str(tmp_path), os.environ["PATH"]])
    return {**os.environ, "PATH": path, "PYTHONPATH": str(PROJECT)}


def test_bash_completes_commands_and_choices(installed: dict[str, str]) -> None:
    if shutil.which("bash") is None:
        pytest.skip("bash is not installed")
    script = """
    source <(equipoise completion bash)
    COMP_WORDS=(equipoise queue --tier ga) COMP_CWORD=3
    _equipoise_completion equipoise
    echo "${COMPREPLY[@]}"
    """
    done = subprocess.run(
        ["bash", "-c", script], env=installed, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["gated"], done.stderr


def test_kubectl_finds_the_plugin_and_completes_it(installed: dict[str, str]) -> None:
    try:
        kubectl = locate("kubectl")
    except FileNotFoundError as missing:
        pytest.skip(str(missing))
    asked = subprocess.run(
        [kubectl, "equipoise", "--version"],
        env=installed,
        capture_output=True,
        text=True,
        check=True,
    )
    assert asked.stdout == LINE
    helped = subprocess.run(
        [kubectl, "equipoise", "queue", "--help"],
        env=installed,
        capture_output=True,
        text=True,
        check=True,
    )
    assert helped.stdout.startswith("Usage: kubectl equipoise queue")
    completed = subprocess.run(
        [kubectl, "__complete", "equipoise", "queue", "--tier", "g"],
        env=installed,
        capture_output=True,
        text=True,
        check=True,
    )
    assert completed.stdout.splitlines() == ["gated", ":4"]
