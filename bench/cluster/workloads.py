"""What is scheduled: the workloads of scheduler_perf under their own names, in two sizes.

A size says how many nodes there are, how many pods are on them already, and how many are timed.
Those of ``sizes`` are upstream's ``500Nodes`` and ``5000Nodes``, those of ``full`` the ones that it
measures for comparison; docs/benchmarks.md names the exceptions.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from bench.cluster import checks, devices, templates
from bench.cluster.checks import Fault, Placement
from bench.cluster.devices import Devices
from bench.cluster.templates import INIT, MEASURED, NODE_MILLI_CPU, UNFIT, Template, node_name
from e2e.harness.objects import Json

SMALL, LARGE = 500, 5_000
FLOOD = 10_000
ONE_ZONE = ("zone1",)
THREE_ZONES = ("moon-1", "moon-2", "moon-3")


@dataclass(frozen=True)
class Size:
    """How much of everything; ``init`` and ``unfit`` count pods of each kind."""

    nodes: int
    init: int
    measured: int
    rounds: int
    unfit: int = 0

    def scaled(self, nodes: int) -> "Size":
        """The same in proportion, for another number of nodes."""

        def scale(count: int) -> int:
            return -(-count * nodes // self.nodes)

        return replace(
            self,
            nodes=nodes,
            init=scale(self.init),
            measured=max(2, scale(self.measured)),
            unfit=scale(self.unfit),
        )


@dataclass(frozen=True)
class Workload:
    """Nodes, pods that are there already, pods to be timed, and what must hold of them."""

    name: str
    alias: str
    sizes: tuple[Size, Size]
    full: tuple[Size, Size]
    measured: Template = templates.DEFAULT
    init: tuple[Template, ...] = (templates.DEFAULT,)
    zones: tuple[str, ...] = ()
    broken: Fault = checks.anything
    exclusive: bool = False
    """Whether pods of one colour need a node each, so that many pods need several colours."""
    churn: Template | None = None
    """Pods of this kind keep coming while the others are timed."""
    devices: Devices | None = None
    """What nodes have of devices, if pods ask for some."""

    @property
    def volumes(self) -> bool:
        """Whether pods have volumes, and nodes a driver for them."""
        return self.measured.volume

    def size(self, nodes: int, *, full: bool = False) -> Size:
        """The size for so many nodes: a listed one, or the smallest in proportion."""
        listed = self.full if full else self.sizes
        return next((each for each in listed if each.nodes == nodes), listed[0].scaled(nodes))

    def capacity(self, size: Size) -> int:
        """How many pods can be timed at most."""
        if self.devices is not None:
            return size.nodes * self.devices.room
        taken = sum(template.milli_cpu for template in self.init) * -(-size.init // size.nodes)
        return size.nodes * max(0, (NODE_MILLI_CPU - taken) // self.measured.milli_cpu)

    def init_pods(self, size: Size) -> Iterator[Json]:
        """Pods that are on nodes from the beginning, spread evenly."""
        for kind, template in enumerate(self.init):
            for number in range(size.init):
                node = node_name(number % size.nodes)
                yield template.pod(INIT, f"init-{kind}-{number}", "nobody", node=node)

    def measured_pods(self, size: Size, scheduler: str) -> list[Json]:
        """The pods to be timed."""
        shades = self._shades(size)
        return [
            self.measured.pod(MEASURED, f"pod-{number}", scheduler, shade=number % shades)
            for number in range(size.measured)
        ]

    def unfit_pods(self, size: Size, scheduler: str) -> list[Json]:
        """Pods that fit nowhere and go first."""
        kind = templates.HIGH_PRIORITY_LARGE
        return [kind.pod(UNFIT, f"pod-{number}", scheduler) for number in range(size.unfit)]

    def assignments(self, size: Size) -> dict[str, str]:
        """A placement of the timed pods that keeps all rules, node by pod name."""
        shades = self._shades(size)
        return {
            f"pod-{number}": node_name((size.init + number // shades) % size.nodes)
            for number in range(size.measured)
        }

    def fault(self, placements: list[Placement], size: Size) -> str | None:
        """What no scheduler may do but this one did, in words; None if all is well."""
        bound = sum(each.namespace == MEASURED for each in placements)
        # What keeps coming may push out pods that were bound before.
        if bound < size.measured and self.churn is None:
            return f"{size.measured - bound} pods were lost"
        return checks.overcommitted(placements) or self.broken(placements)

    def _shades(self, size: Size) -> int:
        return -(-size.measured // max(1, size.nodes - size.init)) if self.exclusive else 1


def _with_devices(
    name: str, alias: str, of: Devices, measured: Template = templates.WITH_DEVICE
) -> Workload:
    """Pods that ask for one device each."""
    return Workload(
        name,
        alias,
        sizes=_sizes((0, 1_000), (0, 1_000), rounds=1),
        full=_sizes((0, 2_500), (0, 5_000), rounds=3),
        measured=measured,
        init=(),
        devices=of,
    )


def _sizes(small: tuple[int, int], large: tuple[int, int], rounds: int) -> tuple[Size, Size]:
    return Size(SMALL, *small, rounds=3), Size(LARGE, *large, rounds=rounds)


_ALL = (
    Workload(
        "SchedulingBasic",
        "basic",
        sizes=_sizes((500, 1_000), (1_000, 3_000), rounds=5),
        full=_sizes((500, 1_000), (1_000, 10_000), rounds=3),
    ),
    Workload(
        "SchedulingPodAntiAffinity",
        "anti-affinity",
        sizes=_sizes((100, 1_000), (1_000, 1_000), rounds=3),
        full=_sizes((100, 400), (1_000, 2_000), rounds=3),
        measured=templates.ANTI_AFFINITY,
        init=(templates.ANTI_AFFINITY,),
        broken=checks.crowded,
        exclusive=True,
    ),
    Workload(
        "SchedulingPodAffinity",
        "affinity",
        sizes=_sizes((500, 1_000), (5_000, 1_000), rounds=2),
        full=_sizes((500, 1_000), (5_000, 5_000), rounds=3),
        measured=templates.AFFINITY,
        init=(templates.AFFINITY,),
        zones=ONE_ZONE,
        broken=checks.scattered,
    ),
    Workload(
        "SchedulingPreferredPodAffinity",
        "preferred-affinity",
        sizes=_sizes((500, 1_000), (5_000, 1_000), rounds=3),
        full=_sizes((500, 1_000), (5_000, 5_000), rounds=3),
        measured=templates.PREFERRED_AFFINITY,
        init=(templates.PREFERRED_AFFINITY,),
    ),
    Workload(
        "TopologySpreading",
        "spread",
        sizes=_sizes((1_000, 1_000), (5_000, 2_000), rounds=3),
        full=_sizes((1_000, 1_000), (5_000, 5_000), rounds=3),
        measured=templates.SPREADING,
        zones=THREE_ZONES,
        broken=checks.skewed(*THREE_ZONES),
    ),
    Workload(
        "SchedulingNodeAffinity",
        "node-affinity",
        sizes=_sizes((500, 1_000), (5_000, 1_000), rounds=2),
        full=_sizes((500, 1_000), (5_000, 10_000), rounds=3),
        measured=templates.NODE_AFFINITY,
        init=(templates.NODE_AFFINITY,),
        zones=ONE_ZONE,
        broken=checks.outside("zone1", "zone2"),
    ),
    Workload(
        "Unschedulable",
        "flood",
        sizes=(Size(SMALL, 10, 1_000, 1, unfit=2_000), Size(LARGE, 100, 1_000, 1, unfit=FLOOD)),
        full=(
            Size(SMALL, 10, 1_000, 3, unfit=FLOOD),
            Size(LARGE, 100, 10_000, 3, unfit=FLOOD),
        ),
    ),
    Workload(
        "MixedSchedulingBasePod",
        "mixed",
        sizes=_sizes((200, 1_000), (2_000, 1_000), rounds=2),
        full=_sizes((200, 1_000), (2_000, 5_000), rounds=3),
        init=(
            templates.DEFAULT,
            templates.AFFINITY,
            templates.ANTI_AFFINITY,
            templates.PREFERRED_AFFINITY,
            templates.PREFERRED_ANTI_AFFINITY,
        ),
        zones=ONE_ZONE,
    ),
    Workload(
        "PreemptionAsync",
        "preemption",
        sizes=_sizes((2_000, 1_000), (20_000, 1_000), rounds=2),
        full=_sizes((2_000, 500), (20_000, 5_000), rounds=3),
        init=(templates.LOW_PRIORITY,),
        churn=templates.HIGH_PRIORITY,
    ),
    Workload(
        "SchedulingCSIPVs",
        "csi",
        sizes=_sizes((500, 1_000), (5_000, 1_000), rounds=2),
        full=_sizes((500, 1_000), (5_000, 5_000), rounds=3),
        measured=templates.WITH_VOLUME,
        init=(templates.WITH_VOLUME,),
        broken=checks.too_many_volumes,
    ),
    _with_devices("SchedulingWithResourceClaimTemplate", "dra", devices.PLAIN),
    _with_devices("SteadyStateClusterResourceClaimTemplate", "dra-steady", devices.HALF_TAKEN),
    _with_devices(
        "ExtendedResource", "dra-extended", devices.EXTENDED, templates.WITH_EXTENDED_RESOURCE
    ),
    _with_devices("Partitionable", "dra-partitions", devices.PARTITIONS),
    _with_devices("ConsumableCapacity", "dra-shared", devices.SHARES),
    _with_devices("FirstAvailable", "dra-alternatives", devices.ALTERNATIVES),
)

WORKLOADS = {workload.name: workload for workload in _ALL}
ALIASES = {workload.alias: workload.name for workload in _ALL}
