"""Ports for programs that are told where to listen, and listen a while later."""

import secrets
import socket

# Below what Linux gives to sockets that ask for any port (from 32768 on). One of those would go to
# the next connection or server of another test before the program listens.
PORTS = range(15_000, 30_000)

_given: set[int] = set()


def free_port() -> int:
    """A port that is free on all addresses, and that this process was not given before."""
    while True:
        # Not from `random`, which tests seed: workers would try the same ports in the same order.
        port = secrets.choice(PORTS)
        if port not in _given and _is_free(port):
            _given.add(port)
            return port


def free_ports(count: int) -> list[int]:
    """Distinct free ports."""
    return [free_port() for _ in range(count)]


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        try:
            probe.bind(("", port))
        except OSError:
            return False
        return True
