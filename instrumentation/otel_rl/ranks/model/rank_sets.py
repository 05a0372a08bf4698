"""A set of ranks in little room: ranges with strides, as ``0-46/2,100``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from otel_rl.flight_recorder.reader import MOST_RANKS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

#: A stretch of fewer ranks takes no less room than they do, unless they follow each other.
_SHORTEST = 3
_PART = re.compile(r"(\d{1,8})(?:-(\d{1,8})(?:/(\d{1,8}))?)?", re.ASCII)


@dataclass(frozen=True, slots=True)
class RankSet:
    """Ranks in ascending order; no two ranges overlap."""

    ranges: tuple[range, ...] = ()

    @classmethod
    def of(cls, ranks: Iterable[int]) -> RankSet:
        """Return these ranks."""
        return cls(tuple(_ranges(sorted(set(ranks)))))

    @classmethod
    def parse(cls, text: str) -> RankSet | None:
        """Read what ``str`` gives; None where this is no such text."""
        ranges: list[range] = []
        for part in text.split(","):
            found = _PART.fullmatch(part)
            if found is None:
                return None
            first, last, step = int(found[1]), int(found[2] or found[1]), int(found[3] or 1)
            if not (step and (ranges[-1][-1] if ranges else -1) < first <= last <= MOST_RANKS):
                return None
            ranges.append(range(first, last + 1, step))
        return cls(tuple(ranges))

    def __contains__(self, rank: object) -> bool:
        return any(rank in part for part in self.ranges)

    def __iter__(self) -> Iterator[int]:
        for part in self.ranges:
            yield from part

    def __len__(self) -> int:
        return sum(map(len, self.ranges))

    def __str__(self) -> str:
        return ",".join(map(_text, self.ranges))


def _ranges(ranks: list[int]) -> Iterator[range]:
    place = 0
    while place < len(ranks):
        step = ranks[place + 1] - ranks[place] if place + 1 < len(ranks) else 1
        end = place + 1
        while end < len(ranks) and ranks[end] - ranks[end - 1] == step:
            end += 1
        if step > 1 and end - place < _SHORTEST:
            # The second one may begin a longer stretch.
            step, end = 1, place + 1
        yield range(ranks[place], ranks[end - 1] + 1, step)
        place = end


def _text(part: range) -> str:
    if len(part) == 1:
        return str(part[0])
    return f"{part[0]}-{part[-1]}" + (f"/{part.step}" if part.step > 1 else "")
