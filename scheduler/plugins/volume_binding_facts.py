"""What VolumeBinding knows about its rejections: which claim, which volume, and where that is."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from scheduler.model.nodes import NodeSelector
from scheduler.model.selectors import compile_node_selector
from scheduler.model.storage import PersistentVolume, PersistentVolumeClaim, StorageClass
from scheduler.model.volumes import NO_PROVISIONER, SELECTED_NODE, class_of
from scheduler.plugin_api.cycle import Cycle
from scheduler.plugin_api.facts import MAX_FACTS, Fact, Told, fact, selector_text, told
from scheduler.plugins.volumes.claim_facts import claim_facts
from scheduler.plugins.volumes.matching import PodClaims, PodVolumesByRow, VolumeSearch
from scheduler.state.columns import Mask, Rows
from scheduler.state.objects import ObjectStore


class Searched(NamedTuple):
    """What the search for a pod's claims has found."""

    search: VolumeSearch
    claims: PodClaims
    found: PodVolumesByRow


class _ClaimTrouble(NamedTuple):
    """What is wrong with a claim, and on which rows."""

    told: Fact
    rows: Mask


def unusable(cycle: Cycle, rows: Rows, searched: Searched | None) -> Sequence[Told]:
    """The claims that cannot be used or bound on each row; None: PreFilter has rejected the pod."""
    if searched is None:
        return told([()] * len(rows), lambda _: claim_facts(cycle.pod, cycle.state.objects))
    troubles = list(_troubles(cycle, rows, searched))
    table = [trouble.rows.tolist() for trouble in troubles]
    ways = list(zip(*table, strict=True)) if table else [()] * len(rows)

    def facts(way: tuple[bool, ...]) -> Iterator[Fact]:
        for trouble, holds in zip(troubles, way, strict=True):
            if holds:
                yield trouble.told

    return told(ways, facts)


def unusable_in_cluster(cycle: Cycle, rows: Rows, searched: Searched | None) -> Iterator[Fact]:
    """The same for the whole cluster."""
    if searched is None:
        for each in claim_facts(cycle.pod, cycle.state.objects):
            yield {**each, "nodes": len(rows)}
        return
    total = cycle.state.node_count
    for trouble in _troubles(cycle, rows, searched):
        number = int(np.count_nonzero(trouble.rows))
        message = f"{trouble.told['message']}: {number} of {total} nodes"
        yield {**trouble.told, "message": message, "nodes": number}


def _troubles(cycle: Cycle, rows: Rows, searched: Searched) -> Iterator[_ClaimTrouble]:
    """All that is wrong with claims on some of the rows."""
    objects = cycle.state.objects
    everywhere = np.ones(len(rows), np.bool_)
    for claim in searched.claims.bound[:MAX_FACTS]:
        volume = objects.get(PersistentVolume, claim.spec.volume_name)
        if volume is None:
            yield _ClaimTrouble(_lost(claim), everywhere)
        elif (elsewhere := ~searched.search.usable_on(volume, everywhere)).any():
            yield _ClaimTrouble(_placed(claim, volume), elsewhere)
    for choice in searched.found.choices[:MAX_FACTS]:
        yield from _unmatched(cycle, rows, searched, choice.claim, choice.picked < 0)


def _unmatched(
    cycle: Cycle, rows: Rows, searched: Searched, claim: PersistentVolumeClaim, needed: Mask
) -> Iterator[_ClaimTrouble]:
    """What keeps an unbound claim from getting a volume where no available one matches."""
    chosen = claim.metadata.annotations.get(SELECTED_NODE)
    if chosen is not None:
        row = cycle.state.row(chosen)
        message = f"claim {_name(claim)} is being provisioned for the node {chosen}"
        if (other := rows != (-1 if row is None else row)).any():
            yield _ClaimTrouble(_fact(claim, message, "unavailable"), other)
        return
    possible, with_capacity = searched.search.provision(claim)
    if (none := needed & ~possible).any():
        message = f"claim {_name(claim)} finds no volume{_provisioner(claim, cycle.state.objects)}"
        yield _ClaimTrouble(_fact(claim, message, "unavailable"), none)
    if (short := needed & possible & ~with_capacity).any():
        message = f"claim {_name(claim)} requests more storage than the driver reports as free"
        yield _ClaimTrouble(_fact(claim, message, "noCapacity"), short)


def _provisioner(claim: PersistentVolumeClaim, objects: ObjectStore) -> str:
    name = class_of(claim)
    storage_class = objects.get(StorageClass, name)
    if storage_class is None or storage_class.provisioner in ("", NO_PROVISIONER):
        return f", and its storage class {name} provisions none"
    return f", and its storage class {name} allows none in this topology"


def _lost(claim: PersistentVolumeClaim) -> Fact:
    volume = claim.spec.volume_name
    message = f"claim {_name(claim)} is bound to the volume {volume}, which does not exist"
    return _fact(claim, message, "lost")


def _placed(claim: PersistentVolumeClaim, volume: PersistentVolume) -> Fact:
    affinity = volume.spec.node_affinity
    where = _terms(affinity.required if affinity else None)
    message = f"volume {volume.metadata.name} of claim {_name(claim)} can be used on {where}"
    return _fact(claim, message, "elsewhere")


def _terms(selector: NodeSelector | None) -> str:
    terms = compile_node_selector(selector, "nodeAffinity") or ()
    texts = [selector_text((*term.labels, *term.fields)) for term in terms[:MAX_FACTS]]
    return f"nodes with {' or '.join(texts)}" if texts else "other nodes"


def _fact(claim: PersistentVolumeClaim, message: str, state: str) -> Fact:
    return fact(
        "claim",
        message,
        claim=_name(claim),
        state=state,
        storageClass=class_of(claim) or None,
        volume=claim.spec.volume_name or None,
    )


def _name(claim: PersistentVolumeClaim) -> str:
    return claim.metadata.name
