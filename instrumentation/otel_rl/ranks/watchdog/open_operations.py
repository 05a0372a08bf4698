"""The step, phase and collective that this process is in."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from otel_rl.flight_recorder import layout, reader
from otel_rl.flight_recorder.recorder import flight
from otel_rl.telemetry import progress

if TYPE_CHECKING:
    from otel_rl.flight_recorder.reader import Event
    from otel_rl.training.steps import Step

_COLLECTIVES = frozenset({layout.COLLECTIVE, layout.WAIT})


class Operations(NamedTuple):
    """What is open; None or empty: nothing of the kind is, or nothing tells of it."""

    iteration: int | None
    phase: str | None
    #: Operation of the collective, its group, and its number there (0: not known).
    operation: str | None
    group: str
    number: int

    @property
    def words(self) -> str:
        """For a sentence."""
        where = f"in step {self.iteration}" if self.iteration is not None else "between two steps"
        phase = f" ({self.phase})" if self.phase else ""
        if self.operation is None:
            return f"{where}{phase}"
        number = f" number {self.number}" if self.number else ""
        group = f" of group {self.group}" if self.group else ""
        return f"{where}{phase}, waits in {self.operation}{number}{group}"


def find_operations(step: Step | None, called: str | None) -> Operations:
    """Look at the open phases, and in the ring for the collective; without a ring the stacks may name it."""
    phases = progress.open_phases()
    collective = _collective()
    return Operations(
        iteration=step.iteration if step is not None else None,
        phase=phases[-1] if phases else None,
        operation=collective.name if collective is not None else called,
        group=reader.group_name(collective.group) if collective is not None else "",
        number=(collective.sequence or 0) if collective is not None else 0,
    )


def _collective() -> Event | None:
    ring = flight.ring
    if ring is None:
        return None
    try:
        content = reader.read(ring.path)
    except reader.UnreadableRing:
        return None
    return next((event for event in reversed(content.open) if event.kind in _COLLECTIVES), None)
