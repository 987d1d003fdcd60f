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
_BACKLOG = 512
"""Connections that the kernel keeps until they are accepted."""


def listen(wanted: int | None, usual: int) -> socket.socket:
    """Listen on the port that was asked for; on any for 0; on the usual or the next free for None.

    The socket is the choice: no other program can take the port before the server uses it.
    Raises OSError if the port that was asked for is taken.
    """
    if wanted is not None:
        return _listening(wanted)
    for port in range(usual, usual + _TRIED):
        try:
            return _listening(port)
        except OSError as fault:
            if fault.errno != errno.EADDRINUSE:
                raise
    return _listening(0)


def port_of(listening: socket.socket) -> int:
    """The port that the socket listens on."""
    number: int = listening.getsockname()[1]
    return number


def _listening(port: int) -> socket.socket:
    listening = socket.socket()
    try:
        # As servers do: a connection that has just been closed does not count.
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.setblocking(False)
        listening.bind((HOST, port))
        listening.listen(_BACKLOG)
    except OSError as fault:
        listening.close()
        words = f"cannot listen on {HOST}:{port}: {fault.strerror}"
        raise OSError(fault.errno, words) from None
    return listening
