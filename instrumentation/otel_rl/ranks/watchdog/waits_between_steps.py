"""Whether ranks wait for each other between guessed steps, where standing still alone is no hang.

What lies there belongs to the program: rollouts, an evaluation, or a file that one rank writes while the others wait in
a barrier. So only collectives count in which all ranks give values alike, and only a wait that is long beside what its
rank had done before it: the others may need as long for the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_rl.flight_recorder import reader
from otel_rl.ranks.model.collectives import OF_COLLECTIVES, collective_of, entered_by
from otel_rl.ranks.watchdog import monotonic, peers

if TYPE_CHECKING:
    from pathlib import Path

    from otel_rl.flight_recorder.reader import Event, RingSnapshot
    from otel_rl.ranks.model.collectives import EnteredCollective

#: In the others one rank gives what it has, and the rest wait for it while it works alone.
_ALIKE = reader.KEEP_TOGETHER - {"barrier"}
#: A hang takes longer than so many times what the rank that waits has done before.
_OWN_WORK = 3
_NANOSECONDS = 1e9


def find(own: Path, limit: float) -> list[str] | None:
    """Return the sentences on ranks that wait for this one, none where it waits itself; None where no rank waits long.

    ``own`` is the ring of this process, ``limit`` the shortest wait that is long, in s.
    """
    mine, others = peers.find_rings(own)
    if mine is None:
        return None
    if any(event.kind in OF_COLLECTIVES for event in mine.open):
        return [] if _long_wait(mine, limit) is not None else None
    waits = ((ring, _long_wait(ring, limit)) for ring in others)
    waiting = [
        f"{peers.label(ring)} waits for it in {entered.words}"
        for ring, entered in waits
        if entered is not None and _has_not_entered(mine, entered)
    ]
    return waiting or None


def _long_wait(ring: RingSnapshot, limit: float) -> EnteredCollective | None:
    """Return the collective in which the process of ``ring`` has waited for long."""
    now = round(monotonic() * _NANOSECONDS)
    waits = (event for event in ring.open if event.kind in OF_COLLECTIVES and event.name in _ALIKE and event.sequence)
    for event in waits:
        before = max((one.moment for one in ring.records if _is_before(one, event)), default=event.began)
        own_work = (event.began - before) / _NANOSECONDS
        if (now - event.began) / _NANOSECONDS >= max(limit, _OWN_WORK * own_work):
            return entered_by(event)
    return None


def _is_before(event: Event, wait: Event) -> bool:
    """Return whether ``event`` ended before ``wait`` began, and is not the launch of the same collective."""
    is_launch = event.kind in OF_COLLECTIVES and collective_of(event) == collective_of(wait)
    return event.moment <= wait.began and not is_launch


def _has_not_entered(mine: RingSnapshot, entered: EnteredCollective) -> bool:
    """Return whether this rank is known not to have entered a collective of a group in which it has entered others."""
    numbering = entered.collective.numbering
    own = [
        event.sequence or 0
        for event in mine.records
        if event.kind in OF_COLLECTIVES and collective_of(event).numbering == numbering
    ]
    return bool(own) and 0 < max(own) < (entered.collective.number or 0)
