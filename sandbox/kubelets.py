"""Small kubelets: bound pods start to run, deleted pods go away, nodes stay alive.

One task plays the kubelets of all nodes. It reads the pods and nodes of a registry in its own
process and writes through the registry's verbs, so its writes obey the same rules as those over
HTTP. A pod on a node that does not exist stays as it is, since no kubelet runs it. Whether a
node takes a pod at all is for an ``KubeletAdmission`` to say.
"""

import asyncio
import heapq
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, Protocol, Self

from sandbox.errors import ApiFailure
from sandbox.patching import MERGE
from sandbox.registry import Registry, timestamp
from sandbox.resources import KUBERNETES_VERSION
from sandbox.store import Body, Key, ObjectTable, Version
from sandbox.tasks import cancelled

_BATCH = 64
"""Actions between two returns to the event loop."""
_LEASES = "kube-node-lease"
_LEASE_SECONDS = 40
_HEALTHY = (
    ("MemoryPressure", "False"),
    ("DiskPressure", "False"),
    ("PIDPressure", "False"),
    ("Ready", "True"),
)
_DIGITS = 6
"""Of the seconds that a pod sleeps: longer than a playground lasts."""
_NODE_INFO = {
    "architecture": "amd64",
    "bootID": "",
    "containerRuntimeVersion": "none://",
    "kernelVersion": "none",
    "kubeProxyVersion": "",
    "kubeletVersion": KUBERNETES_VERSION,
    "machineID": "",
    "operatingSystem": "linux",
    "osImage": "sandbox",
    "systemUUID": "",
}
_STARTED = ("PodReadyToStartContainers", "Initialized", "ContainersReady", "Ready")


class KubeletAdmission(Protocol):
    """Admits pods and releases what ended ones held; must never raise, whatever a pod requests."""

    def admit(self, node: str, pod: Body) -> tuple[str, str] | None:
        """Admit a pod, or refuse it with a reason and a message."""
        ...

    def started(self, node: str, uid: str) -> None:
        """The pod's containers run."""
        ...

    def ended(self, node: str, uid: str) -> None:
        """The pod's containers have ended, if it ever had any."""
        ...

    def gone(self, node: str, uid: str) -> None:
        """The pod has been deleted."""
        ...


class _Work(NamedTuple):
    due: float
    order: int
    act: Callable[[Key, str], None]
    key: Key
    uid: str


