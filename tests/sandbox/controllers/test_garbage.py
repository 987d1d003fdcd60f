"""What goes with its owner."""

from __future__ import annotations

import asyncio

import pytest

from tests.sandbox.controllers.support import World, workload, world


async def deployed(found: World) -> None:
    found.create("deployments", "web", workload(2))
    await found.until(lambda: found.status("deployments", "web").get("availableReplicas") == 2)


@pytest.mark.parametrize("policy", ["Background", "Foreground"])
async def test_everything_goes_with_its_owner(policy: str) -> None:
    async with world() as found:
        await deployed(found)
        found.delete("deployments", "web", policy)
        waits = found.get("deployments", "web") is not None
        assert waits == (policy == "Foreground")
        await found.until(
            lambda: not any(found.all(k) for k in ("deployments", "replicasets", "pods"))
        )


async def test_in_the_foreground_the_owner_goes_last() -> None:
    async with world() as found:
        await deployed(found)
        found.delete("deployments", "web", "Foreground")
        await found.until(lambda: found.get("deployments", "web") is None)
        last = {kind: found.removed(kind)[-1] for kind in ("pods", "replicasets", "deployments")}
        assert last["pods"] < last["replicasets"] < last["deployments"]


async def test_orphans_stay_without_the_reference() -> None:
    async with world() as found:
        await deployed(found)
        found.delete("deployments", "web", "Orphan")
        await found.until(lambda: found.get("deployments", "web") is None)
        (kept,) = found.all("replicasets")
        assert "ownerReferences" not in kept["metadata"]
        assert len(found.pods()) == 2


async def test_what_names_an_owner_that_is_not_there_goes_unless_its_kind_is_unknown() -> None:
    async with world() as found:
        gone = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "x", "uid": "1"}
        strange = {"apiVersion": "example.com/v1", "kind": "Thing", "name": "x", "uid": "2"}
        found.create("configmaps", "lost", {}, ownerReferences=[gone])
        found.create("configmaps", "kept", {}, ownerReferences=[strange])
        await found.until(lambda: found.get("configmaps", "lost") is None)
        assert found.get("configmaps", "kept") is not None


async def test_a_deleted_namespace_is_emptied() -> None:
    async with world() as found:
        resource = found.registry.builtin("namespaces")
        found.registry.create(resource, "", {"metadata": {"name": "team"}})
        found.create("deployments", "web", workload(3), namespace="team")
        await found.until(lambda: len(found.all("pods", "team")) == 3)
        found.registry.delete(resource, ("", "team"))
        await found.until(lambda: found.get("namespaces", "team") is None)
        assert found.all("pods", "team") == []


async def test_nothing_is_looked_at_when_nothing_happens() -> None:
    async with world() as found:
        await deployed(found)
        revision = found.registry.store.revision
        found.create("configmaps", "c", {})
        await found.until(lambda: found.get("configmaps", "c") is not None)
        assert found.registry.store.revision == revision + 1


async def test_others_have_their_turn_while_many_pods_are_made() -> None:
    async with world(scheduled=False) as found:
        turns, store = 0, found.registry.store.table("pods")
        found.create("deployments", "web", workload(500))
        while len(store.current) < 500:
            await asyncio.sleep(0)
            turns += 1
        assert turns > 500 / 20
