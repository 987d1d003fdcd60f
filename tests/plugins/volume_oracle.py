"""A search for volumes on one node at a time, as the API documentation describes it."""

from __future__ import annotations

from scheduler.plugins.volume_binding import REASONS
from tests.builders import Json, requirement, term

ZONE = "topology.kubernetes.io/zone"
EBS_ZONE = "topology.ebs.csi.aws.com/zone"
SELECTED = "volume.kubernetes.io/selected-node"
UNREACHABLE, UNBINDABLE, CRAMPED, MISSING = REASONS
SIZES = {"1Gi": 1, "2Gi": 2, "3Gi": 3}


class Oracle:
    """What storage offers, and a search on one node as the documentation describes it."""

    def __init__(
        self, volumes: list[Json], storage_class: Json, has_rooms: list[Json] | None
    ) -> None:
        self.volumes = volumes
        self.storage_class = storage_class
        self.rooms = has_rooms

    def reasons(self, node: str, having: dict[str, str], migrated: bool, pod: Json) -> list[str]:
        found = []
        for volume in pod["bound"]:
            if volume is None:
                found.append(MISSING)
                break
            if not reachable(volume, having, migrated):
                found.append(UNREACHABLE)
                break
        pinned = [claim for claim in pod["delayed"] if claim["metadata"]["annotations"]]
        others = [claim for claim in pod["delayed"] if claim not in pinned]
        if any(claim["metadata"]["annotations"][SELECTED] != node for claim in pinned):
            return [*found, UNBINDABLE]
        to_make = list(pinned)
        taken: list[str] = []
        for claim in sorted(others, key=asked):
            volume = self.smallest(claim, having, taken)
            if volume is None:
                to_make.append(claim)
            else:
                taken.append(volume["metadata"]["name"])
        for claim in to_make:
            obstacle = self.obstacle(claim, having)
            if obstacle:
                return [*found, obstacle]
        return found

    def smallest(self, claim: Json, having: dict[str, str], taken: list[str]) -> Json | None:
        wish = claim["spec"]
        best = None
        for volume in sorted(self.volumes, key=lambda v: (offered(v), v["metadata"]["name"])):
            spec, reference = volume["spec"], volume["spec"].get("claimRef")
            mine = (
                reference is not None
                and reference["name"] == claim["metadata"]["name"]
                and reference.get("uid", claim["metadata"]["uid"]) == claim["metadata"]["uid"]
            )
            if volume["metadata"]["name"] in taken or (reference and not mine):
                continue
            if offered(volume) < asked(claim) or "deletionTimestamp" in volume["metadata"]:
                continue
            if any(spec.get(k) != wish.get(k) for k in ("volumeMode", "volumeAttributesClassName")):
                continue
            if mine:
                return volume if reachable(volume, having, migrated=False) else None
            tier = wish.get("selector", {}).get("matchLabels", {}).get("tier")
            suits = (
                volume["status"]["phase"] == "Available"
                and tier in (None, volume["metadata"]["labels"]["tier"])
                and set(wish["accessModes"]) <= set(spec["accessModes"])
                and reachable(volume, having, migrated=False)
            )
            if suits and best is None:
                best = volume
        return best

    def obstacle(self, claim: Json, having: dict[str, str]) -> str:
        if self.storage_class["provisioner"] == "kubernetes.io/no-provisioner":
            return UNBINDABLE
        terms = self.storage_class["allowedTopologies"]
        if terms and not any(
            each["matchLabelExpressions"]
            and all(having.get(e["key"]) in e["values"] for e in each["matchLabelExpressions"])
            for each in terms
        ):
            return UNBINDABLE
        if self.rooms is None:
            return ""
        for room in self.rooms:
            limit = room["maximumVolumeSize"] or room["capacity"]
            where = room["nodeTopology"]
            if limit is None or where is None or SIZES[limit] < asked(claim):
                continue
            if where.get("matchLabels", {}).items() <= having.items():
                return ""
        return CRAMPED


def asked(claim: Json) -> int:
    return SIZES[claim["spec"]["resources"]["requests"]["storage"]]


def offered(volume: Json) -> int:
    return SIZES[volume["spec"]["capacity"]["storage"]]


def reachable(volume: Json, having: dict[str, str], migrated: bool) -> bool:
    required = volume["spec"].get("nodeAffinity", {}).get("required")
    terms = None if required is None else required["nodeSelectorTerms"]
    key = ZONE
    if migrated and "awsElasticBlockStore" in volume["spec"]:
        label = volume["metadata"]["labels"].get(ZONE)
        named = any(e["key"] == ZONE for each in terms or () for e in each["matchExpressions"])
        if named:
            key = EBS_ZONE
        elif label is not None:
            extra = requirement(EBS_ZONE, "In", *label.split("__"))
            terms = [term(*each["matchExpressions"], extra) for each in terms or [term()]]
    if terms is None:
        return True
    return any(
        bool(each["matchExpressions"])
        and all(
            holds(e, having, key if e["key"] == ZONE else e["key"])
            for e in each["matchExpressions"]
        )
        for each in terms
    )


def holds(expression: Json, having: dict[str, str], key: str) -> bool:
    if expression["operator"] == "In":
        return bool(having.get(key) in expression["values"])
    return bool((key in having) == (expression["operator"] == "Exists"))
