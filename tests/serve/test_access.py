"""Who is let in: tokens, client certificates and strangers, over a real socket with TLS."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import trustme

from scheduler.config.schema import ServerSettings as Settings
from scheduler.kube.errors import Unreachable
from scheduler.kube.reviews import Right, User
from scheduler.serve.access import FRESH_SECONDS, PASSED_ON, STALE_SECONDS, AccessControl
from scheduler.serve.certificates import Files, Tls
from scheduler.serve.endpoints import build_app
from scheduler.serve.server import Server, is_loopback, open_server
from tests.serve.fake_backend import FakeBackend

SCRAPER = User("system:serviceaccount:monitoring:prometheus", "1", ("system:serviceaccounts",))
ADMIN = User("admin", groups=("system:masters",))


class Cluster:
    """A reviewer with two tokens and one right, which can be unavailable."""

    def __init__(self) -> None:
        self.tokens = {"scrape": SCRAPER, "root": ADMIN}
        self.rights = {(SCRAPER.name, "get", "/metrics")}
        self.granted = {(SCRAPER.name, "approve", "team")}
        self.away = False
        self.asked: list[tuple[Any, ...]] = []

    async def identify(self, token: str) -> User | None:
        self.asked.append((token,))
        if self.away:
            raise Unreachable("no connection")
        return self.tokens.get(token)

    async def grants(self, user: User, right: Right) -> bool:
        self.asked.append((user, right))
        if self.away:
            raise Unreachable("no connection")
        return (user.name, right.verb, right.namespace) in self.granted

    async def allows(self, user: User, verb: str, path: str) -> bool:
        self.asked.append((user, verb, path))
        if self.away:
            raise Unreachable("no connection")
        return (user.name, verb, path) in self.rights


class Caller:
    """Requests with or without credentials; the clock of the server is set here."""

    def __init__(self, cluster: Cluster, authority: trustme.CA, directory: Path) -> None:
        self.cluster, self.authority = cluster, authority
        self.now = 0.0
        issued = authority.issue_cert("127.0.0.1")
        self._files = [str(directory / name) for name in ("tls.crt", "tls.key", "ca.crt")]
        for path, pem in zip(
            self._files,
            (issued.cert_chain_pems[0], issued.private_key_pem, authority.cert_pem),
            strict=True,
        ):
            pem.write_to_path(path)
        self._session: aiohttp.ClientSession | None = None
        self.url = ""

    def server(self) -> Server:
        certificate, key, authority = self._files
        backend = FakeBackend(config=dict)
        access = AccessControl(self.cluster, Settings().always_allow_paths, clock=lambda: self.now)
        return Server(build_app(backend, access), tls=Tls(Files(certificate, key), authority))

    def trust(self, identity: trustme.LeafCert | None = None) -> ssl.SSLContext:
        context = ssl.create_default_context()
        self.authority.configure_trust(context)
        if identity:
            identity.configure_cert(context)
        return context

    async def get(
        self,
        path: str,
        authorization: str = "",
        method: str = "GET",
        identity: trustme.LeafCert | None = None,
        passed_on: str = "",
    ) -> tuple[int, str]:
        headers = {"Authorization": authorization} if authorization else {}
        if passed_on:
            headers[PASSED_ON] = passed_on
        async with (
            aiohttp.ClientSession() as session,
            session.request(
                method, self.url + path, headers=headers, ssl=self.trust(identity)
            ) as answer,
        ):
            if answer.status == 401:
                assert answer.headers["WWW-Authenticate"] == "Bearer"
            return answer.status, await answer.text()


@pytest.fixture
async def caller(tmp_path: Path) -> AsyncIterator[Caller]:
    caller = Caller(Cluster(), trustme.CA(), tmp_path)
    async with caller.server() as server:
        caller.url = server.url
        yield caller


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/healthz", "/livez?verbose"])
async def test_probes_are_open_and_nobody_is_asked(caller: Caller, path: str) -> None:
    assert (await caller.get(path))[0] == 200
    assert caller.cluster.asked == []


async def test_a_token_that_the_api_server_passed_on_is_a_token(caller: Caller) -> None:
    assert (await caller.get("/metrics", passed_on="Bearer scrape"))[0] == 200
    assert (await caller.get("/metrics", passed_on="Bearer wrong"))[0] == 401
    assert (await caller.get("/configz", passed_on="Bearer scrape"))[0] == 403


@pytest.mark.parametrize("shown", ["Bearer wrong", "Basic c2NyYXBl", "Bearer"])
async def test_authorization_counts_alone_where_there_is_one(caller: Caller, shown: str) -> None:
    assert (await caller.get("/metrics", shown, passed_on="Bearer root"))[0] in (401, 403)


@pytest.mark.parametrize(
    ("path", "authorization", "method", "status", "text"),
    [
        ("/metrics", "Bearer scrape", "GET", 200, ""),
        ("/metrics", "bearer  scrape ", "GET", 200, ""),
        ("/metrics", "Bearer root", "HEAD", 200, ""),
        ("/metrics", "", "GET", 403, 'User \\"system:anonymous\\" cannot get path \\"/metrics\\"'),
        ("/metrics", "Basic c2NyYXBl", "GET", 403, "system:anonymous"),
        ("/metrics", "Bearer", "GET", 403, "system:anonymous"),
        ("/metrics", "Bearer wrong", "GET", 401, "not, or no longer, valid"),
        ("/metrics", "Bearer ü", "GET", 401, "not, or no longer, valid"),
        ("/metrics", "Bearer scrape", "HEAD", 403, ""),
        ("/configz", "Bearer scrape", "GET", 403, "cannot get path"),
        ("/configz", "Bearer root", "GET", 200, "{}"),
        ("/livez/ping", "", "GET", 403, "system:anonymous"),
        ("/livez/", "", "GET", 403, "system:anonymous"),
        ("/nowhere", "", "GET", 403, "system:anonymous"),
        ("/nowhere", "Bearer root", "GET", 404, "no such path"),
        ("/metrics", "Bearer root", "POST", 405, "only GET, HEAD"),
    ],
)
async def test_who_may_what(
    caller: Caller, path: str, authorization: str, method: str, status: int, text: str
) -> None:
    got, body = await caller.get(path, authorization, method)
    assert got == status
    assert text in body


async def test_reviews_see_the_user_as_the_cluster_knows_it(caller: Caller) -> None:
    await caller.get("/metrics", "Bearer scrape")
    await caller.get("/metrics")
    groups = ("system:serviceaccounts", "system:authenticated")
    known = User(SCRAPER.name, "1", groups)
    anonymous = User("system:anonymous", groups=("system:unauthenticated",))
    assert caller.cluster.asked == [
        ("scrape",),
        (known, "get", "/metrics"),
        (anonymous, "get", "/metrics"),
    ]


async def test_a_right_or_a_token_that_is_taken_away_ends_within_seconds(caller: Caller) -> None:
    cluster = caller.cluster
    assert (await caller.get("/metrics", "Bearer scrape"))[0] == 200
    cluster.rights.clear()
    assert (await caller.get("/metrics", "Bearer scrape"))[0] == 200
    caller.now += FRESH_SECONDS
    assert (await caller.get("/metrics", "Bearer scrape"))[0] == 403
    cluster.tokens.clear()
    caller.now += FRESH_SECONDS
    assert (await caller.get("/metrics", "Bearer scrape"))[0] == 401


async def test_scrapes_go_on_for_a_while_without_the_api_server(caller: Caller) -> None:
    assert (await caller.get("/metrics", "Bearer scrape"))[0] == 200
    caller.cluster.away = True
    caller.now += STALE_SECONDS - 1
    assert (await caller.get("/metrics", "Bearer scrape"))[0] == 200
    status, body = await caller.get("/metrics", "Bearer root")
    assert status == 503
    assert "cannot be asked" in body
    assert (await caller.get("/livez"))[0] == 200


async def test_a_client_certificate_names_a_user_and_groups(caller: Caller) -> None:
    issue = caller.authority.issue_cert
    admin = issue(common_name="someone", organization_name="system:masters")
    assert (await caller.get("/configz", identity=admin))[0] == 200
    assert caller.cluster.asked == []

    scraper = issue(common_name=SCRAPER.name, organization_name="team")
    assert (await caller.get("/metrics", identity=scraper))[0] == 200
    assert caller.cluster.asked == [
        (User(SCRAPER.name, groups=("team", "system:authenticated")), "get", "/metrics")
    ]


async def test_a_certificate_of_another_authority_is_refused(caller: Caller) -> None:
    stranger = trustme.CA().issue_cert(common_name="x", organization_name="system:masters")
    with pytest.raises(aiohttp.ClientError):
        await caller.get("/livez", identity=stranger)


@pytest.mark.parametrize(
    "target",
    [
        "/livez/../metrics",
        "/livez/%2e%2e/metrics",
        "//livez/../metrics",
        "/livez%2f..%2fmetrics",
        "/%6detrics",
        "/metrics;/livez",
        "/metrics#/livez",
        "http://elsewhere/metrics",
        "/metrics\xff",
        "/\xed\xa0\x80",
    ],
)
async def test_odd_spellings_of_a_path_open_nothing(caller: Caller, target: str) -> None:
    port = int(caller.url.rpartition(":")[2])
    reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=caller.trust())
    writer.write(f"GET {target} HTTP/1.1\r\nHost: x\r\n\r\n".encode("latin-1"))
    status = int((await reader.readline()).split()[1])
    writer.close()
    assert status in (400, 403)


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("127.0.0.1", True),
        ("127.8.8.8", True),
        ("::1", True),
        ("localhost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("", False),
        ("10.0.0.1", False),
        ("localhost.example.com", False),
    ],
)
def test_what_counts_as_loopback(address: str, expected: bool) -> None:
    assert is_loopback(address) is expected


@pytest.mark.parametrize(
    ("settings", "scheme", "status"),
    [
        pytest.param(Settings(port=0), "http", 200, id="loopback is open"),
        pytest.param(Settings(port=0, bind_address="0.0.0.0"), "https", 403, id="elsewhere"),
        pytest.param(Settings(port=0, protection="always"), "https", 403, id="if wanted"),
        pytest.param(
            Settings(port=0, protection="always", always_allow_paths=("/met*",)),
            "https",
            200,
            id="paths may be opened",
        ),
    ],
)
async def test_plain_http_exists_on_loopback_only(
    settings: Settings, scheme: str, status: int
) -> None:
    backend = FakeBackend()
    server = await open_server(backend, settings, Cluster())
    async with server, aiohttp.ClientSession() as session:
        assert server.url.startswith(f"{scheme}://")
        url = f"{scheme}://127.0.0.1:{server.port}/metrics"
        async with session.get(url, ssl=False) as answer:
            assert answer.status == status
