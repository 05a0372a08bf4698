"""Which process of this machine listens at an address, as ``/proc`` shows it to its user."""

from __future__ import annotations

import ipaddress
import socket
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

_TABLES = ("/proc/net/tcp", "/proc/net/tcp6")
#: Fields of a line, see proc_net_tcp(5): own address, state, inode; and the state of one that listens.
_OWN, _STATE, _INODE = 1, 3, 9
_LISTENS = "0A"
#: Processes that are looked at.
_MOST = 4096


class Listener(NamedTuple):
    """A process that listens."""

    pid: int
    #: Name of its program.
    program: str
    #: It is stopped by a signal or a debugger.
    is_stopped: bool


def find_listener(address: str, port: int) -> Listener | None:
    """Return who listens at ``port``, where ``address`` is this machine; None where that cannot be seen."""
    if not _is_here(address):
        return None
    inodes = {inode for table in _TABLES for inode in _listening(Path(table), port)}
    pid = _owner({f"socket:[{inode}]" for inode in inodes}) if inodes else None
    if pid is None:
        return None
    with suppress(OSError):
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        name, _, fields = text.partition("(")[2].rpartition(")")
        return Listener(pid, name, fields.split()[0] in "Tt")
    return None


def _is_here(address: str) -> bool:
    if address in ("localhost", socket.gethostname()):
        return True
    try:
        return ipaddress.ip_address(address).is_loopback
    except ValueError:
        return False


def _listening(table: Path, port: int) -> list[str]:
    try:
        lines = table.read_text(encoding="utf-8", errors="replace").splitlines()[1:]
    except OSError:
        return []
    fields = (line.split() for line in lines)
    return [
        one[_INODE]
        for one in fields
        if len(one) > _INODE and one[_STATE] == _LISTENS and int(one[_OWN].rpartition(":")[2], 16) == port
    ]


def _owner(sockets: set[str]) -> int | None:
    """Return the process that has one of ``sockets`` open; of several, as workers of a server, the first one."""
    pids = sorted(int(folder.name) for folder in Path("/proc").iterdir() if folder.name.isdecimal())
    return next((pid for pid in pids[:_MOST] if _has_open(pid, sockets)), None)


def _has_open(pid: int, sockets: set[str]) -> bool:
    with suppress(OSError):
        for entry in Path(f"/proc/{pid}/fd").iterdir():
            with suppress(OSError):
                if str(entry.readlink()) in sockets:
                    return True
    return False
