"""docs/memory.md lists every cache that metrics show, and no other."""

from __future__ import annotations

import re
from pathlib import Path

from tests.daemon.support import Cluster, configuration, running_daemon

PAGE = Path(__file__).parents[2] / "docs" / "memory.md"
EXTENDERS = [{"urlPrefix": "http://127.0.0.1:1", "filterVerb": "filter", "ignorable": True}]
WITH_CELLS = {
    "schedulerName": "equipoise",
    "plugins": {
        "multiPoint": {"enabled": [{"name": "NodeResourceTopologyMatch"}, {"name": "Remote"}]}
    },
}
WEBHOOKS = [{"name": "Remote", "url": "http://127.0.0.1:1", "points": ["postBind"]}]
FAMILY = re.compile(r"^(watched|memory)_.*")
"""Names that end with a kind, or with what a plugin calls it."""


def documented() -> set[str]:
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("| `")]
    names = {name for row in rows for name in re.findall(r"`([\w<>]+)`", row.split("|")[1])}
    return {FAMILY.sub(r"\1_", name) for name in names - {"cache"}}


async def test_every_cache_is_in_the_table(cluster: Cluster) -> None:
    kube = {"extenders": EXTENDERS, "profiles": [WITH_CELLS]}
    config = configuration(kube=kube, own={"webhooks": WEBHOOKS})
    async with running_daemon(cluster, config) as replica:
        shown = replica.metrics.caches.usage()
        assert min(usage.bytes for usage in shown.values()) >= 0
    # No plugin of the tree remembers anything.
    assert {FAMILY.sub(r"\1_", name) for name in shown} == documented() - {"memory_"}
