"""`equipoise config`: what it prints and how it exits."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from scheduler.assembly import available
from scheduler.cli.config_commands import config
from scheduler.config.loading import from_dicts, loads

HEAD = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "config.yaml"


def test_check_sums_up_a_good_file(file: Path) -> None:
    file.write_text(HEAD + "percentageOfNodesToScore: 50\nprofiles: [{schedulerName: mine}]\n")
    result = CliRunner().invoke(config, ["check", str(file)])
    assert result.exit_code == 0
    assert result.stdout == f"{file}: valid, profiles: mine, warnings: 1\n"
    assert result.stderr == (
        "warning: percentageOfNodesToScore: has no effect: all nodes are scored\n"
    )


def test_check_lists_every_problem_and_exits_2(file: Path) -> None:
    file.write_text(HEAD + "parralelism: 4\npodInitialBackoffSeconds: 0\n")
    result = CliRunner().invoke(config, ["check", str(file)])
    assert result.exit_code == 2
    assert result.stderr.splitlines() == [
        f"{file}: not usable, problems: 2",
        'parralelism: unknown field (did you mean "parallelism"?); its value is 4',
        "podInitialBackoffSeconds: must be greater than 0, not 0",
    ]


@pytest.mark.parametrize("arguments", [["check"], ["check", "no-such-file"], ["print", "absent"]])
def test_a_missing_file_is_a_usage_error(arguments: list[str]) -> None:
    assert CliRunner().invoke(config, arguments).exit_code == 2


def test_print_gives_the_effective_configuration(file: Path) -> None:
    file.write_text(HEAD + "parallelism: 4\n")
    result = CliRunner().invoke(config, ["print", str(file)])
    assert result.exit_code == 0
    assert loads(result.stdout) == loads(file.read_text())
    assert result.stderr.startswith("warning: parallelism: has no effect")


@pytest.mark.parametrize("arguments", [["print"], ["defaults"]])
def test_the_defaults_load_to_the_defaults(arguments: list[str]) -> None:
    result = CliRunner().invoke(config, arguments)
    assert result.exit_code == 0
    assert loads(result.stdout, available()) == from_dicts([], available())


def test_plugins_are_checked_against_those_that_exist(file: Path) -> None:
    file.write_text(HEAD + "profiles: [{plugins: {score: {enabled: [{name: NodeName}]}}}]\n")
    result = CliRunner().invoke(config, ["check", str(file)])
    assert result.exit_code == 2
    assert '"NodeName" does not implement score, only filter' in result.stderr


PLUGIN = """
class Mine:
    name = "Mine"
    def __init__(self, args, handle): ...
    def post_bind(self, cycle, node): ...
"""


def own(directory: Path) -> str:
    head = "---\napiVersion: equipoise.dev/v1alpha1\nkind: EquipoiseConfiguration\n"
    return f"{head}plugins: {{directory: {directory}}}\n"


def test_check_lists_the_plugins_it_found(file: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(PLUGIN)
    profiles = "profiles: [{plugins: {multiPoint: {enabled: [{name: Mine}]}}}]\n"
    file.write_text(HEAD + profiles + own(tmp_path))
    result = CliRunner().invoke(config, ["check", str(file)])
    assert result.exit_code == 0, result.stderr
    assert result.stdout.splitlines() == [
        f"plugin Mine (postBind) from file {tmp_path}/mine.py",
        f"{file}: valid, profiles: equipoise, warnings: 0",
    ]
    printed = CliRunner().invoke(config, ["print", str(file)])
    assert "- name: Mine\n" in printed.stdout


def test_check_names_the_file_of_a_plugin_that_cannot_be_loaded(file: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("\nimport nothing_of_this_name\n")
    file.write_text(HEAD + own(tmp_path))
    result = CliRunner().invoke(config, ["check", str(file)])
    assert result.exit_code == 2
    assert result.stderr.splitlines() == [
        f"{file}: not usable, problems: 1",
        f"plugins: file {tmp_path}/mine.py: line 2: ModuleNotFoundError: No module named "
        "'nothing_of_this_name'",
    ]
