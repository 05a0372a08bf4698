"""Rings of a run of three ranks, written by the product's own writer."""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import TYPE_CHECKING

from otel_rl.flight_recorder import collective_places, layout
from otel_rl.flight_recorder.ring import Ring, create
from otel_rl.process import exit_records
from otel_rl.ranks.postmortem import examine

if TYPE_CHECKING:
    from pathlib import Path

    from otel_rl.process.lifetime import Lifetime
    from otel_rl.ranks.postmortem import Postmortem

ALL, PAIR = "0\tdefault_pg\t0-2", "1\tpair\t1-2"


class Ranks:
    """Rings of a run of three ranks."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.nodes = 0
        self.handles: list[object] = []
        self.rings = [self.add(rank) for rank in range(3)]

    def add(self, rank: int, attempt: str = "0.0.0", run: str = "run") -> Ring:
        ring = create(self.folder, f"otel-rl-{run}-{rank}-{attempt}")
        # All are written by this process: the name of the node tells them apart.
        self.nodes += 1
        ring.identify(run, attempt, f"node{self.nodes}", (rank, 3, rank))
        return ring

    def passed(self, rank: int, number: int, group: str = ALL, operation: str = "all_reduce") -> None:
        self.rings[rank].end(self.rings[rank].begin(layout.COLLECTIVE, operation, 0, group, number), False)

    def waits(self, rank: int, number: int, group: str = ALL, operation: str = "all_reduce") -> None:
        self.passed(rank, number, group, operation)
        self.rings[rank].begin(layout.WAIT, operation, 0, group, number)

    def by_torch(self, rank: int, number: int, *, has_ended: bool = False) -> None:
        """An all_reduce of C++ code, which torch numbers."""
        ring = self.rings[rank]
        what = ring.collective("all_reduce", ALL) + layout.IS_NUMBERED_BY_TORCH + number
        place = ring.places.begin(what, collective_places.clock())
        if has_ended:
            collective_places.end(place, collective_places.clock(), False)

    def opens(self, rank: int, kind: int, name: str, argument: int = 0) -> None:
        self.handles.append(self.rings[rank].begin(kind, name, argument))

    def tells(self, who: Lifetime, status: int) -> None:
        """The parent of the ranks tells how ``who`` ended."""
        seen = exit_records.make(who, status, None, "a parent", None)
        line = {**asdict(seen), "lifetime": list(seen.lifetime)}
        (self.folder / "otel-rl-run-node.exits").write_text(json.dumps(line))

    def examine(self) -> Postmortem:
        return examine(self.folder, self.folder)
