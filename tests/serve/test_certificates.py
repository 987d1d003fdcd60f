"""Serving certificates: self-signed ones, files that are rotated, and files that are wrong."""

import asyncio
import logging
import ssl
from pathlib import Path

import pytest
import trustme

from scheduler.serve.certificates import RENEW_SECONDS, Files, SelfSigned, Tls
from scheduler.serve.self_signed import made_elsewhere, make
from scheduler.serve.server import Server
from tests.patience import PATIENCE
from tests.serve.test_server import bare_app


class Pair:
    """A certificate and its key in two files, as a Secret is mounted."""

    def __init__(self, directory: Path) -> None:
        self.certificate, self.key = directory / "tls.crt", directory / "tls.key"

    def write(self, authority: trustme.CA, name: str = "127.0.0.1") -> None:
        issued = authority.issue_cert(name)
        self.certificate.write_bytes(issued.cert_chain_pems[0].bytes())
        self.key.write_bytes(issued.private_key_pem.bytes())

    def source(self) -> Files:
        return Files(str(self.certificate), str(self.key))


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    return Pair(tmp_path)


async def shown(server: Server) -> bytes:
    """The certificate that a new connection is shown, whoever signed it."""
    anybody = ssl.create_default_context()
    anybody.check_hostname = False
    anybody.verify_mode = ssl.CERT_NONE
    _, writer = await asyncio.open_connection(server.host, server.port, ssl=anybody)
    try:
        certificate: bytes | None = writer.get_extra_info("ssl_object").getpeercert(True)
    finally:
        writer.close()
        await writer.wait_closed()
    assert certificate
    return certificate


def trusting(pem: bytes) -> ssl.SSLContext:
    """A client that trusts this one certificate."""
    context = ssl.create_default_context()
    context.load_verify_locations(cadata=pem[pem.index(b"-----BEGIN CERT") :].decode())
    return context


def test_a_self_signed_certificate_is_made_by_another_process() -> None:
    pem = made_elsewhere(["localhost", "127.0.0.1", "::1"])
    certificate = ssl.create_default_context()
    certificate.load_verify_locations(cadata=pem[pem.index(b"-----BEGIN CERT") :].decode())
    assert b"PRIVATE KEY" in pem


def test_a_name_that_will_not_do_is_told() -> None:
    with pytest.raises(OSError, match="no self-signed certificate could be made"):
        made_elsewhere(["b\xe4d name"])


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
async def test_clients_can_verify_a_self_signed_certificate(host: str) -> None:
    pem = make(["localhost", "127.0.0.1", "::1"])
    async with Server(bare_app(), tls=Tls(SelfSigned([], make=lambda _: pem))) as server:
        _, writer = await asyncio.open_connection(
            "127.0.0.1", server.port, ssl=trusting(pem), server_hostname=host
        )
        writer.close()
        await writer.wait_closed()


def test_a_self_signed_certificate_is_kept_until_it_is_old() -> None:
    now, made = 0.0, []

    def making(names: object) -> bytes:
        made.append(names)
        return f"{len(made)}".encode()

    source = SelfSigned(["a", "b", "a"], clock=lambda: now, make=making)
    assert [source.load(), source.load()] == [b"1", b"1"]
    now = RENEW_SECONDS + 1
    assert source.load() == b"2"
    assert made == [("a", "b")] * 2


async def test_a_rotated_certificate_is_shown_to_new_connections(pair: Pair) -> None:
    authority = trustme.CA()
    pair.write(authority)
    async with Server(bare_app(), tls=Tls(pair.source()), refresh_seconds=0.01) as server:
        first = await shown(server)
        assert await shown(server) == first
        pair.write(authority)
        async with asyncio.timeout(PATIENCE):
            while await shown(server) == first:  # noqa: ASYNC110  because nobody tells
                await asyncio.sleep(0.01)


