"""The ranks of this node: compared step by step, by the rings that they write."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from otel_rl.flight_recorder import layout
from otel_rl.flight_recorder.reader import Ring, UnreadableRing, read
from otel_rl.stragglers import timeline
from otel_rl.stragglers.comparison import compare

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from otel_rl.stragglers.comparison import Comparison
    from otel_rl.stragglers.timeline import RankStep, StepKey

#: Steps that one look compares at most: its cost must not grow with the steps that have passed.
MOST_STEPS = 3


class Node:
    """Compares the steps that all known ranks of a node have ended since the last look.

    Args:
        own: The ring of this process; ranks of the same run, attempt, host and boot are compared with it.
    """

    def __init__(self, own: Path) -> None:
        self._own = own
        self._last: StepKey | None = None

    def look(self) -> list[Comparison]:
        """Return the newest steps that were not compared before, oldest first."""
        steps = {ring.rank: timeline.steps(ring.rank, ring.records) for ring in self._rings() if ring.rank is not None}
        if len(steps) < 2:  # noqa: PLR2004 - who is alone waits for nobody
            return []
        keys = list(self._new_keys(steps))[::-1]
        if keys:
            self._last = keys[-1]
        return [compare(key, {rank: found[key] for rank, found in steps.items()}) for key in keys]

    def _new_keys(self, steps: dict[int, dict[StepKey, RankStep]]) -> Iterator[StepKey]:
        """The newest steps that every rank has ended, newest first, down to the last one that was compared."""
        first, *others = steps.values()
        common = (key for key in reversed(first) if all(key in other for other in others))
        for key in islice(common, MOST_STEPS):
            if key == self._last:
                return
            yield key

    def _rings(self) -> list[Ring]:
        own = _read(self._own)
        if own is None:
            return []
        others = (_read(path) for path in self._own.parent.glob(f"otel-rl-*{layout.SUFFIX}") if path != self._own)
        return [own, *(ring for ring in others if ring is not None and _is_beside(ring, own))]


def _is_beside(ring: Ring, own: Ring) -> bool:
    return (
        ring.run_id == own.run_id
        and ring.attempt == own.attempt
        and ring.host == own.host
        and ring.lifetime.boot_id == own.lifetime.boot_id
        and ring.is_alive() is not False
    )


def _read(path: Path) -> Ring | None:
    try:
        return read(path)
    except UnreadableRing:
        return None
