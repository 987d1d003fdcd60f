"""Fixed ports, so that what a page tells people to type works; the next free ones if taken."""

from __future__ import annotations

import errno
import socket

HOST = "127.0.0.1"
API_PORT = 18080
"""Of the API server."""
SERVING_PORT = 10259
"""Of the scheduler, as everywhere: `equipoise explain` asks there."""
_TRIED = 50


def choose(wanted: int | None, usual: int) -> int:
    """The port that was asked for; any free one for 0; the usual or the next free one for None.

    Raises OSError if the port that was asked for is taken.
    """
    if wanted is not None:
        return _probed(wanted)
    for port in range(usual, usual + _TRIED):
        try:
            return _probed(port)
        except OSError as fault:
            if fault.errno != errno.EADDRINUSE:
                raise
    return _probed(0)


def _probed(port: int) -> int:
    """The port, which could be had a moment ago."""
    with socket.socket() as probe:
        # As servers do: a connection that has just been closed does not count.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
            probe.listen()
        except OSError as fault:
            words = f"cannot listen on {HOST}:{port}: {fault.strerror}"
            raise OSError(fault.errno, words) from None
        number: int = probe.getsockname()[1]
        return number
