"""How commands reach a running scheduler; an error ends the command with its exit code.

By `--server`, at the addresses given. Else by the kubeconfig: the lease names the leader, and the
API server passes requests on to its pod. Where no kubeconfig leads to a leader's pod, the daemon on
this machine is asked, if it is the leader that the lease names or if no lease can be read.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from http import HTTPStatus
from typing import Any, TypeVar
from urllib.parse import urlsplit

import click

from scheduler.cli.addresses import CallerCredentials, NoAnswer, ProxiedCall, Refused, send
from scheduler.cli.clusters import Cluster, KubeconfigChoice, NotThere
from scheduler.cli.exits import ERROR, UNREACHABLE, fail
from scheduler.cli.output import note

LOCAL_SERVER = "http://127.0.0.1:10259"
LEASE = "equipoise-system/equipoise"
PODS_OF_OURS = "app.kubernetes.io/name=equipoise"

_OTHERS = "Name the leader's address with --server, or those of all replicas."

Command = TypeVar("Command", bound=Callable[..., Any])


@dataclass(frozen=True)
class LeaseName:
    """The lease of a scheduler; its replicas are pods of the same namespace."""

    namespace: str
    name: str

    @property
    def path(self) -> str:
        """Where the API server has it."""
        return f"/apis/coordination.k8s.io/v1/namespaces/{self.namespace}/leases/{self.name}"

    @property
    def viewer(self) -> str:
        """The service account that the chart makes for users without a token."""
        return f"{self.name}-viewer"

    def __str__(self) -> str:
        return f"{self.namespace}/{self.name}"


@dataclass(frozen=True)
class Remote:
    """A scheduler's replicas, at addresses or behind an API server, and how to be let in."""

    urls: tuple[str, ...] = ()
    """Empty: the leader is found by the kubeconfig."""
    credentials: CallerCredentials = field(default_factory=CallerCredentials)
    choice: KubeconfigChoice = field(default_factory=KubeconfigChoice)
    lease: LeaseName = field(default_factory=lambda: LeaseName(*LEASE.split("/")))

    @cached_property
    def cluster(self) -> Cluster:
        """The cluster of the user's kubeconfig."""
        return Cluster(self.choice, self.credentials.token)

    @property
    def namespace(self) -> str:
        """The namespace of objects whose command names none: the context's, if one is in use."""
        if self.urls:
            return "default"
        with suppress(NoAnswer):
            return self.cluster.namespace
        return "default"


@dataclass(frozen=True)
class AnsweringReplica:
    """The replica that answered, and the leader."""

    identity: str = ""
    leading: bool = True
    leader: str = ""

    @staticmethod
    def of(answer: Any) -> AnsweringReplica:
        """What an answer says of it; without a word, as of older versions, it is the leader."""
        said = answer.get("replica", {}) if isinstance(answer, dict) else {}
        return AnsweringReplica(
            said.get("identity", ""), said.get("leading", True), said.get("leader", "")
        )

    def standby(self) -> str:
        """In words, for a replica that does not lead."""
        known = f"the leader is {self.leader}" if self.leader else "there is no leader yet"
        return f"{self.identity} is a standby: {known}"


def _server_urls(
    _context: click.Context, _parameter: click.Parameter, given: tuple[str, ...]
) -> tuple[str, ...]:
    return tuple(map(_server_url, given))


def _server_url(given: str) -> str:
    """The address with a scheme and without a trailing slash."""
    url = (given if "://" in given else f"http://{given}").rstrip("/")
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable:
        raise click.BadParameter(f"expected an address like {LOCAL_SERVER}, not {given!r}")
    return url


def _lease(_context: click.Context, _parameter: click.Parameter, given: str) -> LeaseName:
    namespace, slash, name = given.partition("/")
    if not (namespace and slash and name) or "/" in name:
        raise click.BadParameter(f"expected NAMESPACE/NAME, not {given!r}")
    return LeaseName(namespace, name)


