"""Relax what a pod requires of other pods: inter-pod affinity, spread, host ports."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import islice

from scheduler.explaining.remedies.costs import cost, repeated
from scheduler.explaining.remedies.patches import Object, at, listed, put
from scheduler.explaining.remedies.scene import Scene, Step, one_less, rows_of
from scheduler.explaining.remedies.selectors import MOST_NODES_READ
from scheduler.explaining.remedies.spelling import close_to
from scheduler.model.affinity import HOSTNAME
from scheduler.model.podinfo import HostPort
from scheduler.plugins.names import INTER_POD_AFFINITY, TOPOLOGY_SPREAD

RELAX_AFFINITY = "relax-affinity"
RAISE_SKEW = "raise-max-skew"
RELAX_SPREAD = "relax-spread"
CORRECT_LABEL = "correct-label"
CORRECT_KEY = "correct-topology-key"
LABEL = "label-node"
PORT = "host-port"
MOST_TERMS = 12
MOST_CONSTRAINTS = 8
MOST_VALUES = 4
MOST_VALUES_READ = 2048
"""So many values of a label are compared with one that may be misspelt."""
UNLIMITED_SKEW = 2**31 - 1
_HARD = "requiredDuringSchedulingIgnoredDuringExecution"
_SOFT = "preferredDuringSchedulingIgnoredDuringExecution"
_SPREAD = ("spec", "topologySpreadConstraints")


# Inter-pod affinity


def relax_affinity(scene: Scene, names: list[str]) -> Iterator[Step]:
    """Prefer what terms of pod affinity and anti-affinity require: one of them, or as few as do."""
    terms = [
        (field, index)
        for field in ("podAffinity", "podAntiAffinity")
        for index, _ in enumerate(at(scene.raw, "spec", "affinity", field, _HARD) or [])
    ][:MOST_TERMS]
    yield from _fewest(_Helps(scene, INTER_POD_AFFINITY, names), terms, partial(_relaxing, scene))


def _relaxing(scene: Scene, terms: Sequence[tuple[str, int]]) -> Step:
    texts = []
    for field, index in terms:
        term = at(scene.raw, "spec", "affinity", field, _HARD, index)
        what = "affinity to" if field == "podAffinity" else "anti-affinity to"
        texts.append(f"{what} pods with {selector_text(term)} by {term.get('topologyKey')}")
    return Step(
        RELAX_AFFINITY,
        f"prefer, and do not require, {' and '.join(texts)}",
        repeated(RELAX_AFFINITY, len(terms)),
        partial(_preferring, terms=tuple(terms)),
        parts=frozenset(terms),
        smaller=one_less(terms, partial(_relaxing, scene)),
    )


def _preferring(raw: Object, terms: Sequence[tuple[str, int]]) -> Object:
    for field in ("podAffinity", "podAntiAffinity"):
        chosen = {index for each, index in terms if each == field}
        if not chosen:
            continue
        path = ("spec", "affinity", field)
        hard, soft = at(raw, *path, _HARD) or [], at(raw, *path, _SOFT) or []
        moved = [{"weight": 100, "podAffinityTerm": hard[i]} for i in sorted(chosen)]
        raw = put(raw, (*path, _SOFT), [*soft, *moved])
        raw = put(raw, (*path, _HARD), [e for i, e in enumerate(hard) if i not in chosen])
    return raw


def correct_labels(scene: Scene, names: list[str]) -> Iterator[Step]:
    """Be near pods with a label that some pod has, where none has the one that is asked for."""
    path = ("spec", "affinity", "podAffinity", _HARD)
    for index, term in enumerate((at(scene.raw, *path) or [])[:MOST_TERMS]):
        for key, value in islice((at(term, "labelSelector", "matchLabels") or {}).items(), 4):
            known = sorted(scene.state.index.label_values(key))
            if value in known:
                continue
            for close in close_to(value, known[:MOST_VALUES_READ], 1, 0.6):
                whole = (*path, index, "labelSelector", "matchLabels", key)
                yield Step(
                    CORRECT_LABEL,
                    f"stay near pods with {key}={close} in place of {key}={value}, which none has",
                    cost(CORRECT_LABEL),
                    partial(put, path=whole, new=close),
                    parts=frozenset({whole}),
                )


def selector_text(term: Object) -> str:
    """The labels that a term asks for, for people."""
    selector = term.get("labelSelector") or {}
    texts = [f"{key}={value}" for key, value in (selector.get("matchLabels") or {}).items()]
    for each in selector.get("matchExpressions") or []:
        values = "|".join(each.get("values") or ())
        texts.append(f"{each.get('key')} {each.get('operator')} {values}".strip())
    return ",".join(texts[:4]) or "any labels"


class _Helps:
    """Whether a step makes a plugin accept one of some nodes, whatever others say of it."""

    def __init__(self, scene: Scene, plugin: str, names: list[str]) -> None:
        self._scene = scene
        self._plugins = frozenset({plugin})
        self._names = names

    def __call__(self, step: Step) -> bool:
        return self._scene.then(step).passes(self._plugins, self._names)


def _fewest(
    helps: _Helps,
    parts: Sequence[tuple[str, int]],
    make: Callable[[Sequence[tuple[str, int]]], Step],
) -> Iterator[Step]:
    """Each part that helps alone; if none does, the fewest that help together."""
    alone = [make([part]) for part in parts]
    helpful = [step for step in alone if helps(step)]
    yield from helpful
    if helpful or len(parts) < 2:
        return
    needed = list(parts)
    if not helps(make(needed)):
        return
    for part in parts:
        fewer = [each for each in needed if each != part]
        if fewer and helps(make(fewer)):
            needed = fewer
    yield make(needed)


# Topology spread


def relax_spread(scene: Scene, names: list[str]) -> Iterator[Step]:
    """Raise `maxSkew` as little as possible; where that does not help, only prefer to spread."""
    hard = [
        ("", index)
        for index, each in enumerate(at(scene.raw, *_SPREAD) or [])
        if each.get("whenUnsatisfiable", "DoNotSchedule") == "DoNotSchedule"
    ][:MOST_CONSTRAINTS]
    helps = _Helps(scene, TOPOLOGY_SPREAD, names)
    raised = list(_fewest(helps, hard, partial(_without_limit, scene)))
    for step in raised:
        yield _smallest_skews(scene, helps, sorted(index for _, index in step.parts))
    if not raised:
        yield from _fewest(helps, hard, partial(_any_way, scene))


def _smallest_skews(scene: Scene, helps: _Helps, indexes: Sequence[int]) -> Step:
    """The smallest `maxSkew` of each constraint with which some node opens."""
    skews = dict.fromkeys(indexes, UNLIMITED_SKEW)
    for index in indexes:
        low = int(at(scene.raw, *_SPREAD, index).get("maxSkew") or 1) + 1
        step = 1
        while not helps(_raised(scene, {**skews, index: low + step - 1})):
            step *= 2
        high = low + step - 1
        low += step // 2
        while low < high:
            middle = (low + high) // 2
            if helps(_raised(scene, {**skews, index: middle})):
                high = middle
            else:
                low = middle + 1
        skews[index] = high
    return _raised(scene, skews)


def _without_limit(scene: Scene, parts: Sequence[tuple[str, int]]) -> Step:
    return _raised(scene, {index: UNLIMITED_SKEW for _, index in parts})


def _raised(scene: Scene, skews: dict[int, int]) -> Step:
    texts, more = [], 0.0
    for index, skew in skews.items():
        constraint = at(scene.raw, *_SPREAD, index)
        before = int(constraint.get("maxSkew") or 1)
        texts.append(f"maxSkew by {constraint.get('topologyKey')} from {before} to {skew}")
        more += max(0.0, 1 - before / max(skew, 1))  # a skew below 1 is a mistake, and is kept
    return Step(
        RAISE_SKEW,
        f"raise {' and '.join(texts)}",
        cost(RAISE_SKEW, more),
        partial(_with_skews, skews=dict(skews)),
        parts=frozenset(("", index) for index in skews),
        smaller=one_less([*skews.items()], lambda fewer: _raised(scene, dict(fewer))),
    )


def _with_skews(raw: Object, skews: dict[int, int]) -> Object:
    for index, skew in skews.items():
        raw = put(raw, (*_SPREAD, index, "maxSkew"), skew)
    return raw


def _any_way(scene: Scene, parts: Sequence[tuple[str, int]]) -> Step:
    keys = [at(scene.raw, *_SPREAD, index).get("topologyKey") for _, index in parts]
    return Step(
        RELAX_SPREAD,
        f"prefer, and do not require, to be spread by {' and '.join(map(str, keys))}",
        repeated(RELAX_SPREAD, len(parts)),
        partial(_scheduling_anyway, indexes=tuple(index for _, index in parts)),
        parts=frozenset(parts),
        smaller=one_less(parts, partial(_any_way, scene)),
    )


def _scheduling_anyway(raw: Object, indexes: Sequence[int]) -> Object:
    for index in indexes:
        raw = put(raw, (*_SPREAD, index, "whenUnsatisfiable"), "ScheduleAnyway")
        raw = put(raw, (*_SPREAD, index, "minDomains"), None)
    return raw


# Topology keys


def correct_key(scene: Scene, names: list[str]) -> Iterator[Step]:
    """Spread, or stay together, by a label that nodes have."""
    for path, key in _topology_keys(scene.raw):
        if key in scene.state.columns.labels:
            continue
        keys: set[str] = set()
        for name in names[:MOST_NODES_READ]:
            if (node := scene.state.node(name)) is not None:
                keys |= node.metadata.labels.keys()
        for close in close_to(key, sorted(keys), 1, 0.7):
            yield Step(
                CORRECT_KEY,
                f"use the topology key {close} in place of {key}, which no node has",
                cost(CORRECT_KEY),
                partial(put, path=path, new=close),
                parts=frozenset({path}),
            )


def label_node(scene: Scene, names: list[str]) -> Iterator[Step]:
    """Give one node a label that the pod's constraints are about and that it does not have."""
    keys = {key: None for _, key in _topology_keys(scene.raw) if key}
    for key in list(keys)[:MOST_VALUES]:
        bare = [name for name in sorted(names) if _lacks(scene, name, key)]
        if not bare:
            continue
        raw = scene.node(bare[0])
        if raw is None:
            continue
        for value in _values(scene, key, bare[0]):
            changed = put(raw, ("metadata", "labels", key), value)
            yield Step(
                LABEL,
                f"label node {bare[0]} with {key}={value}",
                cost(LABEL),
                nodes=(changed,),
                affects=(f"node {bare[0]}: other pods are spread by this label too",),
                parts=frozenset({(key, bare[0], value)}),
            )


