"""The demo's changes to a configuration."""

from __future__ import annotations

import dataclasses
import socket

from msgspec.structs import replace

from scheduler.config.loading import Configuration


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
