"""Pods, gangs, nodes and services that come and go, each with names and labels of its own.

A round adds as much as the round before the last takes away, so that what there is at the end of a
round is always the same: what then grows is kept of what is gone.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field

from e2e.adversity.scene import OTHERS, pods_path
from e2e.harness.client import ApiClient
from e2e.harness.groups import group, member
from e2e.harness.objects import HOSTNAME, ZONE, Json, is_bound, is_rejected, node, pod

NODES = 20
ORDINARY, GANG, HOPELESS = 16, 3, 2
GROUPS = f"/apis/scheduling.x-k8s.io/v1alpha1/namespaces/{OTHERS}/podgroups"
SERVICES = f"/api/v1/namespaces/{OTHERS}/services"
NODES_PATH = "/api/v1/nodes"


@dataclass
class Churn:
    """What is there, by round."""

    api: ApiClient
    rounds: int = 0
    placed: int = 0
    """Pods that found a node, in all."""
    _nodes: list[str] = field(default_factory=list)

    async def begin(self) -> None:
        """Create the nodes."""
        self._nodes = [f"node-{number}" for number in range(NODES)]
        await self.api.create_all(NODES_PATH, map(_node, self._nodes))

    async def turn(self) -> None:
        """One round: new pods come and are judged, and the pods of the round before go."""
        number, self.rounds = self.rounds, self.rounds + 1
        await self.api.create(GROUPS, group(f"gang-{number}", GANG))
        await self.api.create(SERVICES, _service(number))
        await self.api.create_all(pods_path(OTHERS), pods_of(number))
        await self._judged(number)
        self.placed += ORDINARY + GANG
        if number:
            await self._remove(number - 1)
        if number % 4 == 0:
            await self._replace_a_node(number)

    async def _judged(self, number: int) -> None:
        selector = f"round=r{number}"
        await self.api.wait_until(
            pods_path(OTHERS),
            lambda found: (
                all(is_bound(each) or is_rejected(each) for each in found["items"])
                and sum(map(is_bound, found["items"])) == ORDINARY + GANG
            ),
            labelSelector=selector,
        )

    async def _remove(self, number: int) -> None:
        query = {"labelSelector": f"round=r{number}", "gracePeriodSeconds": "0"}
        await asyncio.gather(
            self.api.delete(pods_path(OTHERS), **query),
            self.api.delete(f"{GROUPS}/gang-{number}"),
            self.api.delete(f"{SERVICES}/app-{number}"),
        )

    async def _replace_a_node(self, number: int) -> None:
        """The oldest node goes, with its pods, and one of another name comes."""
        gone, new = self._nodes.pop(0), f"node-{NODES + number}"
        self._nodes.append(new)
        on_it = {"fieldSelector": f"spec.nodeName={gone}", "gracePeriodSeconds": "0"}
        await self.api.create(NODES_PATH, _node(new))
        await self.api.delete(f"{NODES_PATH}/{gone}")
        await self.api.delete(pods_path(OTHERS), **on_it)


def pods_of(number: int) -> Iterator[Json]:
    """The pods of a round: no two rounds have a label value in common."""
    mark = {"round": f"r{number}", "app": f"app-{number}"}
    for each in range(ORDINARY):
        yield pod(
            f"pod-{number}-{each}",
            f"{10 + (7 * number + each) % 90}m",
            "1Mi",
            labels={**mark, "shape": f"shape-{number}-{each}"},
            **_wishes(number, each),
        )
    for each in range(GANG):
        body = member(f"member-{number}-{each}", f"gang-{number}", "20m")
        body["metadata"]["labels"].update(mark)
        yield body
    for each in range(HOPELESS):
        yield pod(f"hopeless-{number}-{each}", f"{1_000 + number % 1_000}", labels=mark)


def _wishes(number: int, each: int) -> Json:
    """Every fourth pod prefers company, every fourth is spread, every fourth names node labels."""
    selector = {"matchLabels": {"app": f"app-{number}"}}
    rules: Json
    if each % 4 == 1:
        term = {"topologyKey": ZONE, "labelSelector": selector}
        preferred = [{"weight": 1, "podAffinityTerm": term}]
        rules = {"preferredDuringSchedulingIgnoredDuringExecution": preferred}
        return {"affinity": {"podAffinity": rules}}
    if each % 4 == 2:
        constraint = {"maxSkew": 9, "topologyKey": HOSTNAME, "whenUnsatisfiable": "DoNotSchedule"}
        return {"topologySpreadConstraints": [{**constraint, "labelSelector": selector}]}
    if each % 4 == 3:
        expression = {"key": f"key-{number}", "operator": "DoesNotExist"}
        terms = {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}
        required = {"requiredDuringSchedulingIgnoredDuringExecution": terms}
        return {"affinity": {"nodeAffinity": required}}
    return {}


def _node(name: str) -> Json:
    number = int(name.rpartition("-")[2])
    return node(name, "8", zone=f"zone-{number % 3}", serial=f"serial-{number}")


def _service(number: int) -> Json:
    selector = {"app": f"app-{number}"}
    spec = {"selector": selector, "clusterIP": "None"}
    return {"metadata": {"name": f"app-{number}"}, "spec": spec}