def _lacks(scene: Scene, name: str, key: str) -> bool:
    node = scene.state.node(name)
    return node is not None and key not in node.metadata.labels


def _values(scene: Scene, key: str, name: str) -> list[str]:
    if key == HOSTNAME:
        return [name]
    if key not in scene.state.columns.labels:
        return [f"{key.rsplit('/', 1)[-1]}-1"]
    column = scene.state.columns.labels.column(key)
    rows = scene.state.rows()
    there = {column.values.values[i] for i in set(column.ids[rows].tolist())}
    return sorted(value for value in there if value)[:MOST_VALUES]


def _topology_keys(raw: Object | None) -> list[tuple[tuple[str | int, ...], str]]:
    """Where a pod names topology keys that must hold."""
    found: list[tuple[tuple[str | int, ...], str]] = []
    for index, each in enumerate((at(raw, *_SPREAD) or [])[:MOST_CONSTRAINTS]):
        found.append(((*_SPREAD, index, "topologyKey"), str(each.get("topologyKey"))))
    for field in ("podAffinity", "podAntiAffinity"):
        path = ("spec", "affinity", field, _HARD)
        for index, each in enumerate((at(raw, *path) or [])[:MOST_TERMS]):
            found.append(((*path, index, "topologyKey"), str(each.get("topologyKey"))))
    return found


