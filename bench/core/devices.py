"""``python -m bench.core.devices``: what devices cost on 5,000 nodes, and what a choice strands.

Costs are CPU times of the one thread there is, of the index alone: no queue, no other plugins.
Stranded capacity is what a churn of whole, half and quarter devices leaves on boards that are
broken, beyond what the fewest boards would: first fit, best fit, and the optimum offline.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np

from bench.core.micro import calibrate
from scheduler.devices import DeviceIndex, DeviceSelection
from scheduler.model.devices import DeviceClass, ResourceClaim, ResourceSlice
from scheduler.model.nodes import Node
from scheduler.model.objects import from_dict

DRIVER = "gpu.example.com"
Json = dict[str, Any]

BOARD = 8
PARTS = {"whole": 8, "half": 4, "quarter": 2}
_MEMORY = {"whole": "80Gi", "half": "40Gi", "quarter": "20Gi"}
_MIX = ("whole",) * 2 + ("half",) * 3 + ("quarter",) * 5


def cluster(nodes: int) -> DeviceIndex:
    """An index with nodes and a class that selects all devices of the driver."""
    index = DeviceIndex()
    for row in range(nodes):
        index.set_node(row, from_dict({"metadata": {"name": f"n{row:05}"}}, Node))
    index.set_class("gpu", _class(f'device.driver == "{DRIVER}"'))
    return index


def _class(expression: str) -> DeviceClass:
    spec = {"selectors": [{"cel": {"expression": expression}}]}
    return from_dict({"metadata": {"name": "gpu"}, "spec": spec}, DeviceClass)


def slice_of(row: int, part: int, parts: int, **spec: Any) -> ResourceSlice:
    """One slice of the pool of a node."""
    node = f"n{row:05}"
    pool = {"name": node, "generation": 1, "resourceSliceCount": parts}
    whole = {"driver": DRIVER, "nodeName": node, "pool": pool, **spec}
    return from_dict({"metadata": {"name": f"{node}-{part}"}, "spec": whole}, ResourceSlice)


def claim(number: int, expression: str = "", **exactly: Any) -> ResourceClaim:
    """A claim with one request."""
    if expression:
        exactly["selectors"] = [{"cel": {"expression": expression}}]
    request = {"name": "r", "exactly": {"deviceClassName": "gpu", "count": 1, **exactly}}
    return from_dict(
        {
            "metadata": {"name": f"c{number}", "namespace": "default"},
            "spec": {"devices": {"requests": [request]}},
        },
        ResourceClaim,
    )


# --- What it costs ----------------------------------------------------------------------------


def eight_each(nodes: int) -> DeviceIndex:
    """Eight devices on each node; each carries a serial number that nobody selects by."""
    index = cluster(nodes)
    for row in range(nodes):
        devices = [
            {
                "name": f"gpu-{i}",
                "attributes": {
                    "model": {"string": "a100" if row % 3 else "h100"},
                    "index": {"int": i},
                    "serial": {"string": f"{row}-{i}"},
                },
                "capacity": {"memory": {"value": "80Gi"}},
            }
            for i in range(8)
        ]
        index.set_slice(None, slice_of(row, 0, 1, devices=devices))
    return index


def costs(nodes: int) -> dict[str, float]:
    """CPU milliseconds per decision, and per slice that is published."""
    started = time.thread_time()
    index = eight_each(nodes)
    published = time.thread_time() - started
    rows = np.arange(nodes)
    index.judge([claim(0)], rows)
    result = {
        "publish a slice of 8": 1000 * published / nodes,
        "identical claims": _per(4_000, lambda i: _decide(index, claim(i), i % nodes)),
        "distinct selectors": _per(100, lambda i: index.judge([_choosy(i)], rows)),
        "all nodes again": _per(20, lambda i: index.judge([claim(0)], rows)),
    }
    return result


def _choosy(number: int) -> ResourceClaim:
    index = f'device.attributes["{DRIVER}"].index >= {number % 7}'
    model = f'device.attributes["{DRIVER}"].model != "m{number}"'
    return claim(number, f"{index} && {model}")


def _decide(index: DeviceIndex, wanted: ResourceClaim, row: int) -> None:
    """Devices for one claim, and the verdict on the node that it touched."""
    found = index.allocate([wanted], row)
    if found is not None:
        touched = index.set_claim(wanted.metadata.key, found[0])
        index.judge([wanted], touched.rows or ())


def _per(rounds: int, work: Callable[[int], object]) -> float:
    started = time.thread_time()
    for i in range(rounds):
        work(i)
    return 1000 * (time.thread_time() - started) / rounds


# --- What a choice strands ----------------------------------------------------------------------


def partitioned(nodes: int, boards: int) -> DeviceIndex:
    """Boards that can be had whole, in halves or in quarters, the whole one published first."""
    index = cluster(nodes)
    for row in range(nodes):
        devices = [
            {
                "name": f"b{board}-{name}-{i}",
                "attributes": {"profile": {"string": name}},
                "capacity": {"memory": {"value": _MEMORY[name]}},
                "consumesCounters": [
                    {"counterSet": f"b{board}", "counters": {"units": {"value": str(size)}}}
                ],
            }
            for board in range(boards)
            for name, size in PARTS.items()
            for i in range(BOARD // size)
        ]
        sets = [
            {"name": f"b{board}", "counters": {"units": {"value": str(BOARD)}}}
            for board in range(boards)
        ]
        index.set_slice(None, slice_of(row, 0, 2, devices=devices))
        index.set_slice(None, slice_of(row, 1, 2, sharedCounters=sets))
    return index


def shareable(nodes: int, boards: int) -> DeviceIndex:
    """Boards that claims share, each taking what it asks for."""
    index = cluster(nodes)
    memory = {"value": str(BOARD), "requestPolicy": {"default": str(BOARD)}}
    for row in range(nodes):
        devices = [
            {
                "name": f"b{board}",
                "allowMultipleAllocations": True,
                "capacity": {"units": memory},
            }
            for board in range(boards)
        ]
        index.set_slice(None, slice_of(row, 0, 1, devices=devices))
    return index


def by_profile(number: int, part: str) -> ResourceClaim:
    """Exactly this partition."""
    return claim(number, f'device.attributes["{DRIVER}"].profile == "{part}"')


def by_memory(number: int, part: str) -> ResourceClaim:
    """Any partition with so much memory."""
    memory = f'device.capacity["{DRIVER}"].memory'
    return claim(number, f'{memory}.compareTo(quantity("{_MEMORY[part]}")) >= 0')


def by_share(number: int, part: str) -> ResourceClaim:
    """A share of any board."""
    return claim(number, capacity={"requests": {"units": str(PARTS[part])}})


@dataclass
class Stranded:
    """What a churn came to."""

    asked: int = 0
    refused: int = 0
    needless: int = 0
    """Refused although the fewest boards would have left room."""
    lost: list[float] = field(default_factory=list)
    """Per sample the capacity on broken boards beyond the optimum, as a share of all."""

    @property
    def mean(self) -> float:
        """The mean over all samples."""
        return sum(self.lost) / max(1, len(self.lost))


def churn(
    index: DeviceIndex,
    nodes: int,
    boards: int,
    make: Callable[[int, str], ResourceClaim],
    selection: DeviceSelection,
    events: int,
    seed: int = 1,
) -> Stranded:
    """Claims come and go at nine tenths of all capacity; the same ones for each selection."""
    random = Random(seed)
    rows = np.arange(nodes)
    total = nodes * boards * BOARD
    live: dict[str, tuple[ResourceClaim, str, int, str]] = {}
    stranded = Stranded()
    for number in range(events):
        part = random.choice(_MIX)
        tie = random.random()
        goes = random.random()
        load = sum(PARTS[each[1]] for each in live.values())
        if live and (load > 0.9 * total or goes < 0.45):
            key = sorted(live)[int(goes * 7919) % len(live)]
            index.set_claim(key, None)
            del live[key]
            continue
        stranded.asked += 1
        wanted = make(number, part)
        row = _best_row(index, wanted, rows, selection, tie)
        if row is None:
            stranded.refused += 1
            sizes = [*(PARTS[each[1]] for each in live.values()), PARTS[part]]
            stranded.needless += fewest_boards(sizes) <= nodes * boards
            continue
        found = index.allocate([wanted], row, selection)
        assert found is not None  # the row fits
        index.set_claim(wanted.metadata.key, found[0])
        board = found[0].devices.results[0].device.split("-")[0]
        live[wanted.metadata.key] = (wanted, part, row, board)
        broken = {(each[2], each[3]) for each in live.values()}
        fewest = fewest_boards([PARTS[each[1]] for each in live.values()])
        stranded.lost.append((len(broken) - fewest) * BOARD / total)
    return stranded


def _best_row(
    index: DeviceIndex,
    wanted: ResourceClaim,
    rows: np.ndarray[Any, np.dtype[np.intp]],
    selection: DeviceSelection,
    tie: float,
) -> int | None:
    """The row with the best score; equal ones by chance, as other plugins would decide."""
    judgement = index.judge([wanted], rows, selection)
    fitting = np.flatnonzero(judgement.fits)
    if not len(fitting):
        return None
    scores = judgement.fit_scores[fitting]
    best = fitting[scores == scores.max()]
    return int(best[int(tie * len(best))])


def fewest_boards(sizes: Sequence[int]) -> int:
    """How few boards hold all sizes: first fit by falling size, improved by search if need be."""
    left: list[int] = []
    falling = sorted(sizes, reverse=True)
    for size in falling:
        for board, room in enumerate(left):
            if room >= size:
                left[board] -= size
                break
        else:
            left.append(BOARD - size)
    bound = -(-sum(sizes) // BOARD)
    count = len(left)
    while count > bound and _packs(tuple(falling), (BOARD,) * (count - 1)):
        count -= 1
    return count


def _packs(falling: tuple[int, ...], left: tuple[int, ...]) -> bool:
    """Whether some boards hold all sizes; equal boards are tried once."""
    if not falling:
        return True
    for room in set(left):
        if room >= falling[0]:
            at = left.index(room)
            rest = tuple(sorted((*left[:at], *left[at + 1 :], room - falling[0])))
            if _packs(falling[1:], rest):
                return True
    return False


SCENES = {
    "partitions by name": (partitioned, by_profile),
    "partitions by memory": (partitioned, by_memory),
    "shares of a device": (shareable, by_share),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=5_000)
    parser.add_argument("--churn-nodes", type=int, default=16)
    parser.add_argument("--boards", type=int, default=4, help="per node, in the churn")
    parser.add_argument("--events", type=int, default=3_000, help="of the churn")
    options = parser.parse_args()
    unit = calibrate()
    print(f"{options.nodes} nodes with 8 devices each; a fixed loop takes {unit:.4f} ms")
    for name, each in costs(options.nodes).items():
        print(f"  {name:24}{each:10.3f} ms {1000 / each:10.0f}/s")
    nodes, boards = options.churn_nodes, options.boards
    print(f"\n{nodes} nodes with {boards} boards; {options.events} claims come or go")
    print(f"  {'':24}{'':10}{'asked':>8}{'refused':>9}{'needlessly':>12}{'stranded':>10}")
    for name, (world, make) in SCENES.items():
        for selection in DeviceSelection:
            index = world(nodes, boards)
            found = churn(index, nodes, boards, make, selection, options.events)
            print(
                f"  {name:24}{selection.value:10}{found.asked:8}{found.refused:9}"
                f"{found.needless:12}{found.mean:10.2%}"
            )


if __name__ == "__main__":
    main()
