"""Postmortem of a run, also while it hangs: where each rank is, who waits for whom, and at whom that ends.

    result = examine(Path("./otel-rl/run"), Path("/dev/shm"))
    print(as_text(result))

Modules, each importing only those below it:
    text: the table and the sentences for a person, and JSON for a program.
    waits: who waits for whom, by group and number of the collective.
    ranks: one process: step, phase, collective, how it ended.
    rings: the rings of a run, in its folder and in memory of this node.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from otel_rl.offline.postmortem import ranks, rings, waits

if TYPE_CHECKING:
    from pathlib import Path

    from otel_rl.offline.postmortem.ranks import RankState
    from otel_rl.offline.postmortem.waits import Waits


@dataclass
class Postmortem:
    """What was found."""

    run_id: str
    #: Wall clock (ns) that "seconds ago" refers to: now while a process runs, else the last sign of any.
    at: int
    is_running: bool
    ranks: list[RankState]
    waits: Waits
    #: Ranks without a ring, and what is known of them.
    missing: dict[int, str]
    notes: list[str]


def examine(directory: Path, ring_directory: Path, run: str | None = None) -> Postmortem:
    """Read the rings of the run in ``directory``, its newest one unless ``run`` says which.

    Raises:
        UnusableInput: nothing was found, with the reason.
    """
    found = rings.find(directory, ring_directory, run)
    states = sorted((ranks.state_of(ring, found.exits) for ring in found.rings), key=lambda one: one.order)
    is_running = any(one.is_alive for one in states)
    at = time.time_ns() if is_running else max(one.ring.last_sign for one in states)
    return Postmortem(found.run_id, at, is_running, states, waits.find(states), rings.missing(found), found.notes)
