"""Plans from seeds: a cluster, what people want of it, and what goes wrong, singly or together.

Each seed draws some *themes* of work (gangs, claims, cells …) and some of faults. A theme adds
dated actions; it knows nothing of the others, so that any of them meet. Nodes are few and nearly
full, because bugs of a scheduler show where pods compete.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from tests.sim.hosts import Thread
from tests.sim.objects import ABSURDITIES, PRIORITIES, ZONES
from tests.sim.plan import (
    LEADER,
    AddClaim,
    AddGroup,
    AddNamespace,
    AddNode,
    AddPod,
    AddVolume,
    AnyAction,
    At,
    Compact,
    ContradictSlice,
    ContradictTopology,
    CordonNode,
    CutConnection,
    CutWatches,
    DelayRequests,
    DelayWatches,
    DeleteClaim,
    DeleteGroup,
    DeleteNamespace,
    DeletePod,
    DriftClock,
    DropAnswers,
    DropSlice,
    DropTopology,
    EndWatches,
    ExpireWatches,
    FailPod,
    FailRequests,
    FlapNode,
    HalfOpen,
    KillReplica,
    LoseBookmarks,
    NodePlan,
    Partition,
    PauseForeign,
    PauseKubelets,
    PauseReplica,
    PauseTopologies,
    Plan,
    PodPlan,
    RecreatePod,
    RefuseConnections,
    RelabelPod,
    RemoveNode,
    RepeatEvents,
    ResizeNode,
    ResizePod,
    SetPlugin,
    SetSolver,
    SetWebhook,
    ShrinkSlice,
    SilenceWatches,
    SlowNetwork,
    StallThread,
    StepClock,
    StopEtcd,
    StopReplica,
    StopServer,
    TaintNode,
    ThrottleNetwork,
    UngatePod,
)

BINDING = r"/binding$"
STATUS = r"/pods/[^/]+/status$"
CLAIMS = r"/resourceclaims"
LEASES = r"/leases/"
VOLUMES = r"/persistentvolume"
EVENTS = r"/events"
LISTS = r"/(pods|nodes|resourceclaims|podgroups)$"
_PATHS = (BINDING, BINDING, BINDING, STATUS, CLAIMS, LEASES, VOLUMES, EVENTS, LISTS, "")
_WATCHED = ("/pods", "/pods", "/nodes", "/resourceclaims", "/podgroups", "")
_STATUSES = (409, 429, 500, 503, 504)
_REFUSALS = (403, 403, 422, 409, 500)
"""What admission answers that refuses a binding, and what a server answers that is unwell."""
QUIET_SECONDS = 75.0
"""After the last fault: longer than any back-off and time-out of the daemon's but one."""
LONG_QUIET_SECONDS = 250.0
"""That one: how long a watch may be silent before it is given up."""
START_SECONDS = 4.0
"""When the first pods come."""
BATCHED = 0.15
"""The share of plans whose replicas place backlogs at once."""

STALLED = 0.12
"""The share of plans in which a thread stalls while its process runs."""
MISLED = 0.3
"""The share of plans in which the API server says what is wrong, late or twice."""


class Draft:
    """A plan in the making."""

    def __init__(self, rng: Random, seconds: float) -> None:
        self.rng = rng
        self.seconds = seconds
        self.nodes: list[NodePlan] = []
        self.actions: list[At] = []
        self.pods: list[PodPlan] = []
        self.replicas: tuple[str, ...] = ("a", "b")
        self.webhook = self.plugin = False
        self._named = 0

    def at(self, seconds: float, *actions: AnyAction) -> None:
        """Do something then, at the latest when the faults end."""
        when = round(min(max(seconds, 0.0), self.seconds), 3)
        self.actions += [At(when, action) for action in actions]

    def sometime(self, first: float = START_SECONDS) -> float:
        return self.rng.uniform(first, self.seconds)

    def in_time_for(self, seconds: float) -> float:
        """A moment after which something can last so long, if there is one."""
        return self.rng.uniform(START_SECONDS, max(START_SECONDS, self.seconds - seconds - 1.0))

    def name(self, prefix: str) -> str:
        self._named += 1
        return f"{prefix}-{self._named}"

    def add(self, seconds: float, pod: PodPlan) -> PodPlan:
        self.pods.append(pod)
        self.at(seconds, AddPod(pod))
        return pod

    def node(self) -> str:
        return self.rng.choice(self.nodes).name

    def replica(self) -> str:
        """One of them, often the one that leads then."""
        return LEADER if self.rng.random() < 0.4 else self.rng.choice(self.replicas)

    def some(self, low: int, high: int) -> range:
        return range(self.rng.randint(low, high))


