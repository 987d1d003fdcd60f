"""The certificate that is shown to callers: from files, which may be rotated, or self-signed."""

import asyncio
import os
import ssl
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

from scheduler.observe.logs import get_logger
from scheduler.serve.self_signed import VALID_DAYS, made_elsewhere

log = get_logger(__name__)

RENEW_SECONDS = VALID_DAYS * 24 * 3600 / 2


class Source(Protocol):
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
        clock: Callable[[], float] = time.monotonic,
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


class Tls:
    """The TLS side of a listening socket. A new certificate counts for new connections.

    Making one reads the source, which blocks; raises OSError if it has nothing that will do.
    """

    def __init__(self, source: Source, client_authority: str = "") -> None:
        self._source = source
        self._pem = b""
        self._trouble = ""
        self.context = _context()
        if client_authority:
            self.context.load_verify_locations(client_authority)
            self.context.verify_mode = ssl.CERT_OPTIONAL
        self._use(source.load())

    async def refresh(self) -> None:
        """Take up what the source has by now; trouble is logged once and changes nothing."""
        try:
            pem = await asyncio.to_thread(self._source.load)
            if pem != self._pem:
                self._use(pem)
                log.info("Serving with a new certificate")
            self._trouble = ""
        except OSError as fault:
            trouble = str(fault)
            if trouble != self._trouble:
                log.warning("A new serving certificate cannot be used", error=trouble)
            self._trouble = trouble

    def _use(self, pem: bytes) -> None:
        try:
            with _as_file(pem) as path:
                # Not the live one at once: a key that does not match would spoil it.
                for context in (_context(), self.context):
                    context.load_cert_chain(path, password=_no_password)
        except ssl.SSLError as fault:
            raise OSError(f"{self._source.name}: {fault.reason or fault}") from fault
        self._pem = pem


def _context() -> ssl.SSLContext:
    return ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)


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
