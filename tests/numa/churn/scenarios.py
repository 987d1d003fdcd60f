"""The scenarios by name, one per seed."""

from __future__ import annotations

import random
from dataclasses import replace

from sandbox.numa.settings import KubeletSettings, PublisherSettings
from tests.numa.churn.scenario import Scenario


def table(seed: int) -> Scenario:
    """20 nodes of two cells with 16 CPUs, 85 to 95 % wanted, NRTs every 5 s, one container each."""
    return Scenario(seed, demand=(0.85, 0.9, 0.95)[seed % 3], foreign=0.0, gpus=0, simple=True)


def mixed(seed: int, seconds: float = 240.0) -> Scenario:
    """All kinds of pods, foreign ones too; an NRT every ten arrivals; settings vary by seed."""
    exclusive = seed % 4 >= 2
    return Scenario(
        seed,
        nodes=12,
        seconds=seconds,
        cells=(2, 2, 4, 2)[seed % 4],
        cpus=(16, 16, 8, 12)[seed % 4],
        demand=0.95,
        kubelet=KubeletSettings(
            scope="pod" if seed % 2 else "container", lists_finished=seed % 5 == 4
        ),
        publisher=PublisherSettings(
            fingerprint="annotation" if seed % 7 == 6 else "attribute",
            method="with-exclusive-resources" if exclusive else "all",
        ),
        restarts=(seconds / 2 + 0.3,) if seed % 3 == 2 else (),
    )


def shifting(seed: int, seconds: float = 400.0) -> Scenario:
    """As mixed, and nodes lose, regain and change their NRTs; some for longer than the grace."""
    return replace(mixed(seed, seconds), upheavals=6.0, restarts=())


def hostile(seed: int, seconds: float = 150.0) -> Scenario:
    """Everything that makes it hard: slow kubelets, broken watches, odd machines and settings."""
    rng = random.Random(seed)
    cells = rng.choice((2, 2, 3, 4, 8))
    return Scenario(
        seed,
        nodes=10,
        cells=cells,
        cpus=rng.choice((6, 8, 16)) if cells < 8 else 4,
        memory=rng.choice((24, 64)),
        gpus=rng.choice((0, 2)),
        reserved_cpus=rng.choice((1, 2)),
        seconds=seconds,
        arrival_seconds=rng.choice((0.2, 0.5)),
        publish_seconds=rng.choice((2.0, 5.0, 10.0)),
        demand=rng.choice((0.9, 1.2)),
        foreign=rng.choice((0.0, 0.1, 0.3)),
        kubelet=KubeletSettings(
            policy=rng.choice(("single-numa-node", "single-numa-node", "restricted")),
            scope=rng.choice(("container", "pod")),
            memory_manager=rng.random() < 0.7,
            lists_finished=rng.random() < 0.3,
        ),
        publisher=PublisherSettings(
            fingerprint=rng.choice(("attribute", "attribute", "annotation", "none")),
            method=rng.choice(("all", "with-exclusive-resources")),
        ),
        restarts=tuple(rng.uniform(0, seconds) for _ in range(rng.choice((0, 0, 1, 3)))),
        threads=rng.choice((1, 2)),
        slowness=rng.choice((1.0, 3.0, 10.0)),
        stalls=rng.choice((0.0, 3.0, 15.0)),
    )