def draw(seed: int) -> Plan:
    """The plan of a seed; equal seeds give equal plans."""
    rng = Random(f"plan {seed}")
    draft = Draft(rng, float(rng.choice((20, 30, 30, 45, 60))))
    _cluster(draft)
    draft.replicas = ("a", "b", "c")[: rng.choice((1, 2, 2, 2, 3))]
    work = rng.sample(_WORK, rng.choice((1, 1, 2, 2, 3, 4)))
    for theme in {_plain: None, **dict.fromkeys(work)}:
        theme(draft)
    _churn(draft)
    for theme in rng.sample(_ACTORS, rng.choice((0, 1, 1, 2, 3))):
        theme(draft)
    for theme in rng.sample(_FAULTS, rng.choice((0, 1, 1, 1, 2, 2, 3, 4))):
        theme(draft)
    batch = rng.random() < BATCHED
    if batch:
        _backlog(draft)
    _threads(draft, Random(f"threads {seed}"))
    _words(draft, Random(f"words {seed}"))
    silent = any(isinstance(each.action, HalfOpen) for each in draft.actions)
    return Plan(
        seed,
        draft.seconds,
        LONG_QUIET_SECONDS if silent else QUIET_SECONDS,
        draft.replicas,
        draft.webhook,
        draft.plugin,
        batch,
        tuple(draft.nodes),
        tuple(sorted(draft.actions, key=lambda each: each.seconds)),
    )


def _cluster(draft: Draft) -> None:
    rng = draft.rng
    zones = ZONES[: rng.randint(1, 3)]
    shared = rng.choice((0.0, 0.3, 1.0))
    for number in range(rng.choice((5, 5, 6, 6, 8, 8, 10, 12, 20, 40))):
        cells = rng.choice((0, 0, 0, 2, 2, 4)) if rng.random() < 0.4 else 0
        draft.nodes.append(
            NodePlan(
                f"n{number}",
                cpu=8 if cells else rng.choice((2, 4, 4, 8)),
                memory=rng.choice((8, 16, 32)),
                pods=rng.choice((110, 110, 110, 4)),
                zone=rng.choice(zones),
                shared=rng.random() < shared,
                tainted=rng.random() < 0.1,
                cells=cells,
                devices=rng.choice((0, 0, 0, 1, 2, 4)),
            )
        )


# Work


def _plain(draft: Draft) -> None:
    rng = draft.rng
    together = rng.random() < 0.5
    for _ in draft.some(5, min(60, 4 * len(draft.nodes))):
        when = START_SECONDS if together else draft.sometime()
        draft.add(
            when,
            PodPlan(
                draft.name("p"),
                cpu=rng.choice((0, 100, 500, 1000, 2000)),
                memory=rng.choice((0, 128, 1024, 4096)),
                app=rng.choice(("", "web", "db")),
                tolerates=rng.random() < 0.1,
                seconds=rng.choice((0, 0, 0, 3, 10)),
            ),
        )


def _affinity(draft: Draft) -> None:
    rng = draft.rng
    for _ in draft.some(3, 10):
        kind = rng.choice(("apart", "near", "zone-spread", "host-spread", "zone"))
        draft.add(
            draft.sometime(),
            PodPlan(
                draft.name("a"),
                cpu=rng.choice((100, 500)),
                app=rng.choice(("web", "db")),
                apart=kind == "apart",
                near="web" if kind == "near" else "",
                spread={"zone-spread": "zone", "host-spread": "host"}.get(kind, ""),  # type: ignore[arg-type]  # of the literals
                zone=rng.choice(ZONES) if kind == "zone" else "",
            ),
        )


