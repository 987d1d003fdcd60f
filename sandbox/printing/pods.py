"""The columns of pods; STATUS is what the containers say rather than the phase."""

from datetime import datetime
from typing import Any

from sandbox.printing.column import AGE, NAME, NONE, Column, at, text
from sandbox.printing.durations import human, parsed
from sandbox.store import Body


class _PodSummary:
    """What the statuses of a pod's containers amount to."""

    def __init__(self, pod: Body) -> None:
        spec, self._status = pod.get("spec") or {}, pod.get("status") or {}
        self._sidecars = {
            each.get("name")
            for each in spec.get("initContainers") or ()
            if each.get("restartPolicy") == "Always"
        }
        self._init_count = len(spec.get("initContainers") or ())
        self.total = len(spec.get("containers") or ()) + len(self._sidecars)
        self.ready = 0
        self.restarts = 0
        self.last_restart: datetime | None = None
        self.reason = self._status.get("reason") or self._status.get("phase") or ""
        scheduled = self._condition("PodScheduled")
        if scheduled.get("reason") == "SchedulingGated":
            self.reason = "SchedulingGated"
        initializing = self._read_init_containers()
        if not initializing or self._condition("Initialized").get("status") == "True":
            self._read_containers()
        self._read_deletion(pod)

    def _condition(self, kind: str) -> Body:
        found = (c for c in self._status.get("conditions") or () if c.get("type") == kind)
        return next(found, {})

    def _read_init_containers(self) -> bool:
        """Whether initialization is not over; the reason says how far it is."""
        for index, container in enumerate(self._status.get("initContainerStatuses") or ()):
            self._count_restarts(container)
            state = container.get("state") or {}
            ended = state.get("terminated")
            if ended is not None and not ended.get("exitCode"):
                continue
            if container.get("name") in self._sidecars and container.get("started"):
                self.ready += bool(container.get("ready"))
                continue
            waiting = (state.get("waiting") or {}).get("reason")
            if ended is not None:
                self.reason = f"Init:{_ended(ended)}"
            elif waiting and waiting != "PodInitializing":
                self.reason = f"Init:{waiting}"
            else:
                self.reason = f"Init:{index}/{self._init_count}"
            return True
        return False

    def _read_containers(self) -> None:
        # Restarts of init containers that have ended are no news, those of sidecars are.
        self.restarts = sum(
            each.get("restartCount", 0)
            for each in self._status.get("initContainerStatuses") or ()
            if each.get("name") in self._sidecars
        )
        running = False
        for container in reversed(self._status.get("containerStatuses") or ()):
            self._count_restarts(container)
            state = container.get("state") or {}
            ended = state.get("terminated")
            if waiting := (state.get("waiting") or {}).get("reason"):
                self.reason = waiting
            elif ended is not None:
                self.reason = _ended(ended)
            elif container.get("ready") and state.get("running") is not None:
                running = True
                self.ready += 1
        if self.reason == "Completed" and running:
            ready = self._condition("Ready").get("status") == "True"
            self.reason = "Running" if ready else "NotReady"

    def _read_deletion(self, pod: Body) -> None:
        if "deletionTimestamp" not in pod["metadata"]:
            return
        if self._status.get("reason") == "NodeLost":
            self.reason = "Unknown"
        elif self._status.get("phase") not in {"Succeeded", "Failed"}:
            self.reason = "Terminating"

    def _count_restarts(self, container: Body) -> None:
        self.restarts += container.get("restartCount", 0)
        moment = parsed(at(container, "lastState.terminated.finishedAt"))
        if moment is not None and (self.last_restart is None or moment > self.last_restart):
            self.last_restart = moment


def _ended(terminated: Body) -> str:
    if reason := terminated.get("reason"):
        return str(reason)
    if signal := terminated.get("signal"):
        return f"Signal:{signal}"
    return f"ExitCode:{terminated.get('exitCode', 0)}"


def _ready(pod: Body, _now: datetime) -> str:
    summary = _PodSummary(pod)
    return f"{summary.ready}/{summary.total}"


def _restarts(pod: Body, now: datetime) -> str:
    summary = _PodSummary(pod)
    if summary.restarts and summary.last_restart is not None:
        since = human((now - summary.last_restart).total_seconds())
        return f"{summary.restarts} ({since} ago)"
    return str(summary.restarts)


def _readiness_gates(pod: Body, _now: datetime) -> str:
    gates = at(pod, "spec.readinessGates", [])
    if not gates:
        return NONE
    conditions: list[Any] = at(pod, "status.conditions", [])
    true = {each.get("type") for each in conditions if each.get("status") == "True"}
    return f"{sum(gate.get('conditionType') in true for gate in gates)}/{len(gates)}"


PODS = (
    NAME,
    Column("Ready", _ready),
    Column("Status", lambda pod, _: _PodSummary(pod).reason),
    Column("Restarts", _restarts),
    AGE,
    text("IP", "status.podIP", NONE, wide=True),
    text("Node", "spec.nodeName", NONE, wide=True),
    text("Nominated Node", "status.nominatedNodeName", NONE, wide=True),
    Column("Readiness Gates", _readiness_gates, wide=True),
)
