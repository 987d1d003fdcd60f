"""Requests: what is sent, how failures are classified, how credentials are renewed."""

import asyncio
import ssl
from pathlib import Path

import pytest
import trustme
from aiohttp import web

from scheduler.kube.client import MERGE_PATCH, KubeClient, _typed_errors
from scheduler.kube.errors import (
    Ambiguous,
    ClusterUnreachable,
    Conflict,
    Silent,
    TooManyRequests,
    Unauthorized,
    Unreachable,
)
from scheduler.kube.pacing import RateLimit
from scheduler.observe.metrics import Metrics
from tests.patience import PATIENCE

from .support import Kubeconfig, connected, sample, serving


async def test_body_params_and_headers_reach_the_server() -> None:
    seen: dict[str, object] = {}

    async def handler(request: web.Request) -> web.Response:
        if request.path != "/version":
            seen.update(
                method=request.method,
                query=dict(request.query),
                body=await request.json(),
                type=request.headers["Content-Type"],
                agent=request.headers["User-Agent"],
                authorization=request.headers.get("Authorization"),
            )
        return web.json_response({"ok": True})

    async with serving(handler) as url, connected(url) as client:
        answer = await client.request(
            "PATCH", "/api/v1/x", params={"a": "b c"}, body={"k": 1}, content_type=MERGE_PATCH
        )
    assert answer == b'{"ok": true}'
    assert str(seen.pop("agent")).startswith("equipoise/")
    assert seen == {
        "method": "PATCH",
        "query": {"a": "b c"},
        "body": {"k": 1},
        "type": MERGE_PATCH,
        "authorization": None,
    }


async def test_refusals_are_typed_and_counted() -> None:
    async def handler(request: web.Request) -> web.Response:
        if request.path == "/busy":
            return web.json_response({}, status=429, headers={"Retry-After": "3"})
        return web.json_response({"reason": "Conflict"}, status=409)

    metrics = Metrics()
    async with serving(handler) as url:
        client = await KubeClient.connect(metrics=metrics, master=url, environ={})
        with pytest.raises(Conflict):
            await client.request("POST", "/x", body={})
        with pytest.raises(TooManyRequests) as caught:
            await client.request("GET", "/busy")
        await client.close()
    assert caught.value.retry_after == 3.0
    host = url.removeprefix("http://")
    name = "rest_client_requests_total"
    assert sample(metrics, name, code="409", method="POST", host=host) == 1
    assert sample(metrics, name, code="429", method="GET", host=host) == 1
    duration = "rest_client_request_duration_seconds_count"
    assert sample(metrics, duration, verb="POST", host=host) == 1


async def test_no_answer_in_time_is_ambiguous() -> None:
    never = asyncio.Event()

    async def handler(request: web.Request) -> web.Response:
        if request.path != "/version":
            await never.wait()
        return web.Response()

    async with serving(handler) as url, connected(url) as client:
        with pytest.raises(Ambiguous, match=r"no answer within 0\.05 s"):
            await client.request("POST", "/x", body={}, timeout=0.05)
        never.set()


async def test_a_cut_connection_is_ambiguous() -> None:
    async def handler(request: web.Request) -> web.Response:
        if request.path != "/version":
            assert request.transport is not None
            request.transport.abort()
        return web.Response()

    async with serving(handler) as url, connected(url) as client:
        with pytest.raises(Ambiguous):
            await client.request("POST", "/x", body={})


async def test_nobody_listening_is_unreachable_and_counted_as_an_error() -> None:
    async def handler(request: web.Request) -> web.Response:
        return web.Response()

    metrics = Metrics()
    async with serving(handler) as url:
        client = await KubeClient.connect(metrics=metrics, master=url, environ={})
    with pytest.raises(Unreachable):
        await client.request("GET", "/x")
    host = url.removeprefix("http://")
    labels = {"code": "<error>", "method": "GET", "host": host}
    assert sample(metrics, "rest_client_requests_total", **labels) == 1
    await client.close()
    with pytest.raises(Unreachable, match="closed"):
        await client.request("GET", "/x")


async def test_a_redirect_is_not_followed_with_our_token() -> None:
    async def handler(request: web.Request) -> web.Response:
        if request.path == "/away":
            raise web.HTTPFound("/version")
        return web.Response()

    async with serving(handler) as url, connected(url) as client:
        with pytest.raises(Exception, match="302"):
            await client.request("GET", "/away")


