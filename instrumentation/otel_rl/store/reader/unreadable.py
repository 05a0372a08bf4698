"""The count of lines and files that could not be read."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(slots=True)
class Unreadable:
    """Counts of unreadable data in one file.

    ``cut_off`` is 1 when the last line is truncated: its writer was killed or is still writing.
    """

    cut_off: int = 0
    unreadable: int = 0
    foreign: int = 0
    errors: list[str] = field(default_factory=list)

    def add(self, other: Unreadable) -> None:
        """Add the counts of another file."""
        self.cut_off += other.cut_off
        self.unreadable += other.unreadable
        self.foreign += other.foreign
        self.errors += other.errors