def _gangs(draft: Draft) -> None:
    rng = draft.rng
    for _ in draft.some(1, 3):
        group, size = draft.name("gang"), rng.randint(2, 6)
        minimum = size if rng.random() < 0.7 else rng.randint(1, size)
        when, spread = draft.sometime(), rng.choice((0.0, 0.0, 2.0, 8.0))
        draft.at(when + rng.choice((-1.0, 0.0, 3.0)), AddGroup(group, minimum))
        cpu = rng.choice((500, 1000, 2000))
        for member in range(size):
            late = when + rng.uniform(0.0, spread)
            draft.add(late, PodPlan(f"{group}-{member}", cpu=cpu, group=group))
        if rng.random() < 0.15:
            draft.at(draft.sometime(when), DeleteGroup(group))


def _priorities(draft: Draft) -> None:
    rng = draft.rng
    for _ in draft.some(3, 10):
        cpu, priority = rng.choice((1000, 2000, 4000)), rng.choice(PRIORITIES)
        draft.add(draft.sometime(), PodPlan(draft.name("h"), cpu=cpu, priority=priority))


def _claims(draft: Draft) -> None:
    rng = draft.rng
    for _ in draft.some(2, 6):
        claim, when = draft.name("claim"), draft.sometime()
        draft.at(when + rng.choice((-1.0, 0.0, 2.0)), AddClaim(claim, rng.choice((1, 1, 2))))
        for _ in range(rng.choice((1, 1, 1, 2))):
            draft.add(when, PodPlan(draft.name("d"), cpu=200, claim=claim))
        if rng.random() < 0.1:
            draft.at(draft.sometime(when), DeleteClaim(claim))


def _volumes(draft: Draft) -> None:
    rng = draft.rng
    for _ in draft.some(2, 5):
        volume, when = draft.name("vol"), draft.sometime()
        node = draft.node() if rng.random() < 0.5 else ""
        draft.at(when + rng.choice((-1.0, 0.0, 2.0)), AddVolume(volume, node))
        draft.add(when, PodPlan(draft.name("v"), cpu=200, volume=volume))


def _gates(draft: Draft) -> None:
    rng = draft.rng
    for _ in draft.some(1, 5):
        pod = draft.add(draft.sometime(), PodPlan(draft.name("g"), cpu=500, gated=True))
        if rng.random() < 0.8:
            draft.at(draft.sometime(), UngatePod(pod.name))


def _cells(draft: Draft) -> None:
    rng = draft.rng
    for _ in draft.some(3, 10):
        cpu = rng.choice((1000, 2000, 3000))
        draft.add(draft.sometime(), PodPlan(draft.name("c"), cpu=cpu, memory=256, pinned=True))


def _rivals(draft: Draft) -> None:
    """Two pods want room that only one of them has, and the first one's binding is refused.

    It is given up: whatever was promised to it (CPUs, cells, devices, a volume) is the second's.
    """
    rng = draft.rng
    for _ in draft.some(1, 3):
        kind, zone = (
            rng.choice(("cpu", "claim", "claim", "cells", "cells", "volume")),
            draft.name("z"),
        )
        node = NodePlan(f"n-{zone}", cpu=8, zone=zone, cells=2 if kind == "cells" else 0, devices=2)
        when = draft.sometime()
        draft.at(when - 3.0, AddNode(node))
        first, second = _rival(draft, kind, zone, when - 1.0), _rival(draft, kind, zone, when - 1.0)
        refused = FailRequests("POST", BINDING, rng.choice(_REFUSALS), rng.choice((1, 1, 2, 6)))
        draft.at(when, refused)
        draft.add(when, first)
        draft.add(when + rng.choice((0.0, 0.05, 0.3, 2.0)), second)
        if rng.random() < 0.5:
            draft.at(when + rng.choice((0.1, 0.5, 4.0)), DeletePod(first.name))


def _rival(draft: Draft, kind: str, zone: str, when: float) -> PodPlan:
    """A pod that takes more than half of what a node of that zone has."""
    name = draft.name("r")
    if kind == "cells":
        return PodPlan(name, cpu=draft.rng.choice((3000, 4000)), memory=256, zone=zone, pinned=True)
    if kind == "claim":
        draft.at(when, AddClaim(f"{name}-claim"))
        cpu = draft.rng.choice((200, 5000))
        return PodPlan(name, cpu=cpu, zone=zone, claim=f"{name}-claim")
    if kind == "volume":
        draft.at(when, AddVolume(f"{name}-volume"))
        return PodPlan(name, cpu=5000, zone=zone, volume=f"{name}-volume")
    return PodPlan(name, cpu=5000, zone=zone)


