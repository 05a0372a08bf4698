"""The steps of each loop and attempt on their own: the same numbers come again in another of them.

An attempt is a start of the job (``rl.run.attempt``). Within a process a step with a lower number than the one before
begins a stretch of its own too. The page shows the last stretch of the loop that took most of the time; what became
slower is looked for in the latest of the others too.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

from otel_rl.report.core.steps import Steps
from otel_rl.semconv.attributes import RlLoopSourceValues as LoopSource

if TYPE_CHECKING:
    from collections.abc import Iterable

    from otel_rl.store.tables import RunTables

#: Stretches beside the one that is shown that are looked at, the latest.
_OTHERS = 7
_STRETCHES = f"""
SELECT p.attempt, p.start, loop, restarts, sum(CASE WHEN step IS NOT NULL AND NOT is_root THEN seconds END) AS seconds,
       max(source = '{LoopSource.GUESSED}' AND NOT is_root) AS guessed
FROM step s JOIN process p USING (process) GROUP BY 1, 2, 3, 4"""
#: Of a run without steps.
_STRETCHES_OF_PHASES = """
SELECT p.attempt, p.start, loop, restarts, NULL AS seconds, 0 AS guessed
FROM phase h JOIN process p USING (process) GROUP BY 1, 2, 3, 4"""


class RisingSteps(NamedTuple):
    """Steps of one loop whose numbers rise; in the order of the attempts, and of the restarts in a process."""

    start: int
    restarts: int
    loop: str
    attempt: str


def written(attempt: tuple[int, ...]) -> str:
    """Return the attempt as ``rl.run.attempt`` has it."""
    return ".".join(map(str, attempt))


class Loops:
    """The stretches of a run."""

    def __init__(self, tables: RunTables) -> None:
        self._tables = tables
        self._steps: dict[tuple[str, str, int], Steps] = {}

    def settle(self) -> None:
        """Pick up what the tables have gained; cached results for unchanged steps stay."""
        for name in ("_known", "shown", "_others"):
            vars(self).pop(name, None)
        changed = self._tables.changed_steps
        if changed is None:
            self._steps.clear()
            return
        for stretch in self._steps.keys() & changed.keys():
            self._steps[stretch].grow(*changed[stretch])

    @cached_property
    def _known(self) -> dict[RisingSteps, tuple[float, bool]]:
        """Seconds of each stretch, and whether its steps are guessed."""
        return {
            RisingSteps(row["start"], row["restarts"], row["loop"], row["attempt"]): (
                row["seconds"] or 0.0,
                bool(row["guessed"]),
            )
            for row in self._tables.rows(_STRETCHES) or self._tables.rows(_STRETCHES_OF_PHASES)
        }

    def _of(self, stretch: RisingSteps) -> Steps:
        key = stretch.attempt, stretch.loop, stretch.restarts
        if key not in self._steps:
            self._steps[key] = Steps(self._tables, *key)
        return self._steps[key]

    @cached_property
    def shown(self) -> RisingSteps:
        """The last stretch of the loop with most of the time; one whose steps are guessed comes after all others."""
        seconds: dict[str, float] = {}
        known = set[str]()
        for stretch, (spent, guessed) in self._known.items():
            seconds[stretch.loop] = seconds.get(stretch.loop, 0.0) + spent
            if not guessed:
                known.add(stretch.loop)
        loop = max(seconds, key=lambda name: (name in known, seconds[name]), default="")
        return max((kept for kept in self._known if kept.loop == loop), default=RisingSteps(0, 0, "", ""))

    @property
    def main(self) -> Steps:
        """The steps of :attr:`shown`."""
        return self._of(self.shown)

    def superseded(self, present: Iterable[tuple[int, ...]]) -> frozenset[tuple[int, ...]]:
        """Return those of the attempts of all processes that a later one follows.

        A scheduler or launcher counts restarts in the first two numbers. The third is the moment of a launch under a
        given run id, which may be that of a server beside the training: it is a restart where both made steps.
        """
        made = {stretch.attempt for stretch in self._known}
        known = {attempt for attempt in present if attempt}
        return frozenset(
            earlier
            for earlier in known
            if any(
                earlier[:2] < other[:2] or (earlier < other and {written(earlier), written(other)} <= made)
                for other in known
            )
        )

    @cached_property
    def _others(self) -> list[RisingSteps]:
        return [stretch for stretch in sorted(self._known, reverse=True) if stretch != self.shown]

    def others(self) -> dict[RisingSteps, Steps]:
        """Return the latest that are not shown and have steps, the latest first."""
        found = ((stretch, self._of(stretch)) for stretch in self._others[:_OTHERS])
        return {stretch: steps for stretch, steps in found if steps.ranks}

    @property
    def left_out(self) -> int:
        """How many stretches are too many to be looked at."""
        return max(len(self._others) - _OTHERS, 0)

    @property
    def title(self) -> str:
        """The stretch that is shown, in words."""
        shown = self.shown
        parts = [f"loop {shown.loop}" if shown.loop else "", f"attempt {shown.attempt}" if shown.attempt else ""]
        parts.append("the steps since their numbers began again" if shown.restarts else "")
        return ", ".join(filter(None, parts)) or "the loop without a name"

    def all(self) -> list[tuple[RisingSteps, Steps]]:
        """Return the one that is shown, and the others that are looked at."""
        return [(self.shown, self.main), *self.others().items()]

    def name(self, stretch: RisingSteps) -> str:
        """Return how it differs from the one that is shown: by loop, by attempt, or by a restart of its numbers."""
        shown, parts = self.shown, []
        if stretch.loop != shown.loop:
            parts.append(f"loop {stretch.loop}" if stretch.loop else "the loop without a name")
        if stretch.attempt != shown.attempt:
            parts.append(f"attempt {stretch.attempt or 'without a number'}")
        elif stretch.loop == shown.loop:
            parts.append("before its steps began again" if stretch.restarts == shown.restarts - 1 else "earlier steps")
        return ", ".join(parts)
