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

`make faults` measures and writes this page; `python -m tests.reliability` writes it again from what
was measured and from the list of bugs (`tests/reliability`).
[design/simulation.md](design/simulation.md) has the same under a seed in one process,
[adversity.md](adversity.md) what hostile tenants can do, [leadership.md](leadership.md) how writes
depend on the lease, [bindings.md](bindings.md) how a decision becomes a binding.
"""

FAULTS = """\
## Faults on real processes

A real etcd and kube-apiserver, two replicas of the program, each behind a TCP proxy that cuts,
delays, truncates and swallows, and processes that are killed (SIGKILL) and stopped (SIGSTOP) at a
named stage. All of it is judged from the API and the API server's audit log alone: no pod is lost,
none is bound twice, none is bound by a replica while another holds the lease, no node has more than
it can take, nothing is left behind. The order of bindings and of changes of the lease is that of
etcd's revisions. The pods fill all nodes, so room that is kept for nobody shows as a lost pod.

*In flight* are pods without a node when the fault begins. *Recovery* is the time until every pod
has a node: from the moment a replica was hit, or from the end of a fault of servers and
connections; median and longest. Most of it is the lease that has to expire. Some of the faults are
tests as well (`e2e/test_faults.py`).
"""

FENCING = """\
## A leader that is stopped between check and write

Each write is checked against the lease immediately before its system call. Here the leader is
stopped (SIGSTOP) exactly between the two, by itself, since no signal from outside hits those
microseconds. It goes on when another replica holds the lease and has bound nothing yet. A timer of
the kernel ends it before its next instruction ([leadership.md](leadership.md)). Without the timer
the binding is sent; it takes effect unless the API server notices first that the sender has ended.
"""

SIMULATED = """\
## Seeds that were simulated

A seed is a history of one to three replicas under faults, in one process and by a virtual clock
([design/simulation.md](design/simulation.md)). These ran to their end and were judged, besides
those that are tests and those that were run before the counting began. A seed that failed leads to
a bug below, or to a rule that says what no replica could have known. 10524 is not explained yet: on
a busy machine its history depended on real time, as those of all plans with a webhook did then, and
it has not failed again. 201120 was a fault of the simulated kubelets, which did not follow pods
that are resized in place and refused what fitted. Later versions draw other histories from some of
the seeds; those that showed a bug are kept as plans.
"""

BUGS = """\
## Bugs that these tests found

Every bug of this project that was found by simulation, faults, fuzzing or attacks, and what shows
it again: a test (run it with `python -m pytest`) or a command. A test checks that each of them
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
        "| lost | doubled | not by the holder | over-committed | left behind | seen |\n"
        "|---|---|---|---|---|---|---|---|---|---|---|"
    )
    rows = [_row(each) for each in outcomes.rows]
    return [FAULTS, "\n".join([head, *rows]), "", outcomes.taken, ""]


def _fencing(outcomes: Outcomes) -> list[str]:
    if not outcomes.fencing:
        return []
    head = (
        "| the timer | rounds | the process ended by it "
        "| bindings sent while another held the lease | of which took effect |\n"
        "|---|---|---|---|---|"
    )
    rows = [
        f"| {'is set' if each.deadline else 'is left out, to compare'} "
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
    head = "| found by | what happened | what happens now | what reproduces it |\n|---|---|---|---|"
    return "\n".join([f"{len(bugs)} bugs: {summary}.", "", head, *rows, ""])
