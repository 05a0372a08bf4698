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

    who: str
    #: Seconds since its last heartbeat.
    silent: float
    phases: frozenset[str]

    @property
    def words(self) -> str:
        """The sentence about a silent peer."""
        return f"{self.who} gave no heartbeat for {self.silent:.0f} s, it may hold the GIL or be stopped"


def find_peers(own: Path) -> list[Peer]:
    """Read the rings beside ``own``, which is the ring of this process."""
    return [_peer(ring) for ring in find_rings(own)[1]]


def find_rings(own: Path) -> tuple[reader.RingSnapshot | None, list[reader.RingSnapshot]]:
    """Return the ring ``own`` of this process, and those of its peers; None and no peers where it cannot be read."""
    rings = [ring for ring in map(_read, sorted(own.parent.glob(f"*{layout.SUFFIX}"))) if ring is not None]
    mine = next((ring for ring in rings if ring.path == own), None)
    if mine is None:
        return None, []
    # One of the same process is of the program that it was before an exec.
    others = (ring for ring in rings if (ring.lifetime, ring.rank) != (mine.lifetime, mine.rank))
    peers = (ring for ring in others if (ring.run_id, ring.host) == (mine.run_id, mine.host))
    return mine, [ring for ring in peers if not ring.ended and ring.is_alive()]


def label(ring: reader.RingSnapshot) -> str:
    """Return the rank of ``ring``, or else its process, for a sentence."""
    return f"rank {ring.rank}" if ring.rank is not None else f"process {ring.lifetime.pid}"


def _read(path: Path) -> reader.RingSnapshot | None:
    try:
        return reader.read(path, {os.geteuid()})
    except reader.UnreadableRing:
        return None


def _peer(ring: reader.RingSnapshot) -> Peer:
    # Before the first step no thread of ours needs to run.
    gives_signs = bool(ring.heartbeat or ring.last_step[1])
    silent = (time.monotonic_ns() - (ring.heartbeat or ring.clocks[0])) / 1e9 if gives_signs else 0.0
    phases = frozenset(event.name for event in ring.open if event.kind == layout.PHASE)
    return Peer(label(ring), silent, phases)


def silent(peers: Collection[Peer]) -> list[str]:
    """Say who is silent."""
    return [peer.words for peer in peers if peer.silent >= SILENT]
