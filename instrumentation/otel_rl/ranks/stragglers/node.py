"""The ranks of this node: compared step by step, by the rings that they write."""

from __future__ import annotations

import os
import time
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING

from otel_rl.flight_recorder import layout
from otel_rl.flight_recorder.reader import RingSnapshot, UnreadableRing, read, read_header, read_waited
from otel_rl.ranks.stragglers import timeline
from otel_rl.ranks.stragglers.comparison import compare
from otel_rl.ranks.stragglers.timeline import step_key

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from otel_rl.ranks.stragglers.comparison import StepComparison
    from otel_rl.ranks.stragglers.timeline import RankStep, StepKey

#: Steps that one look compares at most: its cost must not grow with the steps that have passed.
MOST_STEPS = 8
#: Seconds between two searches for rings of other ranks: the first ten, while the ranks begin, and later ones.
FIRST_SEARCH, FIRST_SEARCHES, SEARCH = 1.0, 10, 10.0


class NodeComparison:
    """Compares the steps that all known ranks of a node have ended since the last look.

    Args:
        own: The ring of this process; ranks of the same run, attempt, host and boot are compared with it.
    """

    def __init__(self, own: Path) -> None:
        self._own = own
        #: Ring -> rank of its process, this one among them. Children of a rank may have its rank.
        self._ranks: dict[Path, int] = {}
        self._next_search, self._searches = 0.0, 0
        #: Newest step of this rank at the last look, and the newest one that was compared.
        self._seen: StepKey | None = None
        self._compared: StepKey | None = None

    def waited(self) -> dict[int, tuple[int, int]]:
        """Return for each known rank when its last step was over, and ns that it had waited by then; fast."""
        self._search()
        longest: dict[int, tuple[int, int]] = {}
        for path, rank in self._ranks.items():
            # It may have ended.
            with suppress(UnreadableRing):
                moment, waited = read_waited(path)
                # Of several with one rank the one that waits is the rank itself.
                if moment and (rank not in longest or waited > longest[rank][1]):
                    longest[rank] = moment, waited
        return longest

    def look(self, most: int = MOST_STEPS) -> list[StepComparison]:
        """Return the newest steps that were not compared before, oldest first, ``most`` at most."""
        self._search()
        own = _read(self._own, time.monotonic_ns())
        steps = [event for event in own.records if event.kind == layout.STEP] if own is not None else []
        if own is None or not steps or step_key(steps[-1]) == self._seen:
            return []
        self._seen = step_key(steps[-1])
        # Three more: one that other ranks have not ended yet, one whose end the first window begins with, and one with
        # the last wait before that.
        return self._compare(since=steps[-most - 3 :][0].moment, most=most)

    def _compare(self, since: int, most: int) -> list[StepComparison]:
        # Of several with one rank the ring with most collectives counts, or ours.
        others = [path for path in self._ranks if path != self._own]
        rings = [ring for path in others if (ring := _read(path, since)) is not None]
        rings.sort(key=lambda ring: sum(event.kind == layout.COLLECTIVE for event in ring.records))
        own = _read(self._own, since)
        rings += [own] if own is not None else []
        steps = {
            ring.rank: timeline.steps(ring.rank, ring.records, since=since, all_since=ring.collectives_since)
            for ring in rings
            if ring.rank is not None
        }
        if len(steps) < 2:  # noqa: PLR2004 - who is alone waits for nobody
            return []
        keys = list(self._new_keys(steps, most))[::-1]
        if keys:
            self._compared = keys[-1]
        of_keys = ((key, {rank: steps_of_rank[key] for rank, steps_of_rank in steps.items()}) for key in keys)
        # A step with more collectives than a ring holds says nothing on who was late.
        return [compare(key, ranks) for key, ranks in of_keys if all(step.is_whole for step in ranks.values())]

    def _new_keys(self, steps: dict[int, dict[StepKey, RankStep]], most: int) -> Iterator[StepKey]:
        """Return the newest steps that every rank has ended, newest first, down to the last one that was compared."""
        first, *others = steps.values()
        common = (key for key in reversed(first) if all(key in other for other in others))
        for key in islice(common, most):
            if key == self._compared:
                return
            yield key

    def _search(self) -> None:
        now = time.monotonic()
        if now < self._next_search:
            return
        self._searches += 1
        self._next_search = now + (FIRST_SEARCH if self._searches <= FIRST_SEARCHES else SEARCH)
        with suppress(UnreadableRing):
            own = read_header(self._own, _owners())
            if own.rank is not None and len(set(self._ranks.values())) != own.world_size:
                paths = self._own.parent.glob(f"otel-rl-*{layout.SUFFIX}")
                ranks = ((path, _rank_beside(path, own)) for path in paths if path != self._own)
                self._ranks = {self._own: own.rank, **{path: rank for path, rank in ranks if rank is not None}}


def _rank_beside(path: Path, own: RingSnapshot) -> int | None:
    """Return the rank of the process that writes this ring, where it runs beside this one in the same run."""
    try:
        ring = read_header(path, _owners())
    except UnreadableRing:
        return None
    is_beside = (
        ring.run_id == own.run_id
        and ring.attempt == own.attempt
        and ring.host == own.host
        and ring.lifetime.boot_id == own.lifetime.boot_id
        and ring.is_alive() is not False
    )
    return ring.rank if is_beside else None


def _read(path: Path, since: int) -> RingSnapshot | None:
    try:
        return read(path, _owners(), since)
    except UnreadableRing:
        return None


def _owners() -> tuple[int]:
    """Anybody may put a file there that says it is of this run."""
    return (os.geteuid(),)
