"""Where credentials come from, and how they are kept fresh."""

import asyncio
import base64
import os
import sys
from pathlib import Path
from typing import Any

import pytest
import trustme

from scheduler.kube.client import KubeClient
from scheduler.kube.credentials import ApiAccess, Credentials, find_source
from scheduler.kube.errors import ClusterUnreachable, Unreachable
from scheduler.observe.metrics import Metrics

from .support import Kubeconfig, ManualClock

NOWHERE = Path("/nonexistent")


async def access_of(path: str, context: str | None = None, master: str | None = None) -> ApiAccess:
    return await Credentials(find_source(path, context, master, environ={}), master).current()


async def test_a_token_of_the_kubeconfig_becomes_the_header(tmp_path: Path) -> None:
    path = Kubeconfig(tmp_path, {"server": "http://api:1/"}, {"token": "secret"}).write()
    access = await access_of(path)
    assert (access.server, access.authorization) == ("http://api:1", "Bearer secret")


async def test_certificates_given_as_data_are_loaded(tmp_path: Path) -> None:
    authority = trustme.CA()
    certificate = authority.issue_cert("equipoise@test")

    def data(blob: trustme.Blob) -> str:
        return base64.b64encode(blob.bytes()).decode()

    path = Kubeconfig(
        tmp_path,
        {"server": "https://api", "certificate-authority-data": data(authority.cert_pem)},
        {
            "client-certificate-data": data(certificate.cert_chain_pems[0]),
            "client-key-data": data(certificate.private_key_pem),
        },
    ).write()
    access = await access_of(path)
    assert not isinstance(access.tls, bool)
    assert access.tls.cert_store_stats()["x509_ca"] == 1


async def test_master_overrides_the_server_of_the_kubeconfig(tmp_path: Path) -> None:
    path = Kubeconfig(tmp_path, {"server": "http://api"}, {"token": "secret"}).write()
    access = await access_of(path, master="http://other:8080")
    assert (access.server, access.authorization) == ("http://other:8080", "Bearer secret")


async def test_proxy_and_server_name_are_taken_over(tmp_path: Path) -> None:
    cluster = {"server": "https://api", "proxy-url": "http://proxy:3128", "tls-server-name": "k"}
    access = await access_of(Kubeconfig(tmp_path, cluster).write())
    assert (access.proxy, access.server_hostname) == ("http://proxy:3128", "k")


async def test_files_named_by_the_environment_are_merged(tmp_path: Path) -> None:
    one = Kubeconfig(tmp_path, {"server": "http://one"}, {"token": "t"}, "one").write()
    two = Kubeconfig(tmp_path, {"server": "http://two"}, {"token": "u"}, "two").write()
    environ = {"KUBECONFIG": os.pathsep.join([str(tmp_path / "missing"), one, two])}
    source = find_source(None, None, None, environ=environ)
    access = await Credentials(source).current()
    assert (access.server, access.authorization) == ("http://one", "Bearer t")


async def test_the_file_in_the_home_directory_is_the_default(tmp_path: Path) -> None:
    (tmp_path / ".kube").mkdir()
    Kubeconfig(tmp_path / ".kube", {"server": "http://home"}).write()
    source = find_source(None, None, None, environ={"HOME": str(tmp_path)})
    assert (await Credentials(source).current()).server == "http://home"


@pytest.mark.parametrize(
    ("text", "context", "complaint"),
    [
        pytest.param(None, None, "no such file", id="missing file"),
        pytest.param("{", None, "flow", id="not YAML"),
        pytest.param("kind: Config\n", None, "current-context", id="no context"),
        pytest.param(
            "{current-context: a, contexts: [{name: a, context: {cluster: c}}], clusters: []}",
            "b",
            "name b",
            id="context that is not there",
        ),
    ],
)
async def test_a_bad_kubeconfig_is_named_with_its_fault(
    tmp_path: Path, text: str | None, context: str | None, complaint: str
) -> None:
    path = tmp_path / "config"
    if text is not None:
        path.write_text(text)
    with pytest.raises(ClusterUnreachable) as caught:
        await KubeClient.connect(metrics=Metrics(), kubeconfig=str(path), context=context)
    (tried,) = caught.value.tried
    assert tried.startswith(f"kubeconfig {path}")
    assert complaint in tried
    assert tried.count(f"kubeconfig {path}") == 1


def test_without_any_configuration_all_places_are_listed(tmp_path: Path) -> None:
    with pytest.raises(ClusterUnreachable) as caught:
        find_source(None, None, None, environ={"HOME": str(tmp_path)}, service_account=NOWHERE)
    assert [line.partition(":")[0] for line in caught.value.tried] == [
        "--kubeconfig",
        "$KUBECONFIG",
        str(tmp_path / ".kube" / "config"),
        "in-cluster service account",
    ]