def _late_words(draft: Draft) -> None:
    """Room comes while the word that there is none is under way."""
    rng = draft.rng
    for _ in draft.some(1, 3):
        zone, when = draft.name("z"), draft.sometime()
        pod = PodPlan(draft.name("w"), cpu=1000, zone=zone)
        late = DelayRequests("PATCH", STATUS, rng.choice((2.0, 4.0)), rng.choice((1, 3, 10)))
        draft.at(when, late)
        draft.add(when, pod)
        there = when + rng.choice((0.1, 0.5, 1.5))
        draft.at(there, AddNode(NodePlan(f"n-{zone}", cpu=4, zone=zone)))
        if rng.random() < 0.3:
            draft.at(there, RecreatePod(pod))


_WORK: list[Callable[[Draft], None]] = [
    _affinity,
    _gangs,
    _gangs,
    _priorities,
    _claims,
    _volumes,
    _gates,
    _cells,
    _rivals,
    _late_words,
]


def _churn(draft: Draft) -> None:
    """People change their minds, often about pods that are being bound at that moment."""
    rng = draft.rng
    arrivals = {each.action.pod.name: each.seconds for each in draft.actions
                if isinstance(each.action, AddPod)}  # fmt: skip
    for pod in draft.pods:
        if rng.random() < 0.75:
            continue
        when = arrivals[pod.name] + rng.choice((0.001, 0.01, 0.1, 1.0, 5.0, 15.0))
        change = rng.randrange(6)
        if change <= 1:
            draft.at(when, DeletePod(pod.name, pod.namespace))
        elif change == 2:
            again = PodPlan(
                pod.name, pod.namespace, cpu=rng.choice((100, 1000)), group=pod.group, app=pod.app
            )
            draft.at(when, RecreatePod(again))
        elif change == 3:
            draft.at(when, RelabelPod(pod.name, rng.choice(("web", "db", "x")), pod.namespace))
        elif change == 4:
            draft.at(when, ResizePod(pod.name, rng.choice((100, 500, 1500)), pod.namespace))
        else:
            draft.at(when, FailPod(pod.name, pod.namespace))


def _backlog(draft: Draft) -> None:
    """More pods at once than there is room for, and a solver that does not always answer."""
    rng = draft.rng
    for _ in draft.some(1, 2):
        when, cpus = draft.sometime(), rng.sample((250, 500, 1000, 2000), 2)
        for _ in draft.some(10, 30):
            draft.add(when, PodPlan(draft.name("b"), cpu=rng.choice(cpus), memory=256))
        if rng.random() < 0.4:
            mode = rng.choice(("hang", "die", "fail"))
            draft.at(when, SetSolver(mode))  # type: ignore[arg-type]  # of the literals
            draft.at(when + rng.uniform(1, 15), SetSolver("well"))


# Others


def _foreign(draft: Draft) -> None:
    rng = draft.rng
    for _ in draft.some(3, 15):
        cpu = rng.choice((250, 1000, 2000))
        draft.at(draft.sometime(), AddPod(PodPlan(draft.name("f"), cpu=cpu, foreign=True)))
    if rng.random() < 0.3:
        draft.at(draft.sometime(), PauseForeign(rng.uniform(1, 10)))


def _namespaces(draft: Draft) -> None:
    rng = draft.rng
    name, when = draft.name("ns"), draft.sometime()
    draft.at(when - 1.0, AddNamespace(name))
    for _ in draft.some(2, 8):
        pod = PodPlan(draft.name("s"), name, cpu=rng.choice((100, 1000)))
        draft.add(when + rng.uniform(0, 2), pod)
    draft.at(when + rng.uniform(0, 3), DeleteNamespace(name))
    if rng.random() < 0.3:
        draft.at(when + 6.0, AddNamespace(name), AddPod(PodPlan(draft.name("s"), name, cpu=100)))


def _hostile(draft: Draft) -> None:
    for _ in draft.some(1, 6):
        absurd = draft.rng.choice(sorted(ABSURDITIES))
        draft.at(draft.sometime(), AddPod(PodPlan(draft.name("x"), absurd=absurd)))


def _kubelets(draft: Draft) -> None:
    rng = draft.rng
    for _ in draft.some(1, 2):
        draft.at(draft.sometime(), PauseKubelets(rng.uniform(1, 15)))


