"""The socket under the endpoints: free ports, TLS, and a clean end."""

import ssl
from pathlib import Path

import aiohttp
import pytest
import trustme
from aiohttp import web

from scheduler.serve.certificates import Files, Tls
from scheduler.serve.endpoints import build_app
from scheduler.serve.server import Server
from tests.serve.fake_backend import FakeBackend


def bare_app() -> web.Application:
    return build_app(FakeBackend())


async def test_port_zero_becomes_a_real_port_and_is_free_again_after_stop() -> None:
    server = Server(bare_app())
    await server.start()
    assert server.port > 0
    async with aiohttp.ClientSession() as session:
        async with session.get(f"{server.url}/livez") as response:
            assert response.status == 200
        await server.stop()
        with pytest.raises(aiohttp.ClientConnectorError):
            await session.get(f"{server.url}/livez")


async def test_stop_may_be_called_twice_and_before_start() -> None:
    await Server(bare_app()).stop()
    server = Server(bare_app())
    await server.start()
    await server.stop()
    await server.stop()


async def test_a_taken_port_is_an_error_at_start() -> None:
    async with Server(bare_app()) as first:
        with pytest.raises(OSError, match="address already in use"):
            await Server(bare_app(), port=first.port).start()


async def test_tls(tmp_path: Path) -> None:
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1")
    certificate, key = tmp_path / "tls.crt", tmp_path / "tls.key"
    issued.cert_chain_pems[0].write_to_path(certificate)
    issued.private_key_pem.write_to_path(key)
    trust = ssl.create_default_context()
    authority.configure_trust(trust)

    server = Server(bare_app(), tls=Tls(Files(str(certificate), str(key))))
    async with server, aiohttp.ClientSession() as session:
        assert server.url.startswith("https://127.0.0.1:")
        async with session.get(f"{server.url}/livez", ssl=trust) as response:
            assert await response.text() == "ok"


def test_ipv6_addresses_are_bracketed() -> None:
    assert Server(bare_app(), host="::1", port=10259).url == "http://[::1]:10259"
