"""What happened, from the API and the API server's audit log alone, and whether it may."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path

from e2e.harness.objects import SCHEDULER_NAME, Json
from e2e.harness.scheduler import LEASE
from scheduler.model.quantity import milli_value

_LOG, _POLICY = "audit.log", "audit-policy.json"
LEASE_NAME = LEASE.rpartition("/")[2]
MAX_LINE = 64 * 1024
"""Bytes of an entry, at most."""


def audit_flags(directory: Path) -> list[str]:
    """What has the API server log every write of a lease, with its answer, and every binding."""
    rules = [
        {
            "level": "RequestResponse",
            "verbs": ["create", "update", "patch"],
            "resources": [{"group": "coordination.k8s.io", "resources": ["leases"]}],
        },
        {"level": "Metadata", "resources": [{"group": "", "resources": ["pods/binding"]}]},
        {"level": "None"},
    ]
    policy = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": rules}
    policy["omitStages"] = ["RequestReceived"]
    (directory / _POLICY).write_text(json.dumps(policy))
    return [
        f"--audit-policy-file={directory / _POLICY}",
        f"--audit-log-path={directory / _LOG}",
    ]


@dataclass(frozen=True)
class Bound:
    """A successful binding."""

    pod: str
    by: str
    """The user: each replica has one of its own."""


@dataclass(frozen=True)
class Holding:
    """From one revision of etcd on, a user has held the lease; nobody, if it has no name."""

    revision: int
    identity: str
    by: str


@dataclass
class Verdict:
    """What must not be, counted."""

    lost: int = 0
    doubled: int = 0
    unentitled: int = 0
    overcommitted: int = 0
    left_behind: int = 0
    details: list[str] = field(default_factory=list)

    @property
    def sound(self) -> bool:
        """Whether every promise was kept."""
        counts = (self.lost, self.doubled, self.unentitled, self.overcommitted, self.left_behind)
        return not any(counts)


class History:
    """The audit log from a position on: who bound what, and who held the lease when."""

    def __init__(self, directory: Path) -> None:
        self._log = directory / _LOG
        self._begin = 0
        self._read = 0
        self._holdings: list[Holding] = []
        self._identities: dict[str, str] = {}

    def holder(self, lease: Json) -> str:
        """The user who holds this lease, empty if nobody does or it is not known yet."""
        self._read_holdings()
        return self._identities.get(lease.get("spec", {}).get("holderIdentity") or "", "")

    def identities(self, user: str) -> set[str]:
        """Those under which a user has held the lease; each process has another."""
        self._read_holdings()
        return {identity for identity, by in self._identities.items() if by == user}

    def begin(self) -> None:
        """Judge only what happens from now on; who holds the lease stays known."""
        self._read_holdings()
        self._begin = self._size()

    def bindings(self) -> list[Bound]:
        """All successful ones since the beginning, in the order of their answers."""
        return [
            Bound(entry["objectRef"]["name"], entry["user"]["username"])
            for entry in self._entries(self._begin, self._size())
            if entry["objectRef"]["resource"] == "pods" and entry["responseStatus"]["code"] == 201
        ]

    def judge(
        self,
        pods: Sequence[Json],
        nodes: Iterable[Json],
        claims: Iterable[Json],
        wanted: int,
    ) -> Verdict:
        """What the API shows at the end, with what was bound in between."""
        self._read_holdings()
        verdict = Verdict()
        bound = [each for each in pods if each["spec"].get("nodeName")]
        verdict.lost = wanted - len(bound)
        answers = self.bindings()
        _count_doubled(answers, verdict)
        ours = [each for each in bound if each["spec"]["schedulerName"] == SCHEDULER_NAME]
        self._count_unentitled(ours, {each.pod: each.by for each in answers}, verdict)
        _count_overcommitted(bound, nodes, verdict)
        _count_left_behind(pods, claims, verdict)
        return verdict

    def _count_unentitled(
        self, bound: Iterable[Json], binder: Mapping[str, str], verdict: Verdict
    ) -> None:
        """Bindings are in the order of etcd's revisions with the writes of the lease.

        Without kubelets a binding is the last write of a pod, so its version is the binding's.
        """
        for each in bound:
            name, revision = each["metadata"]["name"], int(each["metadata"]["resourceVersion"])
            holding = self._holding_at(revision)
            by = binder.get(name)
            if by is not None and holding is not None and holding.by != by:
                verdict.unentitled += 1
                verdict.details.append(
                    f"{name} was bound by {by} at revision {revision}, while "
                    f"{holding.by or 'nobody'} held the lease since {holding.revision}"
                )

    def _holding_at(self, revision: int) -> Holding | None:
        before = list(takewhile(lambda each: each.revision <= revision, self._holdings))
        return before[-1] if before else None

    def _read_holdings(self) -> None:
        """Read on where the log was read last: who wrote the lease."""
        begin, self._read = self._read, self._size()
        for entry in self._entries(begin, self._read):
            lease = entry.get("responseObject") or {}
            if lease.get("kind") != "Lease" or lease["metadata"]["name"] != LEASE_NAME:
                continue
            identity = lease["spec"].get("holderIdentity") or ""
            user = entry["user"]["username"] if identity else ""
            if identity:
                self._identities.setdefault(identity, user)
            revision = int(lease["metadata"]["resourceVersion"])
            self._holdings.append(Holding(revision, identity, user))
        # Answers are logged in any order.
        self._holdings.sort(key=lambda each: each.revision)

    def _size(self) -> int:
        """Where the last whole line ends."""
        if not self._log.exists():
            return 0
        with self._log.open("rb") as log:
            log.seek(max(0, self._log.stat().st_size - MAX_LINE))
            before = log.tell()
            return before + log.read().rfind(b"\n") + 1

    def _entries(self, begin: int, end: int) -> Iterator[Json]:
        """The entries between two ends of lines."""
        with self._log.open("rb") as log:
            log.seek(begin)
            for line in log.read(end - begin).splitlines():
                entry: Json = json.loads(line)
                if entry["stage"] == "ResponseComplete" and "responseStatus" in entry:
                    yield entry


def _count_doubled(answers: Iterable[Bound], verdict: Verdict) -> None:
    for name, times in Counter(each.pod for each in answers).items():
        if times > 1:
            verdict.doubled += 1
            verdict.details.append(f"{name} was bound {times} times")


def _count_overcommitted(bound: Iterable[Json], nodes: Iterable[Json], verdict: Verdict) -> None:
    requested: Counter[str] = Counter()
    for each in bound:
        for container in each["spec"]["containers"]:
            cpu = container["resources"]["requests"]["cpu"]
            requested[each["spec"]["nodeName"]] += milli_value(cpu)
    for each in nodes:
        name, room = each["metadata"]["name"], milli_value(each["status"]["allocatable"]["cpu"])
        if requested[name] > room:
            verdict.overcommitted += 1
            verdict.details.append(f"{name} has {requested[name]}m of {room}m")


def _count_left_behind(pods: Iterable[Json], claims: Iterable[Json], verdict: Verdict) -> None:
    running = {each["metadata"]["uid"] for each in pods if each["spec"].get("nodeName")}
    for each in pods:
        if nominated := each["status"].get("nominatedNodeName"):
            verdict.left_behind += 1
            verdict.details.append(f"{each['metadata']['name']} is nominated to {nominated}")
    holders: Counter[str] = Counter()
    for each in claims:
        status, name = each.get("status") or {}, each["metadata"]["name"]
        users = {user["uid"] for user in status.get("reservedFor") or ()}
        if users - running or (status.get("allocation") and not users):
            verdict.left_behind += 1
            verdict.details.append(f"claim {name} is held for nobody who runs: {users - running}")
        for result in (status.get("allocation") or {}).get("devices", {}).get("results", ()):
            holders[f"{result['pool']}/{result['device']}"] += 1
    for device, times in holders.items():
        if times > 1:
            verdict.overcommitted += 1
            verdict.details.append(f"device {device} is allocated {times} times")
