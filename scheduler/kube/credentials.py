"""Address and credentials of the API server, renewed as tokens and certificates rotate.

kubernetes_asyncio reads kubeconfig files (contexts, merging, exec plugins, OIDC) and the in-cluster
service account; nothing else in the project imports that package.
"""

import asyncio
import os
import ssl
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol

import aiohttp

from scheduler import machine
from scheduler.config.trust import tls_context
from scheduler.kube.errors import ClusterUnreachable, Unreachable
from scheduler.observe.logs import get_logger

# The part of kubernetes_asyncio that reads configuration, without the rest of it.
#
# Importing the package imports all of its API: seven hundred classes, 35 MiB for the life of the
# process, a third of a second at its start. The modules that read kubeconfig files and service
# accounts need one class of it. So they are imported as if the package consisted of them alone, and
# afterwards nothing of it is left in `sys.modules`: a later import gets all of it.


PACKAGE = "kubernetes_asyncio"


@dataclass(frozen=True, slots=True)
class Library:
    """What we use of it; it ships no types."""

    Configuration: Any
    load_kube_config: Any
    InClusterConfigLoader: Any


@cache
def library() -> Library:
    """Import it when a cluster is looked for, and not before."""
    if PACKAGE in sys.modules:  # all of it is loaded already
        return _imported()
    try:
        _pretend_small()
        return _imported()
    except (ImportError, AttributeError):  # a release that is laid out in another way
        _forget()
        return _imported()
    finally:
        _forget()


def _imported() -> Library:
    from kubernetes_asyncio.client.configuration import Configuration
    from kubernetes_asyncio.config import load_kube_config
    from kubernetes_asyncio.config.incluster_config import InClusterConfigLoader

    return Library(Configuration, load_kube_config, InClusterConfigLoader)


def _pretend_small() -> None:
    """Put empty packages in place of those whose import would bring everything in."""
    found = find_spec(PACKAGE)
    if found is None or found.origin is None:
        raise ModuleNotFoundError(PACKAGE)
    root = Path(found.origin).parent
    for name, directory in ((PACKAGE, root), (f"{PACKAGE}.client", root / "client")):
        package = ModuleType(name)
        package.__path__ = [str(directory)]
        sys.modules[name] = package
    client = sys.modules[f"{PACKAGE}.client"]
    configuration = import_module(f"{PACKAGE}.client.configuration")
    # The second is only named by functions that make clients, which are never called.
    vars(client).update(Configuration=configuration.Configuration, ApiClient=None)


def _forget() -> None:
    for name in [each for each in sys.modules if each.partition(".")[0] == PACKAGE]:
        del sys.modules[name]


log = get_logger(__name__)

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount")

# Projected tokens are replaced well before they expire, so a minute-old copy is always good.
TOKEN_FILE_SECONDS = 60.0
# Exec plugins run again a little before the expiry they state.
EXPIRY_SKEW_SECONDS = 30.0
# How soon a source is read again that failed, or whose credentials expire within a moment.
RENEW_RETRY_SECONDS = 10.0
# An exec plugin may open a browser or wait for a prompt, but not forever.
LOAD_TIMEOUT_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class ApiAccess:
    """One answer to "how do I reach the API server": all that a request needs besides its path."""

    server: str
    authorization: str | None = None
    tls: ssl.SSLContext | bool = True
    server_hostname: str | None = None
    proxy: str | None = None


class CredentialSource(Protocol):
    """A place that credentials come from."""

    name: str
    namespace: str
    """The namespace that commands mean if they name none; known once it is loaded."""

    async def load(self) -> tuple[Any, float | None]:
        """A kubernetes_asyncio Configuration, and for how many seconds it is good if known."""