def _flapping(draft: Draft) -> None:
    for _ in draft.some(1, 4):
        draft.at(draft.sometime(), FlapNode(draft.node(), draft.rng.uniform(0.5, 15)))


def _moving(draft: Draft) -> None:
    rng = draft.rng
    for _ in draft.some(1, 4):
        when, node = draft.sometime(), rng.choice(draft.nodes)
        kind = rng.randrange(5)
        if kind == 0:
            draft.at(when, RemoveNode(node.name))
        elif kind == 1:
            cpu = rng.choice((1, 2, 4, 8, 16))
            other = NodePlan(node.name, cpu=cpu, zone=node.zone, shared=node.shared)
            draft.at(when, AddNode(other))
        elif kind == 2:
            draft.at(when, ResizeNode(node.name, rng.choice((1, 2, 8, 16))))
        elif kind == 3:
            draft.at(when, CordonNode(node.name))
            draft.at(when + rng.uniform(1, 10), CordonNode(node.name, on=False))
        else:
            draft.at(when, TaintNode(node.name))
            draft.at(when + rng.uniform(1, 10), TaintNode(node.name, on=False))


def _topologies(draft: Draft) -> None:
    rng = draft.rng
    for _ in draft.some(1, 3):
        when, node = draft.sometime(), draft.node()
        kinds: tuple[AnyAction, ...] = (
            PauseTopologies(rng.uniform(5, 30)),
            DropTopology(node),
            ContradictTopology(node),
        )
        draft.at(when, rng.choice(kinds))


def _slices(draft: Draft) -> None:
    rng = draft.rng
    for _ in draft.some(1, 3):
        node = rng.choice(draft.nodes)
        kinds: tuple[AnyAction, ...] = (
            DropSlice(node.name, rng.uniform(1, 10)),
            ShrinkSlice(node.name, max(0, node.devices - 1)),
        )
        draft.at(draft.sometime(), rng.choice(kinds))


def _webhooks(draft: Draft) -> None:
    rng = draft.rng
    draft.webhook = True
    for _ in draft.some(1, 3):
        bad = rng.choice(("hang", "lie", "flip", "stream", "error", "cut"))
        when = draft.sometime()
        draft.at(when, SetWebhook(bad))  # type: ignore[arg-type]  # of the literals
        draft.at(when + rng.uniform(1, 15), SetWebhook("well"))


def _plugins(draft: Draft) -> None:
    rng = draft.rng
    draft.plugin = True
    for _ in draft.some(1, 3):
        point = rng.choice(("filter", "score", "reserve", "permit", "preBind", "postBind"))
        when = draft.sometime()
        draft.at(when, SetPlugin(point))  # type: ignore[arg-type]  # of the literals
        draft.at(when + rng.uniform(0.1, 5), SetPlugin(""))


_ACTORS: list[Callable[[Draft], None]] = [
    _foreign,
    _foreign,
    _namespaces,
    _hostile,
    _kubelets,
    _flapping,
    _moving,
    _moving,
    _topologies,
    _slices,
    _webhooks,
    _plugins,
]


# Faults


def _statuses(draft: Draft) -> None:
    rng = draft.rng
    for _ in draft.some(1, 4):
        method = rng.choice(("POST", "PATCH", "PUT", "GET", "POST|PATCH|PUT"))
        status, times = rng.choice(_STATUSES), rng.choice((1, 1, 2, 3, 8))
        path = rng.choice(_PATHS)
        pause = rng.choice((0, 1, 2)) if status in (429, 503) else 0
        draft.at(draft.sometime(0.0), FailRequests(method, path, status, times, pause))


def _lost_answers(draft: Draft) -> None:
    rng = draft.rng
    for _ in draft.some(1, 4):
        path, processed = rng.choice(_PATHS), rng.random() < 0.7
        times = rng.choice((1, 1, 2, 5))
        draft.at(draft.sometime(0.0), DropAnswers("POST|PATCH|PUT|DELETE", path, times, processed))


def _late_requests(draft: Draft) -> None:
    rng = draft.rng
    for _ in draft.some(1, 3):
        seconds, times = rng.choice((0.05, 0.5, 2.0, 4.0)), rng.choice((1, 3, 10))
        path = rng.choice((*_PATHS, STATUS, STATUS))
        draft.at(draft.sometime(0.0), DelayRequests("GET|POST|PATCH|PUT", path, seconds, times))


