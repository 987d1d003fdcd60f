"""``equipoise run`` as a process: signals, exit codes, and what it says when it cannot start."""

from __future__ import annotations

import asyncio
import signal
import socket
from pathlib import Path

import pytest
import yaml

from e2e.harness.ports import free_port
from sandbox.apiserver import ApiServer
from tests.builders import make_pod, make_worker
from tests.daemon.support import Cluster, eventually, expect_bound
from tests.demo.support import environment, finished, outcome, ready, started
from tests.patience import PATIENCE


async def test_no_cluster_is_exit_4_with_what_was_tried(tmp_path: Path) -> None:
    code, _, err = await outcome("run", env=environment(tmp_path))
    assert code == 4
    assert "tried" in err
    assert "kube" in err
    assert "Traceback" not in err


async def test_a_cluster_that_does_not_answer_is_exit_4(tmp_path: Path) -> None:
    address = f"http://127.0.0.1:{free_port()}"
    code, _, err = await outcome("run", "--master", address, env=environment(tmp_path))
    assert code == 4
    assert address in err
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("document", "complaint"),
    [
        ({"podMaxBackofSeconds": 10}, ("podMaxBackofSeconds", "podMaxBackoffSeconds")),
        ({"podMaxBackoffSeconds": "soon"}, ("podMaxBackoffSeconds", "soon")),
        (
            {"profiles": [{"plugins": {"filter": {"enabled": [{"name": "NodeResourceFit"}]}}}]},
            ("profiles[0].plugins.filter.enabled[0]", "NodeResourceFit", "NodeResourcesFit"),
        ),
    ],
)
async def test_a_wrong_field_is_exit_2_with_path_value_and_the_nearest_name(
    tmp_path: Path, document: dict[str, object], complaint: tuple[str, ...]
) -> None:
    head = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
    }
    file = tmp_path / "config.yaml"
    file.write_text(yaml.safe_dump({**head, **document}))
    code, _, err = await outcome("run", "--config", str(file), env=environment(tmp_path))
    assert code == 2
    for part in ("config.yaml", *complaint):
        assert part in err
    assert "Traceback" not in err


async def test_a_port_that_is_taken_is_an_error_in_one_line(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        async with ApiServer() as server:
            code, _, err = await outcome(
                *("run", "--master", server.url, "--secure-port", port),
                env=environment(tmp_path),
            )
    assert code == 1
    assert port in err
    assert "Traceback" not in err


async def test_a_life_from_start_to_terminate(tmp_path: Path) -> None:
    port = free_port()
    async with ApiServer(token="secret") as server:
        cluster = Cluster(server)
        cluster.add(make_worker("n"))
        kubeconfig = tmp_path / "kubeconfig"
        kubeconfig.write_text(yaml.safe_dump(server.kubeconfig()))
        arguments = ("run", "--kubeconfig", str(kubeconfig), "--secure-port", str(port))
        election = ("--leader-elect-resource-namespace", "kube-system", "--log-format", "json")
        async with started(*arguments, *election, env=environment(tmp_path)) as process:
            await ready(port)
            cluster.submit(make_pod("p"))
            await expect_bound(cluster, "p")
            assert cluster.lease()["holderIdentity"] != ""
            process.send_signal(signal.SIGUSR2)
            assert process.stderr is not None
            log = ""
            async with asyncio.timeout(PATIENCE):
                while "Cache was compared with the cluster" not in log:
                    log += (await process.stderr.readline()).decode()
            process.send_signal(signal.SIGTERM)
            code, _, rest = await finished(process)
        assert code == 0
        assert cluster.lease()["holderIdentity"] == ""
        assert '"differences":0' in (log + rest).replace(" ", "")
        await eventually(lambda: len(cluster.events("p", "Scheduled")) == 1)
