"""The steps of each loop and attempt on their own: the same numbers come again in another of them.

An attempt is a start of the job (``rl.run.attempt``). Within a process a step with a lower number than the one before
begins a stretch of its own too. The page shows the last stretch of the loop that took most of the time; what became
slower is looked for in all that are kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from otel_rl.report.core.steps import Steps
from otel_rl.semconv import attributes as names
from otel_rl.semconv import spans
from otel_rl.store.reader.otlp_values import int_or_none

if TYPE_CHECKING:
    from collections.abc import Iterable

    from otel_rl.store.reader import Span

#: Most stretches of all loops that are kept; of more the oldest ones that a later one of the loop follows are left out.
_STRETCHES = 8
#: Most steps whose phases have come and whose own span has not.
_OPEN_STEPS = 1000
_NAMES = 1000


class RisingSteps(NamedTuple):
    """Steps of one loop whose numbers rise; in the order of the attempts, and of the restarts in a process."""

    attempt: tuple[int, ...]
    restarts: int
    loop: str


class _Last(NamedTuple):
    """The last step of a loop in a process, its end in ns since the epoch, and how often the numbers went back."""

    iteration: int
    end: int
    restarts: int


_NONE = _Last(-1, 0, 0)


def written(attempt: tuple[int, ...]) -> str:
    """Return the attempt as ``rl.run.attempt`` has it."""
    return ".".join(map(str, attempt))


def _loop(span: Span) -> str:
    return str(span.attributes.get(names.RL_LOOP_NAME) or "")


class Loops:
    """Sorts the spans of steps and phases; memory depends on neither steps nor attempts."""

    def __init__(self) -> None:
        self._kept: dict[RisingSteps, Steps] = {}
        self._left_out: set[RisingSteps] = set()
        #: Process and trace -> phases of a step that has not come yet: only it knows its loop.
        self._waiting: dict[tuple[str, str], list[Span]] = {}
        self._last: dict[tuple[str, str], _Last] = {}
        #: Process -> the stretch of its last step.
        self._latest: dict[str, RisingSteps] = {}

    # -- what comes in ---------------------------------------------------------------------------------------------

    def add(self, span: Span) -> None:
        """Take in a span; others than steps and phases are ignored."""
        if span.name == spans.RL_RANK_STEP.type:
            self._add_step(span)
        elif span.name == spans.RL_LOOP.type:
            # It ends after the step of its own rank.
            loop = _loop(span)
            last = self._last.get((span.process.key, loop), _NONE)
            self._add_to(RisingSteps(span.process.attempt, last.restarts, loop), span)
        elif names.RL_PHASE in span.attributes:
            if names.RL_LOOP_ITERATION in span.attributes and names.RL_ROLLOUT_ID not in span.attributes:
                self._waiting.setdefault((span.process.key, span.trace_id), []).append(span)
                if len(self._waiting) > _OPEN_STEPS:
                    self._give_up(next(iter(self._waiting)))
            else:
                self._add_to(self._latest_of(span), span)

    def _add_step(self, span: Span) -> None:
        stretch = self._stretch(span)
        for phase in self._waiting.pop((span.process.key, span.trace_id), ()):
            self._add_to(stretch, phase)
        self._add_to(stretch, span)

    def _stretch(self, span: Span) -> RisingSteps:
        loop = _loop(span)
        key = span.process.key, loop
        last = self._last.get(key, _NONE)
        iteration = int_or_none(span.attributes.get(names.RL_LOOP_ITERATION))
        iteration = last.iteration if iteration is None else iteration
        # A collector may have changed the order: what began before the other's end is no restart.
        restarts = last.restarts + (iteration < last.iteration and span.start >= last.end)
        if restarts > last.restarts or iteration >= last.iteration:
            self._last[key] = _Last(iteration, span.end, restarts)
        stretch = self._latest[span.process.key] = RisingSteps(span.process.attempt, restarts, loop)
        return stretch

    def _latest_of(self, span: Span) -> RisingSteps:
        return self._latest.get(span.process.key) or RisingSteps(span.process.attempt, 0, "")

    def _give_up(self, key: tuple[str, str]) -> None:
        for phase in self._waiting.pop(key):
            self._add_to(self._latest_of(phase), phase)

    def _add_to(self, stretch: RisingSteps, span: Span) -> None:
        steps = self._kept.get(stretch)
        if steps is None:
            if stretch in self._left_out:
                return
            steps = self._kept[stretch] = Steps()
            if len(self._kept) > _STRETCHES:
                self._leave_out()
        steps.add(span)

    def _leave_out(self) -> None:
        """Leave out the oldest one that another of its loop follows; without such, the one that came last."""
        followed = [
            kept for kept in self._kept if any(kept.loop == other.loop and kept < other for other in self._kept)
        ]
        stretch = min(followed, default=next(reversed(self._kept)))
        del self._kept[stretch]
        if len(self._left_out) < _NAMES:
            self._left_out.add(stretch)

    def close(self) -> None:
        """Count the phases of steps that never ended to the last steps: no more spans come."""
        for key in list(self._waiting):
            self._give_up(key)

    # -- what comes out --------------------------------------------------------------------------------------------

    @property
    def shown(self) -> RisingSteps:
        """The last stretch of the loop with most of the time; one whose steps are guessed comes after all others."""
        seconds: dict[str, float] = {}
        known = set[str]()
        for stretch, steps in self._kept.items():
            seconds[stretch.loop] = seconds.get(stretch.loop, 0.0) + steps.lengths.cell.total
            if not steps.guessed:
                known.add(stretch.loop)
        loop = max(seconds, key=lambda name: (name in known, seconds[name]), default="")
        return max((kept for kept in self._kept if kept.loop == loop), default=RisingSteps((), 0, ""))

    @property
    def main(self) -> Steps:
        """The steps of :attr:`shown`."""
        return self._kept.get(self.shown) or Steps()

    def superseded(self, present: Iterable[tuple[int, ...]]) -> frozenset[tuple[int, ...]]:
        """Return those of the attempts of all processes that a later one follows.

        A scheduler or launcher counts restarts in the first two numbers. The third is the moment of a launch under a
        given run id, which may be that of a server beside the training: it is a restart where both made steps.
        """
        made = {stretch.attempt for stretch in (*self._kept, *self._left_out)}
        known = {attempt for attempt in present if attempt}
        return frozenset(
            earlier
            for earlier in known
            if any(earlier[:2] < other[:2] or (earlier < other and {earlier, other} <= made) for other in known)
        )

    def others(self) -> dict[RisingSteps, Steps]:
        """Return all that are not shown and have steps, the latest first."""
        shown = self.shown
        ordered = sorted(self._kept, reverse=True)
        return {stretch: self._kept[stretch] for stretch in ordered if stretch != shown and self._kept[stretch].ranks}

    @property
    def left_out(self) -> int:
        """How many stretches were too many to be kept."""
        return len(self._left_out)

    @property
    def title(self) -> str:
        """The stretch that is shown, in words."""
        attempt, restarts, loop = self.shown
        parts = [f"loop {loop}" if loop else "", f"attempt {written(attempt)}" if attempt else ""]
        parts.append("the steps since their numbers began again" if restarts else "")
        return ", ".join(filter(None, parts)) or "the loop without a name"

    def all(self) -> list[tuple[RisingSteps, Steps]]:
        """Return all that have steps, the one that is shown first."""
        return [(self.shown, self.main), *self.others().items()]

    def name(self, stretch: RisingSteps) -> str:
        """Return how it differs from the one that is shown: by loop, by attempt, or by a restart of its numbers."""
        shown, parts = self.shown, []
        if stretch.loop != shown.loop:
            parts.append(f"loop {stretch.loop}" if stretch.loop else "the loop without a name")
        if stretch.attempt != shown.attempt:
            parts.append(f"attempt {written(stretch.attempt) or 'without a number'}")
        elif stretch.loop == shown.loop:
            parts.append("before its steps began again" if stretch.restarts == shown.restarts - 1 else "earlier steps")
        return ", ".join(parts)