async def test_a_silent_stream_is_told_from_one_that_ends() -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        if request.path == "/silent":
            await response.write(b"one")
            await asyncio.Event().wait()
        elif request.path == "/whole":
            await response.write(b"one")
        return response

    async with serving(handler) as url, connected(url) as client:
        async with client.stream("/whole", {}) as stream:
            assert (await stream.read(PATIENCE), await stream.read(PATIENCE)) == (b"one", b"")
        async with client.stream("/silent", {}) as stream:
            assert await stream.read(PATIENCE) == b"one"
            with pytest.raises(Silent):
                await stream.read(0.05)


async def test_the_rate_limit_makes_requests_wait() -> None:
    waited = asyncio.Event()

    class Limit(RateLimit):
        def reserve(self) -> float:
            waited.set()
            return super().reserve()

    async def handler(request: web.Request) -> web.Response:
        return web.Response()

    async with serving(handler) as url:
        limit = Limit(qps=0.001, burst=1)
        client = await KubeClient.connect(
            metrics=Metrics(), master=url, environ={}, rate_limit=limit
        )
        with pytest.raises(Ambiguous):
            await client.request("GET", "/x", timeout=0.05)
        await client.close()
    assert waited.is_set()


class TokenServer:
    """Accepts one token at a time; shows which ones it was offered."""

    def __init__(self, token: str) -> None:
        self.token = token
        self.offered: list[str] = []

    async def answer(self, request: web.Request) -> web.Response:
        authorization = request.headers.get("Authorization", "")
        self.offered.append(authorization.removeprefix("Bearer "))
        return web.Response(status=200 if authorization == f"Bearer {self.token}" else 401)


