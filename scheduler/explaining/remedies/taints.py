"""Tolerate taints, take them off, and uncordon."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from heapq import nsmallest

from scheduler.explaining.remedies.costs import cost, repeated
from scheduler.explaining.remedies.patches import Object, at, listed, put
from scheduler.explaining.remedies.scene import Scene, Step, rows_of
from scheduler.model.nodes import Taint
from scheduler.model.tolerations import HARD_EFFECTS, Cover
from scheduler.slices import checkpoint

TOLERATE = "tolerate"
UNTAINT = "untaint"
UNCORDON = "uncordon"
MOST_SETS = 12
"""So many different sets of taints are looked at, those of the most nodes."""
MOST_CORDONED = 6
CORDONED = "node.kubernetes.io/unschedulable"
_LIFE_CYCLE = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/")


def of_life_cycle(key: str) -> bool:
    """Whether a taint says that a node is not fit for work: pods should not tolerate it."""
    return key.startswith(_LIFE_CYCLE)


def tolerate(scene: Scene, names: list[str]) -> Iterator[Step]:
    """Tolerate all taints of some nodes that the pod does not tolerate."""
    for taints, _ in _untolerated(scene, names):
        summary = f"tolerate {_listed(taints)}"
        edit = partial(_tolerating, taints=taints)
        asked = repeated(TOLERATE, len(taints))
        yield Step(TOLERATE, summary, asked, edit, parts=frozenset(taints))


def untaint(scene: Scene, names: list[str]) -> Iterator[Step]:
    """Take the taints off one node that the pod does not tolerate."""
    for taints, there in _untolerated(scene, names):
        raw = scene.node(there[0])
        if raw is None:
            continue
        left = [each for each in at(raw, "spec", "taints") or [] if not _is_one(each, taints)]
        changed = put(raw, ("spec", "taints"), left)
        others = f", or one of {len(there) - 1} other nodes" if len(there) > 1 else ""
        yield Step(
            UNTAINT,
            f"remove {_listed(taints)} from node {there[0]}{others}",
            repeated(UNTAINT, len(taints)),
            nodes=(changed,),
            affects=(f"node {there[0]}: other pods may come there too",),
            parts=frozenset(taints),
        )


def uncordon(scene: Scene, names: list[str]) -> Iterator[Step]:
    """Let a node take pods again."""
    cordoned = [
        name
        for name in names
        if (node := scene.state.node(name)) is not None
        and (node.spec.unschedulable or any(t.key == CORDONED for t in node.spec.taints))
    ]
    for name in sorted(cordoned)[:MOST_CORDONED]:
        raw = scene.node(name)
        if raw is None:
            continue
        taints = [each for each in at(raw, "spec", "taints") or [] if each.get("key") != CORDONED]
        changed = put(put(raw, ("spec", "unschedulable"), None), ("spec", "taints"), taints)
        affects = (f"node {name}: other pods may come there too",)
        yield Step(
            UNCORDON,
            f"uncordon node {name}",
            cost(UNCORDON),
            nodes=(changed,),
            affects=affects,
            parts=frozenset({name}),
        )


def _untolerated(scene: Scene, names: list[str]) -> list[tuple[tuple[Taint, ...], list[str]]]:
    """The sets of taints that keep the pod off some nodes, and those nodes; most nodes first."""
    cover = Cover(scene.info.pod.spec.tolerations)
    groups: dict[tuple[Taint, ...], list[str]] = {}
    with scene.acted() as cycle:
        taints = cycle.state.columns.taints
        there, rows = rows_of(cycle.state, names)
        numbers: list[int] = taints.numbers[rows].tolist()
        sets = {number: taints.interner.values[number] for number in set(numbers)}
    known: dict[int, tuple[Taint, ...]] = {}
    for name, number in zip(there, numbers, strict=True):
        checkpoint()
        if number not in known:
            known[number] = _hard(sets[number], cover)
        groups.setdefault(known[number], []).append(name)
    return nsmallest(
        MOST_SETS, _usable(groups), lambda each: (len(each[0]), -len(each[1]), each[1])
    )


def _usable(
    groups: Mapping[tuple[Taint, ...], list[str]],
) -> Iterator[tuple[tuple[Taint, ...], list[str]]]:
    """The sets that a pod may tolerate, or an administrator remove."""
    for taints, there in groups.items():
        checkpoint()
        if taints and not any(of_life_cycle(taint.key) for taint in taints):
            yield taints, sorted(there)


def _hard(taints: Sequence[Taint], cover: Cover) -> tuple[Taint, ...]:
    found = {t: None for t in taints if t.effect in HARD_EFFECTS and not cover.covers(t)}
    return tuple(sorted(found, key=lambda taint: (taint.key, taint.value, taint.effect)))


def _tolerating(raw: Object, taints: Sequence[Taint]) -> Object:
    new = [_toleration(taint) for taint in taints]
    return put(raw, ("spec", "tolerations"), [*(at(raw, "spec", "tolerations") or []), *new])


def _toleration(taint: Taint) -> dict[str, str]:
    if not taint.value:
        return {"key": taint.key, "operator": "Exists", "effect": taint.effect}
    return {
        "key": taint.key,
        "operator": "Equal",
        "value": taint.value,
        "effect": taint.effect,
    }


def _is_one(raw: Object, taints: Sequence[Taint]) -> bool:
    taint = Taint(raw.get("key") or "", raw.get("value") or "", raw.get("effect") or "")
    return taint in taints


def _listed(taints: Sequence[Taint]) -> str:
    texts = [f"{t.key}={t.value}:{t.effect}" if t.value else f"{t.key}:{t.effect}" for t in taints]
    return f"the taint {texts[0]}" if len(texts) == 1 else f"the taints {listed(texts)}"
