"""The columns of Deployments, ReplicaSets, StatefulSets, DaemonSets, Jobs and their kin."""

from datetime import datetime

from sandbox.printing.column import (
    AGE,
    NAME,
    NONE,
    Column,
    at,
    boolean,
    labels,
    number,
    selector,
    text,
)
from sandbox.printing.durations import age, human, parsed
from sandbox.store import Body

_TEMPLATE = "spec.template.spec.containers"
_JOB_STATES = (
    ("Complete", "Complete"),
    ("Failed", "Failed"),
    ("Suspended", "Suspended"),
    ("FailureTarget", "FailureTarget"),
    ("SuccessCriteriaMet", "SuccessCriteriaMet"),
)


def _containers(field: str, path: str = _TEMPLATE) -> Column:
    heading = "Containers" if field == "name" else "Images"
    return Column(
        heading,
        lambda body, _: ",".join(each.get(field, "") for each in at(body, path, [])),
        wide=True,
    )


def _ready(body: Body, _now: datetime) -> str:
    return f"{at(body, 'status.readyReplicas', 0)}/{at(body, 'spec.replicas', 0)}"


_CONTAINERS, _IMAGES = _containers("name"), _containers("image")
_SELECTOR = Column("Selector", lambda body, _: selector(at(body, "spec.selector")), wide=True)
_LABEL_SELECTOR = Column("Selector", lambda body, _: labels(at(body, "spec.selector")), wide=True)
_REPLICAS = (
    number("Desired", "spec.replicas"),
    number("Current", "status.replicas"),
    number("Ready", "status.readyReplicas"),
)

DEPLOYMENTS = (
    NAME,
    Column("Ready", _ready),
    number("Up-to-date", "status.updatedReplicas", "string"),
    number("Available", "status.availableReplicas", "string"),
    AGE,
    _CONTAINERS,
    _IMAGES,
    _SELECTOR,
)
REPLICA_SETS = (NAME, *_REPLICAS, AGE, _CONTAINERS, _IMAGES, _SELECTOR)
REPLICATION_CONTROLLERS = (NAME, *_REPLICAS, AGE, _CONTAINERS, _IMAGES, _LABEL_SELECTOR)
STATEFUL_SETS = (NAME, Column("Ready", _ready), AGE, _CONTAINERS, _IMAGES)
DAEMON_SETS = (
    NAME,
    number("Desired", "status.desiredNumberScheduled"),
    number("Current", "status.currentNumberScheduled"),
    number("Ready", "status.numberReady"),
    number("Up-to-date", "status.updatedNumberScheduled"),
    number("Available", "status.numberAvailable"),
    Column("Node Selector", lambda body, _: labels(at(body, "spec.template.spec.nodeSelector"))),
    AGE,
    _CONTAINERS,
    _IMAGES,
    _SELECTOR,
)


def _job_status(job: Body, _now: datetime) -> str:
    conditions = at(job, "status.conditions", [])
    true = {each.get("type") for each in conditions if each.get("status") == "True"}
    leaving = "deletionTimestamp" in job["metadata"]
    for kind, shown in _JOB_STATES:
        if kind in true:
            return shown
        if kind == "Failed" and leaving:
            return "Terminating"
    return "Running"


def _job_completions(job: Body, _now: datetime) -> str:
    succeeded = at(job, "status.succeeded", 0)
    completions, parallelism = at(job, "spec.completions"), at(job, "spec.parallelism", 0)
    if completions is not None:
        return f"{succeeded}/{completions}"
    return f"{succeeded}/1 of {parallelism}" if parallelism > 1 else f"{succeeded}/1"


def _job_duration(job: Body, now: datetime) -> str:
    began = parsed(at(job, "status.startTime"))
    if began is None:
        return ""
    ended = parsed(at(job, "status.completionTime")) or now
    return human((ended - began).total_seconds())


JOBS = (
    NAME,
    Column("Status", _job_status),
    Column("Completions", _job_completions),
    Column("Duration", _job_duration),
    AGE,
    _CONTAINERS,
    _IMAGES,
    _SELECTOR,
)


def _last_schedule(job: Body, now: datetime) -> str:
    moment = at(job, "status.lastScheduleTime")
    return NONE if moment is None else age(moment, now)


_JOB_TEMPLATE = f"spec.jobTemplate.{_TEMPLATE}"
CRON_JOBS = (
    NAME,
    text("Schedule", "spec.schedule"),
    text("Timezone", "spec.timeZone", NONE),
    boolean("Suspend", "spec.suspend"),
    Column("Active", lambda job, _: len(at(job, "status.active", [])), "integer"),
    Column("Last Schedule", _last_schedule),
    AGE,
    _containers("name", _JOB_TEMPLATE),
    _containers("image", _JOB_TEMPLATE),
    Column(
        "Selector", lambda job, _: selector(at(job, "spec.jobTemplate.spec.selector")), wide=True
    ),
)


def _controller(revision: Body, _now: datetime) -> str:
    for owner in revision["metadata"].get("ownerReferences") or ():
        if owner.get("controller"):
            group = owner.get("apiVersion", "").rpartition("/")[0]
            kind = owner.get("kind", "").lower()
            return f"{kind}.{group}/{owner.get('name')}" if group else f"{kind}/{owner.get('name')}"
    return NONE


CONTROLLER_REVISIONS = (
    NAME,
    Column("Controller", _controller),
    number("Revision", "revision", "string"),
    AGE,
)
