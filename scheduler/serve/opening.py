"""How the endpoints are opened: to everybody on this machine, or to those the cluster lets in."""

import asyncio
import ipaddress
import socket

from scheduler.config.schema import Server as Settings
from scheduler.observe.instruments import Counter
from scheduler.serve.access import Access, Reviewer
from scheduler.serve.certificates import Files, SelfSigned, Tls
from scheduler.serve.endpoints import Sources, build_app
from scheduler.serve.server import Server


async def open_server(
    sources: Sources, settings: Settings, reviewer: Reviewer, dropped: Counter | None = None
) -> Server:
    """The server that the settings ask for, not yet started.

    On an address that only this machine reaches, everybody may read, by default over plain HTTP.
    Anywhere else it is TLS, and `reviewer` is asked about every caller. Raises OSError if there is
    no certificate to serve with. `dropped` counts, by reason, who is not served to the end.
    """
    reviewed = settings.protection == "always" or not is_loopback(settings.bind_address)
    access = Access(reviewer, settings.always_allow_paths) if reviewed else None
    wanted = reviewed or settings.tls_cert_file
    tls = await asyncio.to_thread(_tls, settings) if wanted else None
    app = build_app(sources, access)
    return Server(app, host=settings.bind_address, port=settings.port, tls=tls, dropped=dropped)


def is_loopback(address: str) -> bool:
    """Whether nobody but this machine can reach the address; a name counts as reachable."""
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return address == "localhost"


def _tls(settings: Settings) -> Tls:
    if settings.tls_cert_file:
        source = Files(settings.tls_cert_file, settings.tls_private_key_file)
        return Tls(source, settings.client_ca_file)
    names = ["localhost", "127.0.0.1", "::1", socket.gethostname()]
    try:
        if not ipaddress.ip_address(settings.bind_address).is_unspecified:
            names.append(settings.bind_address)
    except ValueError:
        names.append(settings.bind_address)
    return Tls(SelfSigned(names), settings.client_ca_file)
