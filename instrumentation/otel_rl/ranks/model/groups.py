"""A process group, by the text that all its ranks write: the same text in two ranks is the same group.

Name, description, ranks, and from the second on how often the process has made a group with these three, separated by
tabs: ``0	default_pg	0-7``, then ``0	default_pg	0-7	2``. Numbers of collectives begin again with each.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, NamedTuple

from otel_rl.flight_recorder import layout
from otel_rl.flight_recorder.reader import MOST_RANKS, group_name
from otel_rl.ranks.model.rank_sets import RankSet

if TYPE_CHECKING:
    from collections.abc import Iterable

#: Before the number of ranks, where they have no room.
_UNKNOWN = "?"


class _Parts(NamedTuple):
    name: str
    description: str
    members: RankSet | None
    size: int | None
    generation: int


class Group(str):
    """The text of a group. As a text it is hashed and compared fast, which is done for each collective."""

    __slots__ = ()

    @classmethod
    def of(
        cls,
        name: str,
        description: str,
        ranks: Iterable[int] | None = None,
        generation: int = 1,
        room: int | None = None,
    ) -> Group:
        """Return the group with these parts.

        Args:
            name: The same in all ranks; no other group that there is at the same time has it.
            description: What the program calls it; groups may share it.
            ranks: None: not known.
            generation: The how manieth with this name, description and these ranks it is.
            room: So many bytes the ranks may take. Where they take more, only their number is kept.
        """
        members = None if ranks is None else RankSet.of(ranks)
        text = _UNKNOWN if not members else str(members)
        if members and room is not None and len(text) > room:
            text = f"{_UNKNOWN}{len(members)}"
        parts = (name.replace("\t", " "), description.replace("\t", " "), text)
        return cls("\t".join((*parts, str(generation)) if generation > 1 else parts))

    @property
    def name(self) -> str:
        """The name that torch gave."""
        return _parts(self).name

    @property
    def description(self) -> str:
        """The description that the program gave, "undefined" without one."""
        return _parts(self).description

    @property
    def members(self) -> RankSet | None:
        """Its ranks; None: not known."""
        return _parts(self).members

    @property
    def size(self) -> int | None:
        """How many ranks it has; None: not known."""
        return _parts(self).size

    @property
    def generation(self) -> int:
        """The how manieth with its name, description and ranks it is in its process, from 1 on."""
        return _parts(self).generation

    @property
    def first(self) -> Group:
        """The first group with its name, description and ranks: itself, unless it was made again."""
        return self if self.generation == 1 else Group(self.rpartition("\t")[0])

    @property
    def is_one_of_many(self) -> bool:
        """True for the text of all groups for which the ring had no room."""
        return self == layout.OTHER_TEXT

    @property
    def words(self) -> str:
        """The group for a sentence."""
        again = f" (made for the {_ordinal(self.generation)} time)" if self.generation > 1 else ""
        return f"{group_name(self)}{again}"


@functools.lru_cache(maxsize=4096)
def group_of(text: str) -> Group:
    """Return the group that a ring names ``text``."""
    return Group(text)


@functools.lru_cache(maxsize=4096)
def _parts(text: str) -> _Parts:
    name, description, ranks, generation = (*text.split("\t"), "", "", "", "")[:4]
    members = RankSet.parse(ranks)
    size = len(members) if members is not None else _number(ranks.removeprefix(_UNKNOWN))
    return _Parts(name, description, members, size, _number(generation) or 1)


def _number(text: str) -> int | None:
    """None where it is none, or one beyond all sense."""
    return int(text) if text.isascii() and text.isdigit() and 0 < int(text[:9]) <= MOST_RANKS else None


def _ordinal(number: int) -> str:
    ending = {1: "st", 2: "nd", 3: "rd"}.get(number % 10, "th") if number % 100 not in (11, 12, 13) else "th"
    return f"{number}{ending}"
