"""Which part of a run is exported: steps and ranks."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from otel_rl.store.reader.errors import UnusableInput

if TYPE_CHECKING:
    from otel_rl.store.reader import Process

_RANGE = re.compile(r"(\d{1,18})(?:-(\d{1,18}))?")
#: Most ranks that may be named.
_RANKS = 1_000_000


@dataclass(frozen=True, slots=True)
class RunExcerpt:
    """Steps from the first to the last of ``steps``, of these ``ranks``; None for all of them."""

    steps: tuple[int, int] | None = None
    ranks: frozenset[int] | None = None

    def has(self, process: Process) -> bool:
        """Return whether records of this process are wanted; without a rank they are where no rank was named."""
        return self.ranks is None or process.rank in self.ranks


def steps_of(text: str) -> tuple[int, int]:
    """Return the first and last step of ``7`` or ``7-12``.

    Raises:
        UnusableInput: it is neither.
    """
    match = _RANGE.fullmatch(text.strip())
    if match is None or int(match[2] or match[1]) < int(match[1]):
        raise UnusableInput(f"--step {text}: give one step, or the first and the last one: --step 7 or --step 7-12")
    return int(match[1]), int(match[2] or match[1])


def ranks_of(texts: list[str]) -> frozenset[int]:
    """Return the ranks of ``0``, ``0,3`` or ``0-3``, also mixed.

    Raises:
        UnusableInput: one of them is no rank.
    """
    ranks: set[int] = set()
    for text in ",".join(texts).split(","):
        match = _RANGE.fullmatch(text.strip())
        if match is None or not 0 <= int(match[2] or match[1]) - int(match[1]) < _RANKS:
            raise UnusableInput(f"--rank {text}: give ranks as numbers, lists or ranges: --rank 0 or --rank 0,4-7")
        ranks.update(range(int(match[1]), int(match[2] or match[1]) + 1))
    return frozenset(ranks)
