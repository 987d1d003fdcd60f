"""The demo's changes to a configuration."""

from __future__ import annotations

import dataclasses
import socket
from typing import Any

from msgspec.structs import replace

from scheduler.config.loading import Configuration

_CELLS = "NodeResourceTopologyMatch"

DOCUMENT: dict[str, Any] = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [
        {
            "plugins": {"multiPoint": {"enabled": [{"name": _CELLS}]}},
            "pluginConfig": [{"name": _CELLS, "args": {"cacheResyncPeriodSeconds": 5}}],
        }
    ],
}
"""The default profile, and in addition a look at NUMA cells: some nodes of the demo have them."""


def for_demo(config: Configuration, port: int) -> Configuration:
    """Without leader election, and serving on the given port, or on any free one for 0."""
    election = replace(config.scheduler.leader_election, leader_elect=False)
    server = replace(config.equipoise.server, bind_address="127.0.0.1", port=port or _free_port())
    return dataclasses.replace(
        config,
        scheduler=replace(config.scheduler, leader_election=election),
        equipoise=replace(config.equipoise, server=server),
    )


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        number: int = probe.getsockname()[1]
        return number
