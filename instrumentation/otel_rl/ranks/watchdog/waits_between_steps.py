"""Whether ranks wait for each other between guessed steps, where standing still alone is no hang.

What lies there belongs to the program: rollouts, an evaluation, or a file that one rank writes while the others wait in
a barrier. So only collectives count in which all ranks give values alike, and only a wait that is long beside what its
rank had done before it: the others may need as long for the same. A rank that records something meanwhile works.

The rank that waits judges, which knows what its program has called. The one that is waited for goes by that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from otel_rl.flight_recorder import layout, reader
from otel_rl.ranks.model.collectives import OF_COLLECTIVES, collective_of, entered_by
from otel_rl.ranks.watchdog import monotonic, peers, stacks
from otel_rl.ranks.watchdog.call_limits import ANSWER

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from otel_rl.flight_recorder.reader import Event, RingSnapshot
    from otel_rl.ranks.model.collectives import Collective

#: In the others one rank gives what it has, and the rest wait for it while it works alone.
_ALIKE = reader.KEEP_TOGETHER - {"barrier"}
#: Functions of torch that begin with a collective in which all ranks give values alike, and are none.
_GATHERS = frozenset({"gather_object"})
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
        return [] if any(_is_hang(wait, mine, others, limit) for wait in _waits(mine)) else None
    waiting = [
        f"{peers.label(ring)} waits for it in {entered_by(wait).words}"
        for ring in others
        if ring.hangs_since
        for wait in list(_waits(ring))[:1]
        if _has_entered_one_before(mine, collective_of(wait))
    ]
    return waiting or None


def _waits(ring: RingSnapshot) -> Iterator[Event]:
    """Yield the open collectives in which the process of ``ring`` may wait for others that hang."""
    return (event for event in ring.open if event.kind in OF_COLLECTIVES and event.name in _ALIKE and event.sequence)


def _is_hang(wait: Event, mine: RingSnapshot, others: list[RingSnapshot], limit: float) -> bool:
    """Return whether this rank waits for long, and for nobody who is seen to work."""
    now = round(monotonic() * _NANOSECONDS)
    own_work = (wait.began - _work_began(mine, wait)) / _NANOSECONDS
    if (now - wait.began) / _NANOSECONDS < max(limit, _OWN_WORK * own_work) or stacks.has_called(_GATHERS):
        return False
    late = [ring for ring in others if _is_late(ring, collective_of(wait))]
    # Where all of this node are there, one of another node is late, of which nothing is known.
    return not late or not all(_works(ring, now, limit) for ring in late)


def _work_began(ring: RingSnapshot, wait: Event) -> int:
    """Return when the rank began what it did before ``wait``: after its last step, and the group's last collective.

    Not after its last record: calls and phases are a part of that work.
    """
    ends = (
        event.moment
        for event in ring.records
        if event.moment <= wait.began and (event.kind == layout.STEP or _is_one_before(event, wait))
    )
    return max(ends, default=wait.began)


def _is_one_before(event: Event, wait: Event) -> bool:
    """Return whether ``event`` is of an earlier collective of the same group, not the launch of the same."""
    one, other = collective_of(event), collective_of(wait)
    return event.kind in OF_COLLECTIVES and one.group == other.group and one != other


def _is_late(ring: RingSnapshot, collective: Collective) -> bool:
    """Return whether the process of ``ring`` is of the group of ``collective``, and is not known to have entered it.

    Of a group whose ranks are not known are those that have entered an earlier collective of it.
    """
    members = collective.group.members
    if members is None:
        return _has_entered_one_before(ring, collective)
    return ring.rank in members and max(_entered(ring, collective), default=0) < (collective.number or 0)


def _works(ring: RingSnapshot, now: int, limit: float) -> bool:
    """Return whether a process has recorded something within ``limit``, longer where a model is about to answer."""
    is_asking = any(event.kind == layout.MODEL_CALL for event in ring.open)
    return now - ring.last_record < limit * (ANSWER if is_asking else 1) * _NANOSECONDS


def _has_entered_one_before(ring: RingSnapshot, collective: Collective) -> bool:
    """Return whether a rank has entered earlier collectives of the group, and is not known to have entered this one."""
    return 0 < max(_entered(ring, collective), default=0) < (collective.number or 0)


def _entered(ring: RingSnapshot, collective: Collective) -> Iterator[int]:
    """Yield the numbers of the collectives of the same group that the process of ``ring`` has entered."""
    entered = (event for event in (*ring.open, *ring.records) if event.kind in OF_COLLECTIVES)
    return (event.sequence or 0 for event in entered if collective_of(event).numbering == collective.numbering)
