"""The ranks of this node: compared step by step, by the rings that they write."""

from __future__ import annotations

import os
import time
from itertools import islice
from typing import TYPE_CHECKING

from otel_rl.flight_recorder import layout
from otel_rl.flight_recorder.reader import Ring, UnreadableRing, read, read_header
from otel_rl.stragglers import timeline
from otel_rl.stragglers.comparison import compare
from otel_rl.stragglers.timeline import StepKey

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from otel_rl.flight_recorder.reader import Event
    from otel_rl.stragglers.comparison import Comparison
    from otel_rl.stragglers.timeline import RankStep

#: Steps that one look compares at most: its cost must not grow with the steps that have passed.
MOST_STEPS = 8
#: Seconds between two searches for rings of other ranks.
SEARCH = 10.0


class Node:
    """Compares the steps that all known ranks of a node have ended since the last look.

    Args:
        own: The ring of this process; ranks of the same run, attempt, host and boot are compared with it.
    """

    def __init__(self, own: Path) -> None:
        self._own = own
        self._others: list[Path] = []
        self._next_search = 0.0
        #: Newest step of this rank at the last look, and the newest one that was compared.
        self._seen: StepKey | None = None
        self._compared: StepKey | None = None

    def look(self) -> list[Comparison]:
        """Return the newest steps that were not compared before, oldest first."""
        own = _read(self._own, time.monotonic_ns())
        steps = [event for event in own.records if event.kind == layout.STEP] if own is not None else []
        if own is None or not steps or _key(steps[-1]) == self._seen:
            return []
        self._seen = _key(steps[-1])
        self._search(own)
        # Two more: one that other ranks have not ended yet, and one whose end the first window begins with.
        return self._compare(since=steps[-MOST_STEPS - 2 :][0].moment)

    def _compare(self, since: int) -> list[Comparison]:
        # A child of a rank may have its rank, and steps of its own: the ring with most collectives counts, or ours.
        rings = [ring for path in self._others if (ring := _read(path, since)) is not None]
        rings.sort(key=lambda ring: sum(event.kind == layout.COLLECTIVE for event in ring.records))
        own = _read(self._own, since)
        rings += [own] if own is not None else []
        steps = {
            ring.rank: timeline.steps(ring.rank, ring.records, since=since) for ring in rings if ring.rank is not None
        }
        if len(steps) < 2:  # noqa: PLR2004 - who is alone waits for nobody
            return []
        keys = list(self._new_keys(steps))[::-1]
        if keys:
            self._compared = keys[-1]
        return [compare(key, {rank: found[key] for rank, found in steps.items()}) for key in keys]

    def _new_keys(self, steps: dict[int, dict[StepKey, RankStep]]) -> Iterator[StepKey]:
        """The newest steps that every rank has ended, newest first, down to the last one that was compared."""
        first, *others = steps.values()
        common = (key for key in reversed(first) if all(key in other for other in others))
        for key in islice(common, MOST_STEPS):
            if key == self._compared:
                return
            yield key

    def _search(self, own: Ring) -> None:
        now = time.monotonic()
        if now < self._next_search or len(self._others) + 1 == own.world_size:
            return
        self._next_search = now + SEARCH
        paths = self._own.parent.glob(f"otel-rl-*{layout.SUFFIX}")
        self._others = [path for path in paths if path != self._own and _is_beside(path, own)]


def _key(step: Event) -> StepKey:
    return StepKey(step.name, step.argument)


def _is_beside(path: Path, own: Ring) -> bool:
    try:
        ring = read_header(path, _owners())
    except UnreadableRing:
        return False
    return (
        ring.run_id == own.run_id
        and ring.attempt == own.attempt
        and ring.host == own.host
        and ring.lifetime.boot_id == own.lifetime.boot_id
        and ring.is_alive() is not False
    )


def _read(path: Path, since: int) -> Ring | None:
    try:
        return read(path, _owners(), since)
    except UnreadableRing:
        return None


def _owners() -> tuple[int]:
    """Anybody may put a file there that says it is of this run."""
    return (os.geteuid(),)
