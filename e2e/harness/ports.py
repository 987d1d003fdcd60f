"""Ports for programs that are told where to listen, and listen a while later."""

import fcntl
import os
import secrets
import socket
import tempfile
from functools import cache
from pathlib import Path

# Below what Linux gives to sockets that ask for any port (from 32768 on). One of those would go to
# the next connection or server of another test before the program listens. Above the ports that
# the demo takes when it is told none, which other tests have it do meanwhile.
PORTS = range(20_000, 30_000)


def free_port() -> int:
    """A port that is free on all addresses, and that no other test is given while this one runs.

    Workers and runs at the same time tell each other by locks, which end with their processes.
    """
    while True:
        # Not from `random`, which tests seed: workers would try the same ports in the same order.
        port = secrets.choice(PORTS)
        if _reserve(port) and _is_free(port):
            return port


def free_ports(count: int) -> list[int]:
    """Distinct free ports."""
    return [free_port() for _ in range(count)]


_given: set[int] = set()


def _reserve(port: int) -> bool:
    """Take the port for this process; False if it was given to this one or another before."""
    if port in _given:  # a process does not exclude itself
        return False
    try:
        fcntl.lockf(_locks(), fcntl.LOCK_EX | fcntl.LOCK_NB, 1, port)
    except OSError:
        return False
    _given.add(port)
    return True


@cache
def _locks() -> int:
    """A file whose bytes are locked, one for each port; it stays open, or all locks would end."""
    path = Path(tempfile.gettempdir()) / f"equipoise-test-ports-{os.getuid()}"
    return os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("", port))
        except OSError:
            return False
        return True