class KubeconfigSource:
    """One kubeconfig file, or several joined with ``:`` as $KUBECONFIG allows."""

    def __init__(
        self, path: str, context: str | None, wall: Callable[[], datetime] = machine.utc_now
    ) -> None:
        self.name = f"kubeconfig {path}" + (f" (context {context})" if context else "")
        self.namespace = ""
        self._path = path
        self._context = context
        self._wall = wall

    async def load(self) -> tuple[Any, float | None]:
        """Read the files again from scratch: exec plugins do their own caching."""
        if not any(os.path.exists(p) for p in self._path.split(os.pathsep) if p):  # noqa: ASYNC240  because a stat of a local file takes microseconds
            raise FileNotFoundError("no such file")
        configuration = library().Configuration()
        loader = await library().load_kube_config(
            config_file=self._path,
            context=self._context,
            client_configuration=configuration,
            # A scheduler has no business writing into its user's kubeconfig.
            persist_config=False,
        )
        chosen = (loader.current_context or {}).get("context", {})
        self.namespace = str(chosen.get("namespace") or "")
        return configuration, self._good_for(loader)

    def _good_for(self, loader: Any) -> float | None:
        expiry: datetime | None = getattr(loader, "exec_plugin_expiry", None)
        if expiry is not None:
            left = (expiry - self._wall()).total_seconds() - EXPIRY_SKEW_SECONDS
            return max(RENEW_RETRY_SECONDS, left)
        # The loader has no public way to ask which kind of user it found.
        user = loader._user
        return TOKEN_FILE_SECONDS if user is not None and "tokenFile" in user else None


class InClusterSource:
    """The service account that a kubelet mounts into our pod; its token rotates on disk."""

    name = "in-cluster service account"

    def __init__(self, directory: Path, environ: Mapping[str, str]) -> None:
        self._directory = directory
        self._environ = environ
        self.namespace = ""

    async def load(self) -> tuple[Any, float | None]:
        """Read host, token and CA again."""
        configuration = library().Configuration()
        library().InClusterConfigLoader(
            token_filename=str(self._directory / "token"),
            cert_filename=str(self._directory / "ca.crt"),
            try_refresh_token=False,
            environ=dict(self._environ),
        ).load_and_set(configuration)
        named = self._directory / "namespace"
        self.namespace = named.read_text().strip() if named.exists() else ""
        return configuration, TOKEN_FILE_SECONDS


class MasterSource:
    """Only an address, as with ``--master`` against a local proxy."""

    def __init__(self, master: str) -> None:
        self.name = f"master {master}"
        self.namespace = ""

    async def load(self) -> tuple[Any, float | None]:
        """An empty configuration; the address is filled in by `Credentials`."""
        return library().Configuration(), None


def find_source(
    kubeconfig: str | None,
    context: str | None,
    master: str | None,
    *,
    environ: Mapping[str, str] = os.environ,
    service_account: Path = SERVICE_ACCOUNT,
) -> CredentialSource:
    """The first that exists of: the given kubeconfig, $KUBECONFIG, ~/.kube/config, in-cluster.

    What the user names is not replaced by a fallback: a typo must not lead to another cluster.
    """
    if named := kubeconfig or environ.get("KUBECONFIG"):
        return KubeconfigSource(named, context)
    default = Path(environ.get("HOME") or "/", ".kube", "config")
    if default.exists():
        return KubeconfigSource(str(default), context)
    if environ.get("KUBERNETES_SERVICE_HOST") or (service_account / "token").exists():
        return InClusterSource(service_account, environ)
    if master:
        return MasterSource(master)
    raise ClusterUnreachable(
        [
            "--kubeconfig: not given",
            "$KUBECONFIG: not set",
            f"{default}: no such file",
            f"in-cluster service account: no {service_account}/token",
        ]
    )


