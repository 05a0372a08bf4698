"""The step, phase and collective that this process is in."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from otel_rl.flight_recorder import layout, reader, waiting
from otel_rl.flight_recorder.recorder import flight
from otel_rl.ranks.model.collectives import FAILED, OF_COLLECTIVES, entered_by
from otel_rl.ranks.watchdog import monotonic
from otel_rl.telemetry import progress

if TYPE_CHECKING:
    from otel_rl.ranks.model.collectives import Collective, EnteredCollective
    from otel_rl.training.steps import Step


class Operations(NamedTuple):
    """What is open; None: nothing of the kind is, or nothing tells of it."""

    iteration: int | None
    phase: str | None
    #: Operation of the collective, and which of its group it is.
    operation: str | None
    collective: Collective | None
    #: A call that hangs: what, and of which rollout.
    call: str | None = None
    #: ``iteration`` is over: what follows it may be a part of the next step.
    is_after: bool = False
    #: Whether the step waits for that, as far as its phase and the thread of the call tell.
    waits_for_call: bool = True
    #: The part of the run that is open in it, as the wait for a batch.
    part: str | None = None

    @property
    def group_name(self) -> str | None:
        """The name of the collective's group, as metrics have it."""
        return reader.group_name(self.collective.group) or None if self.collective is not None else None

    @property
    def number(self) -> int | None:
        """Its number in the group; None: not known."""
        return (self.collective.number or None) if self.collective is not None else None

    @property
    def words(self) -> str:
        """For a sentence."""
        in_or_after = "after" if self.is_after else "in"
        where = f"{in_or_after} step {self.iteration}" if self.iteration is not None else "between two steps"
        phase = f" ({self.phase})" if self.phase else ""
        if self.operation is None:
            call = f", waits for {self.call}" if self.waits_for_call else f"; meanwhile {self.call} is open"
            part = f", in {self.part}" if self.part else ""
            return f"{where}{phase}{part}{call if self.call else ''}"
        waits_in = self.operation if self.collective is None else self.collective.named(self.operation)
        return f"{where}{phase}, waits in {waits_in}"


def find_operations(
    step: Step | None,
    called: str | None,
    call: str | None = None,
    in_step: bool = False,
    after: int | None = None,
) -> Operations:
    """Look at the open phases, and in the ring for the collective; without a ring the stacks may name it.

    ``call`` says which call hangs, ``in_step`` whether the thread of the step has begun it, ``after`` the guessed step
    that was made last, where none is open.
    """
    phases = progress.open_phases()
    entered, parts = _entered(), progress.open_parts()
    return Operations(
        iteration=step.iteration if step is not None else after,
        phase=phases[-1] if phases else None,
        operation=entered.operation if entered is not None else called,
        collective=entered.collective if entered is not None else None,
        call=call,
        is_after=step is None and after is not None,
        part=parts[-1].words if parts else None,
        waits_for_call=waiting.is_waited_for(phases[-1] if phases else None, in_step=in_step),
    )


def failed(inside: Operations, seconds: float) -> str | None:
    """Return what of ``inside`` has failed, as the ring says: its collective, or what was open for ``seconds``."""
    ring = flight.ring
    if ring is None:
        return None
    try:
        records = reader.read(ring.path).records
    except reader.UnreadableRing:
        return None
    if inside.collective is None:
        since = monotonic() - seconds
        # The innermost one ends first.
        return next((_of_step(one) for one in records if one.moment > since * 1e9 and _has_failed(one)), None)
    ended = (entered_by(event) for event in reversed(records) if event.kind in OF_COLLECTIVES)
    latest = next((one for one in ended if one.collective == inside.collective), None)
    return latest.words if latest is not None and latest.outcome == FAILED else None


def _has_failed(event: reader.Event) -> bool:
    return event.kind in layout.OF_STEPS and event.what == layout.FAILED


def _of_step(event: reader.Event) -> str:
    if event.kind == layout.PART:
        return event.part_words
    return f"step {event.argument}" if event.kind == layout.STEP else f"phase {event.name}"


def _entered() -> EnteredCollective | None:
    ring = flight.ring
    if ring is None:
        return None
    try:
        content = reader.read(ring.path)
    except reader.UnreadableRing:
        return None
    return next((entered_by(event) for event in reversed(content.open) if event.kind in OF_COLLECTIVES), None)
