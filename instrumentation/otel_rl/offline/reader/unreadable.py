"""The count of lines and files that could not be read."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Unreadable:
    """What could not be read of one file.

    ``cut_off`` is 1 when the last line has no end: its writer was killed or is still writing.
    """

    cut_off: int = 0
    unreadable: int = 0
    foreign: int = 0
    errors: list[str] = field(default_factory=list)

    def add(self, other: Unreadable) -> None:
        """Add what could not be read elsewhere."""
        self.cut_off += other.cut_off
        self.unreadable += other.unreadable
        self.foreign += other.foreign
        self.errors += other.errors
