"""Ports of the loopback interface for a server that starts a moment later."""

from __future__ import annotations

import os
import random
import socket
from itertools import cycle, islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

# The system gives the ports from 32768 on (Linux; macOS and Windows: from 49152 on) to clients. A client that connects
# meanwhile could take a port there before its server listens, or while its server restarts.
FIRST = 20_000
END = 32_768
SHARES = 16


def _candidates() -> Iterator[int]:
    """The ports of this process in turn: none comes again soon, and processes started together share few."""
    own = range(FIRST, END)[os.getpid() % SHARES :: SHARES]
    begin = random.SystemRandom().randrange(len(own))
    return cycle([*own[begin:], *own[:begin]])


_ports = _candidates()


def free_ports(number: int) -> list[int]:
    """Return different ports of 127.0.0.1 that nobody listens on now, outside the range of the clients."""
    return list(islice(filter(_is_free, _ports), number))


def _is_free(port: int) -> bool:
    with socket.socket() as trial:
        try:
            trial.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