_OPTIONS = (
    click.option(
        "--server",
        multiple=True,
        envvar="EQUIPOISE_SERVER",
        show_envvar=True,
        callback=_server_urls,
        metavar="URL",
        help="Address of the scheduler; default: the leader, found with the kubeconfig. Repeat it "
        "for each replica: the leader is used.",
    ),
    click.option(
        "--kubeconfig",
        default="",
        metavar="FILE",
        help="Default: $KUBECONFIG, ~/.kube/config, the pod's service account.",
    ),
    click.option("--context", "context_name", default="", help="Context of the kubeconfig."),
    click.option(
        "--lease",
        default=LEASE,
        show_default=True,
        envvar="EQUIPOISE_LEASE",
        show_envvar=True,
        callback=_lease,
        metavar="NAMESPACE/NAME",
        help="The lease that names the leader.",
    ),
    click.option(
        "--token",
        default="",
        envvar="EQUIPOISE_TOKEN",
        show_envvar=True,
        help="Bearer token for the scheduler; default: that of the kubeconfig.",
    ),
    click.option(
        "--certificate-authority",
        default="",
        envvar="EQUIPOISE_CERTIFICATE_AUTHORITY",
        show_envvar=True,
        metavar="FILE",
        help="With --server: CA file for its certificate; default: the system's CAs.",
    ),
    click.option(
        "--insecure-skip-tls-verify",
        is_flag=True,
        help="With --server: do not verify its certificate.",
    ),
)


def server_option() -> Callable[[Command], Command]:
    """The options that name a scheduler; the command gets them as one `Remote`, `server`."""

    def decorate(command: Command) -> Command:
        @functools.wraps(command)
        def with_remote(
            *args: Any,
            server: tuple[str, ...],
            kubeconfig: str,
            context_name: str,
            lease: LeaseName,
            token: str,
            certificate_authority: str,
            insecure_skip_tls_verify: bool,
            **others: Any,
        ) -> Any:
            given = CallerCredentials(token, certificate_authority, not insecure_skip_tls_verify)
            remote = Remote(server, given, KubeconfigChoice(kubeconfig, context_name), lease)
            return command(*args, server=remote, **others)

        for option in reversed(_OPTIONS):
            with_remote = option(with_remote)
        return with_remote  # type: ignore[return-value]  # the options changed the signature

    return decorate


def ask(server: Remote, path: str, /, body: Any = None, **query: object) -> Any:
    """The JSON answer to a GET, or a POST if there is a body.

    Ends the command with 4 without an answer, 1 if the answer is an error. Waits up to ten seconds
    for each part of the answer of each replica.
    """
    return _or_end(server, _call(path, "GET" if body is None else "POST", query, body))


def ask_leader(server: Remote, path: str, /, **query: object) -> Any:
    """Like `ask`, for what only the leader has: ends the command with 1 if a standby answers.

    As long as no replica leads, as right after a start, any replica is asked, and a note says so.
    """
    answer = ask(server, path, **query)
    replica = AnsweringReplica.of(answer)
    if not replica.leading and replica.leader:
        fail(f"{replica.standby()}\n{_OTHERS}", ERROR)
    _note_standby(replica)
    return answer


def ask_any_replica(server: Remote, path: str, /, body: Any = None, **query: object) -> Any:
    """Like `ask`, for what a standby has too; a note says if one has answered."""
    answer = ask(server, path, body, **query)
    _note_standby(AnsweringReplica.of(answer))
    return answer


def tell_leader(server: Remote, path: str, /, **query: object) -> Any:
    """The JSON answer of the leader to a POST; ends the command as `ask` does."""
    return _or_end(server, _call(path, "POST", query))


def fetch(server: Remote, path: str, /, **query: object) -> Any:
    """Like `ask` for a GET, but raises `NoAnswer` or `Refused`."""
    return _sent(server, _call(path, "GET", query))


def _call(path: str, method: str, query: dict[str, object], body: Any = None) -> ProxiedCall:
    given = tuple((key, str(value)) for key, value in query.items() if value is not None)
    return ProxiedCall(path, given, method, body)


_ADDRESSED = "Is the scheduler running there?"
_SEARCHED = "Is the scheduler running? --lease names its lease, --server its address."


def _or_end(server: Remote, call: ProxiedCall) -> Any:
    try:
        return _sent(server, call)
    except NoAnswer as fault:
        fail(f"{fault}\n{_ADDRESSED if server.urls else _SEARCHED}", UNREACHABLE)
    except Refused as fault:
        fail(str(fault), ERROR)


def _note_standby(replica: AnsweringReplica) -> None:
    if not replica.leading:
        note(replica.standby())


def _sent(server: Remote, call: ProxiedCall) -> Any:
    if server.urls:
        attempts = (functools.partial(send, url, server.credentials, call) for url in server.urls)
        return _first_leader(attempts)
    return _found(server, call)


