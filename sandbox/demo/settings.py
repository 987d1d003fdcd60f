"""The playground's configuration: its own, or a given one with what every playground needs."""

from __future__ import annotations

import dataclasses
from typing import Any

from msgspec.structs import replace

from scheduler.config.loading import Configuration

_CELLS = "NodeResourceTopologyMatch"
_GANGS = "Coscheduling"
_EVERYBODYS = "default-scheduler"

DOCUMENT: dict[str, Any] = {
    "apiVersion": "kubescheduler.config.k8s.io/v1",
    "kind": "KubeSchedulerConfiguration",
    "profiles": [
        {
            "plugins": {"multiPoint": {"enabled": [{"name": _CELLS}, {"name": _GANGS}]}},
            "pluginConfig": [{"name": _CELLS, "args": {"cacheResyncPeriodSeconds": 5}}],
        }
    ],
}
"""The default profile, and in addition NUMA cells, which some nodes have, and gangs."""


def for_demo(config: Configuration, port: int) -> Configuration:
    """Without leader election, serving on a port of this machine, and scheduling every pod.

    A playground has no other scheduler: the first profile also takes pods that name none.
    """
    election = replace(config.scheduler.leader_election, leader_elect=False)
    server = replace(config.equipoise.server, bind_address="127.0.0.1", port=port)
    profiles = config.scheduler.profiles
    if all(profile.scheduler_name != _EVERYBODYS for profile in profiles):
        profiles = (*profiles, replace(profiles[0], scheduler_name=_EVERYBODYS))
    return dataclasses.replace(
        config,
        scheduler=replace(config.scheduler, leader_election=election, profiles=profiles),
        equipoise=replace(config.equipoise, server=server),
    )
