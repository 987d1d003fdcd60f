"""The schema of a configuration file, as structs.

Two documents: `KubeSchedulerConfiguration` (kubescheduler.config.k8s.io/v1), with every field
of kube-scheduler so that a stock file loads unchanged, and `EquipoiseConfiguration`
(equipoise.dev/v1alpha1) for what only Equipoise has. Every field has a default here; defaults
that depend on other fields or on the environment are in `defaults`. The docstring below a field of
ours is its row in docs/configuration.md (``make docs``).
"""

import enum
from typing import Annotated, Any, Literal

import msgspec

from scheduler.config.durations import Duration
from scheduler.model.limits import PodLimits

KUBE_API_VERSION = "kubescheduler.config.k8s.io/v1"
KUBE_KIND = "KubeSchedulerConfiguration"
OWN_API_VERSION = "equipoise.dev/v1alpha1"
OWN_KIND = "EquipoiseConfiguration"


class Bound(enum.Enum):
    """What a number may be; part of the annotation of a field, checked by `validation`."""

    POSITIVE = "must be greater than 0"
    NOT_NEGATIVE = "must not be negative"


PositiveInt = Annotated[int, Bound.POSITIVE]
PositiveFloat = Annotated[float, Bound.POSITIVE]
PositiveDuration = Annotated[Duration, Bound.POSITIVE]
NotNegativeFloat = Annotated[float, Bound.NOT_NEGATIVE]
NotNegativeDuration = Annotated[Duration, Bound.NOT_NEGATIVE]


