"""Rules about pods in relation to others: required spread, required affinity.

They are judged when a replica binds, in favour of the replica wherever it could not know. A pod
counts *surely* if the replica has to know that it is there, and *perhaps* if it may believe so:
pods that others have just bound, relabelled or ended, and all pods that wait, since any of them may
be on its way to a node.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from sandbox.store import Body, Version
from scheduler.config.defaults import SCHEDULER_NAME
from tests.sim.invariants import Knowledge, Past, Violation, Write, binds, ended, name_of, node_of


class _Pod:
    """A pod of the history, also one that is gone."""

    def __init__(self, namespace: str, made: float) -> None:
        self.namespace = namespace
        self.made = made
        self.labels: Past[dict[str, str]] = Past()
        self.node = ""
        self.since = 0.0
        """When it got its node."""
        self.by_us = False
        self.waits = True
        """It may be on its way to a node."""
        self.leaving = False
        """It is being deleted, has ended, or is gone."""
        self.gone: float | None = None

    def surely(self, app: str, since: float, decided: float) -> bool:
        """Whether a replica has to know that it is on its node, with this label.

        Of its own pods it knows at once, but not before a decision that may have been made any time
        after ``decided``: bindings do not arrive in the order of decisions.
        """
        known = bool(self.node) and not self.leaving
        known = known and self.since <= (max(since, decided) if self.by_us else since)
        return known and all(each.get("app") == app for each in self.labels.during(since))

    def perhaps(self, app: str, since: float) -> bool:
        """Whether a replica may believe that it is on its node, or on the way to one."""
        there = (bool(self.node) or self.waits) and (self.gone is None or self.gone >= since)
        return there and any(each.get("app") == app for each in self.labels.during(since))


class Together:
    """Required topology spread, and required affinity to the pods of an app."""

    tables = ("nodes", "pods")

    def __init__(self, replicas: Collection[str], knowledge: Knowledge) -> None:
        self._replicas = replicas
        self._knowledge = knowledge
        self._pods: dict[str, _Pod] = {}
        self._nodes: dict[str, Past[dict[str, str] | None]] = {}

    def see(self, write: Write) -> Iterator[Violation]:
        if write.table == "nodes":
            labels = dict(write.after.body["metadata"].get("labels") or {}) if write.after else None
            self._nodes.setdefault(write.key[1], Past((0.0, None))).add(write.time, labels)
            return
        if write.after is not None and binds(write) and write.writer in self._replicas:
            yield from self._spread(write, write.after)
            yield from self._near(write, write.after)
        self._follow(write)

    def _follow(self, write: Write) -> None:
        version = write.after or write.before
        assert version is not None, "a write is about something"
        body = version.body
        pod = self._pods.setdefault(body["metadata"]["uid"], _Pod(write.key[0], write.time))
        pod.labels.add(write.time, dict(body["metadata"].get("labels") or {}))
        if node_of(version) and not pod.node:
            pod.node, pod.since = node_of(version), write.time
            pod.by_us = write.writer in self._replicas
        pod.waits = not pod.node and body["spec"].get("schedulerName") == SCHEDULER_NAME
        pod.leaving = "deletionTimestamp" in body["metadata"]
        if write.after is None or ended(body):
            pod.leaving = True
            pod.gone = write.time if pod.gone is None else pod.gone
        else:
            pod.gone = None

    def _others(self, version: Version) -> list[_Pod]:
        """The pods of the same namespace but this one."""
        metadata = version.body["metadata"]
        return [
            pod
            for uid, pod in self._pods.items()
            if uid != metadata["uid"] and pod.namespace == metadata.get("namespace", "")
        ]

    def _domains(self, node: str, key: str, since: float) -> set[str | None]:
        """The domains in which a replica may believe the node to be."""
        past = self._nodes.get(node)
        return {(labels or {}).get(key) for labels in past.during(since)} if past else {None}

    def _sure_domain(self, node: str, key: str, since: float) -> str | None:
        """The domain in which a node is, if there is no doubt."""
        domains = self._domains(node, key, since)
        return next(iter(domains)) if len(domains) == 1 else None

    def _spread(self, write: Write, version: Version) -> Iterator[Violation]:
        since, metadata = self._knowledge.since(write.time), version.body["metadata"]
        for rule in version.body["spec"].get("topologySpreadConstraints") or ():
            if rule["whenUnsatisfiable"] != "DoNotSchedule":
                continue
            key, app = rule["topologyKey"], rule["labelSelector"]["matchLabels"]["app"]
            domain = self._sure_domain(node_of(version), key, since)
            own = self._pods[metadata["uid"]].labels.during(since)
            if domain is None or any(each.get("app") != app for each in own):
                continue
            others, made = self._others(version), self._pods[metadata["uid"]].made
            here = 1 + sum(
                pod.surely(app, since, made) and self._sure_domain(pod.node, key, since) == domain
                for pod in others
            )
            least = self._least(others, key, app, since)
            if here - least > rule["maxSkew"]:
                what = f"{here} of app {app} in {key} {domain}, {least} in another"
                yield _broken("spread", write, what)

    def _least(self, others: list[_Pod], key: str, app: str, since: float) -> int:
        """The most that there may be in the emptiest of the domains that are sure to exist."""
        sure = {self._sure_domain(name, key, since) for name in self._nodes} - {None}
        counts = dict.fromkeys(sure, 0)
        anywhere = 0
        for pod in others:
            if pod.perhaps(app, since):
                anywhere += pod.waits
                for domain in self._domains(pod.node, key, since) & counts.keys():
                    counts[domain] += 1
        return min(counts.values(), default=0) + anywhere

    def _near(self, write: Write, version: Version) -> Iterator[Violation]:
        since, metadata = self._knowledge.since(write.time), version.body["metadata"]
        made, own = (
            self._pods[metadata["uid"]].made,
            self._pods[metadata["uid"]].labels.during(since),
        )
        for term in _affinity_terms(version.body):
            key, app = term["topologyKey"], term["labelSelector"]["matchLabels"]["app"]
            zones = self._domains(node_of(version), key, since)
            others = self._others(version)
            if any(
                pod.perhaps(app, since)
                and (pod.waits or self._domains(pod.node, key, since) & zones)
                for pod in others
            ):
                continue
            first = not any(
                pod.surely(app, since, made) and self._sure_domain(pod.node, key, since)
                for pod in others
            )
            if first and any(each.get("app") == app for each in own):
                continue  # the first of its kind may go anywhere
            yield _broken("near", write, f"no pod of app {app} in {key} of {node_of(version)}")


def _affinity_terms(pod: Body) -> Collection[Any]:
    rules = (pod["spec"].get("affinity") or {}).get("podAffinity") or {}
    return rules.get("requiredDuringSchedulingIgnoredDuringExecution") or ()


def _broken(rule: str, write: Write, what: str) -> Violation:
    return Violation(rule, write.time, name_of(write.key), what, write.revision)
