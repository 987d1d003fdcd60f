"""One stock configuration file, read by kube-scheduler and by Equipoise, means the same to both."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from e2e.conftest import Launch
from e2e.controlplane.binaries import locate
from e2e.harness.election import NO_ELECTION
from e2e.harness.objects import is_bound, pod
from e2e.harness.patience import PATIENCE
from e2e.harness.workspace import Workspace
from scheduler.assembly import available
from scheduler.config.loading import Configuration, load
from scheduler.config.plugins import resolve_plugins

PROJECT = Path(__file__).parents[1]
STOCK = PROJECT / "tests" / "data" / "config" / "several-profiles.yaml"


def run(*command: str | Path) -> str:
    """Run a program to its end and return its standard output; it must succeed."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def printed_by_kube_scheduler(tmp_path: Path) -> Path:
    """The effective configuration that kube-scheduler makes of the file; no server is needed."""
    printed = tmp_path / "kube-scheduler.yaml"
    nowhere = "http://127.0.0.1:1"
    arguments = ("--config", STOCK, "--master", nowhere, "--write-config-to", printed)
    run(locate("kube-scheduler"), *arguments)
    return printed


def effective(path: Path) -> dict[str, Any]:
    """What a file amounts to: all that steers scheduling, plugin by plugin."""
    config: Configuration = load(path, available())
    scheduler = config.scheduler
    return {
        "limits": (scheduler.client_connection.qps, scheduler.client_connection.burst),
        "back-off": (scheduler.pod_initial_backoff_seconds, scheduler.pod_max_backoff_seconds),
        "leader election": scheduler.leader_election,
        "profiles": {
            profile.scheduler_name: {
                "plugins": resolve_plugins(profile, available()),
                "as written": profile.plugins.multi_point,
                "arguments": {each.name: each.args for each in profile.plugin_config},
            }
            for profile in scheduler.profiles
        },
    }


def without_zero_weights(value: dict[str, Any]) -> dict[str, Any]:
    """kube-scheduler prints a weight of 0 where none was given."""
    for profile in value["profiles"].values():
        listed = profile["as written"].enabled
        profile["as written"] = [(plugin.name, plugin.weight or 0) for plugin in listed]
    return value


def test_both_make_the_same_of_it(printed_by_kube_scheduler: Path) -> None:
    ours = without_zero_weights(effective(STOCK))
    assert ours == without_zero_weights(effective(printed_by_kube_scheduler))
    assert len(ours["profiles"]) == 5


def test_the_check_finds_no_fault_but_says_what_has_no_effect() -> None:
    said = run(sys.executable, "-m", "scheduler", "config", "check", STOCK)
    assert "valid, profiles: spread-out, packed, reweighted, no-scoring, by-hand" in said


async def test_every_profile_binds_pods(space: Workspace, launch: Launch) -> None:
    first, *_ = await space.add_nodes(3)
    await space.api.patch(f"/api/v1/nodes/{first}", {"metadata": {"labels": {"pool": "batch"}}})
    launch("--config", str(STOCK), *NO_ELECTION)
    names = ("spread-out", "packed", "reweighted", "no-scoring", "by-hand")

    await space.create_pods([pod(f"for-{name}", schedulerName=name) for name in names])

    await space.wait_for_pods(len(names), is_bound)
    enforced = await space.api.get(f"{space.pods}/for-reweighted")
    assert enforced["spec"]["nodeName"] == first  # by the profile's addedAffinity