class Section(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """Base of all structs: immutable, camelCase in documents."""


# --- kubescheduler.config.k8s.io/v1 -----------------------------------------------------------


class LeaderElection(Section, frozen=True):
    """Which replica schedules: the holder of a Lease. Zeros and empty names mean defaults."""

    leader_elect: bool = True
    lease_duration: Duration = Duration(15.0)
    renew_deadline: Duration = Duration(10.0)
    retry_period: Duration = Duration(2.0)
    resource_lock: str = "leases"
    resource_name: str = "equipoise"
    resource_namespace: str = ""


class ClientConnection(Section, frozen=True):
    """How to reach the API server. Without `qps` requests are not limited on our side."""

    kubeconfig: str = ""
    accept_content_types: str = ""
    content_type: str = "application/json"
    qps: float | None = None
    burst: int | None = None


class PluginRef(Section, frozen=True):
    """A plugin by name; `weight` counts for scores only, None or 0 means 1."""

    name: str = ""
    weight: int | None = None


class PluginSet(Section, frozen=True):
    """Changes to the plugins of one extension point; "*" disables all defaults."""

    enabled: tuple[PluginRef, ...] = ()
    disabled: tuple[PluginRef, ...] = ()


class Plugins(Section, frozen=True):
    """Plugin sets by extension point; `multi_point` stands for every point a plugin implements."""

    pre_enqueue: PluginSet = PluginSet()
    queue_sort: PluginSet = PluginSet()
    pre_filter: PluginSet = PluginSet()
    filter: PluginSet = PluginSet()
    post_filter: PluginSet = PluginSet()
    pre_score: PluginSet = PluginSet()
    score: PluginSet = PluginSet()
    reserve: PluginSet = PluginSet()
    permit: PluginSet = PluginSet()
    pre_bind: PluginSet = PluginSet()
    bind: PluginSet = PluginSet()
    post_bind: PluginSet = PluginSet()
    placement_generate: PluginSet = PluginSet()
    placement_score: PluginSet = PluginSet()
    multi_point: PluginSet = PluginSet()

    def by_point(self) -> dict[str, PluginSet]:
        """All sets by the name the document uses (`preFilter`), `multiPoint` last."""
        fields = msgspec.structs.fields(self)
        return {field.encode_name: getattr(self, field.name) for field in fields}


PLACEMENT_POINTS = ("placementGenerate", "placementScore")
"""Extension points of kube-scheduler that need a feature gate which is off; accepted, not used."""

EXTENSION_POINTS = tuple(
    name for name in Plugins().by_point() if name not in {"multiPoint", *PLACEMENT_POINTS}
)
"""Every extension point of kube-scheduler, as documents spell it, in the order a pod meets them."""


class PluginConfig(Section, frozen=True):
    """Arguments of one plugin: a struct of `plugin_args`, or plain data for other plugins."""

    name: str = ""
    args: Any = None


class Profile(Section, frozen=True):
    """One scheduler name and how its pods are scheduled."""

    scheduler_name: str = ""
    percentage_of_nodes_to_score: int | None = None
    plugins: Plugins = Plugins()
    plugin_config: tuple[PluginConfig, ...] = ()

    def args(self, plugin: str) -> Any:
        """The arguments of one plugin, or None if it has none."""
        return next((c.args for c in self.plugin_config if c.name == plugin), None)


class ExtenderTLSConfig(Section, frozen=True):
    """How to speak TLS with an extender."""

    insecure: bool = False
    server_name: str = ""
    cert_file: str = ""
    key_file: str = ""
    ca_file: str = ""
    cert_data: str = ""
    key_data: str = ""
    ca_data: str = ""


class ExtenderManagedResource(Section, frozen=True):
    """A resource that an extender looks after."""

    name: str = ""
    ignored_by_scheduler: bool = False


class Extender(Section, frozen=True):
    """An HTTP service that takes part in scheduling."""

    url_prefix: str = ""
    filter_verb: str = ""
    preempt_verb: str = ""
    prioritize_verb: str = ""
    weight: int = 0
    bind_verb: str = ""
    enable_https: bool = msgspec.field(default=False, name="enableHTTPS")
    tls_config: ExtenderTLSConfig | None = None
    http_timeout: Duration = Duration(5.0)
    node_cache_capable: bool = False
    managed_resources: tuple[ExtenderManagedResource, ...] = ()
    ignorable: bool = False


class KubeSchedulerConfiguration(Section, frozen=True):
    """The document that kube-scheduler reads too."""

    parallelism: int = 16
    leader_election: LeaderElection = LeaderElection()
    client_connection: ClientConnection = ClientConnection()
    enable_profiling: bool = False
    enable_contention_profiling: bool = False
    percentage_of_nodes_to_score: int = 0
    pod_initial_backoff_seconds: int = 1
    pod_max_backoff_seconds: int = 10
    profiles: tuple[Profile, ...] = ()
    extenders: tuple[Extender, ...] = ()
    delay_cache_until_active: bool = False


# --- equipoise.dev/v1alpha1 -------------------------------------------------------------------


class ServerSettings(Section, frozen=True):
    """Where health, metrics and debugging are served, and to which callers; port 0: nowhere."""

    bind_address: str = "127.0.0.1"
    """Address to serve health, metrics and explanations on."""
    port: int = 10259
    """Port to serve on; 0 disables serving."""
    tls_cert_file: str = ""
    """Serving certificate, with `tlsPrivateKeyFile`. Without both, a self-signed certificate is
    generated unless the address is a loopback address."""
    tls_private_key_file: str = ""
    """The key of `tlsCertFile`."""
    client_ca_file: str = msgspec.field(default="", name="clientCAFile")
    """CA of client certificates, whose subject is a user and its groups
    ([serving.md](serving.md))."""
    protection: Literal["auto", "always"] = "auto"
    """`auto`: plain HTTP on loopback, else TLS and only callers that the API server authorizes;
    `always`: the latter ([serving.md](serving.md))."""
    always_allow_paths: tuple[str, ...] = ("/healthz", "/livez", "/readyz")
    """Paths that need no authorization; a trailing `*` matches any suffix."""


class LoggingSettings(Section, frozen=True):
    """`auto` is console on a terminal, else JSON."""

    format: Literal["auto", "json", "console"] = "auto"
    """`auto` is `console` on a terminal, else `json`."""
    level: Literal["debug", "info", "warning", "error"] = "info"
    """`debug`, `info`, `warning` or `error`."""


class BindingSettings(Section, frozen=True):
    """How many pods may be on their way to a node at once, and how long one API call may take."""

    concurrency: PositiveInt = 64
    """Concurrent requests of one namespace for bindings and pod status; a third more is reserved
    for other namespaces. etcd commits requests that arrive together in one transaction."""
    timeout_seconds: PositiveFloat = 30.0
    """Timeout of one request to the API server."""
    stop_seconds: NotNegativeFloat = 20.0
    """How long a shutdown waits for bindings with an unknown outcome; after that the lease is [left
    to expire](leadership.md). Must be less than the pod's termination grace period."""
    confirm_seconds: PositiveFloat = 15.0
    """If the watch does not confirm a binding within this time, the pod is read from the API
    server, and scheduled again if it has no node."""
    headroom_seconds: NotNegativeFloat = 0.0
    """For how long a node to which another scheduler has bound a pod keeps room for two more pods
    of that size; a binding of ours that would use that room
    [waits](bindings.md#beside-another-scheduler). 0 disables this."""


class WatchdogSettings(Section, frozen=True):
    """When a scheduling loop counts as stuck."""

    stall_seconds: PositiveFloat = 60.0
    """If the scheduling loop makes no progress for this long, the process ends and another replica
    takes over ([leadership](leadership.md))."""


class CacheCheckSettings(Section, frozen=True):
    """How often what is remembered is compared with the API server, and repaired."""

    interval_seconds: NotNegativeFloat = 600.0
    """How often the cache is [compared with the API server](bindings.md#cache-check)
    and repaired, ± 20 %; 0: only on `SIGUSR2`."""


class EventSettings(Section, frozen=True):
    """Events waiting to be written; further ones are dropped and counted."""

    queue_size: PositiveInt = 16_384
    """How many events of one namespace may be queued for writing; further ones are dropped and
    counted. Warnings may use three quarters of the queue; a third more is reserved for other
    namespaces."""


class EquivalenceSettings(Section, frozen=True):
    """How verdicts are kept for classes of equal pods."""

    enabled: bool = True
    """Cache filter results and scores for [classes of identical pods](equivalence.md). Decisions
    are the same without the cache."""
    key: Literal["Content", "ControllerRef"] = "Content"
    """`Content`: pods with the same relevant fields form a class; `ControllerRef`: they must also
    have the same controller, and pods without one have no class
    ([how](equivalence.md#how-it-works))."""
    budget_mebibytes: PositiveInt = 64
    """Memory for cached results; the least recently used are evicted first."""


class UnscheduledCost(Section, frozen=True):
    """What it costs a batch to leave a pod without a node, beyond the worst node it could get."""

    per: Literal["Pod", "Volume"] = "Pod"
    """Cost of leaving a pod out of a batch: the same for all pods (favours many small pods), or
    with `Volume` in proportion to its requests (favours large pods)."""
    points: float = 1000.0
    """That cost in score points, on top of the worst node that the pod could get."""
    points_per_second: float = 10.0
    """Added for each second that the pod has waited, so that no pod is left out forever."""


class BatchSettings(Section, frozen=True):
    """How a backlog is placed at once, by the cheapest flow through a network of pods and nodes."""

    enabled: bool = False
    """Place a backlog whose pods compete for nodes [as one batch](flow.md); needs
    `equivalence.enabled`."""
    cost_model: Literal["Scores", "CpuMemory"] = "Scores"
    """`Scores`: costs from the profile's score plugins, used where a batch is better than one by
    one; `CpuMemory`: the [published design](flow.md#the-published-design-costmodel-cpumemory), for
    every backlog."""
    compare: bool = True
    """With `Scores`, also place the pods one by one and keep the [better of the
    two](flow.md#never-worse-than-one-by-one); `false` saves that time."""
    min_pending: PositiveInt = 20
    """With fewer pending pods of the same rank (priority, unless a profile sorts by something else)
    they are placed one by one."""
    max_pods: PositiveInt = 10_000
    """The most pods in one batch."""
    window: Duration = Duration(0.1)
    """How long to wait for more pods once there are `minPending`; at most `10s`."""
    solver_timeout: PositiveDuration = Duration(10.0)
    """Timeout of the solver; after that the pods are placed one by one."""
    unscheduled_cost: UnscheduledCost = UnscheduledCost()


class RecordingSettings(Section, frozen=True):
    """What the daemon saw and decided, kept in files for `equipoise replay`."""

    directory: str = ""
    """Directory of [recordings](replay.md); if empty, nothing is recorded."""
    max_bytes: PositiveInt = 512 * 2**20
    """Total size of all segments; the oldest are deleted first. At least 1 MiB, and no less than
    `segmentBytes`."""
    segment_bytes: PositiveInt = 32 * 2**20
    """Approximate size of a segment. Smaller segments can be deleted sooner, but each repeats the
    state of the cluster."""
    max_age: NotNegativeDuration = Duration(0.0)
    """Older segments are deleted; `0s` keeps them as long as `maxBytes` allows."""


class DeviceSettings(Section, frozen=True):
    """How devices are chosen for claims ([DynamicResources](plugins/DynamicResources.md))."""

    selection: Literal["FirstFit", "BestFit"] = "FirstFit"
    """`FirstFit`: the first devices that fit, as in kube-scheduler; `BestFit`: the devices, and the
    node, that leave the least capacity stranded."""


class OutsidePlugins(Section, frozen=True):
    """Plugins from outside the tree."""

    directory: str = ""
    """Directory with [your own plugins](plugins/first-plugin.md) as Python files, relative to the
    working directory. Their code runs when a configuration is loaded. Entry points are always
    loaded."""
    slow_after: PositiveDuration = Duration(0.1)
    """Calls of external plugins that take longer are counted and logged."""


class OwnPoints(Section, frozen=True):
    """Plugin sets of a profile at the points that only Equipoise has.

    The `multiPoint` set of the profile in the other document stands for these points too.
    """

    scheduler_name: str = ""
    """Whose sets these are; may be left out if there is one profile."""
    after_filter: PluginSet = PluginSet()
    post_score: PluginSet = PluginSet()

    def by_point(self) -> dict[str, PluginSet]:
        """All sets by the name the document uses."""
        return {"afterFilter": self.after_filter, "postScore": self.post_score}


OWN_POINTS = tuple(OwnPoints().by_point())
"""The extension points that only Equipoise has."""


class WebhookTLS(Section, frozen=True):
    """How to know a webhook and be known to it. Files may be replaced at any time."""

    ca_file: str = ""
    """Who signs the webhook's certificate, in PEM; without it and `caBundle` the system's CAs."""
    ca_bundle: str = ""
    """The same as text."""
    cert_file: str = ""
    key_file: str = ""
    server_name: str = ""
    """The name in its certificate, if that is not the host of the URL."""


class WebhookReads(Section, frozen=True):
    """All that a webhook's answers depend on; nothing else is sent, once per class."""

    pod: tuple[str, ...] = ()
    """Such as `metadata.labels` or `spec.nodeSelector`."""
    node: tuple[str, ...] = ()
    """Such as `labels`, `taints` or `requested`."""


class WebhookPods(Section, frozen=True):
    """Which pods a webhook is asked about; empty means any."""

    namespaces: tuple[str, ...] = ()
    match_labels: dict[str, str] = {}


class WebhookBreaker(Section, frozen=True):
    """After so many failures in a row nothing is sent for a while; then one call tries."""

    failures: int = 5
    open_for: Duration = Duration(10.0)


class Webhook(Section, frozen=True):
    """A plugin in another process, asked by HTTP; enabled in profiles by its name."""

    name: str = ""
    url: str = ""
    """Each point is a path below it: `<url>/filter`."""
    points: tuple[str, ...] = ()
    timeout: Duration = Duration(2.0)
    """Of one try."""
    retries: int = 1
    failure_policy: Literal["Fail", "Ignore"] = "Fail"
    """Without an answer: fail the attempt, or go on as if it had no objection."""
    tls: WebhookTLS = WebhookTLS()
    token_file: str = ""
    """A bearer token; may be replaced at any time."""
    pods: WebhookPods = WebhookPods()
    nodes: Literal["Names", "Objects"] = "Names"
    """What is sent of nodes."""
    reads: WebhookReads | None = None
    """If given, its filter and score answers are kept for classes of equal pods."""
    retry_on: tuple[str, ...] = ()
    """Events that may cure its rejections, such as `Node/Add`; any event if empty."""
    concurrency: int = 16
    max_request_bytes: int = 32 * 2**20
    max_response_bytes: int = 8 * 2**20
    breaker: WebhookBreaker = WebhookBreaker()


class EquipoiseConfiguration(Section, frozen=True):
    """What only Equipoise has."""

    server: ServerSettings = ServerSettings()
    logging: LoggingSettings = LoggingSettings()
    binding: BindingSettings = BindingSettings()
    watchdog: WatchdogSettings = WatchdogSettings()
    cache_check: CacheCheckSettings = CacheCheckSettings()
    events: EventSettings = EventSettings()
    equivalence: EquivalenceSettings = EquivalenceSettings()
    batch: BatchSettings = BatchSettings()
    recording: RecordingSettings = RecordingSettings()
    devices: DeviceSettings = DeviceSettings()
    plugins: OutsidePlugins = OutsidePlugins()
    extension_points: tuple[OwnPoints, ...] = ()
    """Plugin sets of the points that [only Equipoise has](plugins/framework.md#the-points),
    `afterFilter` and `postScore`, by `schedulerName` (may be left out if there is one profile)."""
    webhooks: tuple[Webhook, ...] = ()
    """Plugins in other processes, called by HTTP ([webhooks.md](plugins/webhooks.md))."""
    limits: PodLimits = PodLimits()
    """How long the lists of one pod may be ([below](#how-large-a-pod-may-be)); longer ones are not
    placed."""
    max_suspended_pods: PositiveInt = 1024
    """How many pods may wait for responses of webhooks and extenders at the same time."""
    tie_break_seed: int = 0
    """Seed for breaking ties between nodes with equal scores."""

    def own_points(self, scheduler_name: str) -> OwnPoints:
        """The sets of a profile at the points that only Equipoise has."""
        for points in self.extension_points:
            if points.scheduler_name in {"", scheduler_name}:
                return points
        return OwnPoints()