class Credentials:
    """The current `ApiAccess`, kept fresh. Renewals are single-flight: callers share one load."""

    def __init__(
        self,
        source: CredentialSource,
        master: str | None = None,
        *,
        clock: Callable[[], float] = machine.monotonic,
    ) -> None:
        self.source = source
        self._master = master
        self._clock = clock
        self._access: ApiAccess | None = None
        self._stale_at: float | None = None
        self._tls_key: tuple[object, ...] | None = None
        self._loading: asyncio.Task[ApiAccess] | None = None

    def twin(self) -> "Credentials":
        """The same credentials for another event loop, which renews them for itself."""
        twin = Credentials(self.source, self._master, clock=self._clock)
        twin._tls_key, twin._stale_at, twin._access = self._tls_key, self._stale_at, self._access
        return twin

    async def current(self) -> ApiAccess:
        """What to use for the next request. No I/O unless the credentials have to be renewed."""
        access = self._access
        if access is None:
            return await self.renew(None)
        if self._stale_at is None or self._clock() < self._stale_at:
            return access
        try:
            return await self.renew(access)
        except Unreachable as error:
            # They were renewed ahead of time; the server has the last word on the old ones.
            log.warning("Credentials not renewed, keeping the old ones", error=str(error))
            self._stale_at = self._clock() + RENEW_RETRY_SECONDS
            return access

    async def renew(self, rejected: ApiAccess | None) -> ApiAccess:
        """Credentials other than `rejected`; raises Unreachable when their source fails.

        A caller that is cancelled does not end the load: a slow exec plugin would never finish
        if each request with a short deadline began it anew.
        """
        if self._access is not None and self._access is not rejected:
            return self._access
        if self._loading is None:
            self._loading = asyncio.create_task(self._load())
            self._loading.add_done_callback(self._loaded)
        return await asyncio.shield(self._loading)

    def close(self) -> None:
        """End a load that is under way."""
        if self._loading is not None:
            self._loading.cancel()

    async def _load(self) -> ApiAccess:
        try:
            async with asyncio.timeout(LOAD_TIMEOUT_SECONDS):
                configuration, good_for = await self.source.load()
            self._access = self._access_from(configuration)
        except Exception as error:  # the loaders raise whatever their parsers raise
            raise Unreachable(f"{self.source.name}: {str(error) or repr(error)}") from error
        self._stale_at = None if good_for is None else self._clock() + good_for
        return self._access

    def _loaded(self, task: asyncio.Task[ApiAccess]) -> None:
        self._loading = None
        if not task.cancelled():
            task.exception()  # callers that still wait get it; without any it is not reported

    def _access_from(self, configuration: Any) -> ApiAccess:
        token = configuration.api_key.get("BearerToken")
        server: str = self._master or configuration.host
        return ApiAccess(
            server=server.rstrip("/"),
            # Token files end in a newline, which must not reach the header.
            authorization=token.strip() if token else None,
            tls=self._tls(configuration) if server.startswith("https") else True,
            server_hostname=configuration.tls_server_name,
            proxy=configuration.proxy,
        )

    def _tls(self, configuration: Any) -> ssl.SSLContext | bool:
        # Connections are pooled by context, so the same files must give the same context.
        files = (configuration.ssl_ca_cert, configuration.cert_file, configuration.key_file)
        key = (configuration.verify_ssl, *(Path(f).read_bytes() if f else None for f in files))
        if key != self._tls_key or self._access is None:
            self._tls_key = key
            return _tls_context(configuration)
        return self._access.tls


def _tls_context(configuration: Any) -> ssl.SSLContext:
    context = tls_context(cafile=configuration.ssl_ca_cert)
    if configuration.cert_file:
        context.load_cert_chain(configuration.cert_file, configuration.key_file)
    if not configuration.verify_ssl:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def open_session(access: ApiAccess) -> aiohttp.ClientSession:
    """A session for libraries that send requests themselves, on the calling event loop.

    Its credentials do not rotate: after a 401 a new session is needed.
    """
    headers = {"Authorization": access.authorization} if access.authorization else {}
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(ssl=access.tls), headers=headers, proxy=access.proxy
    )