def _watches(draft: Draft) -> None:
    rng = draft.rng
    for _ in draft.some(1, 5):
        path = rng.choice(_WATCHED)
        kinds: tuple[AnyAction, ...] = (
            CutWatches(path),
            EndWatches(path),
            SilenceWatches(rng.choice((0.5, 2.0, 5.0, 20.0))),
        )
        draft.at(draft.sometime(0.0), rng.choice(kinds))


def _expired(draft: Draft) -> None:
    """410: what a watch would go on from is gone; often several times in a row."""
    rng = draft.rng
    for _ in draft.some(1, 3):
        when = draft.sometime(0.0)
        for number in range(rng.choice((1, 1, 5))):
            draft.at(when + 0.2 * number, Compact())


def _server(draft: Draft) -> None:
    for _ in draft.some(1, 2):
        draft.at(draft.sometime(1.0), StopServer(draft.rng.choice((0.2, 2.0, 8.0, 20.0))))


def _kills(draft: Draft) -> None:
    rng = draft.rng
    for _ in draft.some(1, 3):
        kill = KillReplica(
            draft.replica(),
            rng.uniform(0.5, 10.0),
            callbacks=rng.choice((0, rng.randint(1, 50), rng.randint(1, 2000))),
            silent=rng.random() < 0.3,
        )
        when = rng.choice((START_SECONDS, draft.sometime(1.0), draft.sometime()))
        draft.at(when, kill)


def _stops(draft: Draft) -> None:
    rng = draft.rng
    for _ in draft.some(1, 2):
        draft.at(draft.sometime(1.0), StopReplica(draft.replica(), rng.uniform(0.5, 10)))


def _meanwhile(draft: Draft, first: float, last: float) -> None:
    """Pods come while a replica neither sees nor writes: it has something to do afterwards."""
    for _ in draft.some(1, 4):
        pod = PodPlan(draft.name("m"), cpu=draft.rng.choice((100, 1000)))
        draft.add(draft.rng.uniform(first, last), pod)


def _pauses(draft: Draft) -> None:
    rng = draft.rng
    for _ in draft.some(1, 3):
        seconds = rng.choice((0.5, 3.0, 9.0, 16.0, 20.0, 25.0))
        when = draft.in_time_for(seconds)
        draft.at(when, PauseReplica(draft.replica(), seconds))
        _meanwhile(draft, when, when + seconds)
        if rng.random() < 0.6:  # it goes to sleep with bindings that it means to send again
            draft.at(when - 0.6, FailRequests("POST", BINDING, 503, 8, retry_after=1))
            _meanwhile(draft, when - 0.5, when - 0.1)


def _threads(draft: Draft, rng: Random) -> None:
    """A thread runs and the other does not; often the heartbeat goes on later after a pause.

    Pods come when the lease may be another's by then: the scheduling thread would bind them, if
    nothing but the heartbeat kept it back.
    """
    for each in draft.actions[:]:
        if isinstance(each.action, PauseReplica) and rng.random() < 0.5:
            awake = each.seconds + each.action.seconds
            later = rng.choice((0.002, 0.2, 2.0, 4.0))
            stall = StallThread(each.action.replica, "heartbeat", each.action.seconds + later)
            draft.at(each.seconds, stall)
            _unheeded(draft, rng, awake, awake + later)
    if rng.random() < STALLED:
        for _ in range(rng.randint(1, 2)):
            seconds = rng.choice((1.0, 5.0, 11.0, 22.0, 26.0))
            thread: Thread = rng.choice(("scheduling", "heartbeat", "heartbeat"))
            when = rng.uniform(START_SECONDS, max(START_SECONDS, draft.seconds - seconds - 1.0))
            draft.at(when, StallThread(rng.choice((LEADER, *draft.replicas)), thread, seconds))
            _unheeded(draft, rng, when, when + seconds)


def _unheeded(draft: Draft, rng: Random, first: float, last: float) -> None:
    """Pods that come most likely late in a time."""
    for _ in range(rng.randint(2, 5)):
        pod = PodPlan(draft.name("t"), cpu=rng.choice((100, 100, 1000)), tolerates=True)
        draft.add(last - (last - first) * rng.random() ** 2, pod)


