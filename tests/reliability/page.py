"""docs/reliability.md, from what was measured and from the list of bugs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from shipping.helm import PROJECT
from tests.reliability.bugs import FINDERS, Bug
from tests.reliability.outcomes import Outcome, Outcomes
from tests.reliability.simulated import Run

PAGE = PROJECT / "docs" / "reliability.md"

HEAD = """\
# Reliability: faults, promises, measurements, bugs

What the scheduler promises when processes, servers and connections fail, what was measured, and
the bugs that these tests found. `make faults` measures again and writes this page;
`python -m tests.reliability` writes it from earlier measurements and from the list of bugs.

Related: the same faults in one process, reproducible by a seed
([design/simulation.md](design/simulation.md)); attacks by hostile users
([adversity.md](adversity.md)); how writes depend on the lease ([leadership.md](leadership.md));
how a decision becomes a binding ([bindings.md](bindings.md)).
"""

FAULTS = """\
## Faults on real processes

A real etcd and kube-apiserver, and two replicas of the scheduler. Each replica is behind a TCP
proxy that cuts, delays, truncates and drops data. Processes are killed (SIGKILL) or stopped
(SIGSTOP) at a named stage. Afterwards the API and the audit log of the API server must show that
no pod is lost, no pod is bound twice, no replica has bound a pod while another one held the
lease, no node is over-committed, and nothing is left behind. The order of bindings and of changes
of the lease is that of etcd's revisions. The pods need the capacity of all nodes, so if any is
reserved for no pod, a pod stays pending and counts as lost.

*In flight* are the pods without a node when the fault begins. *Recovery* is the time until every
pod has a node: after a replica was hit, or after the end of a fault of servers or connections;
median and longest. Most of it is the wait for the lease to expire. Some of these faults are also
tests (`e2e/test_faults.py`).
"""

FENCING = """\
## A leader that is stopped between check and write

Each write is compared with the lease immediately before its system call. Here the leader stops
itself (SIGSTOP) between the two, because no signal from outside hits these microseconds. It
continues when another replica holds the lease and has not bound a pod yet. A timer of the kernel
ends it before its next instruction ([leadership.md](leadership.md)). Without the timer, the
binding is sent. It takes effect unless the API server notices before that the sender has exited.
"""

SIMULATED = """\
## Simulated seeds

A seed is a history of one to three replicas under faults, in one process with a virtual clock
([design/simulation.md](design/simulation.md)). The table counts the seeds that ran to their end
and were checked; seeds that are tests, and seeds before counting began, are not included. A seed
that failed led to a bug below, or to a correction of what the check expects. Two need an
explanation: 10524 failed on a busy machine and is not explained; like all plans with a webhook at
that time, its history depended on real time, and it has not failed again. 201120 was a bug of the
simulated kubelets, which rejected pods that fitted after others had been resized in place. Later
versions generate other histories from some of the seeds; those that showed a bug are stored as
plans, or have a test of their own.
"""

BUGS = """\
## Bugs that these tests found

Every bug of this project that simulation, faults, fuzzing or attacks found, and the test (run it
with `python -m pytest`) or command that fails without the fix. A test verifies that each of them
exists.
"""


def page(outcomes: Outcomes, runs: Sequence[Run], bugs: Sequence[Bug]) -> str:
    """The whole page."""
    measured = [*_faults(outcomes), *_fencing(outcomes), *_simulated(runs)]
    return "\n".join([HEAD, *measured, BUGS, _bugs(bugs)])


def _faults(outcomes: Outcomes) -> list[str]:
    if not outcomes.rows:
        return []
    head = (
        "| fault | what is done | what is promised | pods, in flight | recovery "
        "| lost | bound twice | bound without the lease | over-committed | left behind | seen |\n"
        "|---|---|---|---|---|---|---|---|---|---|---|"
    )
    rows = [_row(each) for each in outcomes.rows]
    return [FAULTS, "\n".join([head, *rows]), "", outcomes.taken, ""]


def _fencing(outcomes: Outcomes) -> list[str]:
    if not outcomes.fencing:
        return []
    head = (
        "| the timer | rounds | ended by the timer "
        "| bindings sent while another replica held the lease | of which took effect |\n"
        "|---|---|---|---|---|"
    )
    rows = [
        f"| {'is set' if each.deadline else 'is not set, for comparison'} "
        f"| {each.rounds} | {each.ended_by_timer} | {each.sent} | {each.late} |"
        for each in outcomes.fencing
    ]
    return [FENCING, "\n".join([head, *rows]), ""]


def _simulated(runs: Sequence[Run]) -> list[str]:
    if not runs:
        return []
    head = (
        "| scenario | seeds | between | virtual hours | callbacks | failed |\n"
        "|---|---|---|---|---|---|"
    )
    rows = [
        f"| {each.scenario} | {each.seeds:,} | {each.first} and {each.last} "
        f"| {each.virtual_seconds / 3600:,.1f} | {each.callbacks:,} "
        f"| {', '.join(map(str, each.failed)) or 'none'} |"
        for each in runs
    ]
    return [SIMULATED, "\n".join([head, *rows]), ""]


def _row(each: Outcome) -> str:
    counts = (each.lost, each.doubled, each.unentitled, each.overcommitted, each.left_behind)
    cells = [
        f"`{each.fault}`",
        each.what,
        each.promised,
        f"{each.pods}, {each.in_flight}",
        _recovery(each.recovery_seconds),
        *map(str, counts),
        each.seen,
    ]
    return "| " + " | ".join(cells) + " |"


def _recovery(seconds: Sequence[float]) -> str:
    if not seconds:
        return "never"
    ordered = sorted(seconds)
    median = ordered[len(ordered) // 2]
    if len(ordered) == 1:
        return f"{median:.1f} s"
    return f"{median:.1f}, {ordered[-1]:.1f} s"


def _bugs(bugs: Sequence[Bug]) -> str:
    found = Counter[str](each.found_by for each in bugs)
    summary = ", ".join(f"{found[name]} by {name}" for name in FINDERS if found[name])
    rows = [
        f"| {each.found_by} | {each.what} | {each.mended} | `{each.reproduce}` |" for each in bugs
    ]
    head = "| found by | what happened | what happens now | reproduced by |\n|---|---|---|---|"
    return "\n".join([f"{len(bugs)} bugs: {summary}.", "", head, *rows, ""])