async def test_on_401_a_rotated_token_is_read_and_the_request_repeated(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("first\n")
    server = TokenServer("first")
    async with serving(server.answer) as url:
        config = Kubeconfig(tmp_path, {"server": url}, {"tokenFile": str(token)}).write()
        client = await KubeClient.connect(metrics=Metrics(), kubeconfig=config)
        token.write_text("second\n")
        server.token = "second"
        await client.request("GET", "/x")
        await client.close()
    assert server.offered == ["first", "first", "second"]


async def test_when_renewed_credentials_are_refused_too_the_caller_hears_it(tmp_path: Path) -> None:
    server = TokenServer("right")
    async with serving(server.answer) as url:
        config = Kubeconfig(tmp_path, {"server": url}, {"token": "right"}).write()
        client = await KubeClient.connect(metrics=Metrics(), kubeconfig=config)
        server.token = "other"
        with pytest.raises(Unauthorized):
            await client.request("GET", "/x")
        await client.close()
    assert server.offered == ["right", "right", "right"]


async def test_refused_credentials_at_start_up_name_what_was_tried(tmp_path: Path) -> None:
    async with serving(TokenServer("right").answer) as url:
        config = Kubeconfig(tmp_path, {"server": url}, {"token": "wrong"}).write()
        with pytest.raises(ClusterUnreachable) as caught:
            await KubeClient.connect(metrics=Metrics(), kubeconfig=config)
    (tried,) = caught.value.tried
    assert tried.startswith(f"kubeconfig {config}: ")
    assert "401" in tried


async def test_an_answer_other_than_401_means_that_the_cluster_is_there() -> None:
    async def handler(request: web.Request) -> web.Response:
        return web.Response(status=403)

    async with serving(handler) as url, connected(url) as client:
        assert await client.server() == url


async def test_behind_a_proxy_requests_and_streams_go_through_it(tmp_path: Path) -> None:
    asked: list[str] = []

    async def proxy(request: web.Request) -> web.Response:
        asked.append(str(request.url))
        if request.path == "/busy":
            return web.json_response({}, status=429, headers={"Retry-After": "3"})
        return web.Response(text="by proxy")

    async with serving(proxy) as url:
        cluster = {"server": "http://cluster.test", "proxy-url": url}
        config = Kubeconfig(tmp_path, cluster).write()
        client = await KubeClient.connect(metrics=Metrics(), kubeconfig=config)
        assert await client.request("POST", "/x", body={}) == b"by proxy"
        with pytest.raises(TooManyRequests) as caught:
            await client.request("GET", "/busy")
        async with client.stream("/pods", {}) as stream:
            assert await stream.read(PATIENCE) == b"by proxy"
        await client.close()
    assert caught.value.retry_after == 3.0
    paths = ("version", "x", "busy", "pods")
    assert asked == [f"http://cluster.test/{path}" for path in paths]


async def test_many_requests_at_once_share_connections_and_get_their_own_answers() -> None:
    async def echo(request: web.Request) -> web.Response:
        return web.Response(text=request.path)

    async with serving(echo) as url, connected(url) as client:
        paths = [f"/pods/{number}" for number in range(300)]
        answers = await asyncio.gather(*(client.request("GET", path) for path in paths))
    assert answers == [path.encode() for path in paths]


async def test_a_large_body_arrives_whole() -> None:
    body = bytes(range(256)) * 20_000

    async def handler(request: web.Request) -> web.StreamResponse:
        if request.path == "/chunked":
            response = web.StreamResponse()
            await response.prepare(request)
            for at in range(0, len(body), 3_000):
                await response.write(body[at : at + 3_000])
            return response
        return web.Response(body=body)

    async with serving(handler) as url, connected(url) as client:
        assert await client.request("GET", "/whole") == body
        assert await client.request("GET", "/chunked") == body


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


def server_tls(authority: trustme.CA, *, client_certificates: bool = False) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("127.0.0.1", "kubernetes.test").configure_cert(context)
    if client_certificates:
        authority.configure_trust(context)
        context.verify_mode = ssl.CERT_REQUIRED
    return context


async def greet(request: web.Request) -> web.Response:
    return web.Response()


async def test_the_given_ca_is_trusted(authority: trustme.CA, tmp_path: Path) -> None:
    ca = tmp_path / "ca.crt"
    authority.cert_pem.write_to_path(ca)
    async with serving(greet, server_tls(authority)) as url:
        config = Kubeconfig(tmp_path, {"server": url, "certificate-authority": str(ca)}).write()
        client = await KubeClient.connect(metrics=Metrics(), kubeconfig=config)
        await client.close()


async def test_another_ca_is_not_trusted_and_the_error_says_so(
    authority: trustme.CA, tmp_path: Path
) -> None:
    ca = tmp_path / "ca.crt"
    trustme.CA().cert_pem.write_to_path(ca)
    cluster = {"certificate-authority": str(ca)}
    async with serving(greet, server_tls(authority)) as url:
        config = Kubeconfig(tmp_path, {"server": url, **cluster}).write()
        with pytest.raises(ClusterUnreachable, match="certificate is not trusted"):
            await KubeClient.connect(metrics=Metrics(), kubeconfig=config)


async def test_verification_is_skipped_only_when_the_kubeconfig_says_so(
    authority: trustme.CA, tmp_path: Path
) -> None:
    async with serving(greet, server_tls(authority)) as url:
        config = Kubeconfig(tmp_path, {"server": url, "insecure-skip-tls-verify": True}).write()
        client = await KubeClient.connect(metrics=Metrics(), kubeconfig=config)
        await client.close()


async def test_the_server_name_of_the_kubeconfig_is_verified(
    authority: trustme.CA, tmp_path: Path
) -> None:
    ca = tmp_path / "ca.crt"
    authority.cert_pem.write_to_path(ca)
    cluster = {"certificate-authority": str(ca)}
    async with serving(greet, server_tls(authority)) as url:
        right = {"server": url, "tls-server-name": "kubernetes.test", **cluster}
        client = await KubeClient.connect(
            metrics=Metrics(), kubeconfig=Kubeconfig(tmp_path, right).write()
        )
        await client.close()
        wrong = {"server": url, "tls-server-name": "other.test", **cluster}
        with pytest.raises(ClusterUnreachable, match="not trusted"):
            await KubeClient.connect(
                metrics=Metrics(), kubeconfig=Kubeconfig(tmp_path, wrong, name="wrong").write()
            )


async def test_a_client_certificate_is_presented(authority: trustme.CA, tmp_path: Path) -> None:
    ca, crt, key = (tmp_path / name for name in ("ca.crt", "tls.crt", "tls.key"))
    authority.cert_pem.write_to_path(ca)
    certificate = authority.issue_cert("equipoise@test")
    certificate.cert_chain_pems[0].write_to_path(crt)
    certificate.private_key_pem.write_to_path(key)
    user = {"client-certificate": str(crt), "client-key": str(key)}
    async with serving(greet, server_tls(authority, client_certificates=True)) as url:
        cluster = {"server": url, "certificate-authority": str(ca)}
        config = Kubeconfig(tmp_path, cluster, user).write()
        client = await KubeClient.connect(metrics=Metrics(), kubeconfig=config)
        await client.close()
        anonymous = Kubeconfig(tmp_path, cluster, name="anonymous").write()
        with pytest.raises(ClusterUnreachable):
            await KubeClient.connect(metrics=Metrics(), kubeconfig=anonymous)


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        pytest.param(
            "File descriptor 9 is used by transport <TCPTransport>",
            Unreachable,
            id="a socket that uvloop still counts as taken was never written to",
        ),
        pytest.param("Session is closed", RuntimeError, id="any other fault is a bug"),
    ],
)
def test_errors_of_the_event_loop_while_connecting(text: str, kind: type[Exception]) -> None:
    with pytest.raises(kind, match=text[:8]), _typed_errors("https://cluster"):
        raise RuntimeError(text)