def _first_leader(attempts: Iterable[Callable[[], Any]]) -> Any:
    """Ask replicas in turn until the leader answers.

    Without the leader, a standby's answer counts for more than a refusal, and a refusal for more
    than silence.
    """
    answers: list[Any] = []
    refusals: list[Refused] = []
    silences: list[NoAnswer] = []
    for attempt in attempts:
        try:
            answer = attempt()
        except Refused as refusal:
            refusals.append(refusal)
        except NoAnswer as silence:
            silences.append(silence)
        else:
            if AnsweringReplica.of(answer).leading:
                return answer
            answers.append(answer)
    if answers:
        return answers[0]
    if refusals:
        # What only the leader does, a standby cannot (503).
        raise min(refusals, key=lambda refusal: refusal.code == HTTPStatus.SERVICE_UNAVAILABLE)
    raise NoAnswer("\n".join(map(str, silences)))


# By the kubeconfig.


def _found(server: Remote, call: ProxiedCall) -> Any:
    """The answer of the leader that the lease names, of another replica, or of this machine."""
    try:
        holder = _holder(server)
        if not holder:
            return _first_leader(_replicas(server, call))
    except (NoAnswer, Refused) as fault:
        if server.choice.given:
            raise
        return _local(server, call, fault)
    pod = holder.partition("_")[0]
    try:
        return server.cluster.pass_on(server.lease.namespace, pod, call, server.lease.viewer)
    except NotThere as gone:
        if (answer := _local_leader(holder, call)) is not None:
            return answer
        return _standby(server, call, holder, gone)
    except Refused as refusal:
        # What the API server says if the pod does not answer: 502 to 504.
        if refusal.code < HTTPStatus.BAD_GATEWAY:
            raise
        return _standby(server, call, holder, refusal)


def _holder(server: Remote) -> str:
    """The identity in the lease; empty if there is no lease, as for a single replica."""
    try:
        lease = server.cluster.read(server.lease.path)
    except NotThere:
        return ""
    return str(lease.get("spec", {}).get("holderIdentity") or "")


def _local(server: Remote, call: ProxiedCall, reason: Exception) -> Any:
    """The answer of the daemon on this machine; raises why there is none in the cluster."""
    try:
        answer = send(LOCAL_SERVER, CallerCredentials(), call)
        if server.cluster.configured:
            note(f"{reason}; the scheduler on this machine answers")
        return answer
    except NoAnswer as silence:
        if isinstance(reason, Refused) and reason.code == HTTPStatus.FORBIDDEN:
            raise reason from None
        raise NoAnswer(f"{reason}\n{silence}") from None
    except Refused as refusal:
        if not refusal.code or refusal.code == HTTPStatus.BAD_REQUEST:  # some other program
            raise NoAnswer(f"{reason}\n{refusal}") from None
        raise


def _local_leader(holder: str, call: ProxiedCall) -> Any:
    """The answer of the daemon on this machine, if it is the one that the lease names."""
    probe = ProxiedCall("/api/v1/nodes", (("limit", "1"),))
    try:
        identity = AnsweringReplica.of(send(LOCAL_SERVER, CallerCredentials(), probe)).identity
    except (NoAnswer, Refused):
        return None
    return send(LOCAL_SERVER, CallerCredentials(), call) if identity == holder else None


def _standby(server: Remote, call: ProxiedCall, holder: str, reason: Refused) -> Any:
    """The answer of a replica that does not lead, since the leader does not answer."""
    try:
        return _first_leader(_replicas(server, call, other_than=holder.partition("_")[0]))
    except (NoAnswer, Refused) as silence:
        said = f"; {silence}" if str(silence) else ""
        raise NoAnswer(f"the leader {holder} does not answer: {reason}{said}") from None


def _replicas(
    server: Remote, call: ProxiedCall, other_than: str = ""
) -> Iterator[Callable[[], Any]]:
    """How to ask each pod of ours that runs; raises `Refused` if there is none."""
    lease = server.lease
    path = f"/api/v1/namespaces/{lease.namespace}/pods"
    items = server.cluster.read(path, labelSelector=PODS_OF_OURS).get("items", [])
    names = [
        pod["metadata"]["name"]
        for pod in items
        if pod.get("status", {}).get("phase") == "Running" and pod["metadata"]["name"] != other_than
    ]
    if not names:
        if other_than:
            raise Refused(f"no other pod {PODS_OF_OURS} runs in {lease.namespace}")
        raise Refused(
            f"{server.cluster.server}: no lease {lease} names a leader, and no pod {PODS_OF_OURS} "
            f"runs in {lease.namespace}: name the scheduler's lease with --lease, or its address "
            "with --server"
        )
    for name in names:
        yield functools.partial(server.cluster.pass_on, lease.namespace, name, call, lease.viewer)
