"""The certificate that is shown to callers: from files, which may be rotated, or self-signed."""

import asyncio
import os
import ssl
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, Protocol

from scheduler import machine
from scheduler.config import pem
from scheduler.config.trust import tls_context
from scheduler.observe.logs import get_logger
from scheduler.serve.self_signed import VALID_DAYS, made_elsewhere

log = get_logger(__name__)

RENEW_SECONDS = VALID_DAYS * 24 * 3600 / 2


class CertificateSource(Protocol):
    """Where key and certificate come from."""

    name: str

    def load(self) -> bytes:
        """Both as PEM; blocks, raises OSError."""


class Files:
    """A certificate chain and its key in two files."""

    def __init__(self, certificate: str, key: str) -> None:
        self.name = f"{certificate} and {key}"
        self._paths = (Path(key), Path(certificate))

    def load(self) -> bytes:
        """What is in the files now."""
        return b"\n".join(path.read_bytes() for path in self._paths)


class SelfSigned:
    """A certificate of our own making, made anew long before it expires."""

    def __init__(
        self,
        names: Sequence[str],
        clock: Callable[[], float] = machine.monotonic,
        make: Callable[[Sequence[str]], bytes] = made_elsewhere,
    ) -> None:
        self.name = "self-signed certificate"
        self._names = tuple(dict.fromkeys(names))
        self._clock = clock
        self._make = make
        self._made: tuple[float, bytes] | None = None

    def load(self) -> bytes:
        """The one in use, or a new one when that is old."""
        if self._made is None or self._clock() - self._made[0] > RENEW_SECONDS:
            self._made = self._clock(), self._make(self._names)
        return self._made[1]


class _Material(NamedTuple):
    """The server's certificate, and the CA of client certificates; both as PEM."""

    certificate: bytes
    client_authority: bytes


class Tls:
    """The TLS side of a listening socket. What was rotated counts for new connections.

    Making one reads files, which blocks; raises OSError if they hold no valid certificate.
    """

    def __init__(self, source: CertificateSource, client_authority: str = "") -> None:
        self._source = source
        self._client_authority = client_authority
        self._trouble = ""
        self._material = self._load()
        self._current = self._context_of(self._material)
        self.context = self._context_of(self._material)
        """For the socket, which never replaces it: each connection switches to the current one."""
        self.context.sni_callback = self._move

    async def refresh(self) -> None:
        """Take up what is in the files by now; trouble is logged once and changes nothing."""
        try:
            material = await asyncio.to_thread(self._load)
            if material != self._material:
                self._current = self._context_of(material)
                self._material = material
                log.info("Serving with a new certificate")
            self._trouble = ""
        except OSError as fault:
            trouble = str(fault)
            if trouble != self._trouble:
                log.warning("A new serving certificate cannot be used", error=trouble)
            self._trouble = trouble

    def _load(self) -> _Material:
        authority = Path(self._client_authority).read_bytes() if self._client_authority else b""
        return _Material(self._source.load(), authority)

    def _context_of(self, material: _Material) -> ssl.SSLContext:
        context = tls_context(ssl.Purpose.CLIENT_AUTH)
        if self._client_authority:
            try:
                context.load_verify_locations(cadata=pem.plain(material.client_authority.decode()))
            except (ssl.SSLError, ValueError) as fault:
                raise OSError(f"{self._client_authority}: {_reason(fault)}") from fault
            context.verify_mode = ssl.CERT_OPTIONAL
        try:
            with _as_file(material.certificate) as path:
                context.load_cert_chain(path, password=_no_password)
        except ssl.SSLError as fault:
            raise OSError(f"{self._source.name}: {_reason(fault)}") from fault
        return context

    def _move(self, connection: ssl.SSLObject | ssl.SSLSocket, *_: object) -> None:
        connection.context = self._current


def _reason(fault: Exception) -> str:
    return getattr(fault, "reason", None) or str(fault)


def _no_password() -> bytes:
    """Without this the library would ask for one on the terminal."""
    return b""


@contextmanager
def _as_file(pem: bytes) -> Iterator[str]:
    """The text under a path, since the library reads nothing else; in memory if possible."""
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("certificate")
        try:
            os.write(descriptor, pem)
            yield f"/proc/self/fd/{descriptor}"
        finally:
            os.close(descriptor)
    else:
        with tempfile.NamedTemporaryFile() as file:
            file.write(pem)
            file.flush()
            yield file.name