def _words(draft: Draft, rng: Random) -> None:
    """Answers and events that are wrong, late or repeated, though all processes run."""
    if rng.random() >= MISLED:
        return
    for theme in rng.sample(_WORDS, rng.choice((1, 1, 2, 3))):
        for _ in range(rng.randint(1, 3)):
            draft.at(rng.uniform(0.0, draft.seconds), theme(draft, rng))


def _denied(draft: Draft, rng: Random) -> AnyAction:
    """A write takes effect, and is answered as if it had not."""
    path = rng.choice((BINDING, BINDING, BINDING, STATUS, CLAIMS, CLAIMS, LEASES, VOLUMES, ""))
    times = rng.choice((1, 1, 2, 8))
    method = "POST|PATCH|PUT|DELETE"
    return FailRequests(method, path, rng.choice(_STATUSES), times, processed=True)


def _late_events(draft: Draft, rng: Random) -> AnyAction:
    """Events of one kind come late, many at a time, and after those of others."""
    late = rng.choice((0.1, 0.5, 2.0, 6.0))
    return DelayWatches(rng.choice(_WATCHED), late, rng.uniform(1.0, 15.0))


def _repeated(draft: Draft, rng: Random) -> AnyAction:
    return RepeatEvents(rng.choice(_WATCHED), rng.choice((1, 5, 50, 500)))


def _bookmarks(draft: Draft, rng: Random) -> AnyAction:
    return rng.choice((LoseBookmarks(), ExpireWatches(rng.choice(_WATCHED))))


def _etcd(draft: Draft, rng: Random) -> AnyAction:
    return StopEtcd(rng.choice((0.2, 2.0, 8.0, 20.0)), rng.choice((500, 503, 504)))


def _contradicting(draft: Draft, rng: Random) -> AnyAction:
    with_devices = [node.name for node in draft.nodes if node.devices]
    name = rng.choice(with_devices or [node.name for node in draft.nodes])
    return ContradictSlice(name, rng.uniform(0.5, 10.0))


_WORDS: list[Callable[[Draft, Random], AnyAction]] = [
    _denied,
    _denied,
    _late_events,
    _repeated,
    _bookmarks,
    _etcd,
    _contradicting,
]


def _clocks(draft: Draft) -> None:
    rng = draft.rng
    for _ in draft.some(1, 3):
        step = rng.choice((-3600.0, -30.0, -5.0, 5.0, 30.0, 3600.0))
        kinds: tuple[AnyAction, ...] = (
            StepClock(draft.replica(), step),
            DriftClock(draft.replica(), rng.choice((0.9, 0.98, 1.02, 1.1))),
        )
        draft.at(draft.sometime(0.0), rng.choice(kinds))


def _partitions(draft: Draft) -> None:
    rng = draft.rng
    for _ in draft.some(1, 3):
        seconds = rng.choice((0.5, 3.0, 9.0, 12.0, 20.0))
        when = draft.in_time_for(seconds)
        draft.at(when, Partition(draft.replica(), seconds, rng.random() < 0.3))
        _meanwhile(draft, when, when + seconds)


def _connections(draft: Draft) -> None:
    rng = draft.rng
    for _ in draft.some(1, 6):
        after = rng.choice((0, 1, rng.randint(1, 200), rng.randint(200, 20_000)))
        direction = rng.choice(("to", "from", "both"))
        draft.at(
            draft.sometime(0.0),
            CutConnection(draft.replica(), after, direction, rng.choice((1, 1, 3))),  # type: ignore[arg-type]  # of the literals
        )


def _network(draft: Draft) -> None:
    rng = draft.rng
    for _ in draft.some(1, 3):
        who, seconds = draft.replica(), rng.uniform(1, 15)
        kinds: tuple[AnyAction, ...] = (
            SlowNetwork(who, rng.choice((0.01, 0.1, 1.0, 3.0)), seconds),
            ThrottleNetwork(who, rng.choice((200, 2000, 20_000)), seconds),
            RefuseConnections(who, seconds),
            HalfOpen(who),
        )
        draft.at(draft.sometime(0.0), rng.choice(kinds))


_FAULTS: list[Callable[[Draft], None]] = [
    _statuses,
    _statuses,
    _lost_answers,
    _late_requests,
    _watches,
    _watches,
    _expired,
    _server,
    _kills,
    _kills,
    _stops,
    _pauses,
    _pauses,
    _clocks,
    _partitions,
    _connections,
    _network,
]