class Kubelets:
    """The kubelets of all nodes of a registry; `async with Kubelets(server.registry):` runs them.

    A pod runs `start_seconds` after it was bound. A deleted pod is gone after `stop_seconds` or its
    grace period, whichever is shorter. A pod that ``admission`` refuses fails. With
    ``finish_seconds``, a pod that is not to be restarted ends after that time, or after N seconds
    if its command is ``sleep N``: well, unless its command is ``false``.
    """

    def __init__(
        self,
        registry: Registry,
        *,
        admission: KubeletAdmission | None = None,
        start_seconds: float = 0.0,
        stop_seconds: float = 0.0,
        finish_seconds: float | None = None,
        heartbeat_seconds: float = 10.0,
    ) -> None:
        self._registry = registry
        self._admission = admission
        self._start_seconds = start_seconds
        self._stop_seconds = stop_seconds
        self._finish_seconds = finish_seconds
        self._heartbeat_seconds = heartbeat_seconds
        self._pods = registry.table(registry.builtin("pods"))
        self._nodes = registry.table(registry.builtin("nodes"))
        self._woken = asyncio.Event()
        self._work: list[_Work] = []
        self._ordered = 0
        self._planned: dict[Key, tuple[str, bool]] = {}
        self._addresses = 0
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._run(), name="kubelets")
        return self

    async def __aexit__(self, *fault: object) -> None:
        await cancelled(self._task)

    async def _run(self) -> None:
        tables = (self._nodes, self._pods)
        for table in tables:
            table.wakers[self._woken] = None
        try:
            node_position = pod_position = -1
            while True:
                self._woken.clear()
                node_position = self._observe(self._nodes, node_position, self._see_node)
                pod_position = self._observe(self._pods, pod_position, self._see_pod)
                await self._act()
        finally:
            for table in tables:
                table.wakers.pop(self._woken, None)

    def _observe(self, table: ObjectTable, position: int, see: Callable[[Version], None]) -> int:
        """Look at what has changed since a position, or at everything if that is unknown."""
        changes = table.changes(position) if position >= 0 else None
        if changes is None:
            for version in list(table.current.values()):
                see(version)
            return table.end
        for change in changes:
            if change.after is not None:
                see(change.after)
            elif change.before is not None and table is self._pods:
                self._lose_pod(change.before)
        return table.end

    async def _act(self) -> None:
        """Do what is due, then wait for the next due time or the next change."""
        loop = asyncio.get_running_loop()
        for _ in range(_BATCH):
            if not self._work or self._work[0].due > loop.time():
                break
            work = heapq.heappop(self._work)
            try:
                work.act(work.key, work.uid)
            except ApiFailure:
                # The object was deleted or replaced meanwhile; its successor has events of its own.
                continue
        due = self._work[0].due if self._work else None
        if due is not None and due <= loop.time():
            await asyncio.sleep(0)
            return
        try:
            async with asyncio.timeout_at(due):
                await self._woken.wait()
        except TimeoutError:
            return

    def _plan(self, seconds: float, act: Callable[[Key, str], None], key: Key, uid: str) -> None:
        due = asyncio.get_running_loop().time() + seconds
        self._ordered += 1
        heapq.heappush(self._work, _Work(due, self._ordered, act, key, uid))

    # Pods

    def _see_pod(self, pod: Version) -> None:
        metadata, spec, status = pod.body["metadata"], pod.body["spec"], pod.body["status"]
        if ("", spec.get("nodeName", "")) not in self._nodes.current:
            return
        leaving = "deletionTimestamp" in metadata
        if not leaving and status.get("phase") != "Pending":
            self._follow(pod)
            return
        plan = (metadata["uid"], leaving)
        if self._planned.get(pod.key) == plan:
            return
        self._planned[pod.key] = plan
        if leaving:
            grace = float(metadata.get("deletionGracePeriodSeconds") or 0)
            self._plan(min(self._stop_seconds, grace), self._remove_pod, pod.key, plan[0])
        elif (refusal := self._admit(pod)) is not None:
            self._plan(0.0, partial(self._refuse_pod, refusal), pod.key, plan[0])
        else:
            self._plan(self._start_seconds, self._start_pod, pod.key, plan[0])

    def _admit(self, pod: Version) -> tuple[str, str] | None:
        if self._admission is None:
            return None
        return self._admission.admit(pod.body["spec"]["nodeName"], pod.body)

    def _follow(self, pod: Version) -> None:
        """Take over the status of a pod that others wrote; a running one counts as admitted."""
        if self._admission is None:
            return
        node, uid = pod.body["spec"]["nodeName"], pod.body["metadata"]["uid"]
        if pod.body["status"].get("phase") in ("Succeeded", "Failed"):
            self._admission.ended(node, uid)
        elif self._admission.admit(node, pod.body) is None:
            self._admission.started(node, uid)

    def _lose_pod(self, pod: Version) -> None:
        node = pod.body["spec"].get("nodeName", "")
        if self._admission is not None and node:
            self._admission.gone(node, pod.body["metadata"]["uid"])

    def _refuse_pod(self, refusal: tuple[str, str], key: Key, uid: str) -> None:
        if self._planned.get(key) != (uid, False):
            return
        del self._planned[key]
        pod = self._pods.get(key)
        if pod is not None and pod.body["metadata"]["uid"] == uid:
            reason, message = refusal
            failed = {"phase": "Failed", "reason": reason, "message": message}
            now = timestamp(self._registry.clock())
            self._patch_status("pods", pod, {**failed, "startTime": now})

    def _start_pod(self, key: Key, uid: str) -> None:
        if self._planned.get(key) != (uid, False):
            return
        del self._planned[key]
        pod = self._pods.get(key)
        if pod is None or pod.body["metadata"]["uid"] != uid:
            return
        if pod.body["status"].get("phase") not in ("Succeeded", "Failed"):  # the end is final
            self._patch_status("pods", pod, self._running(pod.body))
            self._plan_finish(pod)

    def _plan_finish(self, pod: Version) -> None:
        if self._finish_seconds is None or not _ends(pod.body):
            return
        seconds = _slept(pod.body)
        uid = pod.body["metadata"]["uid"]
        when = self._finish_seconds if seconds is None else seconds
        self._plan(when, self._finish_pod, pod.key, uid)

    def _finish_pod(self, key: Key, uid: str) -> None:
        pod = self._pods.get(key)
        if pod is None or pod.body["metadata"]["uid"] != uid or _has_ended(pod):
            return
        node, failed = pod.body["spec"]["nodeName"], _commands(pod.body) == [["false"]]
        self._patch_status("pods", pod, self._finished(pod.body, failed))
        if self._admission is not None:
            self._admission.ended(node, uid)

    def _remove_pod(self, key: Key, uid: str) -> None:
        self._planned.pop(key, None)
        pod = self._pods.get(key)
        if self._admission is not None and pod is not None:
            self._admission.ended(pod.body["spec"]["nodeName"], uid)
        options = {"gracePeriodSeconds": 0, "preconditions": {"uid": uid}}
        self._registry.delete(self._registry.builtin("pods"), key, options)

    def _running(self, pod: Body) -> Body:
        now = timestamp(self._registry.clock())
        self._addresses += 1
        address = (
            f"10.{self._addresses >> 16 & 255}.{self._addresses >> 8 & 255}.{self._addresses & 255}"
        )
        kept = [
            each for each in pod["status"].get("conditions", ()) if each["type"] not in _STARTED
        ]
        return {
            "phase": "Running",
            "conditions": [*kept, *(_condition(kind, "True", now) for kind in _STARTED)],
            "hostIP": "192.0.2.1",
            "podIP": address,
            "podIPs": [{"ip": address}],
            "startTime": now,
            "containerStatuses": [
                {
                    "name": container.get("name"),
                    "image": container.get("image"),
                    "imageID": "",
                    "ready": True,
                    "started": True,
                    "restartCount": 0,
                    "state": {"running": {"startedAt": now}},
                }
                for container in pod["spec"].get("containers") or ()
            ],
        }

    def _finished(self, pod: Body, failed: bool) -> Body:
        now = timestamp(self._registry.clock())
        reason, code = ("Error", 1) if failed else ("Completed", 0)
        statuses = [
            {
                **status,
                "ready": False,
                "started": False,
                "state": {
                    "terminated": {
                        "exitCode": code,
                        "reason": reason,
                        "startedAt": pod["status"].get("startTime"),
                        "finishedAt": now,
                    }
                },
            }
            for status in pod["status"].get("containerStatuses") or ()
        ]
        ended = ("Ready", "ContainersReady")
        kept = [each for each in pod["status"].get("conditions", ()) if each["type"] not in ended]
        why = {"reason": "PodFailed" if failed else "PodCompleted"}
        return {
            "phase": "Failed" if failed else "Succeeded",
            "conditions": [*kept, *(_condition(kind, "False", now, **why) for kind in ended)],
            "containerStatuses": statuses,
        }

    # Nodes

    def _see_node(self, node: Version) -> None:
        uid = node.body["metadata"]["uid"]
        if self._planned.get(node.key) == (uid, False):
            return
        self._planned[node.key] = (uid, False)
        self._plan(0.0, self._beat, node.key, uid)
        for pod in list(self._pods.current.values()):
            if pod.body["spec"].get("nodeName") == node.key[1]:
                self._see_pod(pod)

    def _beat(self, key: Key, uid: str) -> None:
        node = self._nodes.get(key)
        if node is None or node.body["metadata"]["uid"] != uid:
            if self._planned.get(key) == (uid, False):
                del self._planned[key]
            return
        self._plan(self._heartbeat_seconds, self._beat, key, uid)
        self._report_ready(node)
        self._renew_lease(key[1])

    def _report_ready(self, node: Version) -> None:
        status = node.body.get("status") or {}
        conditions = status.get("conditions") or []
        # A node whose Ready condition is set keeps it: tests make nodes ill this way.
        if any(condition.get("type") == "Ready" for condition in conditions):
            return
        now = timestamp(self._registry.clock())
        reported = [_condition(kind, state, now, lastHeartbeatTime=now) for kind, state in _HEALTHY]
        about = {"nodeInfo": {**_NODE_INFO, **(status.get("nodeInfo") or {})}}
        self._patch_status("nodes", node, {"conditions": [*conditions, *reported], **about})

    def _renew_lease(self, name: str) -> None:
        resource = self._registry.builtin("leases", "coordination.k8s.io")
        key = (_LEASES, name)
        spec = {
            "holderIdentity": name,
            "leaseDurationSeconds": _LEASE_SECONDS,
            "renewTime": self._registry.clock().strftime("%Y-%m-%dT%H:%M:%S.%fZ"),
        }
        if self._registry.table(resource).get(key) is None:
            self._registry.create(resource, _LEASES, {"metadata": {"name": name}, "spec": spec})
        else:
            self._registry.patch(resource, key, MERGE, {"spec": spec})

    def _patch_status(self, plural: str, seen: Version, status: Body) -> None:
        resource = self._registry.builtin(plural)
        self._registry.patch(resource, seen.key, MERGE, {"status": status}, "status")


def _ends(pod: Body) -> bool:
    """Whether a pod ever ends by itself: one that fails is restarted unless it says Never."""
    policy = pod["spec"].get("restartPolicy")
    return policy == "Never" or (policy == "OnFailure" and _commands(pod) != [["false"]])


def _has_ended(pod: Version) -> bool:
    return pod.body["status"].get("phase") in ("Succeeded", "Failed")


def _commands(pod: Body) -> list[list[str]]:
    """What its containers would run, as far as the manifest says it."""
    return [
        [*(container.get("command") or ()), *(container.get("args") or ())]
        for container in pod["spec"].get("containers") or ()
    ]


def _slept(pod: Body) -> float | None:
    """How long its containers sleep, if that is all they do."""
    seconds = []
    for command in _commands(pod):
        if len(command) != 2 or command[0] != "sleep" or not str(command[1]).isdecimal():
            return None
        seconds.append(float(command[1][:_DIGITS]))
    return max(seconds, default=None)


def _condition(kind: str, status: str, now: str, **more: Any) -> Body:
    return {"type": kind, "status": status, "lastTransitionTime": now, **more}
