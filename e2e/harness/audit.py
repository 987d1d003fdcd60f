"""kube-apiserver's audit log: what one user asked for, and what was denied."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from e2e.harness.objects import Json


class Right(NamedTuple):
    """What a rule grants: a verb on a kind of resource, or on the one of that name."""

    verb: str
    group: str
    resource: str
    name: str = ""


@dataclass(frozen=True)
class AuditLog:
    """The log of requests by service accounts of one namespace."""

    directory: Path
    namespace: str

    @property
    def _policy(self) -> Path:
        return self.directory / "audit-policy.json"

    @property
    def _log(self) -> Path:
        return self.directory / "audit.log"

    def flags(self) -> list[str]:
        """What makes the API server write it."""
        rules = [
            {"level": "Metadata", "userGroups": [f"system:serviceaccounts:{self.namespace}"]},
            {"level": "None"},
        ]
        policy = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": rules}
        policy["omitStages"] = ["RequestReceived"]
        self._policy.write_text(json.dumps(policy))
        return [f"--audit-policy-file={self._policy}", f"--audit-log-path={self._log}"]

    def of(self, account: str) -> Iterator[Json]:
        """The requests of one service account, in order; a watch counts when it begins."""
        user = f"system:serviceaccount:{self.namespace}:{account}"
        seen: set[str] = set()
        with self._log.open() as lines:
            for line in lines:
                # The last line may be half written.
                if not line.endswith("\n"):
                    return
                entry: Json = json.loads(line)
                if entry["user"]["username"] == user and entry["auditID"] not in seen:
                    seen.add(entry["auditID"])
                    yield entry

    def denied(self, account: str) -> list[Right | None]:
        """What the account had no right to; a 403 may also mean that the time was wrong."""
        return [
            right_of(entry)
            for entry in self.of(account)
            if entry.get("annotations", {}).get("authorization.k8s.io/decision") == "forbid"
        ]


def right_of(entry: Json) -> Right | None:
    """The right that a request makes use of; None for paths that are no resources."""
    target = entry.get("objectRef")
    if target is None or "resource" not in target:
        return None
    parts = [target["resource"], target.get("subresource")]
    resource = "/".join(part for part in parts if part)
    return Right(entry["verb"], target.get("apiGroup", ""), resource, target.get("name", ""))


def granted_by(role: Json) -> set[Right]:
    """Every right of a role's rules."""
    return {
        Right(verb, group, resource, name)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
        for name in rule.get("resourceNames", [""])
    }