class ServiceAccount:
    """The directory that a kubelet mounts, and the environment it sets."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.environ = {
            "HOME": str(directory),
            "KUBERNETES_SERVICE_HOST": "10.0.0.1",
            "KUBERNETES_SERVICE_PORT": "443",
        }
        trustme.CA().cert_pem.write_to_path(directory / "ca.crt")
        self.rotate("first")

    def rotate(self, token: str) -> None:
        (self.directory / "token").write_text(f"{token}\n")

    def credentials(self, clock: ManualClock) -> Credentials:
        source = find_source(None, None, None, environ=self.environ, service_account=self.directory)
        return Credentials(source, clock=clock)


async def test_the_in_cluster_token_is_read_again_after_a_minute(tmp_path: Path) -> None:
    account, clock = ServiceAccount(tmp_path), ManualClock()
    credentials = account.credentials(clock)
    first = await credentials.current()
    assert (first.server, first.authorization) == ("https://10.0.0.1:443", "Bearer first")
    account.rotate("second")
    clock.now += 59
    assert await credentials.current() is first
    clock.now += 1
    second = await credentials.current()
    assert second.authorization == "Bearer second"
    assert second.tls is first.tls, "pooled connections survive a new token"


async def test_a_new_ca_gives_a_new_tls_context(tmp_path: Path) -> None:
    account, clock = ServiceAccount(tmp_path), ManualClock()
    credentials = account.credentials(clock)
    first = await credentials.current()
    trustme.CA().cert_pem.write_to_path(tmp_path / "ca.crt")
    assert (await credentials.renew(first)).tls is not first.tls


async def test_old_credentials_stay_in_use_while_their_source_fails(tmp_path: Path) -> None:
    account, clock = ServiceAccount(tmp_path), ManualClock()
    credentials = account.credentials(clock)
    first = await credentials.current()
    (tmp_path / "token").unlink()
    clock.now += 61
    assert await credentials.current() is first
    with pytest.raises(Unreachable, match="token"):
        await credentials.renew(first)


class CountingSource:
    """Hands out numbered tokens."""

    name = "counting"
    namespace = ""

    def __init__(self) -> None:
        self.loads = 0

    async def load(self) -> tuple[Any, float | None]:
        from kubernetes_asyncio.client import Configuration

        self.loads += 1
        await asyncio.sleep(0)
        configuration = Configuration(api_key={"BearerToken": f"Bearer {self.loads}"})
        configuration.host = "http://api"
        return configuration, None


async def test_many_rejected_requests_share_one_renewal() -> None:
    source = CountingSource()
    credentials = Credentials(source)
    first = await credentials.current()
    renewed = await asyncio.gather(*(credentials.renew(first) for _ in range(10)))
    assert {access.authorization for access in renewed} == {"Bearer 2"}
    assert source.loads == 2


class SlowSource(CountingSource):
    """Does not finish until the test lets it."""

    def __init__(self) -> None:
        super().__init__()
        self.finish = asyncio.Event()

    async def load(self) -> tuple[Any, float | None]:
        loaded = await super().load()
        await self.finish.wait()
        return loaded


async def test_a_request_that_gives_up_does_not_end_the_renewal_for_others() -> None:
    source = SlowSource()
    credentials = Credentials(source)
    impatient = asyncio.create_task(credentials.current())
    await asyncio.sleep(0)
    impatient.cancel()
    patient = asyncio.create_task(credentials.current())
    await asyncio.sleep(0)
    source.finish.set()
    assert (await patient).authorization == "Bearer 1"
    assert impatient.cancelled()
    assert source.loads == 1


async def test_closing_ends_a_renewal_that_is_under_way() -> None:
    credentials = Credentials(SlowSource())
    waiting = asyncio.create_task(credentials.current())
    await asyncio.sleep(0)
    credentials.close()
    with pytest.raises(asyncio.CancelledError):
        await waiting


EXEC_PLUGIN = """
import json, pathlib, sys
runs = pathlib.Path(sys.argv[1])
count = int(runs.read_text() or 0) + 1 if runs.exists() else 1
runs.write_text(str(count))
status = {"token": f"token-{count}"}
if sys.argv[2]:
    status["expirationTimestamp"] = sys.argv[2]
print(json.dumps({"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential",
                  "status": status}))
"""


def exec_kubeconfig(directory: Path, expiry: str) -> str:
    script = directory / "plugin.py"
    script.write_text(EXEC_PLUGIN)
    user = {
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": sys.executable,
            "args": [str(script), str(directory / "runs"), expiry],
            "interactiveMode": "Never",
        }
    }
    return Kubeconfig(directory, {"server": "http://api"}, user).write()


async def test_an_exec_plugin_without_expiry_is_run_again_only_after_a_refusal(
    tmp_path: Path,
) -> None:
    clock = ManualClock()
    source = find_source(exec_kubeconfig(tmp_path, ""), None, None, environ={})
    credentials = Credentials(source, clock=clock)
    first = await credentials.current()
    clock.now += 1e6
    assert await credentials.current() is first
    assert first.authorization == "Bearer token-1"
    assert (await credentials.renew(first)).authorization == "Bearer token-2"


async def test_an_exec_plugin_is_run_again_when_its_token_expires(tmp_path: Path) -> None:
    clock = ManualClock()
    path = exec_kubeconfig(tmp_path, "2099-01-01T00:00:00Z")
    credentials = Credentials(find_source(path, None, None, environ={}), clock=clock)
    assert (await credentials.current()).authorization == "Bearer token-1"
    clock.now += 86_400 * 365 * 200
    assert (await credentials.current()).authorization == "Bearer token-2"


async def test_an_exec_plugin_that_fails_is_quoted(tmp_path: Path) -> None:
    user = {
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": sys.executable,
            "args": ["-c", "import sys; sys.exit('no ticket')"],
        }
    }
    path = Kubeconfig(tmp_path, {"server": "http://api"}, user).write()
    with pytest.raises(ClusterUnreachable, match="no ticket"):
        await KubeClient.connect(metrics=Metrics(), kubeconfig=path)