# Host ports


def free_ports(scene: Scene, names: list[str]) -> Iterator[Step]:
    """Give up the host ports that are taken on some node; with the host's network, take others."""
    groups: dict[tuple[HostPort, ...], int] = {}
    with scene.acted() as cycle:
        _, rows = rows_of(cycle.state, names)
        among = set(rows.tolist())
        taken: dict[int, list[HostPort]] = {}
        for port in scene.info.host_ports:
            for row in among.intersection(cycle.state.ports.conflicts(port)):
                taken.setdefault(row, []).append(port)
        for held in taken.values():
            wanted = tuple(dict.fromkeys(held))
            groups[wanted] = groups.get(wanted, 0) + 1
    fewest = sorted(groups.items(), key=lambda each: (len(each[0]), -each[1], str(each[0])))
    for ports, _ in fewest[:MOST_VALUES]:
        numbers = listed([f"{port.port}/{port.protocol}" for port in ports])
        many = "s" if len(ports) > 1 else ""
        if scene.info.pod.spec.host_network:
            others = {port: _next_free(scene, port) for port in ports}
            if not all(others.values()):
                continue  # on the host's network a port cannot be given up
            summary = f"use other host ports than {numbers}: {listed([*map(str, others.values())])}"
        else:
            others = dict.fromkeys(ports, 0)
            summary = f"give up the host port{many} {numbers}"
        yield Step(
            PORT,
            summary,
            repeated(PORT, len(ports)),
            partial(_with_ports, others=others),
            parts=frozenset(ports),
        )


def _next_free(scene: Scene, port: HostPort) -> int:
    own = {each.port for each in scene.info.host_ports}
    for number in range(port.port + 1, min(port.port + 1000, 65536)):
        wanted = HostPort(port.ip, port.protocol, number)
        if number not in own and next(scene.state.ports.conflicts(wanted), None) is None:
            return number
    return 0


def _with_ports(raw: Object, others: dict[HostPort, int]) -> Object:
    """The pod with other host ports; 0: none."""
    for field in ("containers", "initContainers"):
        for i, container in enumerate(at(raw, "spec", field) or []):
            for j, port in enumerate(container.get("ports") or []):
                ip, protocol = port.get("hostIP") or "0.0.0.0", port.get("protocol") or "TCP"
                new = others.get(HostPort(ip, protocol, port.get("hostPort") or 0))
                if new is None:
                    continue
                path = ("spec", field, i, "ports", j)
                if not new:
                    without = {k: v for k, v in port.items() if k not in ("hostPort", "hostIP")}
                    raw = put(raw, path, without)
                    continue
                raw = put(raw, (*path, "hostPort"), new)
                if port.get("containerPort") == port.get("hostPort"):
                    raw = put(raw, (*path, "containerPort"), new)
    return raw
