"""A collective as all ranks of its group know it, and what single ranks do with it. Moments are ns of one clock."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from otel_rl.flight_recorder import layout
from otel_rl.ranks.model.groups import group_of

if TYPE_CHECKING:
    from otel_rl.flight_recorder.reader import Event
    from otel_rl.ranks.model.groups import Group

#: Kinds of records of a ring.
OF_COLLECTIVES = frozenset({layout.COLLECTIVE, layout.WAIT})
OPEN, DONE, FAILED = "open", "done", "failed"
_OUTCOMES = {layout.BEGIN: OPEN, layout.DONE: DONE, layout.FAILED: FAILED}


class Numbering(NamedTuple):
    """What the numbers of collectives count: those of a group that Python issues, or all, by torch."""

    group: Group
    is_of_torch: bool = False


class Collective(NamedTuple):
    """A collective by what its ranks share.

    Its operation and its thread are no part of it: where ranks differ in them, that is what went wrong.
    """

    group: Group
    #: In the group, from 1 on; 0: not known. None: a send or receive, which has none that the ranks share.
    number: int | None
    #: True where torch gave the number; those that Python issues are numbered apart.
    is_numbered_by_torch: bool = False

    @property
    def numbering(self) -> Numbering:
        """What its number counts."""
        return Numbering(self.group, self.is_numbered_by_torch)

    @property
    def is_shared(self) -> bool:
        """True where all ranks of the group enter it: no send or receive."""
        return self.number is not None

    def named(self, operation: str) -> str:
        """Return the collective for a sentence."""
        number = f" number {self.number}" if self.number else ""
        return f"{operation}{number}{f' of group {self.group.words}' if self.group else ''}"


class EnteredCollective(NamedTuple):
    """A collective that one rank has entered."""

    collective: Collective
    operation: str
    #: Of its begin while it is open, else of its end.
    moment: int
    #: :data:`OPEN` (in it, or waiting for it), :data:`DONE` or :data:`FAILED`.
    outcome: str

    @property
    def words(self) -> str:
        """The collective for a sentence."""
        return self.collective.named(self.operation)


class Wait(NamedTuple):
    """A rank has waited for a collective: in a ring a thread, in a dump with timing the device."""

    collective: Collective
    began: int
    ended: int


def collective_of(event: Event) -> Collective:
    """Return the collective of a launch or wait in a ring."""
    return Collective(group_of(event.group), event.sequence, event.is_numbered_by_torch)


def entered_by(event: Event) -> EnteredCollective:
    """Return what a launch or wait in a ring tells."""
    return EnteredCollective(collective_of(event), event.name, event.moment, _OUTCOMES[event.what])
