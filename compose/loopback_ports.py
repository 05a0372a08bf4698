"""Ports of the loopback interface for a server that starts a moment later."""

from __future__ import annotations

import os
import random
import socket
from collections import deque

# The system gives the ports from 32768 on (Linux; macOS and Windows: from 49152 on) to clients. A client that connects
# meanwhile could take a port there before its server listens, or while its server restarts.
FIRST = 20_000
END = 32_768
SHARES = 16


def _candidates() -> deque[int]:
    """All ports in the order of this process: its own share first, which few processes started together have too."""
    shares = [[*range(FIRST + (os.getpid() + place) % SHARES, END, SHARES)] for place in range(SHARES)]
    begin = random.SystemRandom().randrange(len(shares[0]))
    return deque(port for share in shares for port in [*share[begin:], *share[:begin]])


#: Those that have been looked at come last.
_ports = _candidates()


def free_ports(number: int) -> list[int]:
    """Return different ports of 127.0.0.1 that nobody listens on now, outside the range of the clients.

    A process gets a port again only after all others.

    Raises:
        RuntimeError: so many are not free.
    """
    found: list[int] = []
    for _ in range(len(_ports)):
        if len(found) == number:
            break
        port = _ports[0]
        _ports.rotate(-1)
        if _is_free(port):
            found.append(port)
    if len(found) < number:
        raise RuntimeError(f"{len(found)} ports of 127.0.0.1 from {FIRST} to {END - 1} are free, {number} are needed")
    return found


def _is_free(port: int) -> bool:
    with socket.socket() as trial:
        try:
            trial.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
