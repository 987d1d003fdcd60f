"""Which turns to hold, in which order."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from bench.cluster.contestants import CONTESTANTS, Contestant
from bench.cluster.ledger import Ledger, Turn
from bench.cluster.results import Result, Round
from bench.cluster.workloads import WORKLOADS, Size, Workload


class NoRoom(ValueError):
    """More pods were asked for than there is room for."""


@dataclass(frozen=True)
class Case:
    """A workload of one size: a cluster of its own, on which all its turns are held."""

    workload: Workload
    size: Size
    contestants: Sequence[Contestant] = CONTESTANTS

    def turns(self) -> list[Turn]:
        """Round by round. The first contestant changes, so that drift favours none."""
        return [
            Turn(self.workload, self.size, number, contestant)
            for number in range(self.size.rounds)
            for contestant in _rotated(self.contestants, number)
        ]

    def result(self, ledger: Ledger) -> Result | None:
        """The finished rounds, if there is one."""
        rounds = []
        for number in range(self.size.rounds):
            turns = (Turn(self.workload, self.size, number, each) for each in self.contestants)
            finished = Round.of({turn.contestant.name: ledger.get(turn) for turn in turns})
            if finished is not None:
                rounds.append(finished)
        return Result(self.workload, self.size, rounds) if rounds else None


def _rotated(contestants: Sequence[Contestant], number: int) -> Sequence[Contestant]:
    start = number % len(contestants)
    return (*contestants[start:], *contestants[:start])


@dataclass(frozen=True)
class Wishes:
    """What is not to be as the workloads say; None leaves it so."""

    full: bool = False
    measured: int | None = None
    unfit: int | None = None
    rounds: int | None = None
    contestants: Sequence[Contestant] = CONTESTANTS

    def applied(self, workload: Workload, nodes: int) -> Size:
        """The size of a workload for so many nodes; raises ``NoRoom`` if it has no room."""
        size = workload.size(nodes, full=self.full)
        if self.measured is not None:
            size = replace(size, measured=self.measured)
        if self.rounds is not None:
            size = replace(size, rounds=self.rounds)
        if self.unfit is not None and size.unfit:
            size = replace(size, unfit=self.unfit)
        room = workload.capacity(size)
        if size.measured > room:
            raise NoRoom(f"{workload.name}: {nodes} nodes take at most {room} pods")
        return size


def make_plan(names: Sequence[str], nodes: Sequence[int], wishes: Wishes) -> list[Case]:
    """The cases, all workloads of one size before those of the next."""
    workloads = [WORKLOADS[name] for name in dict.fromkeys(names)]
    return [
        Case(workload, wishes.applied(workload, count), wishes.contestants)
        for count in dict.fromkeys(nodes)
        for workload in workloads
    ]
