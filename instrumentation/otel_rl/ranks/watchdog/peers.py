"""The other ranks of this node, as their rings tell: who is silent, and who is in a phase that may be long."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, NamedTuple

from otel_rl.flight_recorder import layout, reader

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

#: Seconds without a heartbeat after which a peer is called silent; each gives one a second.
SILENT = 10.0


class Peer(NamedTuple):
    """One other process of the run that lives on this node."""

    rank: int | None
    pid: int
    #: Seconds since its last heartbeat.
    silent: float
    phases: frozenset[str]

    @property
    def words(self) -> str:
        """The sentence about a silent peer."""
        who = f"rank {self.rank}" if self.rank is not None else f"process {self.pid}"
        return f"{who} gave no heartbeat for {self.silent:.0f} s, it may hold the GIL or be stopped"


def find_peers(own: Path) -> list[Peer]:
    """Read the rings beside ``own``, which is the ring of this process."""
    rings = [ring for ring in map(_read, sorted(own.parent.glob(f"*{layout.SUFFIX}"))) if ring is not None]
    mine = next((ring for ring in rings if ring.path == own), None)
    if mine is None:
        return []
    # One of the same process is of the program that it was before an exec.
    others = (ring for ring in rings if (ring.lifetime, ring.rank) != (mine.lifetime, mine.rank))
    peers = (ring for ring in others if (ring.run_id, ring.host) == (mine.run_id, mine.host))
    return [_peer(ring) for ring in peers if not ring.ended and ring.is_alive()]


def _read(path: Path) -> reader.RingSnapshot | None:
    try:
        return reader.read(path, {os.geteuid()})
    except reader.UnreadableRing:
        return None


def _peer(ring: reader.RingSnapshot) -> Peer:
    silent = (time.monotonic_ns() - (ring.heartbeat or ring.clocks[0])) / 1e9
    phases = frozenset(event.name for event in ring.open if event.kind == layout.PHASE)
    return Peer(ring.rank, ring.lifetime.pid, silent, phases)


def silent(peers: Collection[Peer]) -> list[str]:
    """Say who is silent."""
    return [peer.words for peer in peers if peer.silent >= SILENT]