async def test_a_bad_rotation_is_reported_once_and_changes_nothing(
    pair: Pair, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    authority = trustme.CA()
    pair.write(authority)
    tls = Tls(pair.source())
    async with Server(bare_app(), tls=tls) as server:
        good = await shown(server)
        pair.key.write_bytes(authority.issue_cert("127.0.0.1").private_key_pem.bytes())
        await tls.refresh()
        await tls.refresh()
        assert await shown(server) == good
        pair.certificate.unlink()
        await tls.refresh()
        assert await shown(server) == good
        pair.write(authority)
        await tls.refresh()
        assert await shown(server) != good
    complaints = [r for r in caplog.records if "cannot be used" in r.getMessage()]
    assert len(complaints) == 2


@pytest.mark.parametrize(
    ("certificate", "key"),
    [
        pytest.param(b"", b"", id="empty files"),
        pytest.param(b"no certificate", b"no key", id="other text"),
        pytest.param(None, b"no key", id="a key that is none"),
    ],
)
def test_a_pair_that_will_not_do_is_an_error_that_names_the_files(
    pair: Pair, certificate: bytes | None, key: bytes
) -> None:
    pair.write(trustme.CA())
    if certificate is not None:
        pair.certificate.write_bytes(certificate)
    pair.key.write_bytes(key)
    with pytest.raises(OSError, match=r"tls\.crt and .*tls\.key"):
        Tls(pair.source())


def test_a_key_with_a_password_is_an_error_and_nobody_is_asked_for_it(pair: Pair) -> None:
    from cryptography.hazmat.primitives.serialization import (
        BestAvailableEncryption,
        Encoding,
        PrivateFormat,
        load_pem_private_key,
    )

    pair.write(trustme.CA())
    key = load_pem_private_key(pair.key.read_bytes(), None)
    locked = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"x"))
    pair.key.write_bytes(locked)
    with pytest.raises(OSError, match=r"tls\.key"):
        Tls(pair.source())


def test_a_missing_file_is_named(pair: Pair) -> None:
    with pytest.raises(FileNotFoundError, match=r"tls\.key"):
        Tls(pair.source())


class Caller:
    """A client with a certificate; returns whether the server accepts it."""

    def __init__(self, server_authority: trustme.CA, authority: trustme.CA) -> None:
        self._context = ssl.create_default_context()
        server_authority.configure_trust(self._context)
        authority.issue_cert("caller.test").configure_cert(self._context)

    async def is_served_by(self, server: Server) -> bool:
        reader, writer = await asyncio.open_connection(
            server.host, server.port, ssl=self._context, server_hostname="127.0.0.1"
        )
        try:
            writer.write(b"GET /livez HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
            return (await reader.readline()).startswith(b"HTTP/1.1 200")
        except ssl.SSLError:  # in TLS 1.3 the client gets it after its handshake
            return False
        finally:
            writer.close()


async def test_a_rotated_client_authority_counts_and_the_old_one_does_not(
    pair: Pair, tmp_path: Path
) -> None:
    ours, old, new = trustme.CA(), trustme.CA(), trustme.CA()
    pair.write(ours)
    bundle = tmp_path / "ca.crt"
    old.cert_pem.write_to_path(bundle)
    tls = Tls(pair.source(), str(bundle))
    async with Server(bare_app(), tls=tls) as server:
        callers = Caller(ours, old), Caller(ours, new)
        assert [await each.is_served_by(server) for each in callers] == [True, False]
        new.cert_pem.write_to_path(bundle)
        await tls.refresh()
        assert [await each.is_served_by(server) for each in callers] == [False, True]
        bundle.write_text("nothing")
        await tls.refresh()
        assert [await each.is_served_by(server) for each in callers] == [False, True]


async def test_a_client_authority_may_have_remarks_in_any_script(
    pair: Pair, tmp_path: Path
) -> None:
    ours = trustme.CA()
    pair.write(ours)
    bundle = tmp_path / "ca.crt"
    bundle.write_bytes("# F\u0151tan\u00fas\u00edtv\u00e1ny\n".encode() + ours.cert_pem.bytes())
    async with Server(bare_app(), tls=Tls(pair.source(), str(bundle))) as server:
        assert await Caller(ours, ours).is_served_by(server)


@pytest.mark.parametrize("text", ["", "nothing", "-----BEGIN CERTIFICATE-----\n"])
def test_a_client_authority_that_is_none_is_an_error_that_names_the_file(
    pair: Pair, tmp_path: Path, text: str
) -> None:
    pair.write(trustme.CA())
    (tmp_path / "ca.crt").write_text(text)
    with pytest.raises(OSError, match=r"ca\.crt"):
        Tls(pair.source(), str(tmp_path / "ca.crt"))
