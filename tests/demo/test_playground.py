"""Ports, kubeconfig and configuration of the playground."""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path

import pytest
import yaml

from sandbox.demo import kubeconfig, ports
from sandbox.demo.settings import DOCUMENT, for_demo
from scheduler.assembly import configure
from shipping.helm import CHART
from tests.patience import PATIENCE


def test_a_port_that_is_taken_is_passed_over_unless_it_was_asked_for() -> None:
    with socket.socket() as taken:
        taken.bind((ports.HOST, 0))
        taken.listen()
        usual = taken.getsockname()[1]
        with ports.listen(None, usual) as other:
            assert ports.port_of(other) != usual
        with pytest.raises(OSError, match=str(usual)):
            ports.listen(usual, 1)


def test_a_chosen_port_is_taken_from_the_moment_it_is_chosen() -> None:
    with ports.listen(0, 1) as first:
        chosen = ports.port_of(first)
        with ports.listen(None, chosen) as second:
            assert ports.port_of(second) != chosen
        with socket.create_connection((ports.HOST, chosen), timeout=PATIENCE):
            pass


def test_the_kubeconfig_is_there_as_long_as_the_playground_and_for_its_owner_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with kubeconfig.written("http://127.0.0.1:1") as first:
        assert stat.S_IMODE(first.stat().st_mode) == 0o600
        document = yaml.safe_load(first.read_text())
        assert document["clusters"][0]["cluster"] == {"server": "http://127.0.0.1:1"}
        assert document["current-context"] == document["contexts"][0]["name"]
        with kubeconfig.written("http://127.0.0.1:2", "-2") as second:
            assert second != first
        assert first.exists()
    assert list(tmp_path.iterdir()) == []


def test_a_link_in_place_of_the_kubeconfig_is_replaced_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    precious = tmp_path / "config"
    precious.write_text("precious")
    kubeconfig.FOLDER.mkdir()
    (kubeconfig.FOLDER / "kubeconfig").symlink_to(precious)
    with kubeconfig.written("http://127.0.0.1:1") as path:
        assert not path.is_symlink()
    assert precious.read_text() == "precious"


def test_where_the_working_directory_cannot_be_written_the_cache_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / kubeconfig.FOLDER).write_text("a file of that name")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with kubeconfig.written("http://127.0.0.1:1") as path:
        assert path.is_relative_to(tmp_path / "cache")
        assert os.access(path, os.R_OK)


def test_a_playground_also_schedules_pods_that_name_no_scheduler() -> None:
    config = for_demo(configure([DOCUMENT]), 1)
    assert [each.scheduler_name for each in config.scheduler.profiles] == [
        "equipoise",
        "default-scheduler",
    ]
    assert len(for_demo(config, 1).scheduler.profiles) == 2


def test_pod_groups_are_defined_as_in_the_chart() -> None:
    ours = Path(kubeconfig.__file__).with_name("podgroups.yaml")
    assert ours.read_text() == (CHART / "files/crds/podgroups.yaml").read_text()
