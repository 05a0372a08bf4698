"""A collective as all ranks of its group know it, and what single ranks do with it. Moments are ns of one clock."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from otel_rl.ranks.model.groups import group_of

if TYPE_CHECKING:
    from otel_rl.flight_recorder.reader import Event
    from otel_rl.ranks.model.groups import Group


class Collective(NamedTuple):
    """A collective by what its ranks share.

    Its operation and its thread are no part of it: where ranks differ in them, that is what went wrong.
    """

    group: Group
    #: In the group, from 1 on; 0: not known. None: a send or receive, which has none that the ranks share.
    number: int | None
    #: True where torch gave the number; those that Python issues are numbered apart.
    is_numbered_by_torch: bool = False


class Wait(NamedTuple):
    """A rank has waited for a collective: in a ring a thread, in a dump with timing the device."""

    collective: Collective
    began: int
    ended: int


def collective_of(event: Event) -> Collective:
    """Return the collective of a launch or wait in a ring."""
    return Collective(group_of(event.group), event.sequence, event.is_numbered_by_torch)
